package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"muniment.example/gateway/api"
)

// failure is an error of a call to PostgreSQL. It is marked at the call, because errors of other
// engines have the same texts and types.
type failure struct{ error }

// Unwrap is for errors.Is and errors.As.
func (f failure) Unwrap() error { return f.error }

// mark marks the error of a call. Errors that database/sql compares with == are left alone.
func mark(err error) error {
	if err == nil || err == io.EOF || err == driver.ErrSkip {
		return err
	}
	return failure{err}
}

// connector makes connections whose errors are marked.
type connector struct {
	driver.Connector
	session
	reads bool // the connections are read-only
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, mark(err)
	}
	plain, ok := conn.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(errors.New("unexpected type of pgx connection"), conn.Close())
	}
	if err := c.begin(ctx, plain.Conn()); err != nil {
		return nil, errors.Join(mark(err), conn.Close())
	}
	return markedConn{plain, c.reads}, nil
}

// markedConn is a connection whose calls mark their errors.
type markedConn struct {
	*stdlib.Conn
	reads bool
}

// again is mark for the first call on a connection. If the connection broke since its last use, the
// error becomes driver.ErrBadConn, so database/sql repeats the call on another connection. After a
// timeout it is not repeated: the caller would wait as long again.
func (c markedConn) again(err error) error {
	if c.Conn.Conn().IsClosed() && Unreachable(err) && !silent(err) {
		err = fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return mark(err)
}

// silent says whether the error is a timeout (endSilent).
func silent(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func (c markedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, options)
	if err != nil {
		return nil, c.again(err)
	}
	return markedTx{tx}, nil
}

func (c markedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.ExecContext(ctx, query, args)
	return result, mark(err)
}

func (c markedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if plain, ok := rows.(*stdlib.Rows); ok && err == nil {
		return markedRows{plain}, nil
	}
	if c.reads { // within a transaction, database/sql repeats nothing
		return rows, c.again(err)
	}
	return rows, mark(err)
}

func (c markedConn) Ping(ctx context.Context) error { return mark(c.Conn.Ping(ctx)) }

type markedTx struct{ driver.Tx }

func (tx markedTx) Commit() error { return mark(tx.Tx.Commit()) }

func (tx markedTx) Rollback() error { return mark(tx.Tx.Rollback()) }

type markedRows struct{ *stdlib.Rows }

func (r markedRows) Next(row []driver.Value) error { return mark(r.Rows.Next(row)) }

// # While PostgreSQL is unavailable
//
// A server that is stopped, restarted or failing over refuses connections or breaks open ones; the
// kernel detects a lost machine after deadAfter. Requests are answered 503 DATABASE_UNAVAILABLE;
// background work retries until the server is back. Then new requests don't fail because of
// connections that broke meanwhile (connection.go). No process has to be restarted, unless the
// database that comes back is an older one, or on another server: then it ends by itself (control/rollback).
//
// If a connection breaks while a change is committed, the outcome is uncertain. It is never
// answered as a success, nor repeated here. A caller that retries finds the state of every record
// checked again, so a right is suspended only once; a record that is created again is a second
// record.

// deadAfter is how long the peer of a connection may be silent.
const deadAfter = 15 * time.Second

// retryAfter is the retry-after of these errors.
const retryAfter = time.Second

var (
	errUnreachable = api.Unavailable(api.DatabaseUnavailable, "control's database does not answer; nothing was changed", retryAfter)
	errUncertain   = api.Unavailable(api.DatabaseUnavailable, "control's database was lost while the change was committed: read whether it was made before retrying", retryAfter)
)

// Away says whether an error of one of the database's pools means that the database is unavailable
// for now.
func Away(err error) bool {
	failure, ok := errors.AsType[failure](err)
	return ok && Unreachable(failure)
}

// Unreachable says whether an error means that an engine can't be reached, or that a PostgreSQL
// server is unavailable for now.
func Unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, errStandby) || errors.Is(err, errReadOnly) {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", "57P02", "57P03", // stopped, crashed, starting
			"53300",                   // too many connections
			"25006",                   // a standby, which takes no changes
			"25P03", "25P04", "55P03": // a change that stalled, or waited for one that stalled
			return true
		}
		return strings.HasPrefix(e.Code, "08")
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	for _, lost := range []error{
		driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// commit marks the error of a commit that may have been made.
func (db *DB) commit(tx *sql.Tx) error {
	err := tx.Commit()
	if db.pg != nil && Unreachable(err) {
		return fmt.Errorf("%w: %w", errUncertain, err)
	}
	return err
}

// unavailable turns the error of a change into the one that its caller gets.
func (db *DB) unavailable(err error) error {
	_, known := errors.AsType[*api.Error](err)
	if db.pg == nil || known || !Unreachable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnreachable, err)
}

// Ready returns the reason why the database can't be used, nil if it can.
func (db *DB) Ready(ctx context.Context) error {
	return db.view(ctx, db.vital, func(*sql.Tx, int64) error { return nil })
}

// dial makes connections that fail when the peer is gone.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / 3, Interval: deadAfter / 3, Count: 2},
		Control:         endSilent,
	}
	return d.DialContext(ctx, network, address)
}

// maxLifetime is how long a connection of a pool is used, a third of the nodes' default bound. An old
// primary may still answer idle connections when its address leads to another server already.
const maxLifetime = 10 * time.Second

// pool opens connections with the current certificates and password.
func (cfg *Config) pool(config *pgx.ConnConfig) *sql.DB {
	reads := config.RuntimeParams["default_transaction_read_only"] == "on"
	own, s := cfg.begins(config)
	db := sql.OpenDB(connector{stdlib.GetConnector(*own, stdlib.OptionBeforeConnect(cfg.renew)), s, reads})
	db.SetConnMaxLifetime(cmp.Or(cfg.maxLifetime, maxLifetime))
	return db
}

// connect opens one connection of that kind.
func (cfg *Config) connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	own, s := cfg.begins(config)
	if err := cfg.renew(ctx, own); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, own)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// renew sets the certificates and password, which may have changed since the last connection. It
// modifies nothing that is shared with other connections.
func (cfg *Config) renew(_ context.Context, config *pgx.ConnConfig) (err error) {
	if cfg.Password != nil {
		if config.Password, err = cfg.Password(); err != nil {
			return err
		}
	}
	if cfg.TLS == nil {
		return nil
	}
	// Depending on sslmode, the URL lists each server twice, with and without TLS.
	var others []*pgconn.FallbackConfig
	known := map[pgconn.FallbackConfig]bool{{Host: config.Host, Port: config.Port}: true}
	for _, f := range config.Fallbacks {
		server := pgconn.FallbackConfig{Host: f.Host, Port: f.Port}
		if known[server] {
			continue
		}
		known[server] = true
		server.TLSConfig = cfg.tlsFor(f.Host, config.SSLNegotiation)
		others = append(others, &server)
	}
	config.TLSConfig, config.Fallbacks = cfg.tlsFor(config.Host, config.SSLNegotiation), others
	return nil
}

// tlsFor returns nil for a Unix socket.
func (cfg *Config) tlsFor(host, negotiation string) *tls.Config {
	if strings.HasPrefix(host, "/") {
		return nil
	}
	c := cfg.TLS(host)
	if negotiation == "direct" {
		c.NextProtos = []string{"postgresql"}
	}
	return c
}

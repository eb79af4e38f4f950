package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"muniment/gateway/api"
)

// # While PostgreSQL is unavailable
//
// A server that is stopped, restarted or failing over refuses connections or breaks open ones; the
// kernel detects a lost machine after deadAfter. Requests are answered 503 DATABASE_UNAVAILABLE;
// background work retries until the server is back. Then new requests don't fail because of
// connections that broke meanwhile (connection.go). No process has to be restarted, unless the
// database that comes back is an older one (rollback.go).
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
func (db *engine) commit(tx *sql.Tx) error {
	err := tx.Commit()
	if db.pg != nil && Unreachable(err) {
		return fmt.Errorf("%w: %w", errUncertain, err)
	}
	return err
}

// unavailable turns the error of a change into the one that its caller gets.
func (db *engine) unavailable(err error) error {
	_, known := errors.AsType[*api.Error](err)
	if db.pg == nil || known || !Unreachable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnreachable, err)
}

// Ready returns the reason why the database can't be used, nil if it can.
func (db *engine) Ready(ctx context.Context) error {
	return db.view(ctx, func(*sql.Tx, int64) error { return nil })
}

// dial makes connections that fail when the peer is gone.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / 3, Interval: deadAfter / 3, Count: 2},
		Control:         endSilent,
	}
	return d.DialContext(ctx, network, address)
}

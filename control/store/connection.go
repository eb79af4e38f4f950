package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/stdlib"
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
	return marked{plain, c.reads}, nil
}

// marked is a connection whose calls mark their errors.
type marked struct {
	*stdlib.Conn
	reads bool
}

// again is mark for the first call on a connection. If the connection broke since its last use, the
// error becomes driver.ErrBadConn, so database/sql repeats the call on another connection. After a
// timeout it is not repeated: the caller would wait as long again.
func (c marked) again(err error) error {
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

func (c marked) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, options)
	if err != nil {
		return nil, c.again(err)
	}
	return markedTx{tx}, nil
}

func (c marked) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.ExecContext(ctx, query, args)
	return result, mark(err)
}

func (c marked) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if plain, ok := rows.(*stdlib.Rows); ok && err == nil {
		return markedRows{plain}, nil
	}
	if c.reads { // within a transaction, database/sql repeats nothing
		return rows, c.again(err)
	}
	return rows, mark(err)
}

func (c marked) Ping(ctx context.Context) error { return mark(c.Conn.Ping(ctx)) }

type markedTx struct{ driver.Tx }

func (tx markedTx) Commit() error { return mark(tx.Tx.Commit()) }

func (tx markedTx) Rollback() error { return mark(tx.Tx.Rollback()) }

type markedRows struct{ *stdlib.Rows }

func (r markedRows) Next(row []driver.Value) error { return mark(r.Rows.Next(row)) }

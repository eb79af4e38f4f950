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

// failure is an error of a call to PostgreSQL. It is marked where the call is made: by
// its text or type, an error of another engine that can't be reached looks the same.
type failure struct{ error }

// Unwrap is for errors.Is and errors.As.
func (f failure) Unwrap() error { return f.error }

// mark is for what a call returned. What database/sql compares with == stays as it is.
func mark(err error) error {
	if err == nil || err == io.EOF || err == driver.ErrSkip {
		return err
	}
	return failure{err}
}

// connector makes connections whose errors are marked.
type connector struct {
	driver.Connector
	reads bool // they change nothing
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, mark(err)
	}
	plain, ok := conn.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(errors.New("pgx has made a connection of another kind"), conn.Close())
	}
	return marked{plain, c.reads}, nil
}

// marked is a connection whose calls mark their errors.
type marked struct {
	*stdlib.Conn
	reads bool
}

// again is mark for a call before which nothing was done. A connection that broke since it
// was used last is noticed by such a call; database/sql makes it again on another one, in
// the end on a new one, if it is told so. Not after a silence: the caller has waited for
// long, and would wait as long again.
func (c marked) again(err error) error {
	if c.Conn.Conn().IsClosed() && Unreachable(err) && !silent(err) {
		err = fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return mark(err)
}

// silent says whether the other end was waited for in vain (endSilent).
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
	if c.reads { // within a transaction, database/sql makes nothing again
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

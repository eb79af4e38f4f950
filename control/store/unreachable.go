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

// # While PostgreSQL is away
//
// Stopped, restarted or failing over, it refuses connections or breaks those that
// stand; of a machine that is gone the kernel notices after deadAfter. Callers are
// answered 503 DATABASE_UNAVAILABLE; whoever works behind the requests tries again
// until it is back. Once it is, who begins anything is not told of the connections that
// broke meanwhile (connection.go). Nothing has to start again, unless the database that comes
// back is an older one (rollback.go).
//
// A connection that breaks while a change is committed leaves it in doubt. It is never
// told as a success. Nor is it made again here: a caller who asks again, having read
// how things stand or not, finds the state of every record checked anew, so a right
// is suspended once, whoever asked how often; of a record that was made twice, the
// second is told as one more.

// deadAfter is how long the other end of a connection may be silent.
const deadAfter = 15 * time.Second

// askAgain is how soon a caller may try again.
const askAgain = time.Second

var (
	errAway  = api.Unavailable(api.DatabaseUnavailable, "control's database does not answer; nothing was changed", askAgain)
	errDoubt = api.Unavailable(api.DatabaseUnavailable, "control's database was lost while the change was committed: read whether it was made before asking again", askAgain)
)

// Away says whether an error means that the database can't be reached, or can't be
// used by anybody, for now. It does not of an error that a pool did not return.
func Away(err error) bool {
	failure, ok := errors.AsType[failure](err)
	return ok && Unreachable(failure)
}

// Unreachable says whether an error means that an engine can't be reached, or that a
// PostgreSQL server can't be used by anybody, for now: whichever engine it is.
func Unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", "57P02", "57P03", // stopped, crashed, starting
			"53300",                   // too many connections
			"25006",                   // a standby, which takes no changes
			"25P03", "25P04", "55P03": // a change that stalled, or waited for one that did
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

// commit tells a commit that may have been made from one that was not.
func (db *DB) commit(tx *sql.Tx) error {
	err := tx.Commit()
	if db.pg != nil && Unreachable(err) {
		return fmt.Errorf("%w: %w", errDoubt, err)
	}
	return err
}

// unavailable makes the error of a change what its caller is told.
func (db *DB) unavailable(err error) error {
	_, told := errors.AsType[*api.Error](err)
	if db.pg == nil || told || !Unreachable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errAway, err)
}

// Ready says why nothing can be asked of the database.
func (db *DB) Ready(ctx context.Context) error {
	return db.view(ctx, func(*sql.Tx, int64) error { return nil })
}

// dial makes connections that end when the other end is gone.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / 3, Interval: deadAfter / 3, Count: 2},
		Control:         endSilent,
	}
	return d.DialContext(ctx, network, address)
}

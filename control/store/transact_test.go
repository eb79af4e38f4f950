package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// seen writes down an address, as the sandbox does.
func seen(ctx context.Context, address string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO sandbox_windows (address, accepted, last_at) VALUES ($1, '', 0)`, address)
		return err
	}
}

// TestAside: it happens or it doesn't, and takes no revision either way.
func TestAside(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	ctx := t.Context()
	before := db.mustPublish(t, api.NewID(api.PrefixRight, now), api.RightSuspended)
	wrong := errors.New("what fn says")
	require.Equal(t, wrong, db.Transact(ctx, func(tx *sql.Tx) error {
		require.NoError(t, seen(ctx, "192.0.2.1")(tx))
		return wrong
	}))
	require.NoError(t, db.Transact(ctx, seen(ctx, "192.0.2.2")))
	require.Error(t, db.Transact(ctx, seen(ctx, "192.0.2.2")), "it is there")
	known, err := List(ctx, db.Read(), "the addresses", Text, `SELECT address FROM sandbox_windows`)
	require.NoError(t, err)
	require.Equal(t, []string{"192.0.2.2"}, known)
	require.Equal(t, before+1, db.mustPublish(t, api.NewID(api.PrefixRight, now), api.RightSuspended))
}

// TestAsideWithinAChange: PostgreSQL does both at a time; a SQLite file has one writer, for
// whom the other waits.
func TestAsideWithinAChange(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	require.NoError(t, db.Change(t.Context(), func(*Tx) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if db.pg == nil { // it would wait for itself
			ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
		}
		err := db.Transact(ctx, seen(ctx, "192.0.2.1"))
		if db.pg != nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		return nil
	}))
	require.NoError(t, db.Transact(t.Context(), seen(t.Context(), "192.0.2.2")))
}

func TestAsideWhileTheDatabaseIsAway(t *testing.T) {
	onPostgres(t)
	db, wire := wired(t, slog.New(slog.DiscardHandler))
	require.NoError(t, db.Transact(t.Context(), seen(t.Context(), "192.0.2.1")))
	wire.Cut()
	unavailable(t, db.Transact(t.Context(), seen(t.Context(), "192.0.2.2")))
	wire.Restore()
	require.NoError(t, db.Transact(t.Context(), seen(t.Context(), "192.0.2.2")))
}

// TestTransactKeepsItsConnections: making one costs more than a transaction.
func TestTransactKeepsItsConnections(t *testing.T) {
	onPostgres(t)
	db := mustOpen(t, t.TempDir())
	for range 2 {
		var all, done sync.WaitGroup
		all.Add(maxTransactions)
		for range maxTransactions {
			done.Go(func() {
				require.NoError(t, db.Transact(t.Context(), func(*sql.Tx) error {
					all.Done()
					all.Wait() // until each has a connection
					return nil
				}))
			})
		}
		done.Wait()
	}
	s := db.pg.transactions.Stats()
	require.Equal(t, maxTransactions, s.Idle)
	require.Zero(t, s.MaxIdleClosed)
}

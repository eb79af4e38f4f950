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

	"muniment/gateway/api"
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
	require.Equal(t, wrong, db.Aside(ctx, func(tx *sql.Tx) error {
		require.NoError(t, seen(ctx, "192.0.2.1")(tx))
		return wrong
	}))
	require.NoError(t, db.Aside(ctx, seen(ctx, "192.0.2.2")))
	require.Error(t, db.Aside(ctx, seen(ctx, "192.0.2.2")), "it is there")
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
		limit := 50 * time.Millisecond
		if db.pg != nil {
			limit = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err := db.Aside(ctx, seen(ctx, "192.0.2.1"))
		if db.pg != nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		return nil
	}))
	require.NoError(t, db.Aside(t.Context(), seen(t.Context(), "192.0.2.2")))
}

func TestAsideWhileTheDatabaseIsAway(t *testing.T) {
	onPostgres(t)
	db, wire := wired(t, slog.New(slog.DiscardHandler))
	require.NoError(t, db.Aside(t.Context(), seen(t.Context(), "192.0.2.1")))
	wire.Cut()
	unavailable(t, db.Aside(t.Context(), seen(t.Context(), "192.0.2.2")))
	wire.Restore()
	require.NoError(t, db.Aside(t.Context(), seen(t.Context(), "192.0.2.2")))
}

// TestAsideKeepsItsConnections: to make one costs more than what is asked over it.
func TestAsideKeepsItsConnections(t *testing.T) {
	onPostgres(t)
	db := mustOpen(t, t.TempDir())
	for range 2 {
		var all, asked sync.WaitGroup
		all.Add(mostAside)
		for range mostAside {
			asked.Go(func() {
				require.NoError(t, db.Aside(t.Context(), func(*sql.Tx) error {
					all.Done()
					all.Wait() // until each has a connection
					return nil
				}))
			})
		}
		asked.Wait()
	}
	s := db.pg.aside.Stats()
	require.Equal(t, mostAside, s.Idle)
	require.Zero(t, s.MaxIdleClosed)
}

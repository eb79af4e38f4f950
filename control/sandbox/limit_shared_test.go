package sandbox

import (
	"context"
	"database/sql"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
	"muniment/control/store/storetest"
)

// TestForgetsBesideChanges: old windows are deleted without a store.DB.Change, because the deletion
// may wait for an address that is being counted.
func TestForgetsBesideChanges(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	path, url := storetest.Place(t, t.TempDir())
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer db.Close()
	s := &shared{db: db, limits: Limits{Burst: 1, Sustained: 1}, refused: map[netip.Addr]time.Time{}}
	_, ok, err := s.accept(t.Context(), netip.MustParseAddr("192.0.2.1"))
	require.NoError(t, err)
	require.True(t, ok)
	now = now.Add(sustainedWindow)
	forget := func(*store.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return s.forget(ctx)
	}
	if url != "" {
		require.NoError(t, db.Change(t.Context(), forget))
	} else { // a SQLite file has one writer
		require.NoError(t, forget(nil))
	}
	require.NoError(t, db.Transact(t.Context(), func(tx *sql.Tx) error {
		var left int
		require.NoError(t, tx.QueryRow(`SELECT count(*) FROM sandbox_windows`).Scan(&left))
		require.Zero(t, left)
		return nil
	}))
}

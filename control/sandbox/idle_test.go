package sandbox

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/control/tenant"
)

// TestUseWithinTheMinuteCounts: no tenant is evicted before it was idle for long enough, although
// its last use is recorded only to the minute.
func TestUseWithinTheMinuteCounts(t *testing.T) {
	path, url := storetest.Place(t, t.TempDir())
	now := time.Now()
	quiet := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: func() time.Time { return now }, Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	const limit = time.Hour
	r := newService(Config{DB: db, Now: db.Now, Idle: limit, Tables: append(Tables, tenant.Tables...), DropPacks: func(context.Context, *store.Tx, string) error { return nil }, Logger: quiet})
	var l visitorTenant
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		made, err := tenant.Make(t.Context(), tx, tenant.Request{Org: "visitor", Sandbox: true})
		if err != nil {
			return err
		}
		l = visitorTenant{made.TenantID, made.KeyID, store.At(tx.Now())}
		return insertVisitorTenant(t.Context(), tx, l)
	}))
	exists := func() bool {
		require.NoError(t, r.Evict(t.Context()))
		found, err := findVisitorTenant(t.Context(), db.Read(), l.tenantID)
		require.NoError(t, err)
		return found != nil
	}
	now = now.Add(59 * time.Second)
	require.NoError(t, r.seen(t.Context(), l))
	now = now.Add(limit - time.Millisecond)
	require.True(t, exists())
	now = now.Add(touchEvery)
	require.False(t, exists())
}

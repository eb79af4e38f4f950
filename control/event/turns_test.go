package event

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
)

// reading is a warehouse whose lists take until they are told to end.
type reading struct {
	pipeline.Warehouse
	mu  sync.Mutex
	now map[string]int // lists that it reads, by tenant
	end chan struct{}
}

func (w *reading) Events(_ context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	w.count(q.TenantID, 1)
	<-w.end
	w.count(q.TenantID, -1)
	return nil, nil
}

func (w *reading) count(tenantID string, lists int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now[tenantID] += lists
}

// TestListsOfOneTenantLeaveRoom: a tenant's lists take few of the warehouse's readers, as do those of all the sandbox's
// tenants together; those of others are read at once. Who gives up waits no longer, and nothing is left of anybody.
func TestListsOfOneTenantLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &reading{now: map[string]int{}, end: make(chan struct{})}
		s := &Service{warehouse: w, turns: store.NewTurns(listsAtOnce)}
		var failed atomic.Int64
		list := func(ctx context.Context, key api.Key) {
			ctx = auth.WithPrincipal(ctx, auth.Principal{Key: &key})
			go func() {
				if _, err := s.list(ctx, pipeline.EventQuery{TenantID: key.TenantID}); err != nil {
					failed.Add(1)
				}
			}()
			synctest.Wait()
		}
		impatient, cancel := context.WithCancel(t.Context())
		for range 10 {
			list(t.Context(), api.Key{TenantID: "greedy"})
			list(impatient, api.Key{TenantID: "greedy"})
		}
		list(t.Context(), api.Key{TenantID: "other"})
		for _, of := range []string{"a", "b", "c", "d", "e"} {
			list(t.Context(), api.Key{TenantID: of, Sandbox: true})
		}
		require.Equal(t, map[string]int{"greedy": listsAtOnce, "other": 1, "a": 1, "b": 1, "c": 1}, w.now)
		cancel()
		synctest.Wait()
		require.EqualValues(t, 9, failed.Load(), "all of the impatient that were waiting")
		close(w.end)
		synctest.Wait()
		require.Equal(t, map[string]int{"greedy": 0, "other": 0, "a": 0, "b": 0, "c": 0, "d": 0, "e": 0}, w.now)
		require.Empty(t, s.turns.Users())
	})
}

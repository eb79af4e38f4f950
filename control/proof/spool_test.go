package proof

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// spools answers as the nodes do.
type spools func() (live, silent map[string]int64, err error)

func (s spools) Spooled(context.Context) (live, silent map[string]int64, err error) { return s() }

// TestSealWaitsForSpools: the pack has what a live node writes to the log meanwhile.
func TestSealWaitsForSpools(t *testing.T) {
	var h *fixture
	calls := 0
	h = build(t, Config{SpoolWait: time.Minute, Nodes: spools(func() (live, silent map[string]int64, err error) {
		switch calls++; calls {
		case 1:
			return map[string]int64{"nod_b": 2}, map[string]int64{}, nil
		case 2:
			h.Deliver(deliveries(2)...)
		}
		return nil, map[string]int64{}, nil
	})})
	h.Deliver(deliveries(3)...)
	sealed, err := h.service.sealWhole(t.Context(), tenant, operator)
	require.NoError(t, err)
	require.Equal(t, []Pending{}, sealed.Pending)
	require.Len(t, h.check(), 5)
	require.Equal(t, 2, calls)
}

// TestSealNamesWhatIsPending in the spools of nodes that do not drain them, or are silent:
// those it does not wait for.
func TestSealNamesWhatIsPending(t *testing.T) {
	var live atomic.Pointer[map[string]int64] // a look may come behind the seal that waited for it
	var fails atomic.Pointer[error]
	live.Store(&map[string]int64{"nod_b": 2})
	fails.Store(new(error))
	h := build(t, Config{SpoolWait: time.Millisecond, Nodes: spools(func() (map[string]int64, map[string]int64, error) {
		return *live.Load(), map[string]int64{"nod_c": 1, "nod_a": 7}, *fails.Load()
	})})
	h.Deliver(deliveries(3)...)
	sealed, err := h.service.sealWhole(t.Context(), tenant, operator)
	require.NoError(t, err)
	require.Equal(t, []Pending{{NodeID: "nod_a", Count: 7}, {NodeID: "nod_b", Count: 2}, {NodeID: "nod_c", Count: 1}}, sealed.Pending)
	require.Len(t, sealed.Packs, 1)

	h.service.cfg.SpoolWait = time.Hour
	live.Store(new(map[string]int64))
	sealed, err = h.service.sealWhole(t.Context(), tenant, operator)
	require.NoError(t, err)
	require.Equal(t, []Pending{{NodeID: "nod_a", Count: 7}, {NodeID: "nod_c", Count: 1}}, sealed.Pending, "nothing new, but it is named")

	live.Store(&map[string]int64{"nod_b": 2})
	require.NoError(t, h.service.Vouch(t.Context(), tenant, "0123", operator), "it waits for no spool")
	away := errors.New("the database is away")
	fails.Store(&away)
	_, err = h.service.sealWhole(t.Context(), tenant, operator)
	require.ErrorIs(t, err, away)
}

// TestSealsLookTogether: however many seals wait for spools, one poll at a time serves them.
func TestSealsLookTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		r := &archive{cfg: Config{Nodes: spools(func() (live, silent map[string]int64, err error) {
			calls.Add(1)
			return map[string]int64{"nod_a": 3}, map[string]int64{"nod_b": 1}, nil
		})}}
		const seals = 100
		var waiting sync.WaitGroup
		for range seals {
			waiting.Go(func() {
				pending, err := r.spools(t.Context(), time.Second)
				if err != nil || len(pending) != 2 {
					t.Errorf("pending %v, %v", pending, err)
				}
			})
		}
		waiting.Wait()
		require.LessOrEqual(t, calls.Load(), int64(seals+time.Second/spoolEvery), "each at first, and then all together")
		synctest.Wait()
	})
}

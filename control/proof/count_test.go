package proof

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

// asked is a warehouse that calls back when it is asked how far it is.
type asked struct {
	pipeline.Warehouse
	resume func()
}

func (a *asked) Resume(ctx context.Context, partition int32) (sealer.Position, bool, error) {
	a.resume()
	return a.Warehouse.Resume(ctx, partition)
}

// TestCountOfWhatIsDurable: an event counts as soon as its change is committed, also before
// it is in the warehouse, or in the log.
func TestCountOfWhatIsDurable(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(1)...)
	h.pause(0)
	h.deliver(deliveries(1)...)
	h.audit("basis.created")
	h.audit("right.issued")
	h.room.warehouse = &asked{h.warehouse, sync.OnceFunc(h.loaders[0].Resume)} // nothing is loaded unless it is waited for
	n, err := h.room.CountEvents(t.Context(), h.tenant)
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
	n, err = h.room.CountEvents(t.Context(), "tnt_nobody")
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestCountBehind: a warehouse that stays behind keeps nobody from being answered.
func TestCountBehind(t *testing.T) {
	h := build(t, Config{WaitFor: 10 * time.Millisecond})
	h.deliver(deliveries(2)...)
	h.pause(0)
	h.deliver(deliveries(1)...)
	h.audit("basis.created")
	n, err := h.room.CountEvents(t.Context(), h.tenant)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "what is loaded")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.room.CountEvents(gone, h.tenant)
	require.ErrorIs(t, err, context.Canceled)
}

// TestLastSeal is what the newest pack of any tenant states.
func TestLastSeal(t *testing.T) {
	h := build(t)
	at, err := LastSeal(t.Context(), h.db.Read())
	require.NoError(t, err)
	require.Zero(t, at)
	for range 2 {
		h.deliver(deliveries(1)...)
		h.seal()
		h.advance(time.Minute)
	}
	packs := h.packs()
	at, err = LastSeal(t.Context(), h.db.Read())
	require.NoError(t, err)
	require.Equal(t, packs[1].SealedAt.Time, at)
	require.True(t, at.After(packs[0].SealedAt.Time))
}

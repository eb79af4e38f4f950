package event

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/proof"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// resumer is a warehouse that calls back when its resume position is read.
type resumer struct {
	pipeline.Warehouse
	resume func()
}

func (a *resumer) Resume(ctx context.Context, partition int32) (sealer.Position, bool, error) {
	a.resume()
	return a.Warehouse.Resume(ctx, partition)
}

// TestCountOfWhatIsDurable: an event counts as soon as its change is committed, also before
// it is in the warehouse, or in the log.
func TestCountOfWhatIsDurable(t *testing.T) {
	h := build(t)
	h.deliver(1)
	h.Pause(0)
	h.deliver(1)
	h.Audit("basis.created")
	h.Audit("right.issued")
	h.reopen(proof.Config{Warehouse: &resumer{h.Warehouse, sync.OnceFunc(h.Loaders[0].Resume)}}) // nothing is loaded unless it is waited for
	n, err := h.service.Count(t.Context(), h.Tenant)
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
	n, err = h.service.Count(t.Context(), "tnt_nobody")
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestCountBehind: Count returns although the warehouse stays behind.
func TestCountBehind(t *testing.T) {
	h := build(t, proof.Config{WaitFor: 10 * time.Millisecond})
	h.deliver(2)
	h.Pause(0)
	h.deliver(1)
	h.Audit("basis.created")
	n, err := h.service.Count(t.Context(), h.Tenant)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "what is loaded")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.service.Count(gone, h.Tenant)
	require.ErrorIs(t, err, context.Canceled)
}

package proof

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secondProcess is another one that shares leases with the first.
func (h *fixture) secondProcess() *Service {
	h.T.Helper()
	second := h.another()
	h.service.leases.shared, second.leases.shared = true, true
	return second
}

// TestOneProcessBuildsAPack at a time: another one that has no time leaves it alone.
func TestOneProcessBuildsAPack(t *testing.T) {
	h := build(t, Config{WorkFor: time.Nanosecond})
	second := h.secondProcess()
	h.Deliver(deliveries(3)...)
	h.service.step = func(name string) error {
		if name == "write file" {
			sealed, err := second.SealSome(t.Context(), tenant, nil, operator)
			require.NoError(t, err)
			require.True(t, sealed.More)
			require.Empty(t, sealed.Packs)
		}
		return nil
	}
	require.Len(t, h.seal(), 1)
	h.Deliver(deliveries(1)...)
	sealed, err := second.SealSome(t.Context(), tenant, nil, operator)
	require.NoError(t, err)
	require.Len(t, sealed.Packs, 1, "the lease was released")
	require.Len(t, deliveriesOf(h.check()), 4)
}

// TestKilledProcessHoldsATenantForATerm only.
func TestKilledProcessHoldsATenantForATerm(t *testing.T) {
	h := build(t, Config{WorkFor: time.Nanosecond})
	second := h.secondProcess()
	h.Deliver(deliveries(1)...)
	taken, err := h.service.leases.take(t.Context(), tenant)
	require.NoError(t, err)
	require.True(t, taken)
	for _, packs := range []int{0, 1} {
		_, err := second.SealSome(t.Context(), tenant, nil, operator)
		require.NoError(t, err)
		require.Len(t, h.packs(), packs)
		h.Advance(leaseTerm)
	}
}

package proof

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
	"muniment/pipeline"
)

// byItself seals two tenants by itself.
func byItself(every time.Duration, at int) Config {
	return Config{SealEvery: every, SealAt: at, MaxEntries: 10, Tenants: func(context.Context) ([]string, error) {
		return []string{tenant, stranger}, nil
	}}
}

// due calls SealDue once everything is loaded.
func (h *house) due() {
	h.t.Helper()
	h.pause(0)
	require.NoError(h.t, h.room.SealDue(h.t.Context()))
	h.loaders[0].Resume()
}

func TestOldEventsAreSealedByThemselves(t *testing.T) {
	cfg := byItself(time.Hour, 0)
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	h := build(t, cfg)
	h.deliver(deliveries(2)...)
	h.due()
	require.Empty(t, h.packs(), "they are young")
	h.advance(59 * time.Minute)
	h.due()
	require.Empty(t, h.packs())
	n, err := testutil.GatherAndCount(registry, "muniment_proof_unsealed_age_seconds")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, h.Now().Add(-59*time.Minute), h.room.due.oldest())
	h.advance(time.Minute)
	h.due()
	require.Len(t, h.packs(), 1)
	require.NoError(t, h.db.Drain(t.Context(), tenant))
	h.advance(48 * time.Hour)
	h.due()
	require.Len(t, h.packs(), 1, "that it was sealed is not new")
	h.check()
}

func TestManyEventsAreSealedByThemselves(t *testing.T) {
	h := build(t, byItself(0, 30))
	h.deliver(deliveries(29)...)
	h.due()
	require.Empty(t, h.packs())
	h.deliver(deliveries(1)...)
	h.advance(h.room.mostIdle())
	h.due()
	require.Len(t, h.packs(), 3)
	require.Len(t, deliveriesOf(h.check()), 30)
}

// TestIdleTenantsCostLittle counts the looks at a tenant to which nothing happens.
func TestIdleTenantsCostLittle(t *testing.T) {
	h := build(t, byItself(time.Hour, 100_000))
	h.deliver(deliveries(1)...)
	h.seal()
	asked := &looks{Warehouse: h.warehouse}
	h.room.warehouse = asked
	day := 24 * time.Hour
	for range day / dueTick {
		require.NoError(t, h.room.SealDue(t.Context()))
		h.advance(dueTick)
	}
	require.Less(t, asked.n, 2*(2*24+10), "of two tenants, twice an hour each")
	require.Len(t, h.packs(), 1)
}

type looks struct {
	pipeline.Warehouse
	n int
}

func (l *looks) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	l.n++
	return l.Warehouse.Events(ctx, q)
}

// TestOneHeldTenantHoldsNoOther from being sealed by itself.
func TestOneHeldTenantHoldsNoOther(t *testing.T) {
	h := build(t, byItself(time.Hour, 0))
	forged := h.event(delivery{tenant: stranger, dwellMs: 1, signer: newSigner(t)})
	h.append(forged)
	h.deliver(deliveries(1)...)
	h.advance(time.Hour)
	h.due()
	require.Len(t, h.packs(), 1)
	_, err := h.room.sealWhole(t.Context(), stranger, operator)
	require.Equal(t, api.SetAside, api.From(err).Reason)
}

// TestAPartitionThatIsBehindHoldsNoOther tenant than its own, and is waited for once.
func TestAPartitionThatIsBehindHoldsNoOther(t *testing.T) {
	var tenants []string
	cfg := byItself(time.Hour, 0)
	cfg.WaitFor = 50 * time.Millisecond
	cfg.Tenants = func(context.Context) ([]string, error) { return tenants, nil }
	h := buildOnKafka(t, cfg)
	a, b := h.apart()
	for range 4 { // that wait with b
		for id := ""; ; {
			if id = api.NewID(api.PrefixTenant, h.Now()); h.partition(id) == h.partition(b) {
				tenants = append(tenants, id)
				break
			}
		}
	}
	tenants = append(tenants, a)
	for _, id := range tenants {
		h.deliver(delivery{tenant: id, dwellMs: 1})
	}
	h.pause(h.partition(a))
	h.pause(h.partition(b))
	h.loaders[h.partition(a)].Resume()
	h.deliver(delivery{tenant: b, dwellMs: 1}) // is not loaded
	h.advance(time.Hour)
	require.NoError(t, h.room.SealDue(t.Context()))
	h.tenant = a
	require.Len(t, h.packs(), 1)
	due := h.room.due.at(h.Now(), tenants, dueTick)
	require.NotEmpty(t, due, "not every one has waited")
	require.NotContains(t, due, a)
}

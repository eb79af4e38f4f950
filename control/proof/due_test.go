package proof

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/proof/prooftest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
)

// byItself seals two tenants by itself.
func byItself(every time.Duration, at int) Config {
	return Config{SealEvery: every, SealAt: at, MaxEntries: 10, Tenants: func(context.Context) ([]string, error) {
		return []string{tenant, stranger}, nil
	}}
}

// due calls SealDue once everything is loaded.
func (h *fixture) due() {
	h.T.Helper()
	h.Pause(0)
	require.NoError(h.T, h.service.SealDue(h.T.Context()))
	h.Loaders[0].Resume()
}

func TestOldEventsAreSealedByThemselves(t *testing.T) {
	cfg := byItself(time.Hour, 0)
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	h := build(t, cfg)
	h.Deliver(deliveries(2)...)
	h.due()
	require.Empty(t, h.packs(), "they are young")
	h.Advance(59 * time.Minute)
	h.due()
	require.Empty(t, h.packs())
	n, err := testutil.GatherAndCount(registry, "muniment_proof_unsealed_age_seconds")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	oldest, all := h.service.due.oldest()
	require.Equal(t, h.Now().Add(-59*time.Minute), oldest)
	require.True(t, all)
	h.Advance(time.Minute)
	h.due()
	require.Len(t, h.packs(), 1)
	require.NoError(t, h.DB.Outbox.Drain(t.Context(), tenant))
	h.Advance(48 * time.Hour)
	h.due()
	require.Len(t, h.packs(), 1, "that it was sealed is not new")
	h.check()
}

// TestFailingSealsAreShown: a tenant counts from a failed attempt until one succeeds, which is made within
// minutes, or by somebody else.
func TestFailingSealsAreShown(t *testing.T) {
	cfg := byItself(time.Hour, 0)
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	h := build(t, cfg)
	requireFailing := func(n int) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP muniment_proof_seal_every_seconds Age at which events are sealed automatically; 0: whatever their age.
# TYPE muniment_proof_seal_every_seconds gauge
muniment_proof_seal_every_seconds 3600
# HELP muniment_proof_seal_failing_tenants Tenants that could not be sealed automatically at the last attempt; not those that quarantined records hold.
# TYPE muniment_proof_seal_failing_tenants gauge
muniment_proof_seal_failing_tenants %d
`, n)), "muniment_proof_seal_every_seconds", "muniment_proof_seal_failing_tenants"))
	}
	broken, works := errors.New("the disk is broken"), h.service.step
	for _, again := range []func(){
		func() { h.Advance(retryFailed); h.due() },
		func() { h.seal() },
	} {
		h.Deliver(deliveries(2)...)
		h.due()
		h.Advance(time.Hour)
		requireFailing(0)
		h.service.step = func(string) error { return broken }
		h.due()
		h.due()
		requireFailing(1)
		h.service.step = works
		before := len(h.packs())
		again()
		require.Len(t, h.packs(), before+1)
		requireFailing(0)
	}
}

// TestBucketAwayEndsTheRound: no other pack is built for a bucket that does not answer.
func TestBucketAwayEndsTheRound(t *testing.T) {
	h := build(t, byItself(time.Hour, 0))
	for _, id := range []string{tenant, stranger} {
		h.Deliver(delivery{Tenant: id, DwellMs: 1})
	}
	h.Advance(time.Hour)
	h.Pause(0)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else they are built at once
	tries, works := 0, h.service.step
	h.service.step = func(name string) error {
		if name == "create pack" {
			tries++
			return api.Unavailable(api.EngineUnavailable, "the bucket does not answer", time.Second)
		}
		return nil
	}
	require.Equal(t, api.EngineUnavailable, api.From(h.service.SealDue(t.Context())).Reason)
	require.Equal(t, 1, tries)
	require.Equal(t, 1, h.service.due.failing())
	h.service.step = works
	h.Advance(retryFailed)
	require.NoError(t, h.service.SealDue(t.Context()))
	require.Zero(t, h.service.due.failing())
	require.Len(t, h.packs(), 1)
}

// TestUnsealedAgeAfterARestart: it is not known before the first check, and then it is, though sealing
// fails.
func TestUnsealedAgeAfterARestart(t *testing.T) {
	cfg := byItself(time.Hour, 0)
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	h := build(t, cfg)
	requireAge := func(seconds float64) {
		t.Helper()
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "muniment_proof_unsealed_age_seconds" {
				require.InDelta(t, seconds, f.GetMetric()[0].GetGauge().GetValue(), 0)
				return
			}
		}
		require.Fail(t, "there is no gauge")
	}
	h.Deliver(deliveries(2)...)
	requireAge(math.NaN())
	h.Advance(3 * time.Hour)
	works := h.service.step
	h.service.step = func(string) error { return errors.New("the disk is broken") }
	h.due()
	requireAge(3 * 60 * 60)
	h.service.step = works
	h.Advance(retryFailed)
	h.due()
	requireAge(0)
}

func TestManyEventsAreSealedByThemselves(t *testing.T) {
	h := build(t, byItself(0, 30))
	h.Deliver(deliveries(29)...)
	h.due()
	require.Empty(t, h.packs())
	h.Deliver(deliveries(1)...)
	h.Advance(h.service.mostIdle())
	h.due()
	require.Len(t, h.packs(), 3)
	require.Len(t, deliveriesOf(h.check()), 30)
}

// TestIdleTenantsCostLittle counts the checks of tenants without new events.
func TestIdleTenantsCostLittle(t *testing.T) {
	h := build(t, byItself(time.Hour, 100_000))
	h.Deliver(deliveries(1)...)
	h.seal()
	counting := &looks{Warehouse: h.Warehouse}
	h.service.warehouse = counting
	day := 24 * time.Hour
	for range day / dueTick {
		require.NoError(t, h.service.SealDue(t.Context()))
		h.Advance(dueTick)
	}
	require.Less(t, counting.n, 2*(2*24+10), "of two tenants, twice an hour each")
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
	forged := h.Event(delivery{Tenant: stranger, DwellMs: 1, Signer: prooftest.NewSigner(t)})
	h.Append(forged)
	h.Deliver(deliveries(1)...)
	h.Advance(time.Hour)
	h.due()
	require.Len(t, h.packs(), 1)
	_, err := h.service.sealWhole(t.Context(), stranger, operator)
	require.Equal(t, api.Quarantined, api.From(err).Reason)
}

// TestAPartitionThatIsBehindHoldsNoOther tenant than its own, and is waited for once.
func TestAPartitionThatIsBehindHoldsNoOther(t *testing.T) {
	var tenants []string
	cfg := byItself(time.Hour, 0)
	cfg.WaitFor = 50 * time.Millisecond
	cfg.Tenants = func(context.Context) ([]string, error) { return tenants, nil }
	h := buildOver(t, prooftest.Topic(t), cfg)
	a, b := h.TwoPartitions()
	for range 4 { // that wait with b
		for id := ""; ; {
			if id = api.NewID(api.PrefixTenant, h.Now()); h.Partition(id) == h.Partition(b) {
				tenants = append(tenants, id)
				break
			}
		}
	}
	tenants = append(tenants, a)
	for _, id := range tenants {
		h.Deliver(delivery{Tenant: id, DwellMs: 1})
	}
	h.Pause(h.Partition(a))
	h.Pause(h.Partition(b))
	h.Loaders[h.Partition(a)].Resume()
	h.Deliver(delivery{Tenant: b, DwellMs: 1}) // is not loaded
	h.Advance(time.Hour)
	require.NoError(t, h.service.SealDue(t.Context()))
	h.Tenant = a
	require.Len(t, h.packs(), 1)
	due := h.service.due.at(h.Now(), tenants, dueTick)
	require.NotEmpty(t, due, "not every one has waited")
	require.NotContains(t, due, a)
}

// TestAProcessLeavesABacklogToAnother that is faster, instead of building each pack beside it: it signs, writes and
// promises nothing.
func TestAProcessLeavesABacklogToAnother(t *testing.T) {
	h := build(t, byItself(0, 30))
	other := h.another()
	h.Deliver(deliveries(50)...)
	h.Pause(0)
	defer h.Loaders[0].Resume()
	gathered, sealed := make(chan struct{}), make(chan struct{})
	var own, others []string
	h.service.step = func(name string) error {
		if own = append(own, name); name == "promise root" && len(own) == 1 {
			close(gathered)
			<-sealed
		}
		return nil
	}
	other.step = func(name string) error {
		if others = append(others, name); name == "answer" && len(h.packs()) == 1 { // four are left
			close(sealed)
			own := h.service // which has its turn
			waittest.Until(t, func() bool { return len(own.sealing.Users()) == 0 })
		}
		return nil
	}
	ended := make(chan error)
	go func() { ended <- h.service.SealDue(t.Context()) }()
	<-gathered
	require.NoError(t, other.SealDue(t.Context()))
	require.NoError(t, <-ended)
	require.Equal(t, []string{"promise root"}, own)
	require.Len(t, h.packs(), 5)
	require.Len(t, others, 5*(len(steps)+len([]string{"write nodes"})))
	next := h.service.due.plans[tenant].next
	require.GreaterOrEqual(t, next.Sub(h.Now()), dueTick)
	require.Less(t, next.Sub(h.Now()), 2*dueTick)
	h.check()
}

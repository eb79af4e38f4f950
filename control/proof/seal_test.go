package proof

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

func TestSealMakesAChainThatAStrangerVerifies(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(7)...)
	h.Audit("right.issued")
	first := h.seal()
	require.Len(t, first, 1)
	require.Equal(t, 8, first[0].Count)
	require.Nil(t, first[0].Previous)
	require.Equal(t, tenant, first[0].TenantID)
	require.Equal(t, h.Now(), first[0].SealedAt)

	h.Deliver(deliveries(3)...)
	second := h.seal()
	require.Len(t, second, 1)
	require.Equal(t, 4, second[0].Count, "three deliveries and the sealing before")
	require.Equal(t, first[0].Ref(), *second[0].Previous)
	require.Len(t, h.check(), 12)
}

func TestPackHoldsAtMostMaxEntries(t *testing.T) {
	h := build(t, Config{MaxEntries: 10})
	h.Deliver(deliveries(25)...)
	packs := h.seal()
	require.Len(t, packs, 3)
	require.Equal(t, []int{10, 10, 5}, []int{packs[0].Count, packs[1].Count, packs[2].Count})

	h.Deliver(deliveries(7)...)
	require.Len(t, h.seal(), 1, "three sealings and seven deliveries fill one pack")
	require.Len(t, h.check(), 35)
}

func TestNothingNew(t *testing.T) {
	h := build(t)
	sealed, err := h.service.sealWhole(t.Context(), tenant, operator)
	require.NoError(t, err)
	require.Equal(t, Sealed{Packs: sealed.Packs, UpTo: h.End().String(), Pending: []Pending{}}, sealed)
	require.NotNil(t, sealed.Packs)
	require.Empty(t, sealed.Packs)

	h.Audit(sealer.TypeRefusals)
	require.Empty(t, h.seal(), "refusals alone are not new")
	require.Empty(t, h.packs())

	h.Deliver(deliveries(1)...)
	first := h.seal()
	require.Len(t, first, 1)
	require.Equal(t, 2, first[0].Count, "the refusals ride along")

	require.Equal(t, first, h.seal(), "the sealing alone is not new")
	h.Audit(sealer.TypeRefusals)
	require.Equal(t, first, h.seal())

	h.Audit("right.revoked")
	second := h.seal()
	require.NotEqual(t, first, second)
	require.Equal(t, 3, second[0].Count)
	require.Len(t, h.check(), 5)
}

// TestSealToEnd returns the end of the newest pack, of those that the call has sealed or, if nothing is new, of earlier ones.
func TestSealToEnd(t *testing.T) {
	h := build(t, Config{MaxEntries: 10})
	end, err := h.service.SealToEnd(t.Context(), tenant, operator)
	require.NoError(t, err)
	require.Nil(t, end)

	h.Deliver(deliveries(25)...)
	for range 2 {
		end, err := h.service.SealToEnd(t.Context(), tenant, operator)
		require.NoError(t, err)
		packs := h.packs()
		require.Len(t, packs, 3)
		newest := packs[2]
		require.Equal(t, &End{PackID: newest.ID, RootHash: newest.RootHash, TreeSize: 25, Position: newest.Last.Next(), Rules: end.Rules}, end)
	}
}

// TestNewsBehindManySealings has more events that aren't new in front of the one
// that is than a pack may hold.
func TestNewsBehindManySealings(t *testing.T) {
	h := build(t, Config{MaxEntries: 2})
	for range 5 {
		h.Audit(sealer.TypeRefusals)
	}
	require.Empty(t, h.seal())
	h.Deliver(deliveries(1)...)
	require.Len(t, h.seal(), 3)
	require.Len(t, h.check(), 6)
}

func TestSealCoversWhatTheOutboxHeld(t *testing.T) {
	h := build(t)
	for range 20 {
		h.Audit("right.issued")
		packs := h.seal()
		require.Contains(t, string(lastEntry(t, h)), `"type":"right.issued"`, packs)
	}
	h.check()
}

func lastEntry(t *testing.T, h *fixture) []byte {
	entries := h.check()
	require.NotEmpty(t, entries)
	return entries[len(entries)-1]
}

func TestSealsAtOnceYieldTheSamePacks(t *testing.T) {
	stacktest.Both(t)
	for _, callers := range []int{2, 32} {
		h := build(t, Config{MaxEntries: 16})
		h.Deliver(deliveries(40)...)
		allCame := sync.OnceFunc(func() {
			for waiting(h.service, tenant) < callers {
				runtime.Gosched()
			}
		})
		h.service.step = func(string) error { allCame(); return nil }
		answers := make([]Sealed, callers)
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				var err error
				if answers[i], err = h.service.sealWhole(t.Context(), tenant, operator); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.Len(t, h.packs(), 3)
		require.Len(t, answers[0].Packs, 3)
		for _, a := range answers {
			require.Equal(t, answers[0], a)
		}
		require.Len(t, h.check(), 40)
		require.Empty(t, h.service.sealing.Users())
	}
}

// waiting is how many calls seal a tenant or wait for it.
func waiting(r *Service, tenantID string) int { return r.sealing.Users()[tenantID] }

// sealAtOnce has two services seal, which get the same answer: both have built their pack before the first of
// them commits.
func (h *fixture) sealAtOnce(t *testing.T, other *Service) {
	t.Helper()
	var built, group sync.WaitGroup
	built.Add(2)
	var answers [2]Sealed
	for i, service := range []*Service{h.service, other} {
		once := sync.OnceFunc(func() { built.Done(); built.Wait() })
		service.step = func(name string) error {
			if name == "commit" {
				once()
			}
			return nil
		}
		group.Go(func() {
			var err error
			if answers[i], err = service.sealWhole(t.Context(), tenant, operator); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, answers[0], answers[1])
}

// TestTwoProcessesAtOnce lets two services over one database and folder seal: only
// the compare-and-set is between them.
func TestTwoProcessesAtOnce(t *testing.T) {
	stacktest.Both(t)
	h := build(t)
	other := h.another()
	for range 5 {
		h.Deliver(deliveries(20)...)
		h.sealAtOnce(t, other)
	}
	require.Len(t, h.packs(), 5)
	require.Len(t, h.files(), 5, "who loses takes its file away")
	h.check()
}

// TestSlowerProcessBeginsAnew builds a pack over rows of which another process
// seals a part first. What it learnt about them must not be lost on it.
func TestSlowerProcessBeginsAnew(t *testing.T) {
	h := build(t)
	other := h.another()
	h.Deliver(delivery{DwellMs: 1, Key: "a"})
	h.seal()

	h.Deliver(deliveries(2)...)
	gathered, built, sealed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h.service.step = func(name string) error {
		if name == "promise root" {
			close(gathered)
			<-built
		}
		return nil
	}
	other.step = func(name string) error {
		if name == "commit" {
			select {
			case <-built:
			default:
				close(built)
				<-sealed
			}
		}
		return nil
	}
	var group sync.WaitGroup
	group.Go(func() {
		defer close(sealed)
		if _, err := h.service.sealWhole(t.Context(), tenant, operator); err != nil {
			t.Error(err)
		}
	})
	<-gathered
	h.Deliver(delivery{DwellMs: 1, Key: "a"})
	answer, err := other.sealWhole(t.Context(), tenant, operator)
	require.NoError(t, err)
	group.Wait()
	packs := headers(t, answer)
	require.Len(t, packs, 2, "since the call began, the other's pack and its own")
	require.Equal(t, []pack.Duplicate{{Leaf: 4, First: 0}}, packs[1].Duplicates)
	require.Len(t, h.files(), 3)
	h.check()
}

func TestSealsWhileEventsArrive(t *testing.T) {
	h := build(t, Config{MaxEntries: 50})
	var writers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		writers.Go(func() {
			for range 100 {
				h.Deliver(deliveries(1)...)
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		h.seal()
	}
	deliveries := 0
	for _, entry := range h.check() {
		if e, err := sealer.ParseEvent(entry); err == nil && e.Type == sealer.TypeDelivery {
			deliveries++
		}
	}
	require.Equal(t, 400, deliveries)
}

func TestClockSetBack(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(1)...)
	h.Advance(-3 * time.Hour) // before the keys were made
	h.seal()
	h.check()
}

// TestNodeClockAhead has deliveries of a node whose clock is ahead of the sealer's.
func TestNodeClockAhead(t *testing.T) {
	h := build(t, Config{MaxEntries: 3})
	ahead := h.Now().Add(time.Minute)
	h.Deliver(delivery{Key: "order"})
	h.Advance(time.Minute)
	h.Deliver(delivery{Key: "order"}, delivery{Key: "order"}, delivery{Key: "order"})
	h.Advance(-time.Minute)
	h.Deliver(delivery{Key: "order"}, delivery{})
	packs := h.seal()
	require.Equal(t, []time.Time{ahead, ahead}, []time.Time{packs[0].SealedAt, packs[1].SealedAt})
	require.Len(t, packs[0].Duplicates, 2)
	require.Len(t, packs[1].Duplicates, 2)
	require.Len(t, h.check(), 6)

	h.Deliver(delivery{})
	require.Equal(t, h.Now(), h.seal()[0].SealedAt, "the next is sealed at its own time")
	h.check()
}

func deliveriesOf(entries [][]byte) (found []string) {
	for _, entry := range entries {
		if d, err := sealer.ReadDelivery(entry); err == nil {
			found = append(found, d.Event.EventID)
		}
	}
	return found
}

func TestWarehouseBehind(t *testing.T) {
	h := build(t, Config{WaitFor: 20 * time.Millisecond})
	h.Loaders[0].Pause()
	h.Deliver(deliveries(2)...)
	refused := h.behind()
	require.Equal(t, 503, refused.GetStatus())
	require.Equal(t, api.WarehouseBehind, refused.Reason)
	require.Equal(t, 1, refused.RetryAfterSeconds())
	require.Empty(t, h.packs())

	h.reopen(Config{})
	require.Len(t, h.seal(), 1)
	h.check()
}

func TestLogUnavailable(t *testing.T) {
	h := build(t, Config{WaitFor: 20 * time.Millisecond})
	h.Stop() // nothing relays
	h.Audit("right.issued")
	refused := h.sealErr()
	require.Equal(t, 503, refused.GetStatus())
	require.Equal(t, api.LogUnavailable, refused.Reason)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.service.sealWhole(ctx, tenant, operator)
	require.ErrorIs(t, err, context.Canceled, "a caller who leaves is no failure of the log")

	h.reopen(Config{})
	require.Len(t, h.seal(), 1)
}

func TestMetrics(t *testing.T) {
	h := build(t)
	registry := prometheus.NewRegistry()
	h.reopen(Config{Registerer: registry})
	h.seal()
	h.Deliver(deliveries(4)...)
	h.seal()
	m := h.service.metrics
	require.EqualValues(t, 4, testutil.ToFloat64(m.entries))
	require.EqualValues(t, 1, testutil.ToFloat64(m.packs))
	require.EqualValues(t, 1, testutil.ToFloat64(m.seals.WithLabelValues(resultSealed)))
	require.EqualValues(t, 1, testutil.ToFloat64(m.seals.WithLabelValues(resultNothing)))
	n, err := testutil.GatherAndCount(registry, "muniment_proof_seals_total", "muniment_proof_seal_seconds")
	require.NoError(t, err)
	require.Equal(t, 6, n)
}

func TestConfig(t *testing.T) {
	h := build(t)
	for name, spoil := range map[string]func(*Config){
		"DB":         func(c *Config) { c.DB = nil },
		"Warehouse":  func(c *Config) { c.Warehouse = nil },
		"Log":        func(c *Config) { c.Log = nil },
		"Keys":       func(c *Config) { c.Keys = nil },
		"Dir":        func(c *Config) { c.Dir = "" },
		"WaitFor":    func(c *Config) { c.WaitFor = -1 },
		"MaxEntries": func(c *Config) { c.MaxEntries = maxEntries + 1 },
	} {
		cfg := h.service.cfg
		spoil(&cfg)
		_, err := New(t.Context(), cfg)
		require.ErrorContains(t, err, name)
	}
}

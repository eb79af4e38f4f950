package proof

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/gateway/api"
)

// series is calls of one caller until more is false.
type series struct {
	upTo  string // of the first answer; empty before it
	acked int    // of the world's events, when the first call began
}

// world is a fixture, and what its tenant holds receipts of.
type world struct {
	*fixture
	rt     *rapid.T
	cfg    Config
	acked  []string // ids of events, in the order in which they were acknowledged; empty for those of control
	series []series // that have begun, and are not over
}

const auditKind = "tenant.test"

// TestWhoCallsUntilMoreIsFalseHasAllSealed runs deliveries, events of control, stalled loaders, calls
// of several callers and processes, and crashes in any order, and checks the promise of upTo.
func TestWhoCallsUntilMoreIsFalseHasAllSealed(t *testing.T) {
	rapidtest.Check(t, 4, 1_000, func(rt *rapid.T) {
		w := &world{rt: rt, cfg: Config{WaitFor: 15 * time.Millisecond, SpoolWait: time.Millisecond, WorkFor: time.Nanosecond,
			MaxEntries: rapid.IntRange(1, 5).Draw(rt, "entries of a pack")}}
		w.fixture = build(rt, w.cfg)
		actions := map[string]func(*rapid.T){
			"deliver":      func(rt *rapid.T) { w.acknowledge(rapid.IntRange(1, 7).Draw(rt, "deliveries")) },
			"audit":        func(*rapid.T) { w.Audit(auditKind); w.acked = append(w.acked, "") },
			"stop loading": func(*rapid.T) { w.Loaders[0].Pause() },
			"load":         func(*rapid.T) { w.Loaders[0].Resume() },
			"time": func(rt *rapid.T) {
				w.Advance(rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(rt, "time"))
			},
			"begin":       func(*rapid.T) { w.call(&series{}) },
			"go on":       w.goOn,
			"whole":       w.whole,
			"crash":       w.crash,
			"two at once": w.twoAtOnce,
		}
		rt.Repeat(actions)
		w.Loaders[0].Resume()
		w.service.cfg.WaitFor = time.Minute
		for len(w.series) > 0 {
			w.goOn(rt)
		}
		w.whole(rt)
		w.check()
		w.onlyOneRootOfASize()
	})
}

func (w *world) acknowledge(n int) {
	for range n {
		record := w.Event(delivery{DwellMs: 1, Key: rapid.SampledFrom([]string{"", "a", "b"}).Draw(w.rt, "key")})
		w.Append(record)
		w.acked = append(w.acked, record.EventID)
	}
}

// call is one call of a caller; another one follows unless it says that there is no more.
func (w *world) call(s *series) {
	if s.upTo == "" {
		s.acked = len(w.acked)
	}
	sealed, err := w.service.SealSome(w.T.Context(), tenant, w.position(s.upTo), operator)
	w.answered(*s, sealed, err)
}

// answered checks what a call has answered.
func (w *world) answered(s series, sealed Sealed, err error) {
	if err != nil {
		reason := api.From(err).Reason
		require.Contains(w.T, []api.Reason{api.WarehouseBehind, api.LogUnavailable}, reason, "%v", err)
		if s.upTo != "" {
			w.series = append(w.series, s)
		}
		return
	}
	if s.upTo != "" {
		require.Equal(w.T, s.upTo, sealed.UpTo)
	}
	if s.upTo = sealed.UpTo; sealed.More {
		w.series = append(w.series, s)
		return
	}
	w.sealed(s.acked)
	for _, p := range sealed.Pending {
		require.NotEqual(w.T, sourceWarehouse, p.Source, "nothing before upTo is pending")
	}
}

// sealed checks that the first n events that were acknowledged are in packs.
func (w *world) sealed(n int) {
	ids, audits := map[string]bool{}, 0
	for _, entry := range w.entries() {
		ids[idOf(entry)] = true
		if strings.Contains(string(entry), `"type":"`+auditKind+`"`) {
			audits++
		}
	}
	for _, id := range w.acked[:n] {
		if id == "" {
			audits--
			continue
		}
		require.True(w.T, ids[id], "%s was acknowledged before the first call", id)
	}
	require.GreaterOrEqual(w.T, audits, 0, "events of control were acknowledged before the first call")
}

// goOn is the next call of one that has begun.
func (w *world) goOn(rt *rapid.T) {
	if len(w.series) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.series)-1).Draw(rt, "series")
	s := w.series[i]
	w.series = slices.Delete(w.series, i, i+1)
	w.call(&s)
}

// whole is a seal that is whole, or fails.
func (w *world) whole(*rapid.T) {
	n := len(w.acked)
	sealed, err := w.service.sealWhole(w.T.Context(), tenant, operator)
	if err == nil {
		require.False(w.T, sealed.More)
	}
	w.answered(series{acked: n}, sealed, err)
}

// crash kills the process at a step of a seal, if that comes to it.
func (w *world) crash(rt *rapid.T) {
	at := rapid.SampledFrom(steps).Draw(rt, "step")
	w.service.step = func(name string) error {
		if name == at {
			panic(errInjected)
		}
		return nil
	}
	func() {
		defer func() {
			if p := recover(); p != nil && p != errInjected { //nolint:errorlint // it is what was thrown
				panic(p)
			}
		}()
		_, _ = w.service.SealSome(w.T.Context(), tenant, nil, operator)
	}()
	w.reopen(w.cfg)
}

// twoAtOnce are two callers of two processes.
func (w *world) twoAtOnce(*rapid.T) {
	second := w.another()
	s := series{acked: len(w.acked)}
	answers := [2]Sealed{}
	errs := [2]error{}
	var callers sync.WaitGroup
	for i, service := range []*Service{w.service, second} {
		callers.Go(func() { answers[i], errs[i] = service.SealSome(w.T.Context(), tenant, nil, operator) })
	}
	callers.Wait()
	for i := range answers {
		w.answered(s, answers[i], errs[i])
	}
}

package snapshot

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestOldValueComesBack does what ristretto may do at any time: it puts an older
// snapshot back after a newer one, and after a revocation.
func TestOldValueComesBack(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive})
	v := newView(t, s, nil)
	follow(t, v)
	old, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)
	stale := cached[Right]{old, old.Revision}

	putBack := func() {
		v.rights.kept.Del(rightOf(1))
		v.rights.kept.Wait()
		v.rights.kept.Set(rightOf(1), stale, 1)
		v.rights.kept.Wait()
		got, ok := v.rights.kept.Get(rightOf(1))
		require.True(t, ok)
		require.Equal(t, stale, got)
		v.rights.recent.keep(rightOf(1), stale)
	}
	s.put(api.Right{ID: rightOf(1), State: api.RightActive, BasisID: "bas_2"})
	follow(t, v)
	putBack()
	r, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)
	require.Equal(t, "bas_2", r.BasisID)

	s.put(api.Right{ID: rightOf(1), State: api.RightSuspended})
	follow(t, v)
	putBack()
	_, err = v.Right(t.Context(), "tnt_a", rightOf(1))
	requireCode(t, api.StateConflict, err)

	s.put(api.Right{ID: rightOf(1), State: api.RightActive, BasisID: "bas_3"})
	follow(t, v)
	putBack()
	r, err = v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)
	require.Equal(t, "bas_3", r.BasisID)
}

// TestAnswersDoNotGoBack reads what the feed does not have yet, and puts the older snapshot
// back into the cache: once an answer was of the newer one, none is of the older.
func TestAnswersDoNotGoBack(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive})
	v := newView(t, s, nil)
	follow(t, v)
	old, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)

	s.put(api.Right{ID: rightOf(1), State: api.RightRevoked})
	v.rights.kept.Clear()
	v.rights.recent.slot(rightOf(1)).Store(nil)
	_, err = v.Right(t.Context(), "tnt_a", rightOf(1))
	requireCode(t, api.StateConflict, err)
	v.rights.kept.Clear()
	v.rights.kept.Set(rightOf(1), cached[Right]{old, old.Revision}, 1)
	v.rights.kept.Wait()
	v.rights.recent.keep(rightOf(1), cached[Right]{old, old.Revision})
	_, err = v.Right(t.Context(), "tnt_a", rightOf(1))
	requireCode(t, api.StateConflict, err)
}

// TestCacheThatForgets runs many questions against a cache of 10 entries that stands
// still half of the time, until it drops what it is given, and into which old values
// come back, beside a model: no answer may differ from what the feed said.
// MUNIMENT_TEST_FULL makes it a million questions.
func TestCacheThatForgets(t *testing.T) {
	const rights, readers, questions = 200, 4, 80
	const standstill = 400 // rounds, in which ristretto is given more than the 32,768 that it queues
	rounds := 2 * standstill
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		rounds = 8 * standstill // more than a million questions
	}
	s := newSource()
	for n := range rights {
		s.put(api.Right{ID: rightOf(n), State: api.RightActive})
	}
	v := newView(t, s, func(c *Config) { c.Capacity = 10 })
	v.rights.kept.Close()
	var still sync.Mutex // held while the cache must stand still
	wait := func(*ristretto.Item[cached[Right]]) {
		still.Lock()
		defer still.Unlock()
	}
	var err error
	v.rights.kept, err = ristretto.NewCache(&ristretto.Config[string, cached[Right]]{
		NumCounters: 100, MaxCost: 10, BufferItems: 64, IgnoreInternalCost: true, Metrics: true,
		OnReject: wait, OnEvict: wait,
	})
	require.NoError(t, err)
	follow(t, v)
	states := []api.RightState{api.RightActive, api.RightSuspended, api.RightActive, api.RightRevoked}
	model := make([]api.RightState, rights)
	for n := range model {
		model[n] = api.RightActive
	}
	var stale []cached[Right]
	tries := 0
	for round := range rounds {
		switch round % (2 * standstill) {
		case 0:
			still.Lock()
		case standstill:
			still.Unlock()
		}
		n := (round * 7) % rights
		if old, err := v.Right(t.Context(), "tnt_a", rightOf(n)); err == nil {
			stale = append(stale[max(0, len(stale)-20):], cached[Right]{old, old.Revision})
		}
		next := states[round%len(states)]
		if next == api.RightRevoked && round%20 != 19 {
			next = api.RightSuspended
		}
		if model[n] != api.RightRevoked {
			model[n] = next
			s.put(api.Right{ID: rightOf(n), State: model[n]})
			follow(t, v)
		}
		for id := range rights { // else all questions would be answered by it
			v.rights.recent.slot(rightOf(id)).Store(nil)
		}
		var all sync.WaitGroup
		wrong := make(chan string, readers)
		for reader := range readers {
			all.Go(func() {
				for i := range questions {
					id := (n + (i*reader)%rights) % rights
					_, err := v.Right(context.Background(), "tnt_a", rightOf(id))
					if (err == nil) != (model[id] == api.RightActive) {
						wrong <- fmt.Sprintf("round %d, right %d is %s: %v", round, id, model[id], err)
						return
					}
				}
			})
		}
		for _, old := range stale {
			v.rights.kept.Set(old.value.ID, old, 1)
			v.rights.recent.keep(old.value.ID, old)
		}
		all.Wait()
		tries += readers * questions
		select {
		case w := <-wrong:
			if round%(2*standstill) < standstill {
				still.Unlock()
			}
			require.Fail(t, w)
		default:
		}
	}
	m := v.rights.kept.Metrics
	t.Logf("%d tries: %v found, %v read; of the writes %d were rejected and %d dropped, %d entries evicted",
		tries, testutil.ToFloat64(v.metrics.hits), testutil.ToFloat64(v.metrics.misses), m.SetsRejected(), m.SetsDropped(), m.KeysEvicted())
	require.Greater(t, testutil.ToFloat64(v.metrics.misses), 1000.0, "the cache must have lost much in %d tries", tries)
	require.Greater(t, testutil.ToFloat64(v.metrics.hits), 100.0, "and must have been used")
	require.Positive(t, m.KeysEvicted())
	require.Positive(t, m.SetsDropped(), "and must have dropped some")
}

func TestOneLoadForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.put(api.Right{ID: rightOf(1), State: api.RightActive})
		leave := make(chan struct{})
		s.loading = func() { <-leave }
		v, err := New(Config{Source: s, NodeID: "nod_1", Clock: func() time.Duration { return 0 }})
		require.NoError(t, err)
		defer v.Close()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				_, err := v.Right(t.Context(), "tnt_a", rightOf(1))
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = v.Right(ctx, "tnt_a", rightOf(1))
		require.ErrorIs(t, err, errAway, "who gives up must not wait for the load")
		close(leave)
		all.Wait()
		require.Equal(t, 1, s.loads)
	})
}

func TestHitAllocatesNothing(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive, Ancestors: []string{rightOf(2)}})
	v := newView(t, s, nil)
	follow(t, v)
	_, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)
	v.rights.kept.Wait()
	id, ctx := rightOf(1), t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := v.Right(ctx, "tnt_a", id); err != nil || v.Fresh() != nil {
			t.Fatal(err)
		}
	}))
}

// TestAnswerAboutAnother: control's response must be about the requested record.
func TestAnswerAboutAnother(t *testing.T) {
	for name, r := range map[string]api.Right{
		"another right": {ID: rightOf(2), TenantID: "tnt_a", Substrate: "DOOH", State: api.RightActive},
		"none":          {},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := api.Rights.Change(&r)
			require.NoError(t, err)
			v := newView(t, confused{change: c}, nil)
			_, err = v.Right(t.Context(), "tnt_a", rightOf(1))
			require.Equal(t, errAway, err)
			require.Equal(t, 1., testutil.ToFloat64(v.metrics.loadErrors))
		})
	}
}

// confused answers every question with one change.
type confused struct {
	answers
	change api.Change
}

func (c confused) Snapshot(context.Context, string, string) (api.Snapshot, error) {
	return api.Snapshot{Change: &c.change, AsOf: 5}, nil
}

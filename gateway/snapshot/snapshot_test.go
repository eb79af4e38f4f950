package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/gateway/api"
)

// source is control as the contract of Source has it, with faults to switch on.
type source struct {
	mu          sync.Mutex
	incarnation string
	revision    int64
	newest      map[string]api.Change
	stoppedOnce map[string]bool
	news        chan struct{}

	away    error
	page    int               // most changes in an answer; 0 is all
	asked   []api.FeedRequest // every question
	loads   int
	loading func() // called while a right is read, after the database was
}

func newSource() *source {
	return &source{incarnation: "one", revision: 1, newest: map[string]api.Change{}, stoppedOnce: map[string]bool{}, news: make(chan struct{})}
}

func rightOf(n int) string { return fmt.Sprintf("rgh_01KAJ%021d", n) }

func (s *source) put(r api.Right) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	r.Revision = s.revision
	if r.TenantID == "" {
		r.TenantID = "tnt_a"
	}
	if r.Substrate == "" {
		r.Substrate = "DOOH"
	}
	s.publish(r.ID, api.Change{Right: &r}, r.State != api.RightActive)
	return s.revision
}

func (s *source) putKey(k api.Key) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	k.Revision = s.revision
	s.publish(k.ID, api.Change{Key: &k}, !k.RevokedAt.IsZero())
	return s.revision
}

func (s *source) publish(id string, c api.Change, stopped bool) {
	c.Revision = s.revision
	s.newest[id] = c
	s.stoppedOnce[id] = s.stoppedOnce[id] || stopped
	close(s.news)
	s.news = make(chan struct{})
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *source) Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	s.set(func() { s.asked = append(s.asked, req) })
	for {
		s.mu.Lock()
		f, news, err := s.answer(req.After), s.news, s.away
		s.mu.Unlock()
		if err != nil || len(f.Changes) > 0 || req.After == 0 || wait.Err() != nil {
			return f, err
		}
		select {
		case <-news:
		case <-wait.Done():
		}
	}
}

func (s *source) answer(after int64) api.Feed {
	f := api.Feed{Incarnation: s.incarnation, Newest: s.revision, UpTo: s.revision}
	for revision := after + 1; revision <= s.revision; revision++ {
		for id := range maps.Keys(s.newest) {
			c := s.newest[id]
			if c.Revision != revision || (after == 0 && !s.stoppedOnce[id]) {
				continue
			}
			f.Changes = append(f.Changes, c)
			if len(f.Changes) == s.page {
				f.UpTo = revision
				return f
			}
		}
	}
	return f
}

func (s *source) Right(_ context.Context, id string) (*api.Right, int64, error) {
	s.mu.Lock()
	r, asOf, err, loading := s.newest[id].Right, s.revision, s.away, s.loading
	s.loads++
	s.mu.Unlock()
	if loading != nil {
		loading()
	}
	return r, asOf, err
}

func (s *source) Key(_ context.Context, id string) (*api.Key, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	return s.newest[id].Key, s.revision, s.away
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *clock) read() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

func newView(t testing.TB, s Source, change func(*Config)) *View {
	cfg := Config{Source: s, NodeID: "nod_1", Capacity: 1000}
	if change != nil {
		change(&cfg)
	}
	v, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v
}

// follow asks once.
func follow(t testing.TB, v *View) {
	t.Helper()
	_, err := v.poll(t.Context(), v.cfg.Clock())
	require.NoError(t, err)
}

func requireCode(t testing.TB, want api.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, api.From(err).Code, err)
}

func TestRights(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive, Substrate: "DRONE", Scope: []byte(`{"bvlos":true}`)})
	s.put(api.Right{ID: rightOf(2), State: api.RightSuspended})
	s.put(api.Right{ID: rightOf(3), State: api.RightActive, Ancestors: []string{rightOf(1), rightOf(2)}})
	s.put(api.Right{ID: rightOf(4), State: api.RightActive, Substrate: "TELEPATHY"})
	v := newView(t, s, nil)
	follow(t, v)

	r, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)
	require.Equal(t, gate.Right{Substrate: gate.Drone, BVLOS: true}, r.Gate)
	_, err = v.Right(t.Context(), "tnt_a", rightOf(2))
	requireCode(t, api.StateConflict, err)
	_, err = v.Right(t.Context(), "tnt_a", rightOf(3))
	requireCode(t, api.StateConflict, err)
	_, err = v.Right(t.Context(), "tnt_a", rightOf(4))
	requireCode(t, api.InternalError, err)
	for _, id := range []string{rightOf(1), rightOf(2), rightOf(9), "", "x"} {
		_, err = v.Right(t.Context(), "tnt_b", id)
		require.Equal(t, errNoRight, err)
	}

	// Resumed, the parent sets its child free.
	s.put(api.Right{ID: rightOf(2), State: api.RightActive})
	follow(t, v)
	for _, n := range []int{2, 3} {
		_, err = v.Right(t.Context(), "tnt_a", rightOf(n))
		require.NoError(t, err)
	}
	s.put(api.Right{ID: rightOf(2), State: api.RightRevoked})
	follow(t, v)
	for _, n := range []int{2, 3} {
		_, err = v.Right(t.Context(), "tnt_a", rightOf(n))
		requireCode(t, api.StateConflict, err)
	}
}

func TestStoppedRightsNeedNeitherCacheNorControl(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightRevoked})
	v := newView(t, s, nil)
	follow(t, v)
	s.set(func() { s.away = errors.New("away") })
	_, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	requireCode(t, api.StateConflict, err)
	_, err = v.Right(t.Context(), "tnt_a", rightOf(2))
	require.Equal(t, errAway, err)
	require.Equal(t, 1.0, testutil.ToFloat64(v.metrics.loadErrors))
}

// TestForeignRightsAreAsUnknown: what the node knows of another tenant's right is of no
// use to who has only its id.
func TestForeignRightsAreAsUnknown(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive})
	s.put(api.Right{ID: rightOf(2), State: api.RightRevoked})
	v := newView(t, s, nil)
	follow(t, v)
	for range 3 { // it comes into the cache, and into the table before it
		_, err := v.Right(t.Context(), "tnt_a", rightOf(1))
		require.NoError(t, err)
		v.rightCache.Wait()
	}
	asked := func(tenantID string, n int) (loads int, err error) {
		before := s.loads
		_, err = v.Right(t.Context(), tenantID, rightOf(n))
		return s.loads - before, err
	}
	for i, about := range []string{"cached", "stopped", "unknown"} {
		loads, err := asked("tnt_b", i+1)
		require.Equal(t, errNoRight, err, about)
		require.Equal(t, 1, loads, about)
	}
	loads, err := asked("tnt_a", 1)
	require.NoError(t, err)
	require.Zero(t, loads, "its owner's is answered from the cache")
	s.set(func() { s.away = errors.New("away") })
	for n := 1; n <= 3; n++ {
		_, err := asked("tnt_b", n)
		require.Equal(t, errAway, err, n)
	}
}

// TestSlowLoadMeetsARevocation holds a read of the ACTIVE state while the right is
// revoked, and while it is changed without being stopped.
func TestSlowLoadMeetsARevocation(t *testing.T) {
	for name, next := range map[string]api.Right{
		"revoked":   {ID: rightOf(1), State: api.RightRevoked},
		"shortened": {ID: rightOf(1), State: api.RightActive, EffectiveUntil: time.Unix(1, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			s.put(api.Right{ID: rightOf(1), State: api.RightActive})
			v := newView(t, s, nil)
			follow(t, v)
			s.set(func() {
				s.loading = sync.OnceFunc(func() {
					s.put(next)
					follow(t, v)
				})
			})
			r, err := v.Right(t.Context(), "tnt_a", rightOf(1))
			if next.State == api.RightRevoked {
				requireCode(t, api.StateConflict, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, next.EffectiveUntil, r.EffectiveUntil)
			require.Equal(t, 2, s.loads)
		})
	}
}

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
		v.rightCache.Del(rightOf(1))
		v.rightCache.Wait()
		v.rightCache.Set(rightOf(1), stale, 1)
		v.rightCache.Wait()
		got, ok := v.rightCache.Get(rightOf(1))
		require.True(t, ok)
		require.Equal(t, stale, got)
		v.recentRights.keep(rightOf(1), stale)
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

// TestAnswersDoNotGoBack reads what the feed has not told yet, and puts the older snapshot
// back into the cache: once an answer was of the newer one, none is of the older.
func TestAnswersDoNotGoBack(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive})
	v := newView(t, s, nil)
	follow(t, v)
	old, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)

	s.put(api.Right{ID: rightOf(1), State: api.RightRevoked})
	v.rightCache.Clear()
	v.recentRights.slot(rightOf(1)).Store(nil)
	_, err = v.Right(t.Context(), "tnt_a", rightOf(1))
	requireCode(t, api.StateConflict, err)
	v.rightCache.Clear()
	v.rightCache.Set(rightOf(1), cached[Right]{old, old.Revision}, 1)
	v.rightCache.Wait()
	v.recentRights.keep(rightOf(1), cached[Right]{old, old.Revision})
	_, err = v.Right(t.Context(), "tnt_a", rightOf(1))
	requireCode(t, api.StateConflict, err)
}

// TestCacheThatForgets runs many questions against a cache of 10 entries that stands
// still half of the time, until it drops what it is given, and into which old values
// come back, beside a model: no answer may differ from what the feed said.
// MUNIMENT_TEST_FULL makes it a million questions.
func TestCacheThatForgets(t *testing.T) {
	const rights, readers, questions = 200, 4, 80
	const standstill = 150 // rounds, in which ristretto is given more than it queues
	rounds := 300
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		rounds = 3300 // more than a million questions
	}
	s := newSource()
	for n := range rights {
		s.put(api.Right{ID: rightOf(n), State: api.RightActive})
	}
	v := newView(t, s, func(c *Config) { c.Capacity = 10 })
	v.rightCache.Close()
	var still sync.Mutex // held while the cache must stand still
	var err error
	v.rightCache, err = ristretto.NewCache(&ristretto.Config[string, cached[Right]]{
		NumCounters: 100, MaxCost: 10, BufferItems: 64, IgnoreInternalCost: true, Metrics: true,
		OnReject: func(*ristretto.Item[cached[Right]]) {
			still.Lock()
			defer still.Unlock()
		},
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
			v.recentRights.slot(rightOf(id)).Store(nil)
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
			v.rightCache.Set(old.value.ID, old, 1)
			v.recentRights.keep(old.value.ID, old)
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
	m := v.rightCache.Metrics
	t.Logf("%d tries: %v found, %v read; of the writes %d were rejected and %d dropped, %d entries evicted",
		tries, testutil.ToFloat64(v.metrics.hits), testutil.ToFloat64(v.metrics.misses), m.SetsRejected(), m.SetsDropped(), m.KeysEvicted())
	require.Greater(t, testutil.ToFloat64(v.metrics.misses), 1000.0, "the cache must have lost much in %d tries", tries)
	require.Greater(t, testutil.ToFloat64(v.metrics.hits), 100.0, "and must have been used")
	require.Positive(t, m.KeysEvicted())
	require.Positive(t, m.SetsRejected()+m.SetsDropped(), "and must have refused some")
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

func TestKeys(t *testing.T) {
	s := newSource()
	later := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s.putKey(api.Key{ID: "key_1", Label: "a"})
	v := newView(t, s, nil)
	follow(t, v)
	k, err := v.Key(t.Context(), "key_1")
	require.NoError(t, err)
	require.Equal(t, "a", k.Label)
	k, err = v.Key(t.Context(), "key_2")
	require.NoError(t, err)
	require.Nil(t, k)

	s.putKey(api.Key{ID: "key_1", Label: "b"})
	follow(t, v)
	k, err = v.Key(t.Context(), "key_1")
	require.NoError(t, err)
	require.Equal(t, "b", k.Label)

	s.putKey(api.Key{ID: "key_1", Label: "c", RevokedAt: later})
	follow(t, v)
	s.set(func() { s.away = errors.New("away") })
	k, err = v.Key(t.Context(), "key_1")
	require.NoError(t, err)
	require.Equal(t, later, k.RevokedAt)
	_, err = v.Key(t.Context(), "key_3")
	require.Equal(t, errAway, err)
}

func TestLeaseBeginsWithTheQuestion(t *testing.T) {
	s, c := newSource(), new(clock)
	v := newView(t, s, func(cfg *Config) { cfg.Clock = c.read; cfg.Bound = 10 * time.Second })
	require.Equal(t, errStale, v.Fresh(), "no lease before the first answer")
	c.advance(time.Minute)
	asked := c.read()
	c.advance(4 * time.Second) // the answer takes its time
	_, err := v.poll(t.Context(), asked)
	require.NoError(t, err)
	age, held := v.LeaseAge()
	require.True(t, held)
	require.Equal(t, 4*time.Second, age)
	c.advance(6 * time.Second)
	require.NoError(t, v.Fresh())
	c.advance(1)
	require.Equal(t, errStale, v.Fresh())
}

func TestNoLeaseBeforeEverythingIsApplied(t *testing.T) {
	s, c := newSource(), new(clock)
	for n := range 5 {
		s.put(api.Right{ID: rightOf(n), State: api.RightSuspended})
	}
	s.page = 2
	v := newView(t, s, func(cfg *Config) { cfg.Clock = c.read })
	for range 2 {
		follow(t, v)
		require.Equal(t, errStale, v.Fresh())
	}
	follow(t, v)
	require.NoError(t, v.Fresh())
	require.Equal(t, s.revision, v.Applied())
	for n := range 5 {
		_, err := v.Right(t.Context(), "tnt_a", rightOf(n))
		requireCode(t, api.StateConflict, err)
	}
}

func TestRestoredDatabaseIsNeverTrustedAgain(t *testing.T) {
	for name, restore := range map[string]func(*source){
		"another incarnation": func(s *source) { s.incarnation = "two" },
		"older revision":      func(s *source) { s.revision -= 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			s.put(api.Right{ID: rightOf(1), State: api.RightActive})
			s.put(api.Right{ID: rightOf(2), State: api.RightActive})
			v := newView(t, s, nil)
			follow(t, v)
			require.NoError(t, v.Fresh())
			s.set(func() { restore(s) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel() // the source has no news to answer with: let it answer at once
			_, err := v.poll(ctx, 0)
			require.Error(t, err)
			require.Equal(t, errLost, v.Fresh())
			_, held := v.LeaseAge()
			require.False(t, held)
			s.set(func() { s.incarnation, s.revision = "one", 100 })
			_, err = v.poll(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, errLost, v.Fresh())
		})
	}
}

func TestMalformedAnswersGiveNoLease(t *testing.T) {
	v := newView(t, answers{api.Feed{Incarnation: "one", Newest: 5, UpTo: 9}}, nil)
	_, err := v.poll(t.Context(), 0)
	require.Error(t, err)
	require.Equal(t, errStale, v.Fresh())
}

// answers gives one answer to every question.
type answers struct{ feed api.Feed }

func (a answers) Feed(context.Context, api.FeedRequest) (api.Feed, error) { return a.feed, nil }
func (answers) Right(context.Context, string) (*api.Right, int64, error)  { return nil, 0, nil }
func (answers) Key(context.Context, string) (*api.Key, int64, error)      { return nil, 0, nil }

// TestRun follows the feed on a fake clock: changes come through at once, each is
// reported with the next question, and a source that fails is asked until it is back.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		began := time.Now()
		v, err := New(Config{Source: s, NodeID: "nod_1", Spooled: func() int64 { return 4 }, Bound: 3 * time.Second, Clock: func() time.Duration { return time.Since(began) },
			Registerer: prometheus.NewRegistry()})
		require.NoError(t, err)
		defer v.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- v.Run(ctx) }()
		synctest.Wait()
		require.NoError(t, v.Fresh())

		revision := s.put(api.Right{ID: rightOf(1), State: api.RightSuspended})
		synctest.Wait()
		require.Equal(t, revision, v.Applied(), "a change is applied without a wait")
		s.mu.Lock()
		require.Equal(t, api.FeedRequest{NodeID: "nod_1", After: revision, Spooled: 4}, s.asked[len(s.asked)-1], "and reported at once")
		questions := len(s.asked)
		s.mu.Unlock()

		time.Sleep(10 * time.Second) // synctest's clock
		require.NoError(t, v.Fresh(), "a quiet feed renews the lease")
		s.mu.Lock()
		require.InDelta(t, 20, len(s.asked)-questions, 2, "twice a second")
		s.away = errors.New("partitioned")
		s.mu.Unlock()

		time.Sleep(5 * time.Second)
		require.Equal(t, errStale, v.Fresh())
		s.set(func() { s.away = nil })
		time.Sleep(3 * time.Second)
		require.NoError(t, v.Fresh())
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestEagerSourceIsNotAskedInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		asked := 0
		v, err := New(Config{Source: counting{answers{api.Feed{Incarnation: "one", Newest: 1, UpTo: 1}}, &asked}, NodeID: "nod_1",
			Clock: func() time.Duration { return time.Since(began) }})
		require.NoError(t, err)
		defer v.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, v.Run(ctx))
		require.InDelta(t, 50, asked, 5)
	})
}

type counting struct {
	answers
	n *int
}

func (c counting) Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	*c.n++
	return c.answers.Feed(ctx, req)
}

func TestMetricsTellTheLease(t *testing.T) {
	s, c := newSource(), new(clock)
	reg := prometheus.NewRegistry()
	v := newView(t, s, func(cfg *Config) { cfg.Clock = c.read; cfg.Registerer = reg })
	s.put(api.Right{ID: rightOf(1), State: api.RightSuspended})
	follow(t, v)
	c.advance(2 * time.Second)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := reg.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		if g := f.GetMetric()[0].GetGauge(); g != nil {
			values[f.GetName()] = g.GetValue()
		}
	}
	require.Equal(t, map[string]float64{
		"muniment_rights_lease_age_seconds": 2, "muniment_rights_lease_bound_seconds": 30,
		"muniment_rights_applied_revision": 2, "muniment_rights_stopped_entries": 1,
	}, values)
}

func TestBootClockRuns(t *testing.T) {
	a := bootClock()
	b := bootClock()
	require.Positive(t, a)
	require.GreaterOrEqual(t, b, a)
}

func TestHitAllocatesNothing(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive, Ancestors: []string{rightOf(2)}})
	v := newView(t, s, nil)
	follow(t, v)
	_, err := v.Right(t.Context(), "tnt_a", rightOf(1))
	require.NoError(t, err)
	v.rightCache.Wait()
	id, ctx := rightOf(1), t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := v.Right(ctx, "tnt_a", id); err != nil || v.Fresh() != nil {
			t.Fatal(err)
		}
	}))
}

func TestConfigNamesTheBadField(t *testing.T) {
	for field, c := range map[string]Config{
		"Source": {NodeID: "n"}, "NodeID": {Source: newSource()}, "Bound": {Source: newSource(), NodeID: "n", Bound: -1},
	} {
		_, err := New(c)
		require.ErrorContains(t, err, field)
	}
}

// TestClockAhead is told once, and counted each time; the lease is not in question.
func TestClockAhead(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	v, err := New(Config{
		Source: answers{api.Feed{Incarnation: "one", Newest: 5, UpTo: 5, At: now}}, NodeID: "nod_1",
		Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	defer v.Close()
	control := now
	for ahead, told := range map[time.Duration]float64{time.Minute: 0, -time.Hour: 0} {
		now = control.Add(ahead)
		_, err = v.poll(t.Context(), v.cfg.Clock())
		require.NoError(t, err)
		require.Equal(t, told, testutil.ToFloat64(v.metrics.feedErrors))
	}
	now = control.Add(time.Minute + time.Millisecond)
	for range 2 {
		_, err = v.poll(t.Context(), v.cfg.Clock())
		require.NoError(t, err)
	}
	require.NoError(t, v.Fresh())
	require.Equal(t, 2., testutil.ToFloat64(v.metrics.feedErrors))
	require.Equal(t, 1, strings.Count(log.String(), "the clock is ahead of control's"))
}

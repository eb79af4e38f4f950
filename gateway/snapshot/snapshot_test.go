package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// source is control as the contract of Source has it, with faults to switch on.
type source struct {
	mu          sync.Mutex
	incarnation string
	revision    int64
	newest      map[string]api.Change
	stoppedOnce map[string]bool
	news        chan struct{}
	promotions  int64
	promotedAt  int64

	away     error
	page     int               // most changes in an answer; 0 is all
	requests []api.FeedRequest // all requests
	loads    int
	asked    []api.RightMoment // all moments that were requested
	loading  func()            // called while a right is read, after the database was
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
	publish(s, api.Rights, &r)
	return s.revision
}

func (s *source) putKey(k api.Key) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	k.Revision = s.revision
	publish(s, api.Keys, &k)
	return s.revision
}

func publish[T any](s *source, kind api.Kind[T], snapshot *T) {
	c, err := kind.Change(snapshot)
	if err != nil {
		panic(err)
	}
	_, _, stopped := kind.Of(snapshot)
	s.newest[c.ID] = c
	s.stoppedOnce[c.ID] = s.stoppedOnce[c.ID] || stopped
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
	s.set(func() { s.requests = append(s.requests, req) })
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
	f := api.Feed{Incarnation: s.incarnation, Promotions: s.promotions, PromotedAt: s.promotedAt, Newest: s.revision, UpTo: s.revision}
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

func (s *source) Snapshot(_ context.Context, kind, id string) (api.Snapshot, error) {
	s.mu.Lock()
	found, err, loading := api.Snapshot{AsOf: s.revision, Promotions: s.promotions}, s.away, s.loading
	if c, ok := s.newest[id]; ok && c.Kind == kind {
		found.Change = &c
	}
	s.loads++
	s.mu.Unlock()
	if loading != nil {
		loading()
	}
	return found, err
}

// Suspended knows of no suspensions but those of the newest snapshots.
func (s *source) Suspended(_ context.Context, moments []api.RightMoment) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, moments...)
	found := make([]bool, len(moments))
	for i, m := range moments {
		change := s.newest[m.RightID]
		r, err := api.Rights.Read(&change)
		if err != nil {
			return nil, err
		}
		found[i] = slices.ContainsFunc(r.Suspensions, func(s api.Suspension) bool { return s.Holds(m.At) })
	}
	return found, s.away
}

func (s *source) Snapshots(_ context.Context, kind string, ids []string) (api.Snapshots, error) {
	s.mu.Lock()
	found, err, loading := api.Snapshots{AsOf: s.revision, Promotions: s.promotions}, s.away, s.loading
	for _, id := range ids {
		if c, ok := s.newest[id]; ok && c.Kind == kind {
			found.Changes = append(found.Changes, c)
		}
	}
	s.loads++
	s.mu.Unlock()
	if loading != nil {
		loading()
	}
	return found, err
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
	cfg := Config{Source: s, NodeID: "nod_1", Capacity: 1000, Clock: new(clock).read}
	if change != nil {
		change(&cfg)
	}
	v, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v
}

// follow sends one request.
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
		v.rights.kept.Wait()
	}
	requests := func(tenantID string, n int) (loads int, err error) {
		before := s.loads
		_, err = v.Right(t.Context(), tenantID, rightOf(n))
		return s.loads - before, err
	}
	for i, about := range []string{"cached", "stopped", "unknown"} {
		loads, err := requests("tnt_b", i+1)
		require.Equal(t, errNoRight, err, about)
		require.Equal(t, 1, loads, about)
	}
	loads, err := requests("tnt_a", 1)
	require.NoError(t, err)
	require.Zero(t, loads, "its owner's is answered from the cache")
	s.set(func() { s.away = errors.New("away") })
	for n := 1; n <= 3; n++ {
		_, err := requests("tnt_b", n)
		require.Equal(t, errAway, err, n)
	}
}

// TestSlowLoadMeetsARevocation holds a read of the ACTIVE state while the right is
// revoked, and while it is changed without being stopped.
func TestSlowLoadMeetsARevocation(t *testing.T) {
	for name, next := range map[string]api.Right{
		"revoked":   {ID: rightOf(1), State: api.RightRevoked},
		"shortened": {ID: rightOf(1), State: api.RightActive, EffectiveUntil: time.Unix(1, 0).UTC()},
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

func TestConfigNamesTheBadField(t *testing.T) {
	for field, c := range map[string]Config{
		"Source": {NodeID: "n"}, "NodeID": {Source: newSource()}, "LeaseBound": {Source: newSource(), NodeID: "n", LeaseBound: -1},
	} {
		_, err := New(c)
		require.ErrorContains(t, err, field)
	}
}

package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

func TestLeaseBeginsWithTheQuestion(t *testing.T) {
	s, c := newSource(), new(clock)
	v := newView(t, s, func(cfg *Config) { cfg.Clock = c.read; cfg.LeaseBound = 10 * time.Second })
	require.Equal(t, errStale, v.Fresh(), "no lease before the first answer")
	c.advance(time.Minute)
	requests := c.read()
	c.advance(4 * time.Second) // the answer takes its time
	_, err := v.poll(t.Context(), requests)
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
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			s.put(api.Right{ID: rightOf(1), State: api.RightActive})
			s.put(api.Right{ID: rightOf(2), State: api.RightActive})
			v := newView(t, s, nil)
			follow(t, v)
			require.NoError(t, v.Fresh())
			s.set(func() { restore(s) })
			require.ErrorContains(t, v.Run(t.Context()), "restored", "%s: the process has to start again", name)
			require.Equal(t, errLost, v.Fresh())
			_, held := v.LeaseAge()
			require.False(t, held)
			s.set(func() { s.incarnation, s.revision = "one", 100 })
			_, err := v.poll(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, errLost, v.Fresh())
		})
	}
}

// TestPromotion: a node goes on if the standby that was promoted had all that the node has seen.
func TestPromotion(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*source, *View) // while the old server answers
		after  func(*source)        // once the new one does
		lost   bool
	}{
		"nothing was lost": {},
		"other changes came after it": {after: func(s *source) {
			s.put(api.Right{ID: rightOf(1), State: api.RightRevoked})
		}},
		"a change that the node has applied was lost": {before: func(s *source, v *View) {
			s.put(api.Right{ID: rightOf(2), State: api.RightActive})
			follow(t, v)
		}, after: func(s *source) {
			s.put(api.Right{ID: rightOf(3), State: api.RightActive}) // by the same revision
		}, lost: true},
		"a change that the node has only read was lost": {before: func(s *source, v *View) {
			s.put(api.Right{ID: rightOf(2), State: api.RightActive})
			_, err := v.Right(t.Context(), "tnt_a", rightOf(2))
			require.NoError(t, err)
		}, lost: true},
		"the node has read of a batch what was lost": {before: func(s *source, v *View) {
			s.put(api.Right{ID: rightOf(2), State: api.RightActive})
			v.ReadRights(t.Context(), []string{rightOf(2)}, RightsRead{})
		}, lost: true},
		"it was promoted twice": {after: func(s *source) { s.set(func() { s.promotions++ }) }, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			had := s.put(api.Right{ID: rightOf(1), State: api.RightActive})
			v := newView(t, s, nil)
			follow(t, v)
			if test.before != nil {
				test.before(s, v)
			}
			s.set(func() { s.promotions, s.promotedAt, s.revision = 1, had, had })
			if test.after != nil {
				test.after(s)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel() // the source has no news to answer with: let it answer at once
			_, err := v.poll(ctx, 0)
			require.Equal(t, test.lost, err != nil, "%v", err)
			if test.lost {
				require.Equal(t, errLost, v.Fresh())
				return
			}
			require.NoError(t, v.Fresh())
			require.Equal(t, s.revision, v.Applied())
		})
	}
}

// TestAnswersOfTwoServersAreNotMixed: what the old server has answered counts no more once the feed is
// that of the new one, nor does the new one's answer before.
func TestAnswersOfTwoServersAreNotMixed(t *testing.T) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive})
	v := newView(t, s, nil)
	follow(t, v)
	read := func() error {
		_, err := v.Right(t.Context(), "tnt_a", rightOf(2))
		return err
	}
	promote := func() { s.set(func() { s.promotions, s.promotedAt = s.promotions+1, s.revision }) }
	poll := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := v.poll(ctx, 0)
		require.NoError(t, err)
	}
	promote()
	s.put(api.Right{ID: rightOf(3), State: api.RightActive})
	require.Equal(t, errAway, read(), "by the new server, which the feed does not know of")
	batch := RightsRead{}
	v.ReadRights(t.Context(), []string{rightOf(2)}, batch)
	_, _, err := v.KnownRight("tnt_a", rightOf(2), batch)
	require.Equal(t, errAway, err)
	poll()
	requireCode(t, api.ResourceNotFound, read())
	s.loading = func() { promote(); poll() }
	require.Equal(t, errAway, read(), "by the old server, while the feed went on with the new one")
}

func TestMalformedAnswersGiveNoLease(t *testing.T) {
	v := newView(t, answers{api.Feed{Incarnation: "one", Newest: 5, UpTo: 9}}, nil)
	_, err := v.poll(t.Context(), 0)
	require.Error(t, err)
	require.Equal(t, errStale, v.Fresh())
}

// TestMistypedChangesGiveNoLease: a change that is not what it says it is may be a stop that
// the node would miss. The stops beside it count.
func TestMistypedChangesGiveNoLease(t *testing.T) {
	right := func(snapshot string) api.Change {
		return api.Change{Kind: "right", ID: rightOf(1), Revision: 5, Snapshot: []byte(snapshot)}
	}
	good := fmt.Sprintf(`{"id":%q,"tenantId":"tnt_a","revision":5,"state":"REVOKED","substrate":"DOOH"}`, rightOf(1))
	stop, err := api.Rights.Change(&api.Right{ID: rightOf(2), TenantID: "tnt_a", Revision: 5, State: api.RightRevoked})
	require.NoError(t, err)
	for name, c := range map[string]api.Change{
		"no snapshot":      right(``),
		"no object":        right(`"REVOKED"`),
		"mistyped":         right(strings.Replace(good, `"REVOKED"`, `1`, 1)),
		"another record":   right(strings.Replace(good, rightOf(1), rightOf(3), 1)),
		"another revision": right(strings.Replace(good, `"revision":5`, `"revision":4`, 1)),
		"a right as a key": {Kind: "key", ID: rightOf(1), Revision: 5, Snapshot: []byte(good)},
		"null":             {Kind: "key", ID: "key_1", Revision: 5, Snapshot: []byte(`null`)},
	} {
		t.Run(name, func(t *testing.T) {
			revoked := []api.SigningKey{{KeyID: "ed25519:1", RevokedAt: time.Now()}}
			feed := api.Feed{Incarnation: "one", Newest: 5, UpTo: 5, Changes: []api.Change{c, stop}, SigningKeys: revoked}
			node := new(signs)
			v := newView(t, answers{feed}, func(cfg *Config) { cfg.Signer = node })
			_, err := v.poll(t.Context(), 0)
			require.Error(t, err)
			require.Equal(t, revoked, node.learned, "its revoked keys sign nothing, whatever else is wrong")
			require.Equal(t, errStale, v.Fresh())
			require.Zero(t, v.Applied(), "it is requested again")
			_, err = v.Right(t.Context(), "tnt_a", rightOf(2))
			requireCode(t, api.StateConflict, err)
		})
	}
	v := newView(t, answers{api.Feed{Incarnation: "one", Newest: 5, UpTo: 5, Changes: []api.Change{right(good), stop}}}, nil)
	follow(t, v)
	require.NoError(t, v.Fresh(), "the same, well-formed")
}

// TestUnknownKindsAreSkipped: a kind without a model on this node is no matter for its lease.
func TestUnknownKindsAreSkipped(t *testing.T) {
	s := newSource()
	v := newView(t, s, nil)
	s.set(func() {
		s.revision++
		type venue struct {
			ID       string
			Revision int64
		}
		publish(s, api.Kind[venue]{Name: "venue", Prefix: "ven_", Of: func(v *venue) (string, int64, bool) { return v.ID, v.Revision, false }}, &venue{"ven_1", s.revision})
	})
	v.applied.Store(s.revision - 1)
	follow(t, v)
	require.NoError(t, v.Fresh())
	require.Equal(t, s.revision, v.Applied())
	require.Zero(t, testutil.ToFloat64(v.metrics.changes))
}

// signs is a node that remembers what it learned of its keys.
type signs struct{ learned []api.SigningKey }

func (*signs) SigningKeys() []string         { return nil }
func (s *signs) Learn(keys []api.SigningKey) { s.learned = keys }

// answers gives one answer to every question.
type answers struct{ feed api.Feed }

func (a answers) Feed(context.Context, api.FeedRequest) (api.Feed, error) { return a.feed, nil }
func (answers) Snapshot(context.Context, string, string) (api.Snapshot, error) {
	return api.Snapshot{}, nil
}
func (answers) Suspended(context.Context, []api.RightMoment) ([]bool, error) { return nil, nil }
func (answers) Snapshots(context.Context, string, []string) (api.Snapshots, error) {
	return api.Snapshots{}, nil
}

// TestRun follows the feed on a fake clock: changes come through at once, each is
// reported with the next request, and a source that fails is polled until it is back.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		began := time.Now()
		v, err := New(Config{Source: s, NodeID: "nod_1", Spooled: func() int64 { return 4 }, LeaseBound: 3 * time.Second, Clock: func() time.Duration { return time.Since(began) },
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
		require.Equal(t, api.FeedRequest{NodeID: "nod_1", After: revision, Spooled: 4}, s.requests[len(s.requests)-1], "and reported at once")
		questions := len(s.requests)
		s.mu.Unlock()

		time.Sleep(10 * time.Second) // synctest's clock
		require.NoError(t, v.Fresh(), "a quiet feed renews the lease")
		s.mu.Lock()
		require.InDelta(t, 20, len(s.requests)-questions, 2, "twice a second")
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
		requests := 0
		v, err := New(Config{Source: counting{answers{api.Feed{Incarnation: "one", Newest: 1, UpTo: 1}}, &requests}, NodeID: "nod_1",
			Clock: func() time.Duration { return time.Since(began) }})
		require.NoError(t, err)
		defer v.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, v.Run(ctx))
		require.InDelta(t, 50, requests, 5)
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
		"muniment_rights_applied_revision": 2, "muniment_rights_stopped_entries": 1, "muniment_rights_superseded": 0,
	}, values)
}

func TestBootClockRuns(t *testing.T) {
	a := bootClock()
	b := bootClock()
	require.Positive(t, a)
	require.GreaterOrEqual(t, b, a)
}

// TestClockAhead: a clock that is ahead is logged once and counted each time; the lease is unaffected.
func TestClockAhead(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	v, err := New(Config{
		Source: answers{api.Feed{Incarnation: "one", Newest: 5, UpTo: 5, At: now}}, NodeID: "nod_1",
		Now: func() time.Time { return now }, Clock: new(clock).read, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	defer v.Close()
	control := now
	for ahead, counted := range map[time.Duration]float64{time.Minute: 0, -time.Hour: 0} {
		now = control.Add(ahead)
		_, err = v.poll(t.Context(), v.cfg.Clock())
		require.NoError(t, err)
		require.Equal(t, counted, testutil.ToFloat64(v.metrics.feedErrors))
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

// slowSource answers a request of the feed after a while.
type slowSource struct {
	*source
	takes time.Duration
}

func (s *slowSource) Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	select {
	case <-ctx.Done():
		return api.Feed{}, ctx.Err()
	case <-time.After(s.takes):
		return s.source.Feed(ctx, req)
	}
}

// TestFirstCopyMayTakeLonger than any other answer, as it has every stop that there ever was.
func TestFirstCopyMayTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSource{newSource(), 30 * time.Second}
		s.put(api.Right{ID: rightOf(1), State: api.RightSuspended})
		v := newView(t, s, nil)
		_, err := v.poll(t.Context(), 0)
		require.NoError(t, err)
		_, err = v.poll(t.Context(), 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

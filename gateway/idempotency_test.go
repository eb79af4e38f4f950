package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/sealer"
)

func TestReplayHasTheSameBytes(t *testing.T) {
	w := newWorld(t, nil)
	first := w.post(w.body(), "Idempotency-Key: k-1")
	require.Equal(t, 200, first.status)
	require.Empty(t, first.header.Get(api.HeaderReplayed))
	h := (&delivery{desk: new(desk), tenant: "tnt_a"}).keyHash([]byte("k-1"))
	found, ok := idempotencyOf(w.log.all()[0].Event)
	require.True(t, ok)
	require.Equal(t, h, found)

	again := w.post(w.body(), "Idempotency-Key: k-1")
	require.Equal(t, 200, again.status)
	require.Equal(t, "true", again.header.Get(api.HeaderReplayed))
	require.Equal(t, first.body, again.body)

	other := w.post(strings.Replace(w.body(), "4200", "4201", 1), "Idempotency-Key: k-1")
	require.Equal(t, 409, other.status)
	require.Equal(t, `{"ok":false,"error":"STATE_CONFLICT","message":"this Idempotency-Key was used with another body","contractVersion":"v1.0","requestId":"req-1"}`+"\n", other.body)

	// The key belongs to the tenant.
	foreign := w.raw(request(w.otherToken, strings.Replace(w.body(), w.right, w.foreign, 1), "Idempotency-Key: k-1"))
	require.Equal(t, 200, foreign.status)
	require.Empty(t, foreign.header.Get(api.HeaderReplayed))

	require.Len(t, w.log.all(), 2)

	// A known answer needs neither a lease nor a right that is still ACTIVE.
	revision := w.control.putRight(api.Right{ID: w.right, TenantID: "tnt_a", Substrate: "DOOH", BasisID: "bas_1", State: api.RightRevoked})
	require.Eventually(t, func() bool { return w.view.Applied() >= revision }, time.Minute, time.Millisecond)
	require.Equal(t, first.body, w.post(w.body(), "Idempotency-Key: k-1").body)
}

func TestReplayAfterARestart(t *testing.T) {
	w := newWorld(t, nil)
	var want []reply
	for i := range 20 {
		want = append(want, w.post(w.body(), fmt.Sprintf("Idempotency-Key: k-%d", i)))
	}
	w.restart(nil)
	for i := range want {
		got := w.post(w.body(), fmt.Sprintf("Idempotency-Key: k-%d", i))
		require.Equal(t, "true", got.header.Get(api.HeaderReplayed))
		require.Equal(t, want[i].body, got.body)
	}
	require.Len(t, w.log.all(), 20)

	// A day later the keys are free.
	w.restart(func(c *Config) {
		later := today.Add(keepKeys + time.Second)
		c.Now = func() time.Time { return later }
	})
	require.Zero(t, w.gateway.claims.entries())
}

// TestListensLast: a connection that the kernel takes while the log is read is one that
// nobody answers.
func TestListensLast(t *testing.T) {
	w := newWorld(t, nil)
	require.Equal(t, 200, w.post(w.body(), "Idempotency-Key: k").status)
	stopped := errors.New("stopped where it would listen")
	var entries int
	g := w.stranger()
	require.Equal(t, stopped, g.Run(t.Context(), func(context.Context) (net.Listener, error) {
		entries = g.claims.entries()
		return nil, stopped
	}))
	require.Equal(t, 1, entries, "what the log knows is there")
	require.Error(t, g.Ready())

	broken := errors.New("the log can't be read")
	g = w.stranger()
	g.log = unreadable{g.log, broken}
	require.ErrorIs(t, g.Run(t.Context(), func(context.Context) (net.Listener, error) {
		require.Fail(t, "it listens")
		return nil, nil
	}), broken)
}

// stranger is another gateway on the same log that does not run.
func (w *world) stranger() *Gateway {
	g, err := New(Config{
		NodeID: "nod_2", Epoch: 1, Rights: w.view, Log: w.log, Signer: always(signerOf(w.key)), Now: w.gateway.now,
		DialControl: func() (net.Conn, error) { return nil, errors.New("no control here") },
	})
	require.NoError(w.t, err)
	return g
}

// unreadable is a log that can't be read.
type unreadable struct {
	Log
	err error
}

func (u unreadable) Scan(context.Context, sealer.Position, sealer.Position, func(sealer.Entry) error) error {
	return u.err
}

// TestLostAnswers loses what answers are rendered from: the receipts stand, and a
// retry gets one of its own, with the same hash.
func TestLostAnswers(t *testing.T) {
	w := newWorld(t, nil)
	post := func() reply {
		r := w.post(w.body(), "Idempotency-Key: k")
		require.Equal(t, 200, r.status, r.body)
		return r
	}
	requireNew := func(r reply, receipts int) {
		require.Empty(t, r.header.Get(api.HeaderReplayed))
		all := w.log.all()
		require.Len(t, all, receipts)
		first, ok := idempotencyOf(all[0].Event)
		require.True(t, ok)
		last, _ := idempotencyOf(all[receipts-1].Event)
		require.Equal(t, first, last)
	}
	w.log.lose(0, true)
	requireNew(post(), 1)
	require.Zero(t, w.gateway.claims.entries())
	w.log.lose(0, false)
	second := post()
	requireNew(second, 2)
	require.Equal(t, second.body, post().body)

	w.log.lose(2, false)
	third := post()
	requireNew(third, 3)
	require.Equal(t, third.body, post().body)

	// A start finds what is left.
	w.restart(nil)
	require.Equal(t, third.body, post().body)
	w.log.lose(3, false)
	w.restart(nil)
	requireNew(post(), 4)
}

// TestUnreadableAtARestart: one record that can't be read costs its own key alone. A retry
// with that gets a receipt of its own, with the same hash.
func TestUnreadableAtARestart(t *testing.T) {
	const n = 6
	for bad := range int64(n) {
		w := newWorld(t, nil)
		for i := range n {
			require.Equal(t, 200, w.post(w.body(), fmt.Sprintf("Idempotency-Key: k-%d", i)).status)
		}
		w.log.spoil(bad)
		w.restart(nil)
		for i := range int64(n) {
			got := w.post(w.body(), fmt.Sprintf("Idempotency-Key: k-%d", i))
			require.Equal(t, 200, got.status)
			require.Equal(t, i != bad, got.header.Get(api.HeaderReplayed) == "true", "%d, with %d unreadable", i, bad)
		}
		all := w.log.all()
		require.Len(t, all, n+1)
		lost, ok := idempotencyOf(all[bad].Event)
		require.True(t, ok)
		again, _ := idempotencyOf(all[n].Event)
		require.Equal(t, lost, again)
	}
}

func TestHundredAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	release := w.log.halt()
	defer release()
	const n = 100
	replies := make(chan reply, n)
	for range n {
		go func() { replies <- w.post(w.body(), "Idempotency-Key: same") }()
	}
	require.Eventually(t, func() bool { return w.gateway.inFlight.Load() == n }, time.Minute, time.Millisecond)
	release()
	replayed := 0
	first := <-replies
	for i := range n {
		r := first
		if i > 0 {
			r = <-replies
		}
		require.Equal(t, 200, r.status, r.body)
		require.Equal(t, first.body, r.body)
		if r.header.Get(api.HeaderReplayed) == "true" {
			replayed++
		}
	}
	require.Equal(t, n-1, replayed)
	require.Len(t, w.log.all(), 1)
}

func TestWaitForTheFirstIsBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.IdempotencyWait = 20 * time.Millisecond })
	release := w.log.halt()
	defer release()
	first := make(chan reply, 1)
	go func() { first <- w.post(w.body(), "Idempotency-Key: k") }()
	require.Eventually(t, func() bool { return w.log.appending() == 1 }, time.Minute, time.Millisecond)
	r := w.post(w.body(), "Idempotency-Key: k")
	require.Equal(t, 409, r.status)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.Contains(t, r.body, "still being answered")
	release()
	require.Equal(t, 200, (<-first).status)
	require.Equal(t, "true", w.post(w.body(), "Idempotency-Key: k").header.Get(api.HeaderReplayed))
}

func TestRefusedRequestFreesItsKey(t *testing.T) {
	w := newWorld(t, nil)
	car := w.putRight(4, "tnt_a", gate.Automotive, "", api.RightActive)
	post := func(mph int) reply {
		return w.post(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":%d}}`, car, mph), "Idempotency-Key: k")
	}
	require.Equal(t, 412, post(65).status)
	require.Equal(t, 200, post(0).status)
	require.Equal(t, 409, post(65).status)
}

func TestErasedPrivatePartLeavesTheKeyToDecide(t *testing.T) {
	w := newWorld(t, nil)
	first := w.post(w.body(), "Idempotency-Key: k")
	w.log.mu.Lock()
	w.log.entries[0].Private = nil
	w.log.mu.Unlock()
	require.Equal(t, first.body, w.post(w.body(), "Idempotency-Key: k").body)
}

func TestEntryOfAnotherKeyIsNeverReplayed(t *testing.T) {
	w := newWorld(t, nil)
	w.post(w.body(), "Idempotency-Key: k-1")
	w.post(w.body(), "Idempotency-Key: k-2")
	w.log.mu.Lock()
	w.log.entries[0], w.log.entries[1] = w.log.entries[1], w.log.entries[0]
	w.log.mu.Unlock()
	require.Equal(t, 500, w.post(w.body(), "Idempotency-Key: k-1").status)
}

func TestClaimsKeepTheNewestOfADay(t *testing.T) {
	cs := newClaims(claimShards * 4)
	s := &cs.shards[0]
	key := func(i int) *claimKey { return &claimKey{0, byte(i), byte(i >> 8)} }
	for i := range 10 {
		s.put(key(i), place{offset: int64(i), second: uint32(1000 + i)})
	}
	require.Equal(t, 4, s.kept.n)
	for i := range 10 {
		at, found := s.kept.get(key(i))
		require.Equal(t, i >= 6, found, i)
		require.True(t, !found || at.offset == int64(i), i)
	}
	s.put(key(10), place{second: 1008 + 24*3600})
	require.Equal(t, 3, s.kept.n, "those of more than a day before are gone")

	// An entry that nothing pushed out is too old all the same.
	h := keyHash{0, 10}
	var c claimed
	_, known, _ := cs.find(&h, time.Unix(1008+24*3600, 0).Add(keepKeys), &c)
	require.True(t, known)
	_, known, running := cs.find(&h, time.Unix(1009+24*3600, 0).Add(keepKeys), &c)
	require.False(t, known)
	require.Nil(t, running)
	require.True(t, c.held())
}

func TestOneOwnerOfAClaim(t *testing.T) {
	cs := newClaims(1000)
	h := keyHash{1}
	var owners, replays int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			var c claimed
			for {
				p, known, running := cs.find(&h, today, &c)
				if running != nil {
					<-running
					continue
				}
				mu.Lock()
				defer mu.Unlock()
				if known {
					replays++
					require.Equal(t, int64(5), p.offset)
					return
				}
				owners++
				if owners < 3 { // the first two fail
					c.free()
					return
				}
				c.keep(sealer.Position{Offset: 5}, today)
				c.free()
				return
			}
		})
	}
	all.Wait()
	require.Equal(t, 3, owners)
	require.Equal(t, 61, replays)
}

func TestFirstSinceFindsTheMoment(t *testing.T) {
	l := &memoryLog{t: t}
	start := today.Add(-time.Hour)
	for i := range 60 {
		l.entries = append(l.entries, sealer.Entry{Position: sealer.Position{Generation: 1, Offset: int64(i)},
			Record: sealer.Record{EventID: api.NewID(api.PrefixEvent, start.Add(time.Duration(i)*time.Minute))}})
	}
	first, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	for _, i := range []int{0, 1, 17, 59, 60} {
		at, err := firstSince(t.Context(), l, first, end, start.Add(time.Duration(i)*time.Minute))
		require.NoError(t, err)
		require.Equal(t, int64(i), at.Offset)
	}

	// What can't be read says nothing of when it is from: nothing behind the moment is left
	// out for it.
	for bad := range int64(60) {
		for n := int64(1); n <= 60; n *= 3 {
			var stretch []int64
			for i := range n {
				stretch = append(stretch, bad+i)
			}
			l.spoil(stretch...)
			for _, i := range []int64{0, 1, 17, 59, 60} {
				at, err := firstSince(t.Context(), l, first, end, start.Add(time.Duration(i)*time.Minute))
				require.NoError(t, err)
				require.LessOrEqual(t, at.Offset, i, "%d unreadable from %d on", n, bad)
			}
		}
	}

	// The oldest go meanwhile.
	l.spoil()
	l.lose(40, false)
	for moment, found := range map[int]int64{5: 40, 40: 40, 41: 41} {
		at, err := firstSince(t.Context(), l, first, end, start.Add(time.Duration(moment)*time.Minute))
		require.NoError(t, err)
		require.Equal(t, found, at.Offset)
	}
	away := errors.New("away")
	l.setFail(away)
	_, err = firstSince(t.Context(), l, first, end, start)
	require.ErrorIs(t, err, away)

	at, ok := eventTime(l.entries[17].EventID)
	require.True(t, ok)
	require.Equal(t, start.Add(17*time.Minute).UnixMilli(), at.UnixMilli())
}

// An empty key is a mistake of the caller's, wherever among the headers it stands.
func TestEmptyIdempotencyKey(t *testing.T) {
	w := newWorld(t, nil)
	for n := range 12 {
		headers := make([]string, n)
		for i := range headers {
			headers[i] = fmt.Sprintf("X-Filler-%d: x", i)
		}
		reply := w.post(w.body(), append(headers, "Idempotency-Key:")...)
		require.Equal(t, 400, reply.status, "behind %d headers: %s", n, reply.body)
	}
	require.Equal(t, 400, w.post(w.body(), "Idempotency-Key: a", "Idempotency-Key: b").status, "two keys")
}

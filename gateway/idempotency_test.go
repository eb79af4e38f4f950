package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

func TestReplayHasTheSameBytes(t *testing.T) {
	w := newWorld(t, nil)
	first := w.post(w.body(), "Idempotency-Key: k-1")
	require.Equal(t, 200, first.status)
	require.Empty(t, first.header.Get(api.HeaderReplayed))
	h := sha256.Sum256([]byte("tnt_a\x00k-1"))
	require.Equal(t, base64.RawURLEncoding.EncodeToString(h[:]), idempotencyOf(t, w.log.All()[0]))

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

	require.Len(t, w.log.All(), 2)

	// A known answer needs neither a lease nor a right that is still ACTIVE.
	revision := w.control.SetRight(api.Right{ID: w.right, TenantID: "tnt_a", Substrate: "DOOH", BasisID: "bas_1", State: api.RightRevoked})
	waittest.Until(t, func() bool { return w.view.Applied() >= revision })
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
	require.Len(t, w.log.All(), 20)

	// A day later the keys are free.
	w.restart(func(c *settings) {
		later := today.Add(24*time.Hour + time.Second)
		c.Now = func() time.Time { return later }
	})
	require.Zero(t, w.remembered())
}

// TestListensLast: a connection that the kernel takes while the log is read is one that
// nobody answers.
func TestListensLast(t *testing.T) {
	w := newWorld(t, nil)
	require.Equal(t, 200, w.post(w.body(), "Idempotency-Key: k").status)
	stopped := errors.New("stopped where it would listen")
	var entries int
	g := w.stranger(w.log)
	require.Equal(t, stopped, g.Run(t.Context(), func(context.Context) (net.Listener, error) {
		entries = w.remembered()
		return nil, stopped
	}))
	require.Equal(t, 1, entries, "what the log knows is there")
	require.Error(t, g.Ready(t.Context()))

	broken := errors.New("the log can't be read")
	g = w.stranger(unreadable{w.log, broken})
	require.ErrorIs(t, g.Run(t.Context(), func(context.Context) (net.Listener, error) {
		require.Fail(t, "it listens")
		return nil, nil
	}), broken)
}

// stranger is another gateway on a log that does not run. The world's metrics are its own
// from now on.
func (w *world) stranger(log issue.Log) *Gateway {
	w.registry = prometheus.NewRegistry()
	issuer, err := issue.New(issue.Config{
		NodeID: "nod_2", Epoch: 1, Rights: w.view, Log: log, Signer: issuetest.Always(issuetest.SignerOf(w.key)), Now: w.gateway.now, Registerer: w.registry,
	})
	require.NoError(w.t, err)
	g, err := New(Config{Rights: w.view, Issuer: issuer, Now: w.gateway.now, DialControl: []func() (net.Conn, error){func() (net.Conn, error) { return nil, errors.New("no control here") }}})
	require.NoError(w.t, err)
	return g
}

// idempotencyOf is the hash in a delivery's event.
func idempotencyOf(t *testing.T, e sealer.Entry) string {
	d, err := sealer.ReadDelivery(e.Event)
	require.NoError(t, err)
	require.NotEmpty(t, d.Idempotency)
	return d.Idempotency
}

// unreadable is a log that can't be read.
type unreadable struct {
	issue.Log
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
		all := w.log.All()
		require.Len(t, all, receipts)
		require.Equal(t, idempotencyOf(t, all[0]), idempotencyOf(t, all[receipts-1]))
	}
	w.log.Lose(0, true)
	requireNew(post(), 1)
	require.Zero(t, w.remembered())
	w.log.Lose(0, false)
	second := post()
	requireNew(second, 2)
	require.Equal(t, second.body, post().body)

	w.log.Lose(2, false)
	third := post()
	requireNew(third, 3)
	require.Equal(t, third.body, post().body)

	// A start finds what is left.
	w.restart(nil)
	require.Equal(t, third.body, post().body)
	w.log.Lose(3, false)
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
		w.log.Spoil(bad)
		w.restart(nil)
		for i := range int64(n) {
			got := w.post(w.body(), fmt.Sprintf("Idempotency-Key: k-%d", i))
			require.Equal(t, 200, got.status)
			require.Equal(t, i != bad, got.header.Get(api.HeaderReplayed) == "true", "%d, with %d unreadable", i, bad)
		}
		all := w.log.All()
		require.Len(t, all, n+1)
		require.Equal(t, idempotencyOf(t, all[bad]), idempotencyOf(t, all[n]))
	}
}

func TestHundredAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	release := w.log.Halt()
	defer release()
	const n = 100
	replies := make(chan reply, n)
	for range n {
		go func() { replies <- w.post(w.body(), "Idempotency-Key: same") }()
	}
	waittest.Until(t, func() bool { return w.gateway.inFlight.Load() == n })
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
	require.Len(t, w.log.All(), 1)
}

func TestWaitForTheFirstIsBounded(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.Issue.IdempotencyWait = 20 * time.Millisecond })
	release := w.log.Halt()
	defer release()
	first := make(chan reply, 1)
	go func() { first <- w.post(w.body(), "Idempotency-Key: k") }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	r := w.post(w.body(), "Idempotency-Key: k")
	require.Equal(t, 409, r.status)
	require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
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
	w.log.Edit(func(all []sealer.Entry) []sealer.Entry {
		all[0].Private = nil
		return all
	})
	require.Equal(t, first.body, w.post(w.body(), "Idempotency-Key: k").body)
}

func TestEntryOfAnotherKeyIsNeverReplayed(t *testing.T) {
	w := newWorld(t, nil)
	w.post(w.body(), "Idempotency-Key: k-1")
	w.post(w.body(), "Idempotency-Key: k-2")
	w.log.Edit(func(all []sealer.Entry) []sealer.Entry {
		all[0], all[1] = all[1], all[0]
		return all
	})
	require.Equal(t, 500, w.post(w.body(), "Idempotency-Key: k-1").status)
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

package webhook

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// crowd is many webhooks with a receiver each, of which some are dead. An event is sent to one of
// them.
type crowd struct {
	*fixture
	hooks []Webhook
	dead  int // the first of them

	mu        sync.Mutex
	committed map[string]time.Time // by event: before its commit
	received  map[string]time.Time // by event, the first time
	copies    int
}

// noun is that of the events of a webhook.
func noun(hook int) string { return fmt.Sprintf("kind_%c%c", 'a'+hook/26, 'a'+hook%26) }

// newCrowd lets a third each of the dead receivers refuse connections, hang, and respond 500.
func newCrowd(t *testing.T, hooks, dead int) *crowd {
	var kinds store.Kinds
	for n := range hooks {
		kinds = append(kinds, (&store.Noun{Name: noun(n)}).Kind(noun(n)+".moved", ""))
	}
	c := &crowd{fixture: newFixture(t, &roomtest.Clock{}, func(cfg *Config) { cfg.Kinds = kinds }), dead: dead, committed: map[string]time.Time{}, received: map[string]time.Time{}}
	for n := range hooks {
		r := newReceiver(t)
		url := r.URL
		switch {
		case n >= dead:
			r.answers(func(http.ResponseWriter, *http.Request) { c.receive(r) })
		case n%3 == 0:
			url = "https://127.0.0.1:1" // of a closed server, the port would soon be another one's
		case n%3 == 1:
			r.answers(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		default:
			r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		}
		w := webhookFor(noun(n) + ".*")
		w.URL = url
		c.hooks = append(c.hooks, c.mustCreate(t, w))
	}
	return c
}

// receive notes the messages of a receiver.
func (c *crowd) receive(r *receiver) {
	now := time.Now()
	r.mu.Lock()
	messages := r.got
	r.got = nil
	r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		e, err := sealer.ParseEvent(m.Data.Event)
		if err != nil {
			continue // it is missing
		}
		if _, known := c.received[e.EventID]; known {
			c.copies++
		} else {
			c.received[e.EventID] = now
		}
	}
}

// setDead has events queued for the dead, or not.
func (c *crowd) setDead(state State) {
	for _, w := range c.hooks[:c.dead] {
		_, err := c.change(c.t.Context(), tenantID, w.ID, byKey, func(next *Webhook) { next.State = state })
		require.NoError(c.t, err)
	}
}

// happen emits events for the webhooks in rotation, many in a change, at a rate per second; 0: one
// after the other. It waits for all live receivers to get them all, and returns the sorted times
// that they took.
func (c *crowd) happen(events, perSecond int) (lags []time.Duration) {
	const atOnce = 20
	begin := time.Now()
	var due []string
	for from := 0; from < events; from += atOnce {
		if perSecond > 0 {
			require.NoError(c.t, pipeline.Pause(c.t.Context(), time.Until(begin.Add(time.Second*time.Duration(from)/time.Duration(perSecond)))))
		}
		require.NoError(c.t, c.db.Change(c.t.Context(), func(tx *store.Tx) error {
			at := tx.Now()
			for n := range atOnce {
				hook, id := (from+n)%len(c.hooks), api.NewID(api.PrefixEvent, at)
				if hook >= c.dead {
					due = append(due, id)
				}
				c.mu.Lock()
				c.committed[id] = time.Now()
				c.mu.Unlock()
				err := tx.EmitRecord(c.t.Context(), &store.Kind{Type: noun(hook) + ".moved"}, sealer.Event{EventID: id, At: at, TenantID: tenantID, Actor: keyA, Subject: sealer.Ref{Kind: "right", ID: "rgh_a"}}, map[string]int{"n": n})
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
	waittest.Until(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		lags = lags[:0]
		for _, id := range due {
			if at, got := c.received[id]; got {
				lags = append(lags, at.Sub(c.committed[id]))
			}
		}
		return len(lags) == len(due)
	}, "some events are not received")
	slices.Sort(lags)
	return lags
}

// TestTheDeadDelayNobody: webhooks whose receivers refuse, hang or respond 500 delay no other
// webhook. The hanging ones occupy their slots for the whole test. The long form sends 100,000 events
// to 90 webhooks, 400 a second, and logs their lag with ten more dead ones, and without them, while
// these are DISABLED.
func TestTheDeadDelayNobody(t *testing.T) {
	hooks, dead, events, perSecond, windows := 20, 6, 600, 0, 1
	long := os.Getenv("MUNIMENT_TEST_FULL") != ""
	if long {
		hooks, dead, events, perSecond, windows = 100, 10, 20_000, 400, 5
	}
	c := newCrowd(t, hooks, dead)
	if !long {
		c.client.http.Timeout = time.Hour
	}
	c.queueing()
	c.run(c.Run)
	for range windows {
		if long {
			c.setDead(Disabled)
			t.Log("without the dead:", quantiles(c.happen(events, perSecond)))
			c.setDead(Active)
		}
		t.Log("with them:", quantiles(c.happen(events, perSecond)))
	}
	require.Zero(t, c.copies, "each event is sent once to who takes it")
	var waits []waiting
	waittest.Until(t, func() bool { // what was received is noted a little later
		var err error
		waits, err = listWaiting(context.Background(), c.db.Read())
		return err == nil && len(waits) == dead
	}, "%+v", &waits)
	for _, w := range waits {
		require.EqualValues(t, windows*events/hooks, w.count)
	}
}

func quantiles(sorted []time.Duration) string {
	at := func(q float64) time.Duration { return sorted[int(q*float64(len(sorted)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p99 %v, the most %v", at(0.5), at(0.99), at(1))
}

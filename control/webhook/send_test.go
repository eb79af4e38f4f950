package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// TestEventsAreSent to the webhooks that want them, once, signed, as they are in the log.
func TestEventsAreSent(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	some, other := newReceiver(t), newReceiver(t)
	s.queueing()
	s.run(s.Run)
	w := s.hook(some, "right.*")
	s.hook(other, "offer.accepted")
	first := s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.emit("basis.created", map[string]string{"id": "bas_a"})
	accepted := s.emit("offer.accepted", map[string]string{"id": "ofr_a"})

	m := some.await(t, 1)[0]
	require.True(t, api.IsID(api.PrefixWebhookDelivery, m.id))
	require.Equal(t, "right.revoked", m.Type)
	require.Equal(t, canonical.FormatTime(noon), m.Timestamp)
	require.Equal(t, tenantID, m.TenantID)
	require.Equal(t, w.ID, m.WebhookID)
	e, err := sealer.ParseEvent(m.Data.Event)
	require.NoError(t, err)
	require.Equal(t, first, e.EventID)
	m.verify(t, w.Secret)
	require.Equal(t, noon.Unix(), unixTime(t, m.at).Unix())
	require.Contains(t, string(other.await(t, 1)[0].Data.Event), accepted)

	d := s.awaitDelivery(w, func(d *Delivery) bool { return d.State == Delivered })
	require.Equal(t, m.id, d.ID)
	require.Equal(t, first, d.EventID)
	require.Equal(t, 200, *d.Attempts[0].Status)
	require.True(t, d.NextAttemptAt.IsZero())
	require.Len(t, some.messages(), 1)

	rotated, err := s.rotate(t.Context(), tenantID, w.ID, byKey)
	require.NoError(t, err)
	tested, err := s.test(t.Context(), tenantID, w.ID, keyA)
	require.NoError(t, err)
	m = some.await(t, 2)[1]
	require.Equal(t, tested.ID, m.id, "a test is sent whatever types the webhook has")
	require.Equal(t, eventTested.Type, m.Type)
	m.verify(t, rotated.Secret, w.Secret)
	s.clock.Advance(overlap)
	_, err = s.resend(t.Context(), tenantID, w.ID, tested.ID, byKey)
	require.NoError(t, err)
	m = some.await(t, 3)[2]
	require.Equal(t, tested.ID, m.id)
	m.verify(t, rotated.Secret)
}

// due begins the attempts that are due now, makes them one by one and writes them down.
func (s *fixture) due() (n int) {
	var all []finishedAttempt
	require.NoError(s.t, s.begin(s.t.Context(), func(w *Webhook, held api.Scopes, d Delivery) {
		all = append(all, finishedAttempt{webhook: w, was: d, outcome: s.attempt(s.t.Context(), w, held, &d)})
	}))
	if len(all) > 0 {
		s.write(s.t.Context(), all)
	}
	for i := range all {
		s.workers.end(&all[i])
	}
	return len(all)
}

// TestSchedule: attempts come when the schedule says, and end with it.
func TestSchedule(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	r := newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", http.StatusInternalServerError) })
	s.queueing()
	w := s.hookAt(r, "a.example.com", tenantID, 0)
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	var d *Delivery
	total := time.Duration(0)
	for i := 0; ; i++ {
		require.Equal(t, 1, s.due())
		d = s.delivery(w)
		require.Len(t, d.Attempts, i+1)
		require.Equal(t, 500, *d.Attempts[i].Status)
		require.Equal(t, "not now\n", *d.Attempts[i].BodyExcerpt)
		require.Zero(t, s.due(), "the next is not due yet")
		if i == len(delays) {
			break
		}
		wait := d.NextAttemptAt.Sub(s.clock.Now())
		require.InDelta(t, delays[i].Seconds(), wait.Seconds(), delays[i].Seconds()/10+0.001)
		total += wait
		s.clock.Advance(wait - time.Millisecond)
		require.Zero(t, s.due())
		s.clock.Advance(time.Millisecond)
	}
	require.Equal(t, Failed, d.State)
	require.InDelta(t, 27.6, total.Hours(), 2.8)
	require.Equal(t, noon, s.mustFind(t, w.ID).FailingSince.Time)
	ids := map[string]bool{}
	for _, m := range r.messages() {
		ids[m.id] = true
		m.verify(t, w.Secret)
	}
	require.Equal(t, map[string]bool{d.ID: true}, ids, "each attempt has the same id")
	require.Equal(t, r.messages()[0].body, r.messages()[7].body)

	r.answers(nil)
	found, err := s.recover(t.Context(), tenantID, recoveryPeriod{WebhookID: w.ID, Since: store.At(noon)}, true, byKey)
	require.NoError(t, err)
	require.Equal(t, Recovery{Count: 1, DryRun: true}, found)
	_, err = s.resend(t.Context(), tenantID, w.ID, d.ID, byKey)
	require.NoError(t, err)
	require.Equal(t, 1, s.due())
	require.Equal(t, Delivered, s.delivery(w).State)
	require.True(t, s.mustFind(t, w.ID).FailingSince.IsZero())
}

// TestRetryAfter is honoured where it is later than the schedule, within a bound.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":    0,
		"x":   0,
		"-1":  0,
		"120": 2 * time.Minute,
		noon.Add(time.Hour).Format(http.TimeFormat):  time.Hour,
		noon.Add(-time.Hour).Format(http.TimeFormat): 0,
		"99999999999999999999":                       0,
	} {
		require.Equal(t, want, retryAfter(text, noon), text)
	}
	refused := 429
	for requested, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 1000 * time.Hour: longestDelay} {
		times := map[time.Time]bool{}
		for range 50 {
			d := Delivery{}.after(&outcome{attempt: Attempt{Status: &refused}, retryAfter: requested}, noon)
			require.WithinRange(t, d.NextAttemptAt.Time, noon.Add(want), noon.Add(want+want/10))
			times[d.NextAttemptAt.Time] = true
		}
		require.Greater(t, len(times), 10, "deliveries that were refused together don't return together")
	}
	d := Delivery{}.after(&outcome{attempt: Attempt{Status: &refused}, retryAfter: time.Second}, noon)
	require.InDelta(t, 5, d.NextAttemptAt.Sub(noon).Seconds(), 0.51)
}

// TestHostileReceivers: whatever they do, they get the event once they have recovered, others get
// theirs meanwhile, and little of their responses is read.
func TestHostileReceivers(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	s.client.http.Timeout = 2 * time.Second
	trap := newReceiver(t)
	unblock := make(chan struct{})
	t.Cleanup(func() { close(unblock) })
	wrote := make(chan int64, 1)
	hostile := map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"hang": func(_ http.ResponseWriter, req *http.Request) {
			select {
			case <-unblock:
			case <-req.Context().Done():
			}
		},
		"redirect": func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, trap.URL, http.StatusTemporaryRedirect)
		},
		"10 GB": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			piece, n := []byte(strings.Repeat("x", 1<<16)), int64(0)
			for n < 10<<30 {
				m, err := w.Write(piece)
				n += int64(m)
				if err != nil {
					break
				}
			}
			wrote <- n
		},
		"early close": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"header":      func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("x", strings.Repeat("x", 1<<20)) },
	}
	receivers, hooks := map[string]*receiver{}, map[string]Webhook{}
	for name, answer := range hostile {
		receivers[name] = newReceiver(t)
		receivers[name].answers(answer)
		hooks[name] = s.hookAt(receivers[name], "a.example.com", tenantID, 0)
	}
	good := newReceiver(t)
	s.hookAt(good, "a.example.com", tenantID, 0)
	s.queueing()
	s.run(s.Run)
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	good.await(t, 1)
	for name, w := range hooks {
		d := s.awaitDelivery(w, func(d *Delivery) bool { return len(d.Attempts) == 1 })
		require.Equal(t, Pending, d.State, name)
		require.InDelta(t, 5, d.NextAttemptAt.Sub(d.UpdatedAt.Time).Seconds(), 0.51, name)
		if d.Attempts[0].BodyExcerpt != nil {
			require.LessOrEqual(t, len(*d.Attempts[0].BodyExcerpt), maxExcerpt, name)
		}
	}
	require.Less(t, <-wrote, int64(64<<20), "what the system buffers, not 10 GB")
	for _, r := range receivers {
		r.answers(nil)
	}
	s.clock.Advance(6 * time.Second)
	s.wake()
	for name, w := range hooks {
		d := s.awaitDelivery(w, func(d *Delivery) bool { return d.State == Delivered })
		require.Len(t, d.Attempts, 2, name)
	}
	require.Empty(t, trap.messages(), "no redirect is followed")
}

// TestGoneDisables: so does a receiver that fails for days, and nothing is sent any more.
func TestGoneDisables(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	gone, failing := newReceiver(t), newReceiver(t)
	gone.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	failing.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	s.queueing()
	a, b := s.hook(gone, "offer.*"), s.hook(failing, "right.*")
	s.emit("offer.accepted", map[string]string{"id": "ofr_a"})
	s.awaitDelivery(a, func(*Delivery) bool { return true })
	require.Equal(t, 1, s.due())
	require.Equal(t, Disabled, s.mustFind(t, a.ID).State)
	require.Equal(t, reasonGone, *s.mustFind(t, a.ID).StateReason)
	_, err := s.resend(t.Context(), tenantID, a.ID, s.delivery(a).ID, byKey)
	requireCode(t, api.StateConflict, err)

	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(b, func(*Delivery) bool { return true })
	require.Equal(t, 1, s.due())
	for s.delivery(b).State == Pending {
		require.Equal(t, Active, s.mustFind(t, b.ID).State)
		s.clock.Advance(24 * time.Hour)
		require.Equal(t, 1, s.due())
	}
	require.False(t, s.clock.Now().Before(noon.Add(failFor)))
	require.Equal(t, Disabled, s.mustFind(t, b.ID).State)
	require.Equal(t, reasonFailing, *s.mustFind(t, b.ID).StateReason)
	require.Zero(t, s.due())
	require.Equal(t, 2, s.disabled(), "each has one event")

	failing.answers(nil)
	again, err := s.change(t.Context(), tenantID, b.ID, byKey, func(next *Webhook) { next.State = Active })
	require.NoError(t, err)
	require.Nil(t, again.StateReason)
	require.True(t, again.FailingSince.IsZero())
	_, err = s.resend(t.Context(), tenantID, b.ID, s.delivery(b).ID, byKey)
	require.NoError(t, err)
	require.Equal(t, 1, s.due())
	require.Equal(t, Delivered, s.delivery(b).State)
}

// TestRareFailuresDisableNothing: a webhook whose last delivery failed a week ago is not disabled by
// the first failure of the next one, but once that has failed for all of its attempts.
func TestRareFailuresDisableNothing(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	r := newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, s.log) })
	w, job := s.hook(r, "right.*"), s.job()
	fail := func(right string) {
		s.emit("right.revoked", map[string]string{"id": right})
		require.NoError(t, s.db.Outbox.Drain(t.Context(), tenantID))
		_, err := s.pass(t.Context(), job, 0)
		require.NoError(t, err)
		for range len(delays) + 1 {
			require.Equal(t, Active, s.mustFind(t, w.ID).State)
			require.Equal(t, 1, s.due())
			s.clock.Advance(longestDelay + longestDelay/5)
		}
	}
	fail("rgh_a")
	require.Equal(t, Active, s.mustFind(t, w.ID).State)
	s.clock.Advance(7 * 24 * time.Hour)
	fail("rgh_b")
	require.Equal(t, Disabled, s.mustFind(t, w.ID).State)
}

// TestABacklogIsWorkedOff: a webhook is disabled while more waits than may. Enabled again it may work
// that off, unless still more comes.
func TestABacklogIsWorkedOff(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	w := s.hook(newReceiver(t), "right.*")
	queued := func(from, to int) {
		roomtest.Fill(t, s.db, to-from, "webhook_deliveries", deliveryColumns, fmt.Sprintf(
			`'dlv_' || CAST(i + %d AS TEXT), '%s', 'tnt_a', 'evt_' || CAST(i + %d AS TEXT), 'right.revoked', 0, 1, '', '', 'PENDING', 0, 0, '[]', NULL, 0, %d`, from, w.ID, from, noon.UnixMicro()))
	}
	state := func() State {
		require.NoError(t, s.Sweep(t.Context()))
		return s.mustFind(t, w.ID).State
	}
	queued(0, maxWaiting)
	require.Equal(t, Active, state())
	queued(maxWaiting, maxWaiting+2)
	require.Equal(t, Disabled, state())
	require.Equal(t, reasonBacklog, *s.mustFind(t, w.ID).StateReason)
	enable := func() {
		_, err := s.change(t.Context(), tenantID, w.ID, byKey, func(next *Webhook) { next.State = Active })
		require.NoError(t, err)
	}
	enable()
	require.Equal(t, Active, state())
	queued(maxWaiting+2, maxWaiting+3)
	require.Equal(t, Disabled, state())
}

// disabled counts the events of that type.
func (s *fixture) disabled() (n int) {
	require.NoError(s.t, s.db.Outbox.Drain(s.t.Context(), tenantID))
	first, end, err := s.log.Bounds(s.t.Context(), 0)
	require.NoError(s.t, err)
	require.NoError(s.t, s.log.Scan(s.t.Context(), first, end, func(e sealer.Entry) error {
		if strings.Contains(string(e.Event), `"type":"webhook.disabled"`) {
			n++
		}
		return nil
	}))
	return n
}

// TestAttemptIsLost: a delivery whose process died is sent again under its id, once the attempt is
// considered lost; a later outcome of the first attempt changes nothing.
func TestAttemptIsLost(t *testing.T) {
	stacktest.Both(t)
	s := newFixture(t, roomtest.NewClock(noon), nil)
	r := newReceiver(t)
	s.queueing()
	w := s.hook(r, "right.*")
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	dead := s.another(nil)
	var lost []finishedAttempt
	require.NoError(t, dead.begin(t.Context(), func(w *Webhook, _ api.Scopes, d Delivery) {
		lost = append(lost, finishedAttempt{webhook: w, was: d, outcome: dead.attempt(t.Context(), w, api.EveryScope, &d)})
	}))
	require.Len(t, lost, 1)
	require.Len(t, r.messages(), 1)
	s.clock.Advance(claimTerm - time.Millisecond)
	require.Zero(t, s.due())
	s.clock.Advance(time.Millisecond)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	require.Equal(t, 1, s.due())
	dead.write(t.Context(), lost)
	d := s.delivery(w)
	require.Equal(t, Pending, d.State)
	require.Len(t, d.Attempts, 1)
	require.Equal(t, r.messages()[0].id, r.messages()[1].id)
}

// TestTwoProcesses send each event once while both live.
func TestTwoProcesses(t *testing.T) {
	stacktest.Both(t)
	s := newFixture(t, roomtest.NewClock(noon), nil)
	r := newReceiver(t)
	s.queueing()
	s.run(s.Run)
	s.run(s.another(nil).Run)
	w := s.hook(r, "right.*")
	var sent []string
	for range 100 {
		sent = append(sent, s.emit("right.revoked", map[string]string{"id": "rgh_a"}))
	}
	r.await(t, len(sent))
	waittest.Until(t, func() bool {
		waits, err := listWaiting(t.Context(), s.db.Read())
		require.NoError(t, err)
		return len(waits) == 0
	})
	var got []string
	for _, m := range r.messages() {
		e, err := sealer.ParseEvent(m.Data.Event)
		require.NoError(t, err)
		got = append(got, e.EventID)
		m.verify(t, w.Secret)
	}
	require.ElementsMatch(t, sent, got)
}

// TestPausedWaits and goes on, without an event missing.
func TestPausedWaits(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	r := newReceiver(t)
	s.queueing()
	w := s.hook(r, "right.*")
	_, err := s.change(t.Context(), tenantID, w.ID, byKey, func(next *Webhook) { next.State = Paused })
	require.NoError(t, err)
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	require.Zero(t, s.due())
	_, err = s.change(t.Context(), tenantID, w.ID, byKey, func(next *Webhook) { next.State = Active })
	require.NoError(t, err)
	require.Equal(t, 1, s.due())
	require.Len(t, r.messages(), 1)
}

// TestPlaces: each webhook of a tenant may have one attempt. While receivers of a hundred tenants
// hang, however often they are retried, other tenants' receivers get their events, and batches use
// little memory.
func TestPlaces(t *testing.T) {
	for _, kind := range []string{"right.revoked", TypeDelivery} {
		c := &workers{tenants: map[string]int{}, hooks: map[string]*hookLimit{}}
		take := func(hook, tenant string) (taken []*finishedAttempt) {
			w := &Webhook{ID: hook, TenantID: tenant, Events: []string{"right.*", kind}}
			for range c.take(w) {
				taken = append(taken, &finishedAttempt{webhook: w, was: Delivery{EventType: kind}})
			}
			return taken
		}
		hang := map[int][]*finishedAttempt{}
		for round := range 10 {
			all := 0
			for tenant := range 100 {
				for _, e := range hang[tenant] {
					c.end(e)
				}
				hang[tenant] = nil
				for hook := range maxWebhooks {
					hang[tenant] = append(hang[tenant], take(fmt.Sprint(tenant, " ", hook), fmt.Sprint(tenant))...)
				}
				if all += len(hang[tenant]); round+tenant == 0 && kind != TypeDelivery {
					require.Len(t, hang[tenant], maxWebhooks)
				}
			}
			require.Less(t, all*weight(kind), atOnce)
		}
		require.Len(t, take("whk_", "tnt_"), 1, kind)
	}
}

// TestDeletedWebhook: nothing more is sent to it, and nothing waits.
func TestDeletedWebhook(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	r := newReceiver(t)
	s.queueing()
	w := s.hook(r, "right.*")
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	_, err := s.remove(t.Context(), tenantID, w.ID, keyA)
	require.NoError(t, err)
	require.Zero(t, s.due())
	waits, err := listWaiting(t.Context(), s.db.Read())
	require.NoError(t, err)
	require.Empty(t, waits)
	s.clock.Advance(keepOthers + time.Millisecond)
	require.NoError(t, s.Sweep(t.Context()))
	require.Empty(t, s.deliveries(w))
}

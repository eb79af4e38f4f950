package webhook

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// loading is all that is in the log, for a warehouse that has nothing yet.
func (s *fixture) loading() (b pipeline.Batch) {
	require.NoError(s.t, s.db.Outbox.Drain(s.t.Context(), tenantID))
	var err error
	b.From, b.Next, err = s.log.Bounds(s.t.Context(), 0)
	require.NoError(s.t, err)
	require.NoError(s.t, s.log.Scan(s.t.Context(), b.From, b.Next, func(e sealer.Entry) error {
		row, err := pipeline.NewRow(e)
		b.Rows = append(b.Rows, row)
		return err
	}))
	return b
}

// TestRecoverSendsWhatItCounts: failed deliveries and events that were never queued, of the period
// only; not accepted, waiting or unwanted ones.
func TestRecoverSendsWhatItCounts(t *testing.T) {
	warehouse := &conform.MemoryWarehouse{}
	require.NoError(t, warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { cfg.Warehouse = warehouse })
	r := newReceiver(t)
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, s.log) })
	w := s.hook(r, "right.*", "delivery.recorded")
	job := s.job()
	queue := func() {
		require.NoError(t, s.db.Outbox.Drain(t.Context(), tenantID))
		_, err := s.pass(t.Context(), job, 0)
		require.NoError(t, err)
	}
	set := func(state State) {
		_, err := s.change(t.Context(), tenantID, w.ID, byKey, func(next *Webhook) { next.State = state })
		require.NoError(t, err)
	}
	missing := map[string]bool{}
	emit := func(isMissing bool) {
		s.clock.Advance(time.Minute)
		id := s.emit("right.revoked", map[string]string{"id": "rgh_a"})
		if isMissing {
			missing[id] = true
		}
	}
	emit(false) // taken
	queue()
	require.Equal(t, 1, s.due())
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	emit(false) // failed, and too early
	s.clock.Advance(time.Minute)
	since := s.clock.Now()
	emit(true) // failed
	emit(true)
	batch := s.deliver(0) // which fails, too
	missing[batch] = true
	s.deliver(1)
	queue()
	for range len(delays) + 1 {
		for s.due() > 0 {
		}
		s.clock.Advance(longestDelay + longestDelay/5)
	}
	set(Disabled)
	emit(true)   // never queued
	s.deliver(2) // left out
	s.emit("offer.accepted", map[string]string{"id": "ofr_a"})
	queue()
	set(Active)
	emit(false) // waits
	queue()
	until := s.clock.Now().Add(time.Second)
	set(Disabled)
	emit(false) // too late
	queue()
	set(Active)
	require.NoError(t, warehouse.Load(t.Context(), s.loading()))

	span := recoveryPeriod{WebhookID: w.ID, Since: store.At(since), Until: store.At(until)}
	counted, err := s.recover(t.Context(), tenantID, span, true, byKey)
	require.NoError(t, err)
	require.Equal(t, Recovery{Count: int64(len(missing)), DryRun: true}, counted)
	waits, err := listWaiting(t.Context(), s.db.Read())
	require.NoError(t, err)
	require.Equal(t, []waiting{{w.ID, 1, 1}}, waits, "counting sends nothing")

	found, err := s.recover(t.Context(), tenantID, span, false, byKey)
	require.NoError(t, err)
	require.Equal(t, counted.Count, found.Count)
	recovering, err := s.db.Jobs.Claim(t.Context(), RecoverJob, time.Minute)
	require.NoError(t, err)
	require.NoError(t, s.Recover(t.Context(), recovering))
	require.NoError(t, s.Recover(t.Context(), recovering), "a job may be done again")
	r.answers(nil)
	before := len(r.messages())
	for s.due() > 0 {
	}
	sent := map[string]bool{}
	for _, m := range r.messages()[before:] {
		text := m.Data.Event
		if m.Type == TypeDelivery {
			require.Len(t, m.Data.Events, 2)
			text = m.Data.Events[0]
		}
		e, err := sealer.ParseEvent(text)
		require.NoError(t, err)
		require.False(t, sent[e.EventID], "twice")
		sent[e.EventID] = true
		delete(missing, e.EventID)
	}
	require.Empty(t, missing)
	require.Len(t, sent, int(counted.Count)+1, "with the one that waited")
}

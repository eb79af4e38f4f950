package webhook

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// deliver puts a delivery into the log, whose private part has a marker.
func (s *fixture) deliver(n int) (eventID string) {
	s.t.Helper()
	row := conform.Shown(tenantID, int64(n), "marker", `{"marker":true}`)
	_, err := s.log.Append(s.t.Context(), &row.Record)
	require.NoError(s.t, err)
	return row.EventID
}

// TestDeliveriesComeInBatches, to who names them alone, each once, without what is private.
func TestDeliveriesComeInBatches(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	r := newReceiver(t)
	named, other := s.hook(r, "delivery.recorded"), s.hook(r, "delivery.*", "right.*")
	var sent []string
	for n := range 2*maxBatch + 7 {
		sent = append(sent, s.deliver(n))
	}
	p, err := s.pass(t.Context(), s.job(), 0)
	require.NoError(t, err)
	require.True(t, p.atEnd)
	require.Equal(t, 1, s.due())
	require.Equal(t, 2, s.due(), "a receiver that answers gets more at a time")
	require.Zero(t, s.due())
	var sizes []int
	var got []string
	for _, m := range r.messages() {
		require.Equal(t, named.ID, m.WebhookID)
		require.Equal(t, TypeDelivery, m.Type)
		require.NotContains(t, string(m.body), "marker")
		m.verify(t, named.Secret)
		sizes = append(sizes, len(m.Data.Events))
		for _, text := range m.Data.Events {
			e, err := sealer.ParseEvent(text)
			require.NoError(t, err)
			got = append(got, e.EventID)
		}
	}
	slices.Sort(sizes)
	require.Equal(t, []int{7, maxBatch, maxBatch}, sizes)
	require.ElementsMatch(t, sent, got)
	require.Nil(t, s.delivery(other))
}

// TestOldEventsAreSent from the warehouse once the log no longer has them; events that were never
// queued are recovered; deliveries of events in neither end FAILED.
func TestOldEventsAreSent(t *testing.T) {
	log, warehouse := &conform.MemoryLog{}, &conform.MemoryWarehouse{}
	require.NoError(t, warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	s := newFixture(t, roomtest.NewClock(noon), nil)
	s.log = log
	s.Service = s.another(func(cfg *Config) { cfg.Warehouse = warehouse })
	r := newReceiver(t)
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, log) })
	single, batch := s.hook(r, "right.revoked"), s.hook(r, "delivery.recorded")
	for n := range 3 {
		s.deliver(n)
	}
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	all := s.loading()
	_, err := s.pass(t.Context(), s.job(), 0)
	require.NoError(t, err)
	log.Retire(all.Next.Offset)
	require.NoError(t, warehouse.Load(t.Context(), pipeline.Batch{From: all.From, Next: all.Next}))
	require.Equal(t, 2, s.due())
	require.Equal(t, Failed, s.delivery(single).State)
	require.Equal(t, errGone.Error(), *s.delivery(batch).Attempts[0].Error)

	require.NoError(t, warehouse.Load(t.Context(), all))
	for _, w := range []Webhook{single, batch} {
		_, err := s.resend(t.Context(), tenantID, w.ID, s.delivery(w).ID, byKey)
		require.NoError(t, err)
	}
	require.Equal(t, 2, s.due())
	for _, w := range []Webhook{single, batch} {
		require.Equal(t, Delivered, s.delivery(w).State)
	}

	late := s.hook(r, "right.*", "delivery.recorded")
	span := recoveryPeriod{WebhookID: late.ID, Since: store.At(noon.Add(-time.Hour))}
	found, err := s.recover(t.Context(), tenantID, span, false, byKey)
	require.NoError(t, err)
	require.Equal(t, Recovery{Count: 1}, found)
	job, err := s.db.Jobs.Claim(t.Context(), RecoverJob, time.Minute)
	require.NoError(t, err)
	require.NoError(t, s.Recover(t.Context(), job))
	require.Equal(t, 1, s.due())
	require.Equal(t, "right.revoked", s.delivery(late).EventType)
	found, err = s.recover(t.Context(), tenantID, span, false, byKey)
	require.NoError(t, err)
	require.Zero(t, found.Count, "nothing is recovered twice")
}

// again puts what is at some places of the log into it once more, as a relay does that was
// killed.
func (s *fixture) again(offsets ...int64) {
	s.t.Helper()
	for _, offset := range offsets {
		first, _, err := s.log.Bounds(s.t.Context(), 0)
		require.NoError(s.t, err)
		first.Offset = offset
		e, err := s.log.Read(s.t.Context(), first)
		require.NoError(s.t, err)
		_, err = s.log.Append(s.t.Context(), &e.Record)
		require.NoError(s.t, err)
	}
}

// batched are the receipts that a receiver has got, by message.
func (r *receiver) batched(t *testing.T) (messages [][]string) {
	for _, m := range r.messages() {
		var ids []string
		for _, text := range m.Data.Events {
			e, err := sealer.ParseEvent(text)
			require.NoError(t, err)
			ids = append(ids, e.EventID)
		}
		messages = append(messages, ids)
	}
	return messages
}

// copies is a service on a log in memory, where pass queues and sends what has come.
func copies(t *testing.T) (s *fixture, pass func(), next func() int64) {
	s = newFixture(t, roomtest.NewClock(noon), nil)
	s.log = &conform.MemoryLog{}
	s.Service = s.another(nil)
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, s.log) })
	job := s.job()
	pass = func() {
		p, err := s.pass(t.Context(), job, 0)
		require.NoError(t, err)
		require.True(t, p.atEnd)
		for s.due() > 0 {
		}
	}
	next = func() int64 {
		require.NoError(t, s.db.Outbox.Drain(t.Context(), tenantID))
		_, end, err := s.log.Bounds(t.Context(), 0)
		require.NoError(t, err)
		return end.Offset
	}
	return s, pass, next
}

// TestCopiesAreSentOnce: an event that is in the log more than once is sent once to each webhook.
func TestCopiesAreSentOnce(t *testing.T) {
	s, pass, next := copies(t)
	r := newReceiver(t)
	s.hook(r, "right.*")
	s.hook(r, "right.*")
	at := next()
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	next()
	s.again(at)
	pass()
	require.Len(t, r.messages(), 2)
	s.again(at)
	pass()
	require.Len(t, r.messages(), 2)
}

// TestCopiesInBatches: a receipt that is in the log more than once is in a batch once, and no other
// receipt is lost.
func TestCopiesInBatches(t *testing.T) {
	s, pass, next := copies(t)
	r := newReceiver(t)
	w := s.hook(r, "delivery.recorded")
	at := next()
	a, b := s.deliver(0), s.deliver(1)
	pass()
	s.again(at)
	c := s.deliver(2)
	pass()
	require.Equal(t, [][]string{{a, b}, {a, c}}, r.batched(t))
	s.again(at, at+1, at)
	pass()
	require.Equal(t, []string{a, b}, r.batched(t)[2])
	require.Equal(t, 2, s.deliveries(w)[0].EventCount)
}

// TestBatchesAreSentWhole: from the log, without events older than the webhook allows, and from the
// warehouse once it has the whole batch. Until then there is no attempt.
func TestBatchesAreSentWhole(t *testing.T) {
	at := conform.Shown(tenantID, 0, "marker", `{}`).At
	log, warehouse := &conform.MemoryLog{}, &conform.MemoryWarehouse{}
	require.NoError(t, warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	s := newFixture(t, roomtest.NewClock(at.Add(api.ClockSlack+5*time.Millisecond)), nil)
	s.log = log
	s.Service = s.another(func(cfg *Config) { cfg.Warehouse = warehouse })
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, log) })
	r := newReceiver(t)
	w := s.hook(r, "delivery.recorded", "right.*")
	require.NoError(t, s.db.Outbox.Drain(t.Context(), tenantID))
	sent := []string{s.deliver(5)}
	s.deliver(0) // older than its webhook may be sent
	sent = append(sent, s.deliver(6))
	job := s.job()
	_, err := s.pass(t.Context(), job, 0)
	require.NoError(t, err)
	require.Equal(t, 1, s.due())
	require.Equal(t, [][]string{sent}, r.batched(t))
	require.Equal(t, 2, s.delivery(w).EventCount)

	_, err = s.resend(t.Context(), tenantID, w.ID, s.delivery(w).ID, byKey)
	require.NoError(t, err)
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	require.NoError(t, s.db.Outbox.Drain(t.Context(), tenantID))
	last, err := s.pass(t.Context(), job, 0)
	require.NoError(t, err)
	first, _, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	var rows []pipeline.Row
	require.NoError(t, log.Scan(t.Context(), first, last.at, func(e sealer.Entry) error {
		row, err := pipeline.NewRow(e)
		rows = append(rows, row)
		return err
	}))
	log.Retire(last.at.Offset)
	all := s.deliveries(w)
	const half = 3 // up to the receipt that is too old
	require.NoError(t, warehouse.Load(t.Context(), pipeline.Batch{From: first, Rows: rows[:half], Next: rows[half].Position}))
	require.Equal(t, 2, s.due())
	for i, d := range s.deliveries(w) {
		require.Equal(t, Pending, d.State, d.EventType)
		require.Equal(t, all[i].Attempts, d.Attempts)
	}
	require.NoError(t, warehouse.Load(t.Context(), pipeline.Batch{From: rows[half].Position, Rows: rows[half:], Next: last.at}))
	s.clock.Advance(putOff)
	for s.due() > 0 {
	}
	for _, d := range s.deliveries(w) {
		require.Equal(t, Delivered, d.State, d.EventType)
	}
	require.ElementsMatch(t, [][]string{sent, sent, nil}, r.batched(t))
}

package webhook

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// QueueJob is the kind of the one job that never ends: the process that has its lease reads the log
// and queues events for webhooks.
const QueueJob = "webhook.queue"

// queuer reads the log and queues events for webhooks.
type queuer struct{ *core }

// Enqueue queues the job unless it is queued already.
func (s *queuer) Enqueue(ctx context.Context) error {
	_, err := s.db.Jobs.Enqueue(ctx, store.NewJob{Kind: QueueJob, TenantID: api.SystemTenant, Key: QueueJob})
	return err
}

const (
	// passRecords is how many records of a partition a pass reads, and passEvery the least time
	// between two passes, so that batches can fill.
	passRecords = 5000
	passEvery   = 200 * time.Millisecond
	// passQueued is the number of deliveries at which a pass ends, since one transaction writes them.
	passQueued = 10_000
	// idleEvery is how often the cursor of a partition without webhooks advances.
	idleEvery = time.Second
	// queueRetry is the delay before a failed pass is retried.
	queueRetry = time.Second
	// maxBatch is the largest number of events in a batch.
	maxBatch = 500
)

// Queue runs the job of the kind QueueJob until ctx is done or the lease ends.
func (s *queuer) Queue(ctx context.Context, job *store.Job) error {
	n, err := s.cfg.Log.Partitions(ctx)
	for err != nil && ctx.Err() == nil { // the log is unavailable
		_ = pipeline.Pause(ctx, queueRetry) // the loop sees that ctx is done
		n, err = s.cfg.Log.Partitions(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for partition := range int32(n) {
		all.Go(func() { stop(s.follow(ctx, job, partition)) })
	}
	all.Wait()
	return context.Cause(ctx)
}

// follow queues the events of a partition. It retries after failures until the lease ends.
func (s *queuer) follow(ctx context.Context, job *store.Job, partition int32) error {
	defer s.metrics.behind.reach(partition, true) // the next leaseholder reports its own
	for failing := false; ; {
		next, err := s.pass(ctx, job, partition)
		s.metrics.behind.reach(partition, err == nil && next.atEnd)
		wait := passEvery
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, store.ErrStale):
			return err
		case err != nil:
			if !failing {
				s.cfg.Logger.Error("cannot queue events for webhooks, retrying", "partition", partition, "err", err)
			}
			wait = queueRetry
		case next.idle:
			wait = idleEvery
		case !next.atEnd:
			wait = 0
		default:
			waited, done := context.WithTimeout(ctx, queueRetry) // a partition may move to another broker
			_ = s.cfg.Log.Wait(waited, next.at)                  // the next pass fails if something is wrong
			done()
		}
		failing = err != nil
		_ = pipeline.Pause(ctx, wait) // the loop sees that ctx is done
	}
}

// passResult is the result of a pass.
type passResult struct {
	at    sealer.Position
	atEnd bool
	idle  bool // no webhook has events here
}

// pass reads a span of a partition. What it queues and where it ended are written in one
// transaction, so no event is skipped wherever the process dies. The webhooks are read after the
// span's end: so an event after a webhook's creation is either behind the end, or finds the
// webhook.
func (s *queuer) pass(ctx context.Context, job *store.Job, partition int32) (p passResult, err error) {
	if err := s.db.Reserved(); err != nil {
		return p, err
	}
	first, end, err := s.cfg.Log.Bounds(ctx, partition)
	if err != nil {
		return p, err
	}
	hooks, err := s.listening(ctx, partition)
	if err != nil {
		return p, err
	}
	from, known, err := cursor(ctx, s.db.Read(), partition)
	if err != nil {
		return p, err
	}
	switch {
	case !known || from.Compare(end) > 0: // a shorter log that was accepted
		from = first
	case from.Compare(first) < 0:
		if from.Offset < first.Offset {
			s.cfg.Logger.Warn("the log no longer holds events that were never queued for webhooks: recover them", "from", from.String(), "to", first.String())
		}
		from = first
	}
	p = passResult{at: end, atEnd: true, idle: len(hooks) == 0}
	q := queue{hooks: hooks, now: s.db.Now(), seen: map[[2]string]bool{}, open: map[string]*batch{}}
	if !p.idle {
		if end.Offset > from.Offset+passRecords {
			p.at.Offset, p.atEnd = from.Offset+passRecords, false
		}
		if err := s.cfg.Log.Scan(ctx, from, p.at, q.take); errors.Is(err, errFull) {
			p.at, p.atEnd = q.next, false
		} else if err != nil {
			return p, err
		}
	}
	if known && p.at == from {
		return p, nil
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := job.Hold(ctx, tx); err != nil {
			return err
		}
		if err := insert(ctx, tx, q.all); err != nil {
			return err
		}
		return setCursor(ctx, tx, p.at)
	})
	if err == nil && len(q.all) > 0 {
		s.wake()
	}
	return p, err
}

// listening returns the webhooks whose tenants' events are in a partition, by tenant.
func (s *queuer) listening(ctx context.Context, partition int32) (map[string][]*Webhook, error) {
	all, err := listening(ctx, s.db.Read())
	if err != nil {
		return nil, err
	}
	hooks := map[string][]*Webhook{}
	for i := range all {
		w := &all[i]
		in, err := s.cfg.Log.PartitionOf(ctx, w.TenantID)
		if err != nil {
			return nil, err
		}
		if in == partition {
			hooks[w.TenantID] = append(hooks[w.TenantID], w)
		}
	}
	return hooks, nil
}

// queue collects the deliveries of a pass.
type queue struct {
	hooks map[string][]*Webhook
	now   time.Time
	all   []Delivery
	next  sealer.Position    // after the last record that was taken
	seen  map[[2]string]bool // the events in all, by tenant and id: the log may have copies
	open  map[string]*batch  // the batch of a webhook that is not full
}

// batch is the index of a batch in all, and its events.
type batch struct {
	at   int
	seen map[string]bool
}

// errFull ends a pass.
var errFull = errors.New("the pass has enough deliveries")

// isDelivery reports whether the text of an event is that of a delivery.
func isDelivery(event []byte) bool { return bytes.HasSuffix(event, deliveryEnd) }

var deliveryEnd = []byte(`,"type":"` + TypeDelivery + `","v":1}`)

// take queues a record for the webhooks that want it. It ignores a record that a warehouse would not
// load.
func (q *queue) take(e sealer.Entry) error {
	if len(q.all) >= passQueued {
		return errFull
	}
	q.next = e.Position.Next()
	hooks := q.hooks[e.TenantID]
	if len(hooks) == 0 || isDelivery(e.Event) && !anyWants(hooks) {
		return nil
	}
	row, err := pipeline.NewRow(e)
	event := [2]string{row.TenantID, row.EventID}
	if err != nil || q.seen[event] {
		return nil
	}
	for _, w := range hooks {
		tests := row.Type == eventTested.Type && row.SubjectID == w.ID
		if !w.Wants(row.Type) && !tests || row.At.Before(w.oldest()) {
			continue
		}
		if b := q.open[w.ID]; b != nil && row.Type == TypeDelivery && q.all[b.at].EventCount < maxBatch {
			if d := &q.all[b.at]; !b.seen[row.EventID] {
				b.seen[row.EventID] = true
				d.EventCount++
				d.last = e.Position
			}
			continue
		}
		d := newDelivery(w, row.EventID, row.Type, row.At, q.now)
		d.logged, d.first, d.last, d.NextAttemptAt = true, e.Position, e.Position, store.At(q.now)
		if q.all = append(q.all, d); row.Type == TypeDelivery {
			q.open[w.ID] = &batch{len(q.all) - 1, map[string]bool{row.EventID: true}}
		} else {
			q.seen[event] = true
		}
	}
	return nil
}

// oldest is the earliest time of events that are queued for a webhook.
func (w *Webhook) oldest() time.Time { return w.CreatedAt.Add(-api.ClockSlack) }

func anyWants(hooks []*Webhook) bool {
	for _, w := range hooks {
		if w.Wants(TypeDelivery) {
			return true
		}
	}
	return false
}

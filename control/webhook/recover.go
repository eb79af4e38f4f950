package webhook

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
)

// RecoverJob is the kind of the jobs that queue the events that a webhook has not received.
const RecoverJob = "webhook.recover"

const (
	// recoverAtOnce is how many events one step reads.
	recoverAtOnce = 500
	// countFor bounds the time of counting in a request.
	countFor = 5 * time.Second
)

// Recovery counts the events of a period that a webhook has not received.
type Recovery struct {
	Count  int64 `json:"count" doc:"How many deliveries are queued, but for those beyond the 100,000 that may wait: recover again once these are sent."`
	More   bool  `json:"more" doc:"True if there are more than could be counted in 5 seconds."`
	DryRun bool  `json:"dryRun" doc:"True if they were only counted."`
}

// recoveryPeriod is the payload of a RecoverJob.
type recoveryPeriod struct {
	WebhookID string        `json:"webhookId"`
	Since     store.Instant `json:"since"`
	Until     store.Instant `json:"until"`
}

// recoverer queues the events that webhooks have not received.
type recoverer struct{ *core }

// recover counts the events that a webhook has not received, and queues a RecoverJob for them unless
// dry is set.
func (s *recoverer) recover(ctx context.Context, tenantID string, span recoveryPeriod, dry bool, by auth.Principal) (found Recovery, err error) {
	w, err := webhooks.Find(ctx, s.db.Read(), tenantID, span.WebhookID)
	if err != nil {
		return found, err
	}
	if err := s.entitled(by.Scopes, w.Events); err != nil {
		return found, err
	}
	if w.State == Disabled {
		return found, api.Conflict("the webhook is DISABLED: set its state to ACTIVE first")
	}
	found.DryRun = dry
	counting, stop := context.WithTimeout(ctx, countFor)
	defer stop()
	err = s.missing(counting, w, span, nil, func(some []Delivery) error {
		found.Count += int64(len(some))
		return nil
	})
	if err != nil && counting.Err() != nil && ctx.Err() == nil {
		found.More, err = true, nil
	}
	if err != nil || dry || found.Count == 0 && !found.More {
		return found, err
	}
	return found, s.db.Change(ctx, func(tx *store.Tx) error {
		if _, err := tx.Enqueue(ctx, store.NewJob{Kind: RecoverJob, TenantID: tenantID, Payload: span}); err != nil {
			return err
		}
		return emit(ctx, tx, w, "", time.Time{}, eventRecovered, store.ByKey(by.ID), WebhookRecovered{w.ID, span.Since, span.Until})
	})
}

// Recover runs a job of the kind RecoverJob.
func (s *recoverer) Recover(ctx context.Context, job *store.Job) error {
	var span recoveryPeriod
	if err := job.Read(&span); err != nil {
		return err
	}
	w, err := webhooks.Find(ctx, s.db.Read(), job.TenantID, span.WebhookID)
	if store.IsNone(err) || err == nil && w.State == Disabled {
		return nil // there is nothing to recover for
	}
	if err != nil {
		return err
	}
	defer s.wake()
	err = s.missing(ctx, w, span, job, func(some []Delivery) error {
		return s.db.Transact(ctx, func(tx *sql.Tx) error {
			if err := job.Hold(ctx, tx); err != nil {
				return err
			}
			waiting, err := countWaiting(ctx, tx, w.ID)
			if err == nil && waiting+int64(len(some)) > maxWaiting {
				return errNoRoom
			}
			if err != nil {
				return err
			}
			return requeue(ctx, tx, some, store.At(s.db.Now()))
		})
	})
	if errors.Is(err, errNoRoom) {
		return nil
	}
	return err
}

// errNoRoom ends a RecoverJob: with more waiting, the webhook would be disabled.
var errNoRoom = errors.New("as many deliveries wait as may")

// missing calls take, with some deliveries at a time, for what a webhook has not received: failed
// deliveries, and events that were never queued for it. It leaves out receipts that were never
// queued: GET /v1/receipts lists them.
func (s *recoverer) missing(ctx context.Context, w *Webhook, span recoveryPeriod, job *store.Job, take func(some []Delivery) error) error {
	for behind := ""; ; {
		some, err := listFailed(ctx, s.db.Read(), w.ID, behind, span, recoverAtOnce)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			break
		}
		behind = some[len(some)-1].ID
		if err := take(some); err != nil {
			return err
		}
	}
	q := pipeline.EventQuery{TenantID: w.TenantID, From: span.Since.Time, To: span.Until.Time, Types: w.exact(), NoDeliveries: true, Limit: recoverAtOnce}
	for {
		rows, err := s.cfg.Warehouse.Events(ctx, q)
		if err != nil || len(rows) == 0 {
			return err
		}
		at := rows[len(rows)-1].Position
		q.After = &at
		some, err := s.unqueued(ctx, w, rows)
		if err == nil && len(some) > 0 {
			err = take(some)
		}
		if err == nil && job != nil {
			err = job.Report(ctx, struct{}{}) // keeps the lease
		}
		if err != nil {
			return err
		}
	}
}

// exact returns the types that a webhook wants, except deliveries; empty if it names nouns.
func (w *Webhook) exact() (types []string) {
	for _, f := range w.Events {
		switch {
		case f[len(f)-1] == '*':
			return nil
		case f != TypeDelivery:
			types = append(types, f)
		}
	}
	return types
}

// unqueued returns deliveries of the events that a webhook wants and that were never queued for it.
func (s *recoverer) unqueued(ctx context.Context, w *Webhook, rows []pipeline.Row) (some []Delivery, err error) {
	for i := range rows {
		row := &rows[i]
		if row.Type == TypeDelivery || !w.Wants(row.Type) {
			continue
		}
		known, err := isQueued(ctx, s.db.Read(), w.ID, row.EventID)
		if err != nil {
			return nil, err
		}
		if known {
			continue
		}
		d := newDelivery(w, row.EventID, row.Type, row.At, s.db.Now())
		d.logged, d.first, d.last, d.NextAttemptAt = true, row.Position, row.Position, d.CreatedAt
		some = append(some, d)
	}
	return some, nil
}

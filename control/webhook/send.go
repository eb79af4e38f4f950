package webhook

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

const (
	// claimTerm is the time after which an attempt is considered lost.
	claimTerm = 30 * time.Second
	// lookEvery is how often a process polls for due attempts.
	lookEvery = 500 * time.Millisecond
	// hooksAtOnce is for how many webhooks one transaction claims attempts, and writeAtOnce how many
	// outcomes one transaction writes.
	hooksAtOnce, writeAtOnce = 64, 256
	// putOff is how long an attempt that could not begin is postponed.
	putOff = 5 * time.Second
	// writeTries and writeRetry are how often, and how far apart, writing an outcome is tried while
	// the database fails. An outcome that can't be written is lost: the receiver gets the same again.
	writeRetry, writeTries = 500 * time.Millisecond, 20
)

// sender makes the attempts.
type sender struct {
	*core
	client  *client
	workers workers
	pieces  pieces
}

// finishedAttempt is an attempt with its outcome; nil where it could not begin.
type finishedAttempt struct {
	webhook   *Webhook
	was, next Delivery
	outcome   *outcome
}

// Run makes the due attempts until ctx is done. Any number of processes may run it.
func (s *sender) Run(ctx context.Context) error {
	outcomes := make(chan finishedAttempt, writeAtOnce)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.writeAll(context.WithoutCancel(ctx), outcomes)
	}()
	var attempts sync.WaitGroup
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for failing := false; ctx.Err() == nil; {
		err := s.begin(ctx, func(w *Webhook, held api.Scopes, d Delivery) {
			attempts.Go(func() { outcomes <- finishedAttempt{webhook: w, was: d, outcome: s.attempt(ctx, w, held, &d)} })
		})
		if err != nil && !failing && ctx.Err() == nil {
			s.cfg.Logger.Error("cannot poll for due webhook attempts, retrying", "err", err)
		}
		failing = err != nil
		select {
		case <-s.woken:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	attempts.Wait() // they end with ctx
	close(outcomes)
	<-written
	return nil
}

// begin claims the due attempts that the limits allow, and starts them with the scopes of the
// webhook's key. It pauses webhooks whose key is not in force.
func (s *sender) begin(ctx context.Context, do func(w *Webhook, held api.Scopes, d Delivery)) error {
	if err := s.db.Reserved(); err != nil {
		return err
	}
	now := store.At(s.db.Now())
	due, err := listDue(ctx, s.db.Read(), now)
	if err != nil {
		return err
	}
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for some := range slices.Chunk(due, hooksAtOnce) {
		places, taken, held := make([]int, len(some)), make([][]Delivery, len(some)), make([]api.Scopes, len(some))
		for i := range some {
			if held[i], err = s.cfg.Scopes(ctx, s.db.Read(), some[i].KeyID, now.Time); err == nil && !s.mayKeep(held[i], &some[i]) {
				err, held[i] = s.pause(ctx, some[i].ID), 0
			}
			if err != nil { // one webhook delays no other
				s.cfg.Logger.Error("cannot see what a webhook may get, retrying", "webhookId", some[i].ID, "err", err)
				held[i] = 0
			}
		}
		for i := range some {
			if held[i] != 0 {
				places[i] = s.workers.take(&some[i])
			}
		}
		err := s.db.Transact(ctx, func(tx *sql.Tx) (err error) {
			for i := range some {
				if places[i] > 0 && err == nil {
					taken[i], err = claim(ctx, tx, s.db.SkipLocked(), some[i].ID, places[i], now)
				}
			}
			return err
		})
		for i := range some {
			if err != nil {
				taken[i] = nil
			}
			s.workers.release(&some[i], places[i], taken[i])
			for _, d := range taken[i] {
				do(&some[i], held[i], d)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attempt sends a delivery once, if the scopes of the webhook's key admit to its events.
func (s *sender) attempt(ctx context.Context, w *Webhook, scopes api.Scopes, d *Delivery) *outcome {
	if !s.mayGet(scopes, d) {
		why := "the webhook's key " + w.KeyID + " lacks a scope for " + d.EventType
		return &outcome{attempt: Attempt{At: store.At(s.db.Now()), Error: &why}, lost: true}
	}
	events, err := s.events(ctx, w, d)
	if errors.Is(err, errGone) {
		return &outcome{attempt: Attempt{At: store.At(s.db.Now()), Error: new(err.Error())}, lost: true}
	}
	var signer *sealer.Signer
	if err == nil {
		signer, err = s.cfg.Keys.Signer(ctx, keydir.PurposeWebhook)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Warn("cannot begin a webhook attempt, postponing it", "deliveryId", d.ID, "webhookId", w.ID, "err", err)
		}
		return nil
	}
	began, body := s.db.Now(), d.appendBody(nil, events)
	held, err := s.holdFor(ctx, w, len(body))
	if held != nil {
		return &outcome{held: held}
	}
	var signature string
	if err == nil {
		signature, err = sign(d.ID, began, body, w.secrets(began), signer)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Error("cannot begin a webhook attempt, postponing it", "deliveryId", d.ID, "webhookId", w.ID, "err", err)
		}
		return nil
	}
	span := s.cfg.Tracer.Start(trace.ID{}, trace.Client, "send a webhook", time.Now())
	o := s.client.post(trace.With(ctx, span), w.URL, d.ID, began, body, signature)
	if o.taken() {
		span.Set("muniment.webhook.id", w.ID)
		span.Set("muniment.webhook.delivery.id", d.ID)
		span.End()
	}
	if ctx.Err() != nil && !o.taken() {
		return nil // the process stops
	}
	o.attempt.At, o.attempt.DurationMs = store.At(began), s.db.Now().Sub(began).Milliseconds()
	return o
}

// writeAll records outcomes as they arrive, in batches.
func (s *sender) writeAll(ctx context.Context, outcomes <-chan finishedAttempt) {
	for first := range outcomes {
		some := []finishedAttempt{first}
		for more := true; more && len(some) < writeAtOnce; {
			select {
			case e, ok := <-outcomes:
				if more = ok; ok {
					some = append(some, e)
				}
			default:
				more = false
			}
		}
		s.write(ctx, some)
		for i := range some {
			s.workers.end(&some[i])
		}
		s.wake()
	}
}

func (s *sender) write(ctx context.Context, some []finishedAttempt) {
	now := s.db.Now()
	for i := range some {
		switch e := &some[i]; {
		case e.outcome == nil:
			e.next = e.was
			e.next.NextAttemptAt = store.At(now.Add(putOff))
		case e.outcome.held != nil:
			e.next = e.was.waiting(e.outcome.held, now)
		default:
			e.next = e.was.after(e.outcome, now)
		}
	}
	var err error
	for range writeTries {
		if err = s.db.Transact(ctx, func(tx *sql.Tx) error { return writeOutcomes(ctx, tx, some, now) }); err == nil {
			break
		}
		_ = pipeline.Pause(ctx, writeRetry) // if ctx is done, the next try fails
	}
	if err != nil {
		s.cfg.Logger.Error("cannot record outcomes of webhook attempts: the attempts will be repeated", "attempts", len(some), "err", err)
		return
	}
	for i := range some {
		s.metrics.count(&some[i])
		if err := s.judge(ctx, &some[i], now); err != nil {
			s.cfg.Logger.Error("cannot disable a failing webhook", "webhookId", some[i].webhook.ID, "err", err)
		}
	}
}

// writeOutcomes writes the outcomes of deliveries, and then of webhooks. All processes, and erasures,
// lock the rows in this order, which prevents deadlocks.
func writeOutcomes(ctx context.Context, tx *sql.Tx, some []finishedAttempt, now time.Time) error {
	hooks, agreed := map[string]*hookOutcome{}, map[string]bool{}
	for i := range some { // in order of arrival: the last one decides whether a webhook fails
		e := &some[i]
		if e.outcome == nil || e.outcome.lost {
			continue
		}
		h := hooks[e.webhook.ID]
		if h == nil {
			h = &hookOutcome{}
			hooks[e.webhook.ID] = h
		}
		if h.held = cmp.Or(e.outcome.held, h.held); e.outcome.held == nil {
			h.sent, h.fails = true, !e.outcome.taken()
		}
		if e.outcome.agreed {
			agreed[hostOf(e.webhook.URL)] = true
		}
	}
	for _, e := range slices.SortedFunc(slices.Values(some), func(a, b finishedAttempt) int { return strings.Compare(a.was.ID, b.was.ID) }) {
		if err := e.next.write(ctx, tx); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(hooks)) {
		h := hooks[id]
		if h.sent {
			if err := setFailing(ctx, tx, id, h.fails, store.At(now)); err != nil {
				return err
			}
		}
		if err := setHold(ctx, tx, id, h.held); err != nil {
			return err
		}
	}
	return agree(ctx, tx, agreed, now)
}

// hookOutcome is what outcomes of deliveries say of their webhook.
type hookOutcome struct {
	sent, fails bool
	held        *hold
}

// Why the service disables a webhook.
const (
	reasonGone    = "GONE"    // the receiver answered 410
	reasonFailing = "FAILING" // for failFor
	reasonBacklog = "BACKLOG" // more than maxWaiting deliveries
)

// judge disables a webhook whose receiver is gone, or has failed for failFor when a delivery has used
// up its attempts: the first failure after a quiet week proves nothing.
func (s *sender) judge(ctx context.Context, e *finishedAttempt, now time.Time) error {
	switch {
	case e.outcome == nil || e.outcome.held != nil || e.outcome.taken():
		return nil
	case e.outcome.gone():
		return s.disable(ctx, e.webhook.ID, reasonGone, func(w *Webhook) bool { return w.URL == e.webhook.URL })
	case e.next.State == Failed && !e.webhook.FailingSince.IsZero() && now.Sub(e.webhook.FailingSince.Time) >= failFor:
		return s.disable(ctx, e.webhook.ID, reasonFailing, func(w *Webhook) bool {
			return !w.FailingSince.IsZero() && now.Sub(w.FailingSince.Time) >= failFor
		})
	}
	return nil
}

package webhook

import (
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// Keys has the signing keys.
type Keys interface {
	// Signer returns control's current key of a purpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// WebhookKeys lists the keys by which receivers verify webhooks, control's current one first.
	WebhookKeys(ctx context.Context) ([]keydir.Key, error)
}

// Warehouse has the events that the log no longer has, with the contract of pipeline.Warehouse.
type Warehouse interface {
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
	Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error)
	Event(ctx context.Context, tenantID, eventID string) (pipeline.Row, error)
}

// Config of the service. DB, Log, Warehouse, Keys, Kinds, Scopes and Egress are required.
type Config struct {
	DB        *store.DB
	Log       pipeline.Reader
	Warehouse Warehouse
	Keys      Keys
	// Kinds are all kinds of events.
	Kinds store.Kinds
	// Scopes are those of the API keys under which webhooks send.
	Scopes Scopes
	Egress *Egress
	// Roots verify receivers' certificates; nil: the system's roots.
	Roots *x509.CertPool
	// Logger; nil is slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
	// Tracer traces some attempts; nil traces none.
	Tracer *trace.Tracer
}

// Service is safe for concurrent use.
type Service struct {
	*core
	*queuer
	*sender
	*recoverer
}

// core is shared by all parts of the service.
type core struct {
	cfg     Config
	db      *store.DB
	woken   chan struct{}
	metrics metrics
}

// New returns the service. It starts nothing.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Log == nil || cfg.Warehouse == nil || cfg.Keys == nil || cfg.Kinds == nil || cfg.Scopes == nil || cfg.Egress == nil {
		return nil, errors.New("cannot open the webhooks: DB, Log, Warehouse, Keys, Kinds, Scopes or Egress is missing")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &core{cfg: cfg, db: cfg.DB, woken: make(chan struct{}, 1), metrics: newMetrics()}
	if err := c.metrics.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("cannot open the webhooks: %w", err)
	}
	s := &sender{core: c, client: newClient(cfg.Egress, cfg.Roots), workers: workers{tenants: map[string]int{}, hooks: map[string]*hookLimit{}}, pieces: pieces{all: map[account]piece{}}}
	return &Service{c, &queuer{c}, s, &recoverer{c}}, nil
}

// wake makes this process poll for due attempts now.
func (c *core) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// disable disables a webhook if still returns true for its current record.
func (c *core) disable(ctx context.Context, id, reason string, still func(*Webhook) bool) error {
	return c.db.Change(ctx, func(tx *store.Tx) error {
		was, err := store.One(ctx, tx, "the webhook "+id, webhooks.Scan, webhooks.Select()+` WHERE webhook_id = $1`, id)
		if err != nil || was == nil || was.State == Disabled || !still(was) {
			return err
		}
		next := *was
		next.State, next.StateReason = Disabled, &reason
		return revise(ctx, tx, was, &next, eventDisabled, store.BySystem())
	})
}

// create writes a webhook, with the requested fields filled in.
func (s *Service) create(ctx context.Context, made Webhook, by auth.Principal) (Webhook, error) {
	if err := made.check(&s.cfg); err != nil {
		return made, err
	}
	if err := s.entitled(by.Scopes, made.Events); err != nil {
		return made, err
	}
	err := s.db.Change(ctx, func(tx *store.Tx) error {
		if err := store.WithinLimit(ctx, tx, maxWebhooks, "webhooks", "delete one", `SELECT COUNT(*) FROM webhooks WHERE tenant_id = $1`, made.TenantID); err != nil {
			return err
		}
		now := store.At(tx.Now())
		made.ID, made.Events, made.State = api.NewID(api.PrefixWebhook, now.Time), distinct(made.Events), Active
		made.KeyID = by.ID
		made.Secret, made.Replaced, made.CreatedAt, made.UpdatedAt = newSecret(), []oldSecret{}, now, now
		return webhooks.Create(ctx, tx, eventCreated, &made, store.ByKey(by.ID), nil)
	})
	return made, err
}

// change changes a webhook. If nothing changes, there is no event.
func (s *Service) change(ctx context.Context, tenantID, id string, by auth.Principal, edit func(next *Webhook)) (next Webhook, err error) {
	var requested Webhook // what is wrong with it comes before a webhook that isn't there
	edit(&requested)
	if err := requested.check(&s.cfg); err != nil {
		return next, err
	}
	if err := s.entitled(by.Scopes, requested.Events); err != nil {
		return next, err
	}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		was, err := webhooks.Find(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		next = *was
		edit(&next)
		if next.same(was) {
			return nil
		}
		if err := next.check(&s.cfg); err != nil {
			return err
		}
		if next.Events = distinct(next.Events); next.same(was) {
			return nil
		}
		moved, resumed := next.URL != was.URL || !slices.Equal(next.Events, was.Events), next.State == Active && was.State != Active
		if moved || resumed {
			if err := s.entitled(by.Scopes, next.Events); err != nil {
				return err
			}
		}
		if resumed && !moved {
			held, err := s.cfg.Scopes(ctx, tx, was.KeyID, tx.Now())
			if err != nil {
				return err
			}
			moved = !s.mayKeep(held, was)
		}
		if moved {
			next.KeyID = by.ID
		}
		if next.URL != was.URL {
			next.WaitsUntil, next.WaitReason = store.Instant{}, nil
			if err := setHold(ctx, tx.Tx, id, nil); err != nil {
				return err
			}
		}
		if next.State != was.State {
			next.StateReason, next.FailingSince = nil, store.Instant{}
			if err := setFailing(ctx, tx.Tx, id, false, store.Instant{}); err != nil {
				return err
			}
			if was.State == Disabled {
				if next.Backlog, err = countWaiting(ctx, tx, id); err != nil {
					return err
				}
			}
		}
		return revise(ctx, tx, was, &next, eventChanged, store.ByKey(by.ID))
	})
	return next, err
}

// same says whether all that a caller may change is as it was.
func (w *Webhook) same(was *Webhook) bool {
	return w.URL == was.URL && w.Description == was.Description && w.State == was.State && slices.Equal(w.Events, was.Events)
}

// revise writes a changed webhook, and emits its event.
func revise(ctx context.Context, tx *store.Tx, was, next *Webhook, event *store.Kind, by sealer.Ref) error {
	next.UpdatedAt = store.At(tx.Now())
	if err := webhooks.Update(ctx, tx, was, next); err != nil {
		return err
	}
	return webhooks.Emit(ctx, tx, event, next, by, nil)
}

// rotate replaces a webhook's secret.
func (s *Service) rotate(ctx context.Context, tenantID, id string, by auth.Principal) (next Webhook, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		was, err := webhooks.Find(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		next = *was
		if err := s.entitled(by.Scopes, was.Events); err != nil {
			return err
		}
		if err := next.rotate(tx.Now()); err != nil {
			return err
		}
		return revise(ctx, tx, was, &next, eventRotated, store.ByKey(by.ID))
	})
	return next, err
}

// remove deletes a webhook. Its deliveries are no longer sent, and Sweep deletes them.
func (s *Service) remove(ctx context.Context, tenantID, id string, by sealer.Ref) (gone Webhook, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		was, err := webhooks.Find(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		gone = *was
		gone.UpdatedAt = store.At(tx.Now())
		if gone.Revision, err = tx.Revision(ctx); err != nil {
			return err
		}
		if err := remove(ctx, tx, &gone); err != nil {
			return err
		}
		return webhooks.Emit(ctx, tx, eventDeleted, &gone, by, nil)
	})
	return gone, err
}

// test sends a test event to a webhook.
func (s *Service) test(ctx context.Context, tenantID, id string, by sealer.Ref) (d Delivery, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		w, err := active(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		now := tx.Now()
		d = newDelivery(w, api.NewID(api.PrefixEvent, now), eventTested.Type, now, now)
		if err := insert(ctx, tx.Tx, []Delivery{d}); err != nil {
			return err
		}
		return emit(ctx, tx, w, d.EventID, now, eventTested, by, WebhookSent{id, d.ID})
	})
	return d, err
}

// resend sends a delivery again.
func (s *Service) resend(ctx context.Context, tenantID, id, deliveryID string, by auth.Principal) (d Delivery, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		w, err := active(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		was, err := findDelivery(ctx, tx, id, deliveryID)
		if err != nil {
			return err
		}
		if d = *was; !s.mayGet(by.Scopes, &d) {
			if err := s.entitled(by.Scopes, []string{d.EventType}); err != nil {
				return err
			}
			return api.Missing(api.AuditRead, by.Scopes) // of a kind that is none any more
		}
		if err := again(ctx, tx.Tx, &d, store.At(tx.Now())); err != nil {
			return err
		}
		return emit(ctx, tx, w, "", time.Time{}, eventResent, store.ByKey(by.ID), WebhookSent{id, deliveryID})
	})
	if err == nil {
		s.wake()
	}
	return d, err
}

// active finds a webhook, and returns STATE_CONFLICT unless it is ACTIVE.
func active(ctx context.Context, tx *store.Tx, tenantID, id string) (*Webhook, error) {
	w, err := webhooks.Find(ctx, tx, tenantID, id)
	if err == nil && w.State != Active {
		err = api.Conflict("the webhook is " + string(w.State) + ", not ACTIVE")
	}
	return w, err
}

// emit emits an event of a webhook whose record does not change.
func emit(ctx context.Context, tx *store.Tx, w *Webhook, eventID string, at time.Time, kind *store.Kind, by sealer.Ref, record any) error {
	return tx.EmitRecord(ctx, kind, sealer.Event{EventID: eventID, At: at, TenantID: w.TenantID, Actor: by, Subject: sealer.Ref{Kind: "webhook", ID: w.ID}}, record)
}

// maxWaiting is how many deliveries may wait for a webhook. With more, it is disabled, unless these
// are fewer than when it was enabled: it works them off.
const maxWaiting = 100_000

// Sweep deletes old deliveries and budgets, counts waiting ones, and disables webhooks with too many of them.
func (s *Service) Sweep(ctx context.Context) error {
	now := s.db.Now()
	for state, keep := range map[DeliveryState]time.Duration{Delivered: keepDelivered, Failed: keepOthers, Pending: keepOthers} {
		for more := true; more; {
			err := s.db.Transact(ctx, func(tx *sql.Tx) (err error) {
				more, err = forget(ctx, tx, state, now.Add(-keep))
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	if err := s.db.Transact(ctx, func(tx *sql.Tx) error { return forgetBudgets(ctx, tx, now) }); err != nil {
		return err
	}
	all, err := listWaiting(ctx, s.db.Read())
	if err != nil {
		return err
	}
	var pending int64
	for _, w := range all {
		if pending += w.count; w.count > max(maxWaiting, w.backlog) {
			if err := s.disable(ctx, w.webhookID, reasonBacklog, func(*Webhook) bool { return true }); err != nil {
				return err
			}
		}
	}
	s.metrics.pending.Set(float64(pending))
	return nil
}

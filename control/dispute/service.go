package dispute

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Warehouse has the deliveries.
type Warehouse interface {
	// Event has the contract of pipeline.Warehouse.
	Event(ctx context.Context, tenantID, eventID string) (pipeline.Row, error)
}

// Config of the service. All are required.
type Config struct {
	DB        *store.DB
	Warehouse Warehouse
	// AwaitLoaded waits until the warehouse has what is in the log of a tenant now.
	AwaitLoaded func(ctx context.Context, tenantID string) error
	// HeldAmount returns what the deliveries that a dispute excludes are worth now, by currency,
	// without amounts of 0.
	HeldAmount func(ctx context.Context, tenantID string, x *Exclusion) ([]Amount, error)
	// Worth returns what each of some deliveries is worth alone, as HeldAmount does of all that a dispute
	// excludes.
	Worth func(ctx context.Context, tenantID string, deliveries []pipeline.Row) ([][]Amount, error)
	// Stated returns the periods of the issued statements that overlap with a period.
	Stated func(ctx context.Context, q store.Querier, tenantID string, period Window) ([]Window, error)
}

// Service is safe for concurrent use.
type Service struct {
	db          *store.DB
	warehouse   Warehouse
	awaitLoaded func(ctx context.Context, tenantID string) error
	heldAmount  func(ctx context.Context, tenantID string, x *Exclusion) ([]Amount, error)
	worth       func(ctx context.Context, tenantID string, deliveries []pipeline.Row) ([][]Amount, error)
	stated      func(ctx context.Context, q store.Querier, tenantID string, period Window) ([]Window, error)
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Warehouse == nil || cfg.AwaitLoaded == nil || cfg.HeldAmount == nil || cfg.Worth == nil || cfg.Stated == nil {
		return nil, errors.New("cannot open the disputes: DB, Warehouse, AwaitLoaded, HeldAmount, Worth or Stated is missing")
	}
	return &Service{cfg.DB, cfg.Warehouse, cfg.AwaitLoaded, cfg.HeldAmount, cfg.Worth, cfg.Stated}, nil
}

const prefix api.Prefix = "dsp_"

// open writes a new dispute with its evidence. The caller has set the requested fields. tenantOrgID
// is the tenant's organisation, which asserts who raised the dispute.
func (r *Service) open(ctx context.Context, requested Dispute, evidence []NewEvidence, tenantOrgID string, by sealer.Ref) (made Dispute, err error) {
	if err := requested.checkSubject(); err != nil {
		return made, err
	}
	if requested.Rendered, err = r.requireReceipts(ctx, requested.TenantID, requested.ReceiptIDs); err != nil {
		return made, err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if requested.RightID != nil {
			if _, err := right.Find(ctx, tx, requested.TenantID, *requested.RightID); err != nil {
				return err
			}
		}
		if err := store.WithinLimit(ctx, tx, maxUnresolved, "unresolved disputes", "resolve one", `SELECT COUNT(*) FROM disputes WHERE tenant_id = $1 AND state IN ('OPEN', 'INVESTIGATING', 'RESPONDED')`, requested.TenantID); err != nil {
			return err
		}
		now := store.At(tx.Now())
		if made, err = open(requested, now); err != nil {
			return err
		}
		if err := made.append(entries(evidence, made.RaisedByOrgID, now)); err != nil {
			return err
		}
		made.ID = api.NewID(prefix, now.Time)
		if err := disputes.Create(ctx, tx, eventOpened, &made, by, made.also(&made.RaisedByOrgID, &tenantOrgID)); err != nil {
			return err
		}
		return insertReceipts(ctx, tx, &made)
	})
	return made, err
}

// lookups is how many receipts of one request are looked up concurrently.
const lookups = 16

// requireReceipts returns RESOURCE_NOT_FOUND for the first receipt that there is none of, and
// otherwise when the receipts were rendered. It waits once for the log to be loaded, so a receipt
// that is in the log is found.
func (r *Service) requireReceipts(ctx context.Context, tenantID string, ids []string) (rendered Rendered, err error) {
	waited := false
	for len(ids) > 0 {
		some := ids[:min(len(ids), lookups)]
		missing, err := r.findReceipts(ctx, tenantID, some, &rendered)
		switch {
		case err != nil:
			return rendered, err
		case missing == "":
			ids = ids[len(some):]
			continue
		case waited:
			none := api.NotFound("receipt")
			none.Message += ": " + missing + ". If it was issued just now by a node that can't reach the log, try again later"
			return rendered, none
		}
		waited = true
		if err := r.awaitLoaded(ctx, tenantID); err != nil {
			return rendered, err
		}
	}
	return rendered, nil
}

// findReceipts adds when receipts were rendered, and returns the first that the warehouse lacks.
func (r *Service) findReceipts(ctx context.Context, tenantID string, ids []string, rendered *Rendered) (missing string, err error) {
	found, err := r.lookUp(ctx, tenantID, ids)
	if err != nil {
		return "", err
	}
	for i, id := range ids {
		if found[i].Delivery == nil {
			return id, nil
		}
		rendered.add(store.At(found[i].Delivery.RenderedAt))
	}
	return "", nil
}

// lookUp returns the events of receipts, at most lookups; one without a delivery for a receipt that the warehouse
// lacks.
func (r *Service) lookUp(ctx context.Context, tenantID string, ids []string) ([]pipeline.Row, error) {
	found, errs := make([]pipeline.Row, len(ids)), make([]error, len(ids))
	var looking sync.WaitGroup
	for i, id := range ids {
		looking.Go(func() { found[i], errs[i] = r.delivery(ctx, tenantID, id) })
	}
	looking.Wait()
	for i, id := range ids {
		if errs[i] != nil {
			return nil, fmt.Errorf("cannot look up the receipt %s: %w", id, errs[i])
		}
	}
	return found, nil
}

// delivery returns the event of a receipt; one without a delivery if the warehouse lacks it.
func (r *Service) delivery(ctx context.Context, tenantID, id string) (row pipeline.Row, err error) {
	if !api.IsID(api.PrefixReceipt, id) {
		return row, nil
	}
	row, err = r.warehouse.Event(ctx, tenantID, api.EventOf(id))
	if errors.Is(err, pipeline.ErrNoEvent) {
		return pipeline.Row{}, nil
	}
	return row, err
}

// move is a requested move of a dispute.
type move struct {
	tenantID, id string
	action       Action
	// evidence is submitted by byOrgID with a response.
	evidence []NewEvidence
	byOrgID  string
	// outcome and resolution are set when resolving.
	outcome    *Outcome
	resolution *string
	// tenantOrgID is the tenant's organisation, which asserts who acts.
	tenantOrgID string
	by          sealer.Ref
}

// move moves a dispute.
func (r *Service) move(ctx context.Context, how move) (moved Dispute, err error) {
	err = disputes.Do(ctx, r.db, how.action, func(tx *store.Tx) (err error) {
		moved, err = disputes.Move(ctx, tx, store.Move[Dispute, Action]{
			TenantID: how.tenantID, ID: how.id, Action: how.action, By: how.by,
			Edit: func(next *Dispute) error {
				if how.action == Resolve {
					next.Outcome, next.Resolution = how.outcome, how.resolution
					if err := r.mayUphold(ctx, tx, next); err != nil {
						return err
					}
				}
				return next.append(entries(how.evidence, how.byOrgID, next.UpdatedAt))
			},
			Also: func(next *Dispute) any { return next.also(&how.byOrgID, &how.tenantOrgID) },
		})
		return err
	})
	return moved, err
}

// also is what an event of the dispute has besides its record.
func (d *Dispute) also(actingOrgID, assertedBy *string) any {
	return eventExtras{store.Acting{ActingOrgID: actingOrgID, AssertedBy: assertedBy}, d.Rendered}
}

// mayUphold returns STATE_CONFLICT if a dispute is to become UPHELD, and a statement of its time would then
// exclude too much to be issued or corrected.
func (r *Service) mayUphold(ctx context.Context, tx *store.Tx, next *Dispute) error {
	if *next.Outcome != Upheld {
		return nil
	}
	own := Window{From: next.Rendered.First, To: store.At(next.Rendered.Last.Add(time.Millisecond))}
	periods, err := r.stated(ctx, tx, next.TenantID, own)
	if err != nil {
		return err
	}
	periods = append(periods, own)
	all := own
	for _, p := range periods {
		if p.From.Before(all.From.Time) {
			all.From = p.From
		}
		if p.To.After(all.To.Time) {
			all.To = p.To
		}
	}
	upheld, err := listUpheld(ctx, tx, next.TenantID, all)
	if err != nil {
		return err
	}
	for _, p := range periods {
		if err := next.fits(p, upheld); err != nil {
			return err
		}
	}
	return nil
}

// fits returns STATE_CONFLICT if a period has as many UPHELD disputes as it may have.
func (d *Dispute) fits(period Window, upheld []upheldDispute) error {
	windows, receipts := 0, len(d.ReceiptIDs)
	for _, u := range upheld {
		switch {
		case !u.Rendered.meets(period):
		case u.receipts == 0:
			windows++
		default:
			receipts += u.receipts
		}
	}
	named := fmt.Sprintf("the statement of %s to %s excludes the deliveries of all disputes of that time that are UPHELD", period.From, period.To)
	switch {
	case d.RightID != nil && windows >= MaxUpheldWindows:
		return api.Conflict(fmt.Sprintf("%s, and has the maximum of %d that name a right and a window: reject this one, and open one with a longer window for several of them", named, MaxUpheldWindows))
	case d.RightID == nil && receipts > MaxUpheldReceipts:
		return api.Conflict(fmt.Sprintf("%s; with this one they would name %d receipts, and the maximum is %d: reject this one, and dispute a right and a window instead", named, receipts, MaxUpheldReceipts))
	}
	return nil
}

// entries returns evidence in the form of the record, submitted now.
func entries(given []NewEvidence, byOrgID string, now store.Instant) (list []Evidence) {
	for _, e := range given {
		list = append(list, Evidence{At: now, ByOrgID: byOrgID, Text: e.Text, References: append([]string{}, e.References...)})
	}
	return list
}

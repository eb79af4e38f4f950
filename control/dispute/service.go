package dispute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"muniment/control/right"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
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
	// HeldAmount returns what the deliveries that a dispute excludes are worth now, by currency,
	// without amounts of 0.
	HeldAmount func(ctx context.Context, tenantID string, x *Exclusion) ([]Amount, error)
}

// Service is safe for concurrent use.
type Service struct {
	db         *store.DB
	warehouse  Warehouse
	heldAmount func(ctx context.Context, tenantID string, x *Exclusion) ([]Amount, error)
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Warehouse == nil || cfg.HeldAmount == nil {
		return nil, errors.New("cannot open the disputes: DB, Warehouse or HeldAmount is missing")
	}
	return &Service{cfg.DB, cfg.Warehouse, cfg.HeldAmount}, nil
}

const prefix api.Prefix = "dsp_"

// open writes a new dispute with its evidence. The caller has set the requested fields. tenantOrgID
// is the tenant's organisation, which asserts who raised the dispute.
func (r *Service) open(ctx context.Context, requested Dispute, evidence []NewEvidence, tenantOrgID string, by sealer.Ref) (made Dispute, err error) {
	if err := requested.checkSubject(); err != nil {
		return made, err
	}
	if err := r.requireReceipts(ctx, requested.TenantID, requested.ReceiptIDs); err != nil {
		return made, err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if requested.RightID != nil {
			if _, err := right.Find(ctx, tx, requested.TenantID, *requested.RightID); err != nil {
				return err
			}
		}
		if err := hasSpace(ctx, tx, requested.TenantID); err != nil {
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
		if err := disputes.Create(ctx, tx, "dispute.opened", &made, by, store.Acting{ActingOrgID: &made.RaisedByOrgID, AssertedBy: &tenantOrgID}); err != nil {
			return err
		}
		return insertReceipts(ctx, tx, &made)
	})
	return made, err
}

// lookups is how many receipts of one request are looked up concurrently.
const lookups = 16

// requireReceipts returns RESOURCE_NOT_FOUND for the first receipt that the warehouse lacks.
func (r *Service) requireReceipts(ctx context.Context, tenantID string, ids []string) error {
	for some := range slices.Chunk(ids, lookups) {
		var has [lookups]bool
		var errs [lookups]error
		var looking sync.WaitGroup
		for i, id := range some {
			looking.Go(func() { has[i], errs[i] = r.hasReceipt(ctx, tenantID, id) })
		}
		looking.Wait()
		for i, id := range some {
			if errs[i] != nil {
				return fmt.Errorf("cannot look up the receipt %s: %w", id, errs[i])
			}
			if !has[i] {
				missing := api.NotFound("receipt")
				missing.Message += ": " + id + ". If it was issued just now, the warehouse may not have loaded it yet: try again in a few seconds"
				return missing
			}
		}
	}
	return nil
}

func (r *Service) hasReceipt(ctx context.Context, tenantID, id string) (bool, error) {
	if !api.IsID(api.PrefixReceipt, id) {
		return false, nil
	}
	row, err := r.warehouse.Event(ctx, tenantID, api.EventOf(id))
	if errors.Is(err, pipeline.ErrNoEvent) {
		return false, nil
	}
	return row.Delivery != nil, err
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
				}
				return next.append(entries(how.evidence, how.byOrgID, next.UpdatedAt))
			},
			Also: func(*Dispute) any { return store.Acting{ActingOrgID: &how.byOrgID, AssertedBy: &how.tenantOrgID} },
		})
		return err
	})
	return moved, err
}

// entries returns evidence in the form of the record, submitted now.
func entries(given []NewEvidence, byOrgID string, now store.Instant) (list []Evidence) {
	for _, e := range given {
		list = append(list, Evidence{At: now, ByOrgID: byOrgID, Text: e.Text, References: append([]string{}, e.References...)})
	}
	return list
}

package right

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// What follows is for rooms whose own changes read, derive or revoke rights. Each
// function works within the caller's transaction, and comes to nothing with it.

// Find reads a right of the tenant as it is answered. One that the tenant does not
// have is RESOURCE_NOT_FOUND.
func Find(ctx context.Context, q store.Querier, tenantID, id string) (View, error) {
	r, err := rights.Find(ctx, q, tenantID, id)
	if err != nil {
		return View{}, err
	}
	return view(ctx, q, *r)
}

// Derivation asks for a right that takes all from its parent but what is named here:
// the basis, the substrate and the end. It begins when it is issued, or with a parent
// that begins later.
type Derivation struct {
	// ID of the new right, made by the caller, who may have to name it beforehand.
	ID                 string
	TenantID, ParentID string
	HolderOrgID        string
	Scope              json.RawMessage // in any form that a right is issued with; nil inherits all
	ContentHash        *string
}

// Derivable is the right that Derive would write now. It writes nothing. It refuses
// with VALIDATION_FAILED for a scope, and with STATE_CONFLICT for what the parent
// forbids now; a parent that the tenant does not have is RESOURCE_NOT_FOUND.
func Derivable(ctx context.Context, q store.Querier, d Derivation, now store.Instant) (Right, error) {
	parent, err := rights.Find(ctx, q, d.TenantID, d.ParentID)
	if err != nil {
		return Right{}, err
	}
	from, err := readLineage(ctx, q, d.TenantID, parent.BasisID, parent)
	if err != nil {
		return Right{}, err
	}
	return derive(d, from, now)
}

// Derive issues a right, with its event and its entry in the feed. It refuses as
// Derivable does.
func Derive(ctx context.Context, tx *store.Tx, d Derivation, by sealer.Ref) (View, error) {
	r, err := Derivable(ctx, tx, d, store.At(tx.Now()))
	if err == nil {
		err = rights.Create(ctx, tx, eventIssued, &r, by, nil)
	}
	return View{Right: r, EffectiveState: r.State}, err
}

// Move applies an action to a right of the tenant, with its event and its entry in
// the feed; what leaves the right as it was, like revoking it again, has neither.
// Behind a stop the caller waits for the nodes once the change is committed. A right
// that the tenant does not have is RESOURCE_NOT_FOUND.
func Move(ctx context.Context, tx *store.Tx, tenantID, id string, a Action, reason *string, by sealer.Ref) (View, error) {
	next, err := rights.Move(ctx, tx, store.Move[Right, Action]{
		TenantID: tenantID, ID: id, Action: a, By: by,
		Edit: func(next *Right) error { next.StateReason = reason; return nil },
	})
	if err != nil {
		return View{}, err
	}
	return view(ctx, tx, next)
}

// derive settles a right that takes all from its parent but what d names.
func derive(d Derivation, from lineage, now store.Instant) (Right, error) {
	p := from.parent
	switch {
	case !p.EffectiveUntil.IsZero() && !now.Before(p.EffectiveUntil.Time):
		return Right{}, api.Conflict("the right " + p.ID + " has ended")
	case len(p.Ancestors) >= maxDepth:
		return Right{}, api.Conflict(fmt.Sprintf("the right %s is derived %d times already, the most", p.ID, maxDepth))
	}
	begin := now
	if p.EffectiveFrom.After(now.Time) {
		begin = p.EffectiveFrom
	}
	return issue(Right{
		ID: d.ID, TenantID: d.TenantID, BasisID: p.BasisID, Substrate: p.Substrate, Scope: d.Scope,
		EffectiveFrom: begin, ContentHash: d.ContentHash, HolderOrgID: d.HolderOrgID,
	}, from, now)
}

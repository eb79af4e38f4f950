package right

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// lineage is the basis and the parent of a new right.
type lineage struct {
	basis  *Basis
	parent *Right
	// blocker is the parent or an ancestor of it, if one is suspended or revoked.
	blocker string
}

// issue completes a new right: its scope in canonical form with inherited limits, its end and its
// ancestors. The error is VALIDATION_FAILED for an invalid request, and STATE_CONFLICT if the basis
// or an ancestor doesn't allow it now.
func issue(r Right, from lineage, now store.Instant) (Right, error) {
	scope, faults := readScope(r.Substrate, r.Scope)
	r.State, r.CreatedAt, r.UpdatedAt = api.RightActive, now, now

	if p := from.parent; p != nil {
		r.ParentRightID = &p.ID
		r.Ancestors = append([]string{p.ID}, p.Ancestors...)
		if r.EffectiveUntil.IsZero() {
			r.EffectiveUntil = p.EffectiveUntil
		}
		faults = append(faults, r.beyondParent(p, scope)...)
	}
	if len(faults) == 0 {
		r.Scope, faults = canonicalText(scope)
	}
	b := from.basis
	if r.EffectiveUntil.IsZero() {
		r.EffectiveUntil = b.EffectiveUntil
	}
	if from.parent == nil { // a parent is already within its basis
		faults = append(faults, r.within("basis", b.EffectiveFrom, b.EffectiveUntil)...)
	}
	if !r.EffectiveUntil.IsZero() && !r.EffectiveFrom.Before(r.EffectiveUntil.Time) {
		faults = append(faults, api.ValidationError{Field: "effectiveUntil", Message: "must be after effectiveFrom"})
	}
	switch {
	case len(faults) > 0:
		return Right{}, api.Invalid(faults...)
	case b.State(now.Time) == BasisExpired:
		return Right{}, api.Conflict("the basis " + b.ID + " has expired")
	case from.blocker != "":
		return Right{}, api.Conflict("the right " + from.blocker + " is not ACTIVE, so nothing can be derived")
	}
	return r, nil
}

// beyondParent adds the parent's limits to the scope, which is nil if it can't be read, and lists
// what makes the right wider than its parent.
func (r *Right) beyondParent(p *Right, scope map[string]json.RawMessage) (faults []api.ValidationError) {
	if r.BasisID != p.BasisID {
		faults = append(faults, api.ValidationError{Field: "basisId", Message: "must be the parent right's basis " + p.BasisID})
	}
	if len(r.Ancestors) > maxDepth {
		faults = append(faults, api.ValidationError{Field: "parentRightId", Message: fmt.Sprintf("is derived %d times already, the most", maxDepth)})
	}
	if !covers(p.Substrate, r.Substrate) {
		faults = append(faults, api.ValidationError{Field: "substrate", Message: "is not covered by the parent right's " + p.Substrate})
	}
	faults = append(faults, r.within("parent right", p.EffectiveFrom, p.EffectiveUntil)...)
	limits, bad := readScope(p.Substrate, p.Scope)
	if len(bad) > 0 { // it passed when the parent was issued
		return append(faults, api.ValidationError{Field: "parentRightId", Message: "has a scope that can't be read"})
	}
	if scope == nil {
		return faults
	}
	inherit(scope, limits)
	return append(faults, narrower(scope, limits)...)
}

// readLineage reads the lineage of a new right; its parent may be nil. The error is
// RESOURCE_NOT_FOUND if the tenant doesn't have the basis.
func readLineage(ctx context.Context, q store.Querier, tenantID, basisID string, parent *Right) (from lineage, err error) {
	from.parent = parent
	if from.basis, err = bases.Find(ctx, q, tenantID, basisID); err != nil || parent == nil {
		return from, err
	}
	above, err := readAncestors(ctx, q, parent, map[string]standing{})
	from.blocker = blocker(parent.standing(), above)
	return from, err
}

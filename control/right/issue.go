package right

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"muniment/control/store"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/sealer"
)

// maxScope is the most bytes of a scope in its canonical form.
const maxScope = 16 << 10

// lineage is what a new right rests on, as the database has it.
type lineage struct {
	basis  *Basis
	parent *Right
	// blocker is the parent or an ancestor of it that is not ACTIVE.
	blocker string
}

// issue settles a new right: its scope in canonical form, its end, its ancestors.
// It refuses with VALIDATION_FAILED for what the caller asked wrongly, and with
// STATE_CONFLICT for what the basis or an ancestor forbids now.
func issue(r Right, from lineage, now store.Instant) (Right, error) {
	scope, faults := readScope(r.Substrate, r.Scope)
	if len(faults) == 0 {
		r.Scope, faults = canonical(scope)
	}
	r.State, r.CreatedAt, r.UpdatedAt = api.RightActive, now, now

	if p := from.parent; p != nil {
		r.ParentRightID = &p.ID
		r.Ancestors = append([]string{p.ID}, p.Ancestors...)
		if r.EffectiveUntil.IsZero() {
			r.EffectiveUntil = p.EffectiveUntil
		}
		faults = append(faults, r.beyondParent(p, scope)...)
	}
	b := from.basis
	if r.EffectiveUntil.IsZero() {
		r.EffectiveUntil = b.EffectiveUntil
	}
	if from.parent == nil { // else the parent was held against the basis
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

// beyondParent lists what makes the right wider than its parent.
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
	return append(faults, narrower(scope, limits)...)
}

// readScope reads a scope in any form that is accepted: an object, a string,
// which is kept as its description, or null, which limits nothing. Limits that
// the service knows must be of their type; others may be anything.
func readScope(substrate string, text json.RawMessage) (scope map[string]json.RawMessage, faults []api.ValidationError) {
	var whole any
	if len(text) > 0 && json.Unmarshal(text, &whole) != nil {
		return nil, []api.ValidationError{{Field: "scope", Message: "is no JSON"}}
	}
	scope = map[string]json.RawMessage{}
	switch whole.(type) {
	case nil:
		return scope, nil
	case string:
		scope[free] = text
		return scope, nil
	case map[string]any:
		_ = json.Unmarshal(text, &scope) // it is an object
	default:
		return nil, []api.ValidationError{{Field: "scope", Message: "must be an object or a string"}}
	}
	for _, key := range lists {
		limit, given := scope[key]
		if given && !isStrings(limit) {
			faults = append(faults, api.ValidationError{Field: "scope." + key, Message: "must be an array of strings"})
		}
	}
	if limit, given := scope["maxSpeedMph"]; given {
		if f, ok := whole.(map[string]any)["maxSpeedMph"].(float64); !ok || f < 0 {
			faults = append(faults, api.ValidationError{Field: "scope.maxSpeedMph", Message: fmt.Sprintf("must be a number, 0 or more, and not %.40s", limit)})
		}
	}
	if limit, given := scope["bvlos"]; given && string(limit) != "true" && string(limit) != "false" {
		faults = append(faults, api.ValidationError{Field: "scope.bvlos", Message: "must be a boolean"})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	s, _ := gate.ParseSubstrate(substrate)
	if _, err := gate.ParseRight(s, text); err != nil { // the gate has the last word on what it reads
		return nil, []api.ValidationError{{Field: "scope", Message: err.Error()}}
	}
	for key, value := range scope {
		// Values are compared by their canonical bytes.
		if scope[key], faults = canonical(value); len(faults) > 0 {
			return nil, faults
		}
	}
	return scope, nil
}

func isStrings(text json.RawMessage) bool {
	var list []*string
	if text[0] != '[' || json.Unmarshal(text, &list) != nil {
		return false
	}
	return !slices.Contains(list, nil)
}

// canonical is the RFC 8785 text of (a part of) a scope.
func canonical(v any) (json.RawMessage, []api.ValidationError) {
	if text, ok := v.(json.RawMessage); ok {
		v = []byte(text)
	}
	text, err := sealer.Canonical(v)
	if err != nil {
		return nil, []api.ValidationError{{Field: "scope", Message: err.Error()}}
	}
	if len(text) > maxScope {
		return nil, []api.ValidationError{{Field: "scope", Message: fmt.Sprintf("is longer than %d bytes", maxScope)}}
	}
	return text, nil
}

// AskedScope is the RFC 8785 text of a scope as it came in, VALIDATION_FAILED for one that is
// too long. It is called before a change begins: a body may be much longer than a scope, and
// whoever reads it within the change holds up all others.
func AskedScope(text json.RawMessage) (json.RawMessage, error) {
	if len(text) == 0 {
		return nil, nil
	}
	asked, faults := canonical(text)
	if len(faults) > 0 {
		return nil, api.Invalid(faults...)
	}
	return asked, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// readLineage reads what a right would rest on, but for its parent, which may be nil. A
// basis that the tenant does not have is RESOURCE_NOT_FOUND.
func readLineage(ctx context.Context, q store.Querier, tenantID, basisID string, parent *Right) (from lineage, err error) {
	from.parent = parent
	if from.basis, err = findBasis(ctx, q, tenantID, basisID); err != nil || parent == nil {
		return from, err
	}
	v, err := view(ctx, q, *parent)
	if err != nil {
		return from, err
	}
	if v.EffectiveState != api.RightActive {
		from.blocker = v.ID
		if v.BlockedBy != nil {
			from.blocker = *v.BlockedBy
		}
	}
	return from, nil
}

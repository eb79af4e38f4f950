package snapshot

import (
	"context"
	"fmt"

	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// Right is a right that a delivery can be decided by. It is immutable.
type Right struct {
	api.Right
	// Gate is what the constraint gate needs of it.
	Gate gate.Right
}

var (
	errNoRight   = api.NotFound("right")
	errSuspended = api.Conflict("the right is not ACTIVE: it is SUSPENDED")
	errRevoked   = api.Conflict("the right is not ACTIVE: it is REVOKED")
	errBlocked   = api.Conflict("the right is not ACTIVE: a right that it derives from is stopped")
)

func stop(state api.RightState) error {
	switch state {
	case api.RightActive:
		return nil
	case api.RightSuspended:
		return errSuspended
	default: // an unknown state is no permission
		return errRevoked
	}
}

// Right returns the tenant's right, ACTIVE together with all its ancestors as far
// as the feed has been applied. The other answers are *api.Error: 404 if the
// tenant has no such right, 409 if it or an ancestor is stopped, 503 if the node does not know
// it and can't reach control. A right of another tenant is requested from control like one that
// does not exist: neither the answer nor its time reveals which it is.
// rightID is not kept; it may be a view of a buffer.
//
// It does not check the lease; see Fresh.
func (v *View) Right(ctx context.Context, tenantID, rightID string) (*Right, error) {
	if !api.IsID(api.PrefixRight, rightID) {
		return nil, errNoRight
	}
	known, _ := v.stopped.get(rightID)
	if known.stopped && known.what.tenantID == tenantID {
		return nil, stop(known.what.state)
	}
	revision := known.revision
	r, err := v.rights.get(ctx, rightID, func(r *Right) bool { return r.Revision >= revision }, func(r *Right) bool { return r.TenantID == tenantID })
	if err != nil {
		return nil, err
	}
	return v.active(tenantID, r)
}

// active returns the right if it is the tenant's, and ACTIVE together with its ancestors.
func (v *View) active(tenantID string, r *Right) (*Right, error) {
	if r == nil || r.TenantID != tenantID {
		return nil, errNoRight
	}
	if err := stop(r.State); err != nil {
		return nil, err
	}
	if v.stopped.any(r.Ancestors) {
		return nil, errBlocked
	}
	return r, nil
}

// RightsRead holds control's answers on rights, by id, including those that don't exist.
type RightsRead map[string]received[Right]

// ReadRights reads rights from control, all in one request, into read, which is for KnownRight
// and belongs to one batch: that a right does not exist, or that control did not answer, is not
// cached. It sorts ids.
func (v *View) ReadRights(ctx context.Context, ids []string, read RightsRead) {
	for id, found := range v.rights.request(ctx, ids, errAway) {
		if found.value != nil {
			v.rights.keep(id, found.cached)
		}
		read[id] = found
	}
}

// KnownRight returns the tenant's right for rows of batches, which Permits decides on: it may be
// suspended, and so may its ancestors. known is false for a right that the node does not know, and
// that is not in read: it must be requested from control. The errors are those of Right, but for
// suspensions.
func (v *View) KnownRight(tenantID, rightID string, read RightsRead) (r *Right, known bool, err error) {
	if !api.IsID(api.PrefixRight, rightID) {
		return nil, true, errNoRight
	}
	stopped, _ := v.stopped.get(rightID)
	if stopped.stopped && stopped.what.tenantID == tenantID && stopped.what.state != api.RightSuspended {
		return nil, true, errRowRevoked
	}
	if r, known = v.rights.known(rightID, func(r *Right) bool { return r.Revision >= stopped.revision && r.TenantID == tenantID }); !known {
		found, isRead := read[rightID]
		switch {
		case !isRead:
			return nil, false, nil
		case found.err != nil:
			return nil, true, found.err
		case !v.rights.seen.covers(rightID, found.asOf), found.value != nil && found.value.Revision < stopped.revision:
			return nil, false, nil
		}
		r = found.value
	}
	switch {
	case r == nil || r.TenantID != tenantID:
		return nil, true, errNoRight
	case r.State != api.RightActive && r.State != api.RightSuspended: // an unknown state is no permission
		return nil, true, errRowRevoked
	}
	return r, true, nil
}

// decode makes a right ready for decisions.
func decode(r *api.Right) (*Right, error) {
	s, ok := gate.ParseSubstrate(r.Substrate)
	if !ok {
		return nil, fmt.Errorf("cannot decode right %s: %q is not a substrate", r.ID, r.Substrate)
	}
	g, err := gate.ParseRight(s, r.Scope)
	if err != nil {
		return nil, fmt.Errorf("cannot decode right %s: %w", r.ID, err)
	}
	return &Right{Right: *r, Gate: g}, nil
}

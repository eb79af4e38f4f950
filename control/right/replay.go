package right

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Replay applies the newest event of a right for rollback.Replay: the right is at least as severely
// stopped as the event says, here and in the feed. No stop is ever lifted. A record that is older
// than the event gets a new revision even if its state stays the same: otherwise a delivery under
// the old revision would look as if the node had missed a stop. It emits no event.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "right" || e.Type == eventIssued.Type { // which stops nothing
		return false, nil
	}
	said := Right{TenantID: e.TenantID}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the right's record: %w", err)
	}
	published, kept, err := store.Published(ctx, tx, api.Rights, e.Subject.ID)
	if err != nil {
		return false, err
	}
	shown := func(state api.RightState) bool {
		return state == api.RightActive || published != nil && kept && !worse(state, published.State)
	}
	was, err := rights.Find(ctx, tx, e.TenantID, e.Subject.ID)
	if store.IsNone(err) {
		return said.stopUnknown(ctx, tx, published, shown(said.State))
	}
	if err != nil {
		return false, err
	}
	next := was.replayed(said)
	if was.Revision >= said.Revision && next.State == was.State && shown(next.State) {
		return false, nil
	}
	return true, rights.Update(ctx, tx, was, &next)
}

// IsRevoked reports whether the record is of a revoked right. Revocation is permanent.
func IsRevoked(record []byte) bool {
	var r struct{ State api.RightState }
	return json.Unmarshal(record, &r) == nil && r.State == api.RightRevoked
}

// replayed returns the right as it is when the newest event of it is known.
func (r Right) replayed(said Right) Right {
	if worse(said.State, r.State) {
		r.State, r.StateReason, r.UpdatedAt = said.State, said.StateReason, said.UpdatedAt
	}
	return r
}

// stopUnknown stops a right without a record that is still in the feed, or from which others are
// derived.
func (r *Right) stopUnknown(ctx context.Context, tx *store.Tx, published *api.Right, shown bool) (changed bool, err error) {
	if shown {
		return false, nil
	}
	if published != nil {
		r.Ancestors = published.Ancestors
	} else if derived, err := hasDerived(ctx, tx, r.TenantID, r.ID); err != nil || !derived {
		return false, err
	}
	if r.Revision, err = tx.Revision(ctx); err != nil {
		return false, err
	}
	return true, store.Publish(ctx, tx, api.Rights, r.snapshot())
}

package offer

import (
	"context"

	"muniment/control/store"
	"muniment/sealer"
)

var offers = store.Machine[Offer, Action, State]{
	Records: store.Records[Offer]{Noun: "offer", Table: "offers"}, Steps: transitions, StateAt: (*Offer).stateAt,
}

// filter keeps the offers that have each given value.
type filter struct{ rightID, state string }

// list lists the tenant's offers, newest first. The state is that of a moment.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, now store.Instant, s store.Slice) (page []Offer, next string, err error) {
	var w store.Where
	w.Is("right_id", f.rightID)
	switch f.state {
	case "PROPOSED":
		w.Is("state", f.state)
		w.And("expires_at > $", now)
	case "EXPIRED": // not all that are due are written down yet
		w.And("(state = 'EXPIRED' OR state = 'PROPOSED' AND expires_at <= $)", now)
	default:
		w.Is("state", f.state)
	}
	return offers.Page(ctx, q, tenantID, w, s)
}

// listDue returns offers of all tenants whose time has come and that nobody has
// written down as EXPIRED, the longest due first.
func listDue(ctx context.Context, q store.Querier, now store.Instant, limit int) ([]Offer, error) {
	return store.List(ctx, q, "the offers that are due", offers.Scan, offers.Select()+` WHERE state = 'PROPOSED' AND expires_at <= $1
		ORDER BY expires_at, offer_id LIMIT $2`, now, limit)
}

// Count counts the tenant's offers, in whatever state.
func (r *Room) Count(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, r.db.Read(), "offers", `SELECT COUNT(*) FROM offers WHERE tenant_id = $1`, tenantID)
}

// Replay applies the newest event of an offer for store.Replay: one that is PROPOSED is
// closed as the record says. The record is kept as it was told, since a derived right's contentHash covers it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	return offers.ReplayClosed(ctx, tx, e)
}

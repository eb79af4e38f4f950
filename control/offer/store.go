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
	return store.ListPage(ctx, q, s, "the tenant's offers", func(o Offer) string { return o.ID }, offers.Scan,
		offers.Select()+` WHERE tenant_id = $3 AND ($1 = '' OR offer_id < $1)
		AND ($4 = '' OR right_id = $4) AND ($5 = '' OR CASE WHEN state = 'PROPOSED' AND expires_at <= $6 THEN 'EXPIRED' ELSE state END = $5)
		ORDER BY offer_id DESC LIMIT $2`, tenantID, f.rightID, f.state, now)
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

package offer

import (
	"context"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

var offers = store.Machine[Offer, Action, State]{
	Records: store.Records[Offer]{Noun: "offer", Table: "offers"}, Steps: transitions, StateAt: (*Offer).stateAt,
}

// filter selects the offers that have each given value.
type filter struct{ rightID, state string }

// list lists the tenant's offers, newest first, by their state at now.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, now store.Instant, s store.Slice) (page []Offer, next string, err error) {
	var w store.Where
	w.Is("right_id", f.rightID)
	switch f.state {
	case "PROPOSED":
		w.Is("state", f.state)
		w.And("expires_at > $", now)
	case "EXPIRED": // not all due offers are stored as EXPIRED yet
		w.And("(state = 'EXPIRED' OR state = 'PROPOSED' AND expires_at <= $)", now)
	default:
		w.Is("state", f.state)
	}
	return offers.Page(ctx, q, tenantID, w, s)
}

// listDue returns due offers of all tenants that are not stored as EXPIRED yet, the longest due
// first.
func listDue(ctx context.Context, q store.Querier, now store.Instant, limit int) ([]Offer, error) {
	return store.List(ctx, q, "the offers that are due", offers.Scan, offers.Select()+` WHERE state = 'PROPOSED' AND expires_at <= $1
		ORDER BY expires_at, offer_id LIMIT $2`, now, limit)
}

// Count counts the tenant's offers in any state.
func (s *Service) Count(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, s.db.Read(), "offers", `SELECT COUNT(*) FROM offers WHERE tenant_id = $1`, tenantID)
}

// Replay applies the newest event of an offer for rollback.Replay: one that is PROPOSED is closed as
// the record says. The record becomes exactly the event's, since a derived right's contentHash
// covers it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	return offers.ReplayClosed(ctx, tx, e)
}

// Sections are the data of this package in an export of the tenant.
var Sections = []store.Section{offers.Section("offers", api.OffersRead)}

package right

import (
	"context"

	"muniment/control/store"
	"muniment/gateway/api"
)

var bases = store.Records[Basis]{Noun: "basis", Table: "bases"}

var rights = store.Machine[Right, Action, api.RightState]{
	Records: store.Records[Right]{
		Noun: "right", Table: "rights", Feed: publish,
	},
	Steps: transitions,
}

// listBases lists the tenant's bases, newest first.
func listBases(ctx context.Context, q store.Querier, tenantID string, s store.Slice) (page []Basis, next string, err error) {
	return bases.Page(ctx, q, tenantID, store.Where{}, s)
}

// filter selects the rights that have each given value.
type filter struct{ basisID, substrate, state, parentID string }

// listRights is listBases for rights.
func listRights(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []Right, next string, err error) {
	var w store.Where
	w.Is("basis_id", f.basisID)
	w.Is("substrate", f.substrate)
	w.Is("state", f.state)
	w.Is("parent_right_id", f.parentID)
	return rights.Page(ctx, q, tenantID, w, s)
}

// hasDerived reports whether any right derives from this one, directly or not.
func hasDerived(ctx context.Context, q store.Querier, tenantID, id string) (bool, error) {
	found, err := store.One(ctx, q, "what derives from the right "+id, store.Text,
		`SELECT right_id FROM rights WHERE tenant_id = $1 AND ' ' || ancestors || ' ' LIKE $2 LIMIT 1`, tenantID, "% "+id+" %")
	return found != nil, err
}

// CountBases counts the tenant's bases.
func (s *Service) CountBases(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, s.db.Read(), "bases", `SELECT COUNT(*) FROM bases WHERE tenant_id = $1`, tenantID)
}

// CountRights counts the tenant's rights in any state.
func (s *Service) CountRights(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, s.db.Read(), "rights", `SELECT COUNT(*) FROM rights WHERE tenant_id = $1`, tenantID)
}

// Rights are the tenant's rights for an export; Sections are all that it has of this service.
var (
	Rights   = rights.Section("rights")
	Sections = []store.Section{bases.Section("bases"), Rights}
)

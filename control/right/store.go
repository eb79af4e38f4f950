package right

import (
	"context"
	"fmt"
	"slices"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/settlement"
)

var bases = store.Records[Basis]{Noun: "basis", Table: "bases"}

var rights = store.Machine[Right, Action, api.RightState]{
	Records: store.Records[Right]{
		Noun: "right", Table: "rights", Feed: publish,
	},
	Steps: transitions,
}

// ending selects what ends after one moment and by another; a zero moment is none.
type ending struct{ after, by store.Instant }

// where keeps what ends so of a tenant's rows of a table with an index by end.
func (e ending) where(w *store.Where, tenantID, table, key string) {
	if e == (ending{}) {
		return
	}
	w.In(key, "SELECT "+key+" FROM "+table, func(w *store.Where) {
		w.And("tenant_id = $", tenantID)
		if !e.after.IsZero() {
			w.And("effective_until > $", e.after)
		}
		if !e.by.IsZero() {
			w.And("effective_until <= $", e.by)
		}
	})
}

// listBases lists the tenant's bases, newest first.
func listBases(ctx context.Context, q store.Querier, tenantID string, e ending, s store.Slice) (page []Basis, next string, err error) {
	var w store.Where
	e.where(&w, tenantID, "bases", "basis_id")
	return bases.Page(ctx, q, tenantID, w, s)
}

// filter selects the rights that have each given value.
type filter struct {
	basisID, substrate, state, parentID string
	ends                                ending
}

// listRights is listBases for rights.
func listRights(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []Right, next string, err error) {
	var w store.Where
	w.Is("basis_id", f.basisID)
	w.Is("substrate", f.substrate)
	w.Is("state", f.state)
	w.Is("parent_right_id", f.parentID)
	f.ends.where(&w, tenantID, "rights", "right_id")
	return rights.Page(ctx, q, tenantID, w, s)
}

// hasDerived reports whether any right derives from this one, directly or not.
func hasDerived(ctx context.Context, q store.Querier, tenantID, id string) (bool, error) {
	found, err := store.One(ctx, q, "what derives from the right "+id, store.Text,
		`SELECT right_id FROM rights WHERE tenant_id = $1 AND ' ' || ancestors || ' ' LIKE $2 LIMIT 1`, tenantID, "% "+id+" %")
	return found != nil, err
}

// Title is how people name a right.
type Title struct {
	// Title is that of its basis.
	Title     string
	Campaigns []string
}

// Titles returns the titles of some rights of the tenant. Those that it does not have are left out.
func (s *Service) Titles(ctx context.Context, tenantID string, rightIDs []string) (map[string]Title, error) {
	all := map[string]Title{}
	for some := range slices.Chunk(rightIDs, 500) {
		which, args := "", []any{tenantID}
		for i, id := range some {
			which, args = which+fmt.Sprintf(", $%d", i+2), append(args, id)
		}
		scan := func(row store.Row) (t Title, err error) {
			var id, scope string
			if err := row.Scan(&id, &t.Title, &scope); err != nil {
				return t, err
			}
			of, err := settlement.ScopeOf(id, []byte(scope))
			t.Campaigns = of.Campaigns
			all[id] = t
			return t, err
		}
		err := store.Each(ctx, s.db.Read(), "the titles of rights", scan, func(Title) error { return nil },
			`SELECT r.right_id, b.title, r.scope FROM rights r JOIN bases b ON b.basis_id = r.basis_id WHERE r.tenant_id = $1 AND r.right_id IN (`+which[2:]+`)`, args...)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
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
	Rights   = rights.Section("rights", api.RightsRead)
	Sections = []store.Section{bases.Section("bases", api.RightsRead), Rights}
)

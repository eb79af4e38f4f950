package right

import (
	"context"
	"fmt"
	"strings"

	"muniment/control/store"
	"muniment/gateway/api"
)

const basisColumns = `basis_id, tenant_id, kind, title, holder_org_id, jurisdiction, reference, effective_from, effective_until,
	content_hash, created_at, updated_at, revision`

func insertBasis(ctx context.Context, tx *store.Tx, b *Basis) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO bases (`+basisColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		b.ID, b.TenantID, b.Kind, b.Title, b.HolderOrgID, b.Jurisdiction, b.Reference, b.EffectiveFrom, b.EffectiveUntil,
		b.ContentHash, b.CreatedAt, b.UpdatedAt, b.Revision)
	if err != nil {
		return fmt.Errorf("cannot write the basis %s: %w", b.ID, err)
	}
	return nil
}

func scanBasis(r store.Row) (b Basis, err error) {
	err = r.Scan(&b.ID, &b.TenantID, &b.Kind, &b.Title, &b.HolderOrgID, &b.Jurisdiction, &b.Reference, &b.EffectiveFrom, &b.EffectiveUntil,
		&b.ContentHash, &b.CreatedAt, &b.UpdatedAt, &b.Revision)
	return b, err
}

// findBasis returns a basis of the tenant, RESOURCE_NOT_FOUND if it has none of that id.
func findBasis(ctx context.Context, q store.Querier, tenantID, id string) (*Basis, error) {
	return store.Find(ctx, q, "basis", id, scanBasis,
		`SELECT `+basisColumns+` FROM bases WHERE tenant_id = $1 AND basis_id = $2`, tenantID, id)
}

const rightColumns = `right_id, tenant_id, basis_id, substrate, scope, effective_from, effective_until, parent_right_id, ancestors,
	content_hash, holder_org_id, state, state_reason, created_at, updated_at, revision`

func insertRight(ctx context.Context, tx *store.Tx, r *Right) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO rights (`+rightColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		r.ID, r.TenantID, r.BasisID, r.Substrate, string(r.Scope), r.EffectiveFrom, r.EffectiveUntil, r.ParentRightID, strings.Join(r.Ancestors, " "),
		r.ContentHash, r.HolderOrgID, string(r.State), r.StateReason, r.CreatedAt, r.UpdatedAt, r.Revision)
	if err != nil {
		return fmt.Errorf("cannot write the right %s: %w", r.ID, err)
	}
	return nil
}

// updateState writes the state of a right that still has the revision it was read
// with, else STATE_CONFLICT: somebody else was faster.
func updateState(ctx context.Context, tx *store.Tx, r *Right, read int64) error {
	return tx.Replace(ctx, "right", r.ID, `UPDATE rights SET state = $1, state_reason = $2, updated_at = $3, revision = $4
		WHERE right_id = $5 AND tenant_id = $6 AND revision = $7`,
		string(r.State), r.StateReason, r.UpdatedAt, r.Revision, r.ID, r.TenantID, read)
}

func scanRight(from store.Row) (r Right, err error) {
	var scope, ancestors string
	err = from.Scan(&r.ID, &r.TenantID, &r.BasisID, &r.Substrate, &scope, &r.EffectiveFrom, &r.EffectiveUntil, &r.ParentRightID, &ancestors,
		&r.ContentHash, &r.HolderOrgID, &r.State, &r.StateReason, &r.CreatedAt, &r.UpdatedAt, &r.Revision)
	r.Scope, r.Ancestors = []byte(scope), strings.Fields(ancestors)
	return r, err
}

// findRight is findBasis for a right.
func findRight(ctx context.Context, q store.Querier, tenantID, id string) (*Right, error) {
	return store.Find(ctx, q, "right", id, scanRight,
		`SELECT `+rightColumns+` FROM rights WHERE tenant_id = $1 AND right_id = $2`, tenantID, id)
}

// listBases lists the tenant's bases, newest first.
func listBases(ctx context.Context, q store.Querier, tenantID string, p store.Page) (page []Basis, next *string, err error) {
	return store.ListPage(ctx, q, p, "the tenant's bases", func(b Basis) string { return b.ID }, scanBasis,
		`SELECT `+basisColumns+` FROM bases WHERE tenant_id = $3 AND ($1 = '' OR basis_id < $1) ORDER BY basis_id DESC LIMIT $2`, tenantID)
}

// filter keeps the rights that have each given value.
type filter struct{ basisID, substrate, state, parentID string }

// listRights is listBases for rights.
func listRights(ctx context.Context, q store.Querier, tenantID string, f filter, p store.Page) (page []Right, next *string, err error) {
	return store.ListPage(ctx, q, p, "the tenant's rights", func(r Right) string { return r.ID }, scanRight,
		`SELECT `+rightColumns+` FROM rights WHERE tenant_id = $3 AND ($1 = '' OR right_id < $1)
		AND ($4 = '' OR basis_id = $4) AND ($5 = '' OR substrate = $5) AND ($6 = '' OR state = $6) AND ($7 = '' OR parent_right_id = $7)
		ORDER BY right_id DESC LIMIT $2`, tenantID, f.basisID, f.substrate, f.state, f.parentID)
}

// stateOf reads the state of an ancestor, which is of the same tenant.
func stateOf(ctx context.Context, q store.Querier, id string) (state api.RightState, err error) {
	if err = q.QueryRowContext(ctx, `SELECT state FROM rights WHERE right_id = $1`, id).Scan(&state); err != nil {
		return "", fmt.Errorf("cannot read the state of the right %s: %w", id, err)
	}
	return state, nil
}

// hasDerived says whether rights derive from one, at whatever distance.
func hasDerived(ctx context.Context, q store.Querier, tenantID, id string) (bool, error) {
	found, err := store.One(ctx, q, "what derives from the right "+id, store.Text,
		`SELECT right_id FROM rights WHERE tenant_id = $1 AND ' ' || ancestors || ' ' LIKE $2 LIMIT 1`, tenantID, "% "+id+" %")
	return found != nil, err
}

// CountBases counts the tenant's bases.
func (r *Room) CountBases(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, r.db.Read(), "bases", `SELECT COUNT(*) FROM bases WHERE tenant_id = $1`, tenantID)
}

// CountRights counts the tenant's rights, in whatever state.
func (r *Room) CountRights(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, r.db.Read(), "rights", `SELECT COUNT(*) FROM rights WHERE tenant_id = $1`, tenantID)
}

package offer

import (
	"context"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

const columns = `offer_id, tenant_id, right_id, from_org_id, to_org_id, scope, terms_ref, counter_terms_ref, expires_at, countered_by,
	derived_right_id, state, state_reason, created_at, updated_at, revision`

func insert(ctx context.Context, tx *store.Tx, o *Offer) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO offers (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		o.ID, o.TenantID, o.RightID, o.FromOrgID, o.ToOrgID, string(o.Scope), o.TermsRef, o.CounterTermsRef, o.ExpiresAt, o.CounteredBy,
		o.DerivedRightID, string(o.State), o.StateReason, o.CreatedAt, o.UpdatedAt, o.Revision)
	if err != nil {
		return fmt.Errorf("cannot write the offer %s: %w", o.ID, err)
	}
	return nil
}

// update writes what an offer has become, if it still has the revision it was read with,
// else STATE_CONFLICT: somebody else was faster.
func update(ctx context.Context, tx *store.Tx, was, o *Offer) error {
	return tx.Replace(ctx, "offer", was.ID, `UPDATE offers SET countered_by = $1, derived_right_id = $2, state = $3, state_reason = $4, updated_at = $5, revision = $6
		WHERE offer_id = $7 AND tenant_id = $8 AND revision = $9`,
		o.CounteredBy, o.DerivedRightID, string(o.State), o.StateReason, o.UpdatedAt, o.Revision, was.ID, was.TenantID, was.Revision)
}

func scan(row store.Row) (o Offer, err error) {
	var scope string
	err = row.Scan(&o.ID, &o.TenantID, &o.RightID, &o.FromOrgID, &o.ToOrgID, &scope, &o.TermsRef, &o.CounterTermsRef, &o.ExpiresAt, &o.CounteredBy,
		&o.DerivedRightID, &o.State, &o.StateReason, &o.CreatedAt, &o.UpdatedAt, &o.Revision)
	o.Scope = []byte(scope)
	return o, err
}

// find returns an offer of the tenant as it was written, RESOURCE_NOT_FOUND if it has none of that id.
func find(ctx context.Context, q store.Querier, tenantID, id string) (*Offer, error) {
	return store.Find(ctx, q, "offer", id, scan, `SELECT `+columns+` FROM offers WHERE tenant_id = $1 AND offer_id = $2`, tenantID, id)
}

// filter keeps the offers that have each given value.
type filter struct{ rightID, state string }

// list lists the tenant's offers, newest first. The state is that of a moment.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, now store.Instant, p store.Page) (page []Offer, next *string, err error) {
	return store.ListPage(ctx, q, p, "the tenant's offers", func(o Offer) string { return o.ID }, scan,
		`SELECT `+columns+` FROM offers WHERE tenant_id = $3 AND ($1 = '' OR offer_id < $1)
		AND ($4 = '' OR right_id = $4) AND ($5 = '' OR CASE WHEN state = 'PROPOSED' AND expires_at <= $6 THEN 'EXPIRED' ELSE state END = $5)
		ORDER BY offer_id DESC LIMIT $2`, tenantID, f.rightID, f.state, now)
}

// listDue returns offers of all tenants whose time has come and that nobody has
// written down as EXPIRED, the longest due first.
func listDue(ctx context.Context, q store.Querier, now store.Instant, limit int) ([]Offer, error) {
	return store.List(ctx, q, "the offers that are due", scan, `SELECT `+columns+` FROM offers WHERE state = 'PROPOSED' AND expires_at <= $1
		ORDER BY expires_at, offer_id LIMIT $2`, now, limit)
}

// Count counts the tenant's offers, in whatever state.
func (r *Room) Count(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, r.db.Read(), "offers", `SELECT COUNT(*) FROM offers WHERE tenant_id = $1`, tenantID)
}

// Replay applies the newest event of an offer for store.Replay: one that is PROPOSED is
// closed as the record says. The record is kept as it was told, since a derived right's contentHash covers it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	return store.ReplayClosed(ctx, tx, e, "offer", func(o *Offer) bool { return o.State == Proposed }, find, update)
}

package challenge

import (
	"context"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

const columns = `challenge_id, tenant_id, right_id, challenger_org_id, reason, resolution, state, created_at, updated_at, revision`

func insert(ctx context.Context, tx *store.Tx, c *Challenge) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO challenges (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		c.ID, c.TenantID, c.RightID, c.ChallengerOrgID, c.Reason, c.Resolution, string(c.State), c.CreatedAt, c.UpdatedAt, c.Revision)
	if err != nil {
		return fmt.Errorf("cannot write the challenge %s: %w", c.ID, err)
	}
	return nil
}

// update writes what a challenge has become, if it still has the revision it was read with,
// else STATE_CONFLICT: somebody else was faster.
func update(ctx context.Context, tx *store.Tx, was, c *Challenge) error {
	return tx.Replace(ctx, "challenge", was.ID, `UPDATE challenges SET resolution = $1, state = $2, updated_at = $3, revision = $4
		WHERE challenge_id = $5 AND tenant_id = $6 AND revision = $7`,
		c.Resolution, string(c.State), c.UpdatedAt, c.Revision, was.ID, was.TenantID, was.Revision)
}

func scan(row store.Row) (c Challenge, err error) {
	err = row.Scan(&c.ID, &c.TenantID, &c.RightID, &c.ChallengerOrgID, &c.Reason, &c.Resolution, &c.State, &c.CreatedAt, &c.UpdatedAt, &c.Revision)
	return c, err
}

// find returns a challenge of the tenant, RESOURCE_NOT_FOUND if it has none of that id.
func find(ctx context.Context, q store.Querier, tenantID, id string) (*Challenge, error) {
	return store.Find(ctx, q, "challenge", id, scan,
		`SELECT `+columns+` FROM challenges WHERE tenant_id = $1 AND challenge_id = $2`, tenantID, id)
}

// filter keeps the challenges that have each given value.
type filter struct{ rightID, state string }

// list lists the tenant's challenges, newest first.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, p store.Page) (page []Challenge, next *string, err error) {
	return store.ListPage(ctx, q, p, "the tenant's challenges", func(c Challenge) string { return c.ID }, scan,
		`SELECT `+columns+` FROM challenges WHERE tenant_id = $3 AND ($1 = '' OR challenge_id < $1)
		AND ($4 = '' OR right_id = $4) AND ($5 = '' OR state = $5) ORDER BY challenge_id DESC LIMIT $2`, tenantID, f.rightID, f.state)
}

// Count counts the tenant's challenges, in whatever state.
func (r *Room) Count(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, r.db.Read(), "challenges", `SELECT COUNT(*) FROM challenges WHERE tenant_id = $1`, tenantID)
}

// Replay applies the newest event of a challenge for store.Replay: one that is OPEN is
// closed as the record says.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	return store.ReplayClosed(ctx, tx, e, "challenge", func(c *Challenge) bool { return c.State == Open }, find, update)
}

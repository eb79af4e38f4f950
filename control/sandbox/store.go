package sandbox

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"muniment.example/control/store"
)

// keepSecret stores the secret unless there is one.
func keepSecret(ctx context.Context, tx *store.Tx, s secret, at store.Instant) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sandbox_secret (only_row, secret, created_at) VALUES (1, $1, $2)
		ON CONFLICT (only_row) DO NOTHING`, hex.EncodeToString(s[:]), at)
	return err
}

func replaceSecret(ctx context.Context, tx *store.Tx, s secret, at store.Instant) error {
	_, err := tx.ExecContext(ctx, `UPDATE sandbox_secret SET secret = $1, created_at = $2`, hex.EncodeToString(s[:]), at)
	return err
}

// secretBefore says whether the secret is from before a time.
func secretBefore(ctx context.Context, q store.Querier, at store.Instant) (bool, error) {
	made, err := store.One(ctx, q, "the sandbox's secret", store.Text, `SELECT secret FROM sandbox_secret WHERE created_at < $1`, at)
	return made != nil, err
}

func readSecret(ctx context.Context, q store.Querier) (s secret, err error) {
	text, err := store.One(ctx, q, "the sandbox's secret", store.Text, `SELECT secret FROM sandbox_secret`)
	if err != nil {
		return s, err
	}
	if text == nil || hex.DecodedLen(len(*text)) != len(s) {
		return s, errors.New("the sandbox's secret is missing or has the wrong length")
	}
	_, err = hex.Decode(s[:], []byte(*text))
	return s, err
}

// visitorTenant is a tenant of the sandbox.
type visitorTenant struct {
	tenantID, keyID string
	seenAt          store.Instant
}

func scanVisitorTenant(r store.Row) (l visitorTenant, err error) {
	return l, r.Scan(&l.tenantID, &l.keyID, &l.seenAt)
}

func insertVisitorTenant(ctx context.Context, tx *store.Tx, l visitorTenant) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sandbox_tenants (tenant_id, key_id, seen_at) VALUES ($1, $2, $3)`, l.tenantID, l.keyID, l.seenAt)
	return err
}

// findVisitorTenant returns nil if there is no such tenant.
func findVisitorTenant(ctx context.Context, q store.Querier, tenantID string) (*visitorTenant, error) {
	return store.One(ctx, q, "the sandbox's tenant "+tenantID, scanVisitorTenant,
		`SELECT tenant_id, key_id, seen_at FROM sandbox_tenants WHERE tenant_id = $1`, tenantID)
}

// listIdle lists tenants whose last use was not after a time, least recently used first, and
// continues after behind.
func listIdle(ctx context.Context, q store.Querier, until time.Time, behind visitorTenant, limit int) ([]visitorTenant, error) {
	return store.List(ctx, q, "the sandbox's idle tenants", scanVisitorTenant,
		`SELECT tenant_id, key_id, seen_at FROM sandbox_tenants WHERE seen_at <= $1 AND ($2 = '' OR (seen_at, tenant_id) > ($3, $2))
		ORDER BY seen_at, tenant_id LIMIT $4`, store.At(until), behind.tenantID, behind.seenAt, limit)
}

func touch(ctx context.Context, tx *store.Tx, tenantID string, at store.Instant) error {
	_, err := tx.ExecContext(ctx, `UPDATE sandbox_tenants SET seen_at = $2 WHERE tenant_id = $1 AND seen_at < $2`, tenantID, at)
	return err
}

// Tables are the tables of this package. Evict deletes old rows of sandbox_windows and sandbox_events.
var Tables = store.Tables{
	{Name: "sandbox_tenants"},
	{Name: "sandbox_windows", Outlives: "an address belongs to no tenant"},
	{Name: "sandbox_events", Outlives: "the log keeps the tenant's events"},
	{Name: "sandbox_secret", Outlives: "all visitors share it"},
}

package member

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// linkRequest is an address for which a link was requested.
type linkRequest struct{ id, email string }

// insertRequest writes a request, and nothing if too many wait. It looks at no address.
func insertRequest(ctx context.Context, tx *sql.Tx, id, email string, at store.Instant) (inserted bool, err error) {
	return store.Affected(tx.ExecContext(ctx, `INSERT INTO link_requests (request_id, tenant_id, email, created_at)
		SELECT $1, $2, $3, CAST($4 AS BIGINT) WHERE (SELECT COUNT(*) FROM link_requests) < $5`, id, api.SystemTenant, email, at, mostRequests))
}

// listRequests lists the oldest requests that no other transaction has.
func listRequests(ctx context.Context, q store.Querier, skipLocked string) ([]linkRequest, error) {
	return store.List(ctx, q, "the requests for links", func(row store.Row) (r linkRequest, err error) {
		return r, row.Scan(&r.id, &r.email)
	}, `SELECT request_id, email FROM link_requests ORDER BY request_id LIMIT $1`+skipLocked, admitBatch)
}

func deleteRequest(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM link_requests WHERE request_id = $1`, id)
	return err
}

// insertLink writes the token of a link that a job mails, in place of the one that an earlier attempt of the job has made; and
// nothing if as many as may work at a time do.
func insertLink(ctx context.Context, tx *sql.Tx, jobID, token string, m *Member, expires store.Instant, now time.Time) (inserted bool, err error) {
	if _, err := tx.ExecContext(ctx, `DELETE FROM member_links WHERE member_id = $1 AND job_id = $2`, m.ID, jobID); err != nil {
		return false, fmt.Errorf("cannot replace a link of %s: %w", m.ID, err)
	}
	return store.Affected(tx.ExecContext(ctx, `INSERT INTO member_links (token_hash, tenant_id, member_id, job_id, expires_at)
		SELECT $1, $2, $3, $7, CAST($4 AS BIGINT) WHERE (SELECT COUNT(*) FROM member_links WHERE member_id = $3 AND expires_at > $5) < $6`,
		api.HashSecret(token), m.TenantID, m.ID, expires, store.At(now), mostOpenLinks, jobID))
}

// memberOf is the id of the member whose link has a token, nil if there is none that works.
func memberOf(ctx context.Context, q store.Querier, token string, now time.Time) (id *string, err error) {
	return store.One(ctx, q, "a link", store.Text, `SELECT member_id FROM member_links WHERE token_hash = $1 AND expires_at > $2`, api.HashSecret(token), store.At(now))
}

func deleteLinks(ctx context.Context, tx *store.Tx, memberID string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM member_links WHERE member_id = $1`, memberID); err != nil {
		return fmt.Errorf("cannot delete the links of %s: %w", memberID, err)
	}
	return nil
}

func forgetLinks(ctx context.Context, tx *sql.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM member_links WHERE expires_at <= $1`, store.At(now)); err != nil {
		return fmt.Errorf("cannot forget old links: %w", err)
	}
	return nil
}

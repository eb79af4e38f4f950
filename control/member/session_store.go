package member

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// sessionRow is a session as it is stored, without its token.
type sessionRow struct {
	tenantID, actorID               string
	signedInAt, confirmedAt, seenAt store.Instant
}

// lasts says whether the session has not ended by itself.
func (r *sessionRow) lasts(now time.Time) bool {
	return now.Before(r.signedInAt.Add(sessionAge)) && now.Before(r.seenAt.Add(idleAge))
}

// findSession returns the session of a token, nil if there is none.
func findSession(ctx context.Context, q store.Querier, token string) (*sessionRow, error) {
	return store.One(ctx, q, "a session", func(row store.Row) (r sessionRow, err error) {
		return r, row.Scan(&r.tenantID, &r.actorID, &r.signedInAt, &r.confirmedAt, &r.seenAt)
	}, `SELECT tenant_id, actor_id, signed_in_at, confirmed_at, seen_at FROM sessions WHERE token_hash = $1`, api.HashSecret(token))
}

func insertSession(ctx context.Context, tx *sql.Tx, token string, r sessionRow) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (token_hash, tenant_id, actor_id, signed_in_at, confirmed_at, seen_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		api.HashSecret(token), r.tenantID, r.actorID, r.signedInAt, r.confirmedAt, r.seenAt)
	if err != nil {
		return fmt.Errorf("cannot write a session: %w", err)
	}
	return nil
}

// makeRoom deletes the oldest sessions of an actor if one more would be too many.
func makeRoom(ctx context.Context, tx *sql.Tx, actorID string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE actor_id = $1 AND token_hash NOT IN
		(SELECT token_hash FROM sessions WHERE actor_id = $1 ORDER BY signed_in_at DESC, token_hash LIMIT $2)`, actorID, mostSessions-1)
	if err != nil {
		return fmt.Errorf("cannot delete the oldest sessions: %w", err)
	}
	return nil
}

func noteSeen(ctx context.Context, tx *sql.Tx, token string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE sessions SET seen_at = $2 WHERE token_hash = $1 AND seen_at < $2`, api.HashSecret(token), store.At(now))
	return err
}

func deleteSession(ctx context.Context, tx *sql.Tx, token string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE token_hash = $1`, api.HashSecret(token)); err != nil {
		return fmt.Errorf("cannot delete a session: %w", err)
	}
	return nil
}

func forgetSessions(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE signed_in_at <= $1 OR seen_at <= $2`, store.At(now.Add(-sessionAge)), store.At(now.Add(-idleAge)))
	if err != nil {
		return fmt.Errorf("cannot forget old sessions: %w", err)
	}
	return nil
}

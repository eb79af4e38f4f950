package member

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment.example/control/oidc"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// ofSubject lists who is bound to an account of a provider and may sign in, in any tenant.
func ofSubject(ctx context.Context, q store.Querier, issuer, subject string) ([]Member, error) {
	return store.List(ctx, q, "the members of an account", members.Scan, members.Select()+` WHERE subject = $1 AND issuer = $2 AND state <> 'REMOVED' ORDER BY member_id LIMIT $3`, subject, issuer, mostJoined)
}

// bindTo binds a member, who is bound to none, to an account, by an action. The event says that it is, and not to which: what
// an account is called may name a person.
func bindTo(ctx context.Context, tx *store.Tx, was *Member, who oidc.Identity, a action) error {
	if _, err := tx.ExecContext(ctx, `UPDATE members SET issuer = $2, subject = $3 WHERE member_id = $1 AND NOT bound`, was.ID, who.Issuer, who.Subject); err != nil {
		return fmt.Errorf("cannot bind the member %s: %w", was.ID, err)
	}
	_, err := members.Move(ctx, tx, store.Move[Member, action]{TenantID: was.TenantID, ID: was.ID, Action: a, By: store.ByKey(was.ID), Edit: func(next *Member) error {
		next.Bound = true
		return nil
	}})
	return err
}

// keepChoice keeps who has to choose a tenant, in place of what the same person had to choose before.
func (s *Service) keepChoice(ctx context.Context, token string, who oidc.Identity, expires store.Instant) error {
	if err := s.db.Reserved(); err != nil {
		return err
	}
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := deleteChoices(ctx, tx, who); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO member_choices (token_hash, tenant_id, issuer, subject, email, authenticated_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			api.HashSecret(token), api.SystemTenant, who.Issuer, who.Subject, who.Email, store.At(who.AuthenticatedAt), expires)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot keep who has to choose a tenant: %w", err)
	}
	return nil
}

// findChoice returns who has to choose, by the token of the browser; nil if nobody has.
func findChoice(ctx context.Context, q store.Querier, token string, now time.Time) (*oidc.Identity, error) {
	return store.One(ctx, q, "who has to choose a tenant", func(row store.Row) (who oidc.Identity, err error) {
		var at store.Instant
		err = row.Scan(&who.Issuer, &who.Subject, &who.Email, &at)
		who.AuthenticatedAt = at.Time
		return who, err
	}, `SELECT issuer, subject, email, authenticated_at FROM member_choices WHERE token_hash = $1 AND expires_at > $2`, api.HashSecret(token), store.At(now))
}

func deleteChoices(ctx context.Context, tx *sql.Tx, who oidc.Identity) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM member_choices WHERE subject = $1 AND issuer = $2`, who.Subject, who.Issuer)
	return err
}

// forgetChoice deletes what a person had to choose.
func (s *Service) forgetChoice(ctx context.Context, who oidc.Identity) error {
	if err := s.db.Transact(ctx, func(tx *sql.Tx) error { return deleteChoices(ctx, tx, who) }); err != nil {
		return fmt.Errorf("cannot delete a choice: %w", err)
	}
	return nil
}

func forgetChoices(ctx context.Context, tx *sql.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM member_choices WHERE expires_at <= $1`, store.At(now)); err != nil {
		return fmt.Errorf("cannot forget old choices: %w", err)
	}
	return nil
}

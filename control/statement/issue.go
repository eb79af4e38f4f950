package statement

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"muniment/control/dispute"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// signer returns the key that signs a tenant's statements.
func (c *core) signer(ctx context.Context, tenantID string) (*sealer.Signer, error) {
	purpose, err := c.cfg.Purpose(ctx, c.db.Read(), tenantID)
	if err != nil {
		return nil, err
	}
	return c.cfg.Keys.Signer(ctx, purpose)
}

// issue signs a draft.
func (s *Service) issue(ctx context.Context, tenantID, id string, by sealer.Ref) (issued Statement, err error) {
	signer, err := s.signer(ctx, tenantID)
	if err != nil {
		return issued, err
	}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		next, err := statements.Move(ctx, tx, store.Move[documented, Action]{
			TenantID: tenantID, ID: id, Action: Issue, By: by,
			Edit: func(next *documented) error { return s.sign(ctx, tx, next, signer) },
		})
		issued = next.Statement
		return err
	})
	return issued, err
}

// discard deletes the text of a draft and keeps its record.
func (s *Service) discard(ctx context.Context, tenantID, id string, by sealer.Ref) (discarded Statement, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		next, err := statements.Move(ctx, tx, store.Move[documented, Action]{
			TenantID: tenantID, ID: id, Action: Discard, By: by,
			Edit: func(next *documented) error { next.Document = ""; return nil },
		})
		discarded = next.Statement
		return err
	})
	return discarded, err
}

// sign signs the text of a draft, which freezes it. It fails if the draft is stale.
func (s *Service) sign(ctx context.Context, tx *store.Tx, next *documented, signer *sealer.Signer) error {
	document, err := sealer.ParseStatement([]byte(next.Document))
	if err != nil {
		return err
	}
	if next.CreatedAt.Before(next.To.Time) {
		return api.Conflict("the statement was drafted before its period ended, so it may lack what came later: draft it again after " + next.To.String())
	}
	since := reached(&next.Statement, &document)
	issued, err := issuedIn(ctx, tx, since)
	if err != nil {
		return err
	}
	if !slices.Equal(overlaps(issued), document.Overlaps) {
		return api.Conflict("statements that overlap with the period were issued or voided since this one was drafted: draft it again")
	}
	if c := document.Correction; c != nil && !isNewest(issued, c) {
		return api.Conflict("the statement " + c.Previous.StatementID + " was corrected or voided since this correction was drafted: draft it again, or discard it")
	}
	disputes, err := dispute.Holding(ctx, tx, next.TenantID, since.period())
	if err != nil {
		return err
	}
	excluded, err := exclusions(disputes)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(excluded, document.Excluded) {
		return api.Conflict("disputes were opened or resolved since the statement was drafted: draft it again")
	}
	document.IssuedAt, next.IssuedAt = sealer.Moment(next.UpdatedAt), next.UpdatedAt
	return s.freeze(ctx, tx, next, &document, signer)
}

// isNewest reports whether what a correction corrects is the newest statement of its chain among those
// that were issued, in their order.
func isNewest(issued []Statement, c *sealer.StatementCorrection) bool {
	for _, s := range slices.Backward(issued) {
		if s.first() == c.Of {
			return s.ID == c.Previous.StatementID && *s.SHA256 == c.Previous.SHA256
		}
	}
	return false
}

// freeze signs the document of a statement, and numbers it.
func (c *core) freeze(ctx context.Context, tx *store.Tx, next *documented, document *sealer.Statement, signer *sealer.Signer) error {
	if vouches, err := c.cfg.Keys.Vouches(ctx, tx, signer.KeyID); err != nil || !vouches {
		return errors.Join(err, api.Unavailable(api.NoSigningKey, "the key of packs is being revoked", time.Second))
	}
	file, err := sealer.SignStatement(document, signer.Key)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(file)
	next.Document, next.SHA256 = string(file), new(base64.RawURLEncoding.EncodeToString(sum[:]))
	next.Number, err = nextNumber(ctx, tx, next.TenantID)
	return err
}

// settle records the payment of a statement.
func (s *Service) settle(ctx context.Context, tenantID, id, reference string, by sealer.Ref) (settled Statement, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		next, err := statements.Move(ctx, tx, store.Move[documented, Action]{
			TenantID: tenantID, ID: id, Action: Settle, By: by,
			Edit: func(next *documented) error {
				next.Reference, next.SettledAt = &reference, next.UpdatedAt
				return nil
			},
		})
		settled = next.Statement
		return err
	})
	return settled, err
}

// errDiscarded refuses a request for the text of a discarded draft.
var errDiscarded = api.Conflict("statement is DISCARDED: its document was deleted")

// document parses the text of a statement.
func (s *documented) document() (sealer.Statement, error) {
	switch {
	case s.State == Discarded:
		return sealer.Statement{}, errDiscarded
	case s.Document == "":
		return sealer.Statement{}, errLost
	}
	text, _, _ := strings.Cut(s.Document, "\n")
	return sealer.ParseStatement([]byte(text))
}

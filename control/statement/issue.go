package statement

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"time"

	"muniment/control/dispute"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// issue signs a draft.
func (s *Service) issue(ctx context.Context, tenantID, id string, by sealer.Ref) (issued Statement, err error) {
	purpose, err := s.cfg.Purpose(ctx, s.db.Read(), tenantID)
	if err != nil {
		return issued, err
	}
	signer, err := s.cfg.Keys.Signer(ctx, purpose)
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
	if next.Corrects == nil {
		err = refuseOverlap(ctx, tx, &next.Statement)
	} else {
		err = refuseStale(ctx, tx, &next.Statement, document.Correction)
	}
	if err != nil {
		return err
	}
	disputes, err := dispute.Holding(ctx, tx, next.TenantID, next.period())
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
	if vouches, err := s.cfg.Keys.Vouches(ctx, tx, signer.KeyID); err != nil || !vouches {
		return errors.Join(err, api.Unavailable(api.NoSigningKey, "the key of packs is being revoked", time.Second))
	}
	document.IssuedAt, next.IssuedAt = sealer.Moment(next.UpdatedAt), next.UpdatedAt
	file, err := sealer.SignStatement(&document, signer.Key)
	if err != nil {
		return err
	}
	text, _, _ := strings.Cut(string(file), "\n")
	sum := sha256.Sum256([]byte(text))
	next.Document, next.SHA256 = string(file), new(base64.RawURLEncoding.EncodeToString(sum[:]))
	return nil
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

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

	"muniment.example/control/dispute"
	"muniment.example/control/payable"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/statement"
)

// signer returns the key that signs a tenant's statements.
func (c *core) signer(ctx context.Context, tenantID string) (*sealer.Signer, error) {
	purpose, err := c.cfg.Purpose(ctx, c.db.Read(), tenantID)
	if err != nil {
		return nil, err
	}
	return c.cfg.Keys.Signer(ctx, purpose)
}

// issue signs a draft, and makes what is due of it. If credits are all that it needs to be paid, it is
// SETTLED at once.
func (s *Service) issue(ctx context.Context, tenantID, id string, by sealer.Ref) (issued Statement, err error) {
	signer, err := s.signer(ctx, tenantID)
	if err != nil {
		return issued, err
	}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		var others []string
		next, err := statements.Move(ctx, tx, store.Move[fullStatement, Action]{
			TenantID: tenantID, ID: id, Action: Issue, By: by,
			Edit: func(next *fullStatement) error {
				document, err := s.sign(ctx, tx, next, signer)
				if err != nil {
					return err
				}
				others, err = s.number(ctx, tx, next, document, by)
				return err
			},
		})
		if issued = next.Statement; err != nil {
			return err
		}
		for _, other := range others {
			if err := s.setOff(ctx, tx, tenantID, other, by); err != nil {
				return err
			}
		}
		return nil
	})
	return issued, err
}

// number makes the payables of a statement that is being issued or voided, and notes what was set off of
// them. others are further statements of which something was set off, each once.
func (c *core) number(ctx context.Context, tx *store.Tx, next *fullStatement, document *statement.Statement, by sealer.Ref) (others []string, err error) {
	payees := document.Payees
	if document.Correction != nil {
		payees = document.Correction.Payees
	}
	of := payable.Statement{TenantID: next.TenantID, ID: next.ID, Currency: next.Currency, First: next.Corrects, Voids: next.VoidReason != nil}
	for _, p := range payees {
		exact, err := rate.ParseAmount(p.Amount)
		if err != nil {
			return nil, err
		}
		of.Parts = append(of.Parts, payable.Part{CounterpartyID: p.CounterpartyID, Exact: exact})
	}
	if next.CounterpartyID != nil && len(of.Parts) == 0 {
		of.Parts = []payable.Part{{CounterpartyID: *next.CounterpartyID}}
	}
	made, others, err := payable.Issue(ctx, tx, of, by)
	if err != nil {
		return nil, err
	}
	if next.CounterpartyID != nil {
		next.Number = &made[0].Number
	}
	b, err := payable.NewBalance(made, next.Currency)
	if err != nil {
		return nil, err
	}
	next.owes(b)
	if slices.Sort(others); len(others) > 0 && b.Settled && next.State == Issued {
		next.State, next.SettledAt = Settled, next.UpdatedAt
	}
	return slices.Compact(others), nil
}

// owes notes what was paid of a statement, and what is open.
func (s *Statement) owes(b payable.Balance) { s.PaidAmount, s.DueAmount = b.Paid, &b.Due }

// setOff notes that something of a statement was set off.
func (c *core) setOff(ctx context.Context, tx *store.Tx, tenantID, id string, by sealer.Ref) error {
	was, err := summaries.Find(ctx, tx, tenantID, id)
	if err != nil {
		return err
	}
	b, err := payable.BalanceOf(ctx, tx, tenantID, id, was.Currency)
	if err == nil {
		_, err = c.paid(ctx, tx, was, b, nil, by)
	}
	return err
}

// paid notes where a statement stands: it is SETTLED once nothing is open, and ISSUED again if something is.
// reference is nil for what was set off.
func (c *core) paid(ctx context.Context, tx *store.Tx, was *Statement, b payable.Balance, reference *string, by sealer.Ref) (Statement, error) {
	move := store.Move[fullStatement, Action]{TenantID: was.TenantID, ID: was.ID, Action: Pay, By: by, Edit: func(next *fullStatement) error {
		if next.owes(b); reference != nil {
			next.Reference = reference
		}
		if next.SettledAt = (store.Instant{}); next.State == Settled {
			next.SettledAt = next.UpdatedAt
		}
		return nil
	}}
	switch {
	case b.Settled && was.State == Issued:
		move.Action = Settle
	case !b.Settled && was.State == Settled:
		move.Action = Reopen
	}
	next, err := statements.Move(ctx, tx, move)
	return next.Statement, err
}

// discard deletes the text of a draft and keeps its record.
func (s *Service) discard(ctx context.Context, tenantID, id string, by sealer.Ref) (discarded Statement, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		next, err := statements.Move(ctx, tx, store.Move[fullStatement, Action]{
			TenantID: tenantID, ID: id, Action: Discard, By: by,
			Edit: func(next *fullStatement) error { next.Document = ""; return nil },
		})
		discarded = next.Statement
		return err
	})
	return discarded, err
}

// sign signs the text of a draft, which freezes it. It fails if the draft is stale.
func (s *Service) sign(ctx context.Context, tx *store.Tx, next *fullStatement, signer *sealer.Signer) (*statement.Statement, error) {
	document, err := statement.Parse([]byte(next.Document))
	if err != nil {
		return nil, err
	}
	if next.CreatedAt.Before(next.To.Time) {
		return nil, api.Conflict("the statement was drafted before its period ended, so it may lack what came later: draft it again after " + next.To.String())
	}
	since := reached(&next.Statement, &document)
	issued, err := issuedIn(ctx, tx, since)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(overlaps(issued), document.Overlaps) {
		return nil, api.Conflict("statements that overlap with the period were issued or voided since this one was drafted: draft it again")
	}
	if c := document.Correction; c != nil && !isNewest(issued, c) {
		return nil, api.Conflict("the statement " + c.Previous.StatementID + " was corrected or voided since this correction was drafted: draft it again, or discard it")
	}
	disputes, err := dispute.Holding(ctx, tx, next.TenantID, since.period())
	if err != nil {
		return nil, err
	}
	excluded, err := exclusions(disputes)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(excluded, document.Excluded) {
		return nil, api.Conflict("disputes were opened or resolved since the statement was drafted: draft it again")
	}
	document.IssuedAt, next.IssuedAt = canonical.Moment(next.UpdatedAt), next.UpdatedAt
	return &document, s.freeze(ctx, tx, next, &document, signer)
}

// isNewest reports whether what a correction corrects is the newest statement of its chain among those
// that were issued, in their order.
func isNewest(issued []Statement, c *statement.Correction) bool {
	for _, s := range slices.Backward(issued) {
		if s.first() == c.Of {
			return s.ID == c.Previous.StatementID && *s.SHA256 == c.Previous.SHA256
		}
	}
	return false
}

// freeze signs the document of a statement, and gives it a place.
func (c *core) freeze(ctx context.Context, tx *store.Tx, next *fullStatement, document *statement.Statement, signer *sealer.Signer) error {
	if vouches, err := c.cfg.Keys.Vouches(ctx, tx, signer.KeyID); err != nil || !vouches {
		return errors.Join(err, api.Unavailable(api.NoSigningKey, "the key of packs is being revoked", time.Second))
	}
	file, err := statement.Sign(document, signer.Key)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(file)
	next.Document, next.SHA256 = string(file), new(base64.RawURLEncoding.EncodeToString(sum[:]))
	next.Sequence, err = nextSequence(ctx, tx, next.TenantID)
	return err
}

// settle records a payment of a statement that is ISSUED, or of one that is VOIDED and was set off in
// part only. One of which nothing is due is SETTLED by it. It also takes payments back, of one that is SETTLED
// too.
func (s *Service) settle(ctx context.Context, tenantID, id string, of payable.Payments, by sealer.Ref) (settled Statement, err error) {
	if of.CounterpartyID != nil {
		payees, err := s.names(ctx, tenantID)
		if err == nil {
			err = known(payees, of.CounterpartyID)
		}
		if err != nil {
			return settled, err
		}
	}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		was, err := summaries.Find(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		action := Pay
		if of.Amount == nil && was.State != Voided {
			action = Settle
		}
		if _, _, err := statements.After(fullStatement{Statement: *was}, action, store.At(tx.Now())); err != nil {
			return err
		}
		b, others, err := payable.Pay(ctx, tx, tenantID, id, was.Currency, of, by)
		if errors.Is(err, payable.ErrNothingOpen) && action == Settle && b.Settled {
			err = nil
		}
		if err == nil {
			settled, err = s.paid(ctx, tx, was, b, &of.Reference, by)
		}
		for _, other := range others {
			if err == nil {
				err = s.setOff(ctx, tx, tenantID, other, by)
			}
		}
		return err
	})
	return settled, err
}

// errDiscarded refuses a request for the text of a discarded draft.
var errDiscarded = api.Conflict("statement is DISCARDED: its document was deleted")

// document parses the text of a statement.
func (s *fullStatement) document() (statement.Statement, error) {
	switch {
	case s.State == Discarded:
		return statement.Statement{}, errDiscarded
	case s.Document == "":
		return statement.Statement{}, errLost
	}
	text, _, _ := strings.Cut(s.Document, "\n")
	return statement.Parse([]byte(text))
}

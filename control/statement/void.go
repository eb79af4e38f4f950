package statement

import (
	"context"
	"slices"

	"muniment.example/control/payable"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// void ends the chain of an issued statement with a signed one that states nothing. All of the chain
// become VOIDED.
func (s *Service) void(ctx context.Context, tenantID, id, reason string, by sealer.Ref) (voided Statement, err error) {
	signer, err := s.signer(ctx, tenantID)
	if err != nil {
		return voided, err
	}
	payees, err := s.names(ctx, tenantID)
	if err != nil {
		return voided, err
	}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		first, err := firstOf(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		before, previous, err := last(ctx, tx, first)
		if err != nil {
			return err
		}
		at := store.At(tx.Now())
		next := fullStatement{Statement: before.Statement}
		next.ID, next.State, next.CreatedAt, next.UpdatedAt, next.IssuedAt = api.NewID(prefix, at.Time), Voided, at, at, at
		next.Total, next.HeldAmount, next.Receipts, next.Reference, next.SettledAt, next.Number, next.PaidAmount = "0", "0", 0, nil, store.Instant{}, nil, rate.Money(0).Fixed(before.Currency)
		next.Corrects, next.Correction, next.VoidReason = &first.ID, before.Correction+1, &reason
		document := statement.Statement{
			Adjustments: []statement.Adjustment{}, AsOf: previous.AsOf, CounterpartyID: previous.CounterpartyID, Currency: previous.Currency, Excluded: []statement.Exclusion{},
			From: previous.From, HeldAmount: "0", IssuedAt: canonical.Moment(at), Lines: []statement.Line{}, LocalFrom: previous.LocalFrom, LocalTo: previous.LocalTo, Months: []settlement.Month{},
			Overlaps: []statement.Overlap{}, Payees: []statement.Payee{}, Since: previous.From, StatementID: next.ID, TenantID: tenantID, TimeZone: previous.TimeZone, To: previous.To, Total: "0", Unrated: []statement.Unrated{}, V: 1,
			Correction: correction(first.ID, &previous, *before.SHA256, payees),
		}
		document.Correction.VoidReason = &reason
		if err := document.Correct(&previous, statement.Step{Statement: &document, Reason: statement.Voided}); err != nil {
			return tooLarge(err)
		}
		next.Difference = &document.Correction.Difference
		if err := s.freeze(ctx, tx, &next, &document, signer); err != nil {
			return err
		}
		others, err := s.number(ctx, tx, &next, &document, by)
		if err != nil {
			return err
		}
		if err := statements.Create(ctx, tx, eventVoided, &next, by, nil); err != nil {
			return err
		}
		voided = next.Statement
		chain, err := store.List(ctx, tx, "the statements of the chain", store.Text,
			`SELECT statement_id FROM statements WHERE tenant_id = $1 AND (statement_id = $2 OR corrects = $2) AND state IN ('ISSUED', 'SETTLED') ORDER BY sequence`, tenantID, first.ID)
		for _, id := range chain {
			var b payable.Balance
			if err == nil {
				b, err = payable.BalanceOf(ctx, tx, tenantID, id, next.Currency)
			}
			if err == nil {
				_, err = statements.Move(ctx, tx, store.Move[fullStatement, Action]{TenantID: tenantID, ID: id, Action: Void, By: by, Edit: func(next *fullStatement) error { next.owes(b); return nil }})
			}
		}
		for _, id := range others {
			if err == nil && !slices.Contains(chain, id) {
				err = s.setOff(ctx, tx, tenantID, id, by)
			}
		}
		return err
	})
	return voided, err
}

package statement

import (
	"context"
	"errors"
	"reflect"

	"muniment/control/proof"
	"muniment/gateway/api"
	"muniment/sealer"
)

// chain is the chain of statements that a correction continues.
type chain struct {
	// of is the id of the first statement, rules the end of the log that it states.
	of    string
	rules sealer.StatementAsOf
	// previous is the chain's newest issued statement, position the end of the log that it states.
	previous *sealer.Statement
	sha256   string
	position sealer.Position
}

// correct drafts a correction of an issued statement. If that is a correction, it corrects the
// first statement of its chain.
func (d *drafter) correct(ctx context.Context, tenantID, id string, by sealer.Ref) (made Statement, err error) {
	q := d.db.Read()
	first, err := statements.Find(ctx, q, tenantID, id)
	if err != nil {
		return made, err
	}
	if first.State == Draft || first.State == Discarded {
		return made, api.Conflict("statement is " + string(first.State) + ": only an issued statement can be corrected")
	}
	if first.Corrects != nil {
		if first, err = statements.Find(ctx, q, tenantID, *first.Corrects); err != nil {
			return made, err
		}
	}
	last, err := newest(ctx, q, tenantID, first.ID)
	if err != nil {
		return made, err
	}
	before, err := statements.Find(ctx, q, tenantID, last)
	if err != nil {
		return made, err
	}
	if before.Document == "" {
		return made, uncorrectable(before.ID)
	}
	previous, err := before.document()
	if err != nil {
		return made, err
	}
	position, err := sealer.ParsePosition(before.AsOf)
	if err != nil {
		return made, err
	}
	rules, err := d.cfg.Packs.EndOf(ctx, tenantID, first.PackID)
	if err != nil {
		return made, err
	}
	payees, err := d.names(ctx, tenantID)
	if err != nil {
		return made, err
	}
	end, err := d.cfg.Packs.SealToEnd(ctx, tenantID, by)
	if err == nil && end == nil {
		err = errNothing
	}
	if err != nil {
		return made, err
	}
	made, err = d.create(ctx, Statement{
		TenantID: tenantID, From: first.From, To: first.To, Currency: first.Currency, CounterpartyID: first.CounterpartyID, Corrects: &first.ID, Correction: before.Correction + 1,
	}, source{end, rules.Rules, payees, &chain{first.ID, asOf(rules), &previous, *before.SHA256, position}}, by)
	if fault, ok := errors.AsType[*api.Error](err); ok && fault.Field == "from" { // there is no shorter period to choose
		err = api.Conflict("the period of " + first.ID + " has grown too large for one statement, so it can't be corrected: " + fault.Message)
	}
	return made, err
}

// pricedAt returns the end of the log whose rules rate a statement: for a correction the end that
// the first statement states, otherwise the statement's own.
func (c *core) pricedAt(ctx context.Context, tenantID string, s *sealer.Statement, end *proof.End) (*proof.End, error) {
	if s.Correction == nil {
		return end, nil
	}
	return c.cfg.Packs.EndOf(ctx, tenantID, s.Correction.Rules.PackID)
}

// unaltered requires that the previous statement, recomputed, has the same amounts. So a difference
// comes from late receipts or disputes, not from rows that were removed.
func (d *drafter) unaltered(ctx context.Context, c *chain, rules []sealer.SettlementRule) error {
	excluded, err := excludedBy(c.previous.Excluded)
	if err != nil {
		return err
	}
	again := *c.previous
	if err := Compute(ctx, d.cfg.Warehouse, c.position, rules, excluded, &again); err != nil {
		return err
	}
	if !same(&again, c.previous) {
		return api.Conflict("recomputing " + c.previous.StatementID + " from the warehouse gives other amounts, so deliveries of its period seem to be missing: load them again before you correct it")
	}
	return nil
}

// same reports whether two statements of one period and one set of rules have the same amounts.
func same(a, b *sealer.Statement) bool {
	return reflect.DeepEqual(a.Lines, b.Lines) && reflect.DeepEqual(a.Adjustments, b.Adjustments) && reflect.DeepEqual(a.Unrated, b.Unrated) && a.HeldAmount == b.HeldAmount
}

// correct makes the computed statement s a correction. then is s computed up to the end of the log
// that the previous statement states.
func (c *chain) correct(s, then *sealer.Statement, payees []sealer.StatementPayee) error {
	p := c.previous
	if same(s, p) {
		return api.Conflict("nothing has changed since " + p.StatementID + " was issued: its period has no new receipts, and no dispute changes an amount")
	}
	s.Correction = &sealer.StatementCorrection{
		Of: c.of, Payees: payees, Rules: c.rules,
		Previous: sealer.StatementPrevious{AsOf: p.AsOf, SHA256: c.sha256, StatementID: p.StatementID, Total: p.Total},
	}
	return tooLarge(s.Correct(p, then))
}

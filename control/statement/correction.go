package statement

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/statement"
)

// chain is the chain of statements that a correction continues.
type chain struct {
	// of is the id of the first statement.
	of string
	// previous is the chain's newest issued statement, position the end of the log that it states.
	previous *statement.Statement
	sha256   string
	position sealer.Position
	// terms are those of previous.
	terms *terms
}

// correct drafts a correction of an issued statement. If that is a correction, it corrects the
// first statement of its chain.
func (d *drafter) correct(ctx context.Context, tenantID, id string, by sealer.Ref) (made Statement, err error) {
	q := d.db.Read()
	first, err := firstOf(ctx, q, tenantID, id)
	if err != nil {
		return made, err
	}
	before, previous, err := last(ctx, q, first)
	if err != nil {
		return made, err
	}
	payees, err := d.names(ctx, tenantID)
	if err != nil {
		return made, err
	}
	at := store.At(d.db.Now())
	issued, err := issuedAround(ctx, q, &first.Statement)
	if err != nil {
		return made, err
	}
	end, err := d.end(ctx, tenantID, by)
	if err != nil {
		return made, err
	}
	then, position, err := d.termsOf(ctx, &before.Statement, &previous)
	if err != nil {
		return made, err
	}
	made, err = d.create(ctx, Statement{
		TenantID: tenantID, From: first.From, To: first.To, Period: first.Period, TimeZone: first.TimeZone, Currency: first.Currency, CounterpartyID: first.CounterpartyID, Corrects: &first.ID, Correction: before.Correction + 1, CreatedAt: at,
	}, source{end, issued, payees, &chain{first.ID, &previous, *before.SHA256, position, then}}, by)
	if fault, ok := errors.AsType[*api.Error](err); ok && fault.Field == "from" { // there is no shorter period to choose
		err = api.Conflict("the period of " + first.ID + " has grown too large for one statement, so it can't be corrected: " + fault.Message + ". You can void it, and draft statements for parts of its period")
	}
	return made, err
}

// firstOf returns the first statement of the chain of an issued one.
func firstOf(ctx context.Context, q store.Querier, tenantID, id string) (*fullStatement, error) {
	s, err := statements.Find(ctx, q, tenantID, id)
	if err != nil {
		return nil, err
	}
	switch s.State {
	case Draft, Discarded:
		return nil, api.Conflict("statement is " + string(s.State) + ": only an issued statement can be corrected or voided")
	case Voided:
		return nil, api.Conflict("statement is VOIDED: draft another one for its period")
	}
	return statements.Find(ctx, q, tenantID, s.first())
}

// last returns the newest issued statement of the chain of a first one.
func last(ctx context.Context, q store.Querier, first *fullStatement) (newest *fullStatement, document statement.Statement, err error) {
	newest, err = store.One(ctx, q, "the newest statement of the chain of "+first.ID, statements.Scan,
		statements.Select()+` WHERE tenant_id = $1 AND (statement_id = $2 OR corrects = $2) AND sequence > 0 ORDER BY sequence DESC LIMIT 1`, first.TenantID, first.ID)
	if err != nil {
		return nil, document, err
	}
	switch {
	case newest.Document == "":
		return nil, document, uncorrectable(newest.ID)
	case newest.edited():
		return nil, document, api.Conflict("the text of " + newest.ID + " in the database is not the signed one, so it can be neither corrected nor voided: the signed file that was handed out is the proof")
	}
	document, err = newest.document()
	return newest, document, err
}

// termsOf returns the terms by which a statement rates, and the position of its end.
func (c *core) termsOf(ctx context.Context, s *Statement, document *statement.Statement) (t *terms, at sealer.Position, err error) {
	issued, err := issuedIn(ctx, c.db.Read(), reached(s, document))
	if err != nil {
		return nil, at, err
	}
	issued = slices.DeleteFunc(issued, func(other Statement) bool {
		return !slices.ContainsFunc(document.Overlaps, func(o statement.Overlap) bool { return o.StatementID == other.ID })
	})
	own, err := c.cfg.Packs.RulesAt(ctx, s.TenantID, document.AsOf.TreeSize)
	if err != nil {
		return nil, at, err
	}
	if t, err = c.terms(ctx, s.TenantID, issued, own); err == nil {
		at, err = sealer.ParsePosition(s.AsOf)
	}
	return t, at, err
}

// correction computes a correction, which is otherwise complete. q has its terms.
func (d *drafter) correction(ctx context.Context, c *chain, q question, s *statement.Statement) error {
	if err := d.unaltered(ctx, c, q); err != nil {
		return err
	}
	payees, now := s.Payees, q.terms[0]
	q.terms, q.edges = append(q.terms, c.terms), append(q.edges, c.previous.Edges()...)
	sums, err := count(ctx, d.cfg.Checked, q)
	if err != nil {
		return err
	}
	before, disputed, ruled := sums.below(c.previous.AsOf.TreeSize), *s, *s
	disputed.Months = c.previous.Months
	if err := before.settle(ratingOf, c.terms, &disputed); err != nil {
		return err
	}
	if err := before.settle(ratingOf, now, &ruled); err != nil {
		return err
	}
	if err := sums.settle(ratingOf, now, s); err != nil {
		return err
	}
	p := c.previous
	if same(s, p) {
		return api.Conflict("nothing has changed since " + p.StatementID + " was issued: its period has no new receipts or rules, and no dispute changes an amount")
	}
	s.Correction = correction(c.of, p, c.sha256, payees)
	return tooLarge(s.Correct(p, statement.Step{Statement: &disputed, Reason: statement.ChangedByDispute}, statement.Step{Statement: &ruled, Reason: statement.ChangedByRules}, statement.Step{Statement: s, Reason: statement.ChangedLate}))
}

// correction returns one without changes, of a chain and its newest statement p. payees lists all
// counterparties, with their names.
func correction(of string, p *statement.Statement, sha256 string, payees []statement.Payee) *statement.Correction {
	return &statement.Correction{Of: of, Payees: payees, Previous: statement.Predecessor{AsOf: p.AsOf, SHA256: sha256, StatementID: p.StatementID, Total: p.Total}}
}

// unaltered requires that the previous statement, recomputed from rows, has the same amounts. So a difference
// comes from late receipts, rules or disputes, not from rows that were removed.
func (d *drafter) unaltered(ctx context.Context, c *chain, q question) (err error) {
	if q.excluded, err = excludedBy(c.previous.Excluded); err != nil {
		return err
	}
	q.asOf, q.terms, q.edges, q.rows = &c.position, []*terms{c.terms}, c.previous.Edges(), nil
	again := *c.previous
	if err := compute(ctx, d.cfg.Warehouse, q, &again); err != nil {
		return err
	}
	if !same(&again, c.previous) {
		return api.Conflict("recomputing " + c.previous.StatementID + " from the warehouse gives other amounts, so deliveries of its period seem to be missing: load them again before you correct it")
	}
	return nil
}

// same reports whether two statements of one period have the same amounts. A rule that has changed since,
// and makes the same of a month, changes nothing.
func same(a, b *statement.Statement) bool {
	return reflect.DeepEqual(a.Lines, b.Lines) && reflect.DeepEqual(a.Unrated, b.Unrated) && a.HeldAmount == b.HeldAmount &&
		slices.EqualFunc(a.Adjustments, b.Adjustments, func(x, y statement.Adjustment) bool {
			x.RuleLeaf = y.RuleLeaf
			return reflect.DeepEqual(x, y)
		})
}

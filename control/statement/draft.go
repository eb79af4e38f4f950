package statement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muniment.example/control/dispute"
	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// drafter drafts statements and corrections.
type drafter struct{ *core }

// errNothing refuses a statement about an empty log.
var errNothing = api.Conflict("nothing has been delivered yet")

// draft writes a draft for requested.TenantID. The caller has set period, currency and
// counterparty.
func (d *drafter) draft(ctx context.Context, requested Statement, by sealer.Ref) (made Statement, err error) {
	payees, err := d.names(ctx, requested.TenantID)
	if err != nil {
		return made, err
	}
	if err := known(payees, requested.CounterpartyID); err != nil {
		return made, err
	}
	requested.CreatedAt = store.At(d.db.Now()) // before the log is sealed: what comes later may be missing
	issued, err := issuedAround(ctx, d.db.Read(), &requested)
	if err == nil {
		err = refuseOverlap(issued, &requested)
	}
	if err != nil {
		return made, err
	}
	end, err := d.end(ctx, requested.TenantID, by)
	if err != nil {
		return made, err
	}
	return d.create(ctx, requested, source{end: end, issued: issued, payees: payees}, by)
}

// known refuses a counterparty that is not among the tenant's.
func known(payees []statement.Payee, counterpartyID *string) error {
	if counterpartyID != nil && !slices.ContainsFunc(payees, func(p statement.Payee) bool { return p.CounterpartyID == *counterpartyID }) {
		return api.InvalidField("counterpartyId", "is not a counterparty of this tenant")
	}
	return nil
}

// source is the input of a draft.
type source struct {
	end *proof.End
	// issued are the statements with which its period overlaps, and those shortly before it.
	issued []Statement
	// payees lists all counterparties, with their names.
	payees []statement.Payee
	// corrects is nil for the first statement of a period.
	corrects *chain
}

// create computes and writes a draft.
func (d *drafter) create(ctx context.Context, requested Statement, from source, by sealer.Ref) (made Statement, err error) {
	next := fullStatement{Statement: requested}
	next.ID, next.State, next.UpdatedAt = api.NewID(prefix, next.CreatedAt.Time), Draft, next.CreatedAt
	next.PaidAmount = rate.Money(0).Fixed(next.Currency)
	next.AsOf, next.PackID, next.RootHash, next.TreeSize = from.end.Position.String(), from.end.PackID, from.end.RootHash, int64(from.end.TreeSize)
	document := statement.Statement{
		AsOf: next.end(), CounterpartyID: requested.CounterpartyID, Currency: requested.Currency,
		From: canonical.Moment(requested.From), To: canonical.Moment(requested.To), StatementID: next.ID, TenantID: requested.TenantID, IssuedAt: canonical.Moment(next.CreatedAt), Payees: from.payees, V: 1,
	}
	if err := locate(&document, requested.TimeZone); err != nil {
		return made, err
	}
	if err := reach(&document, from.end.Rules); err != nil {
		return made, err
	}
	if c := from.corrects; c != nil && c.previous.Since.Before(document.Since.Time) {
		document.Since = c.previous.Since
	}
	next.TimeZone = document.TimeZone
	since := reached(&next.Statement, &document)
	issued := slices.DeleteFunc(from.issued, func(s Statement) bool { return !since.period().Overlaps(s.period()) })
	if document.Overlaps = overlaps(issued); from.corrects == nil {
		if err := tooMany(issued, &next.Statement); err != nil {
			return made, err
		}
	}
	excluded, err := dispute.Holding(ctx, d.db.Read(), requested.TenantID, since.period())
	if err != nil {
		return made, err
	}
	if document.Excluded, err = exclusions(excluded); err != nil {
		return made, err
	}
	t, err := d.terms(ctx, requested.TenantID, issued, from.end.Rules)
	if err != nil {
		return made, err
	}
	q := question{tenantID: requested.TenantID, from: since.From.Time, to: since.To.Time, edges: document.Edges(), asOf: &from.end.Position, terms: []*terms{t}, excluded: excluded, rows: d.cfg.Warehouse}
	if c := from.corrects; c != nil {
		if err = d.correction(ctx, c, q, &document); err == nil {
			next.Difference = &document.Correction.Difference
		}
	} else if err = leavesSpace(&q); err == nil {
		err = compute(ctx, d.cfg.Checked, q, &document)
	}
	if err != nil {
		return made, err
	}
	next.Receipts = receiptsOf(&document)
	text, err := document.Text()
	if err != nil {
		return made, err
	}
	most := statement.MaxBytes / 2 // leaves space for late receipts in corrections
	if from.corrects != nil {
		most = statement.MaxBytes
	}
	if len(text)+signatureBytes > most {
		return made, tooLong(&document, most)
	}
	next.Total, next.HeldAmount, next.Document = document.Total, document.HeldAmount, string(text)
	err = d.db.Change(ctx, func(tx *store.Tx) error {
		if err := store.WithinLimit(ctx, tx, mostDrafts, "drafts of statements", "issue or discard one", `SELECT COUNT(*) FROM statements WHERE tenant_id = $1 AND state = 'DRAFT'`, requested.TenantID); err != nil {
			return err
		}
		if err := statements.Create(ctx, tx, eventCreated, &next, by, nil); err != nil {
			return err
		}
		return keepPremises(ctx, tx, &next.Statement, since.From, premisesOf(issued, excluded))
	})
	return next.Statement, err
}

// tooLong refuses a statement with a text of more than so many bytes.
func tooLong(s *statement.Statement, most int) error {
	remedy := "choose a shorter period, or one counterparty"
	if rights, err := canonical.JSON(s.Rights); err == nil && len(rights) > most/2 { // a statement for one counterparty lists them too
		remedy = "most of it are campaigns and labels of rights: choose a shorter period, or have rules match fewer of them"
	}
	return api.InvalidField("from", fmt.Sprintf("the statement would be larger than %d bytes: %s", most, remedy))
}

// locate sets the time zone of a document.
func locate(document *statement.Statement, timeZone string) error {
	zone, err := route.Zone(timeZone)
	if err != nil {
		return err
	}
	if err := document.Local(zone); err != nil {
		return api.InvalidField("timeZone", err.Error())
	}
	return nil
}

// reach finds the months that a document adjusts by rules.
func reach(document *statement.Statement, rules []settlement.Rule) error {
	own, err := statement.NewTerms(ratingOf, nil, rules)
	if err != nil {
		return err
	}
	switch err = document.Reach(ratingOf, own); {
	case errors.Is(err, settlement.ErrMonths):
		err = api.InvalidField("from", err.Error()+": choose a shorter period")
	case err != nil:
		err = api.Conflict(err.Error())
	}
	return err
}

// reached returns a statement whose period is all that the document depends on.
func reached(s *Statement, document *statement.Statement) *Statement {
	all := *s
	all.From = store.Instant(document.Since)
	return &all
}

// end seals the log, and returns its end.
func (d *drafter) end(ctx context.Context, tenantID string, by sealer.Ref) (*proof.End, error) {
	end, err := d.cfg.Packs.SealToEnd(ctx, tenantID, by)
	if err == nil && end == nil {
		err = errNothing
	}
	return end, err
}

// ratingOf computes statements.
var ratingOf = settle.Rating

// tooLarge converts an overflow of amounts into STATE_CONFLICT.
func tooLarge(err error) error {
	if errors.Is(err, settlement.ErrAmount) || errors.Is(err, rate.ErrOverflow) {
		return api.Conflict("the sum of the period's amounts is too large: lower the prices or minimums of its rules, or choose a shorter period")
	}
	return err
}

// signatureBytes exceeds the length of the line with the signature.
const signatureBytes = 256

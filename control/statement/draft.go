package statement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muniment/control/dispute"
	"muniment/control/proof"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// drafter drafts statements and corrections.
type drafter struct{ *core }

// errNothing refuses a statement about an empty log.
var errNothing = api.Conflict("nothing was delivered yet")

// draft makes a statement of asked.TenantID, of which the caller has filled in period, currency
// and counterparty.
func (d *drafter) draft(ctx context.Context, asked Statement, by sealer.Ref) (made Statement, err error) {
	payees, err := d.names(ctx, asked.TenantID)
	if err != nil {
		return made, err
	}
	if asked.CounterpartyID != nil && !slices.ContainsFunc(payees, func(p sealer.StatementPayee) bool { return p.CounterpartyID == *asked.CounterpartyID }) {
		return made, api.InvalidField("counterpartyId", "is no counterparty of this tenant")
	}
	end, err := d.end(ctx, &asked, by)
	if err != nil {
		return made, err
	}
	return d.create(ctx, asked, source{end: end, rules: end.Rules, payees: payees}, by)
}

// source is what a statement is drafted from.
type source struct {
	end   *proof.End
	rules []sealer.SettlementRule
	// payees name all who may be paid.
	payees []sealer.StatementPayee
	// corrects is nil for the first statement of a period.
	corrects *chain
}

// create makes a draft.
func (d *drafter) create(ctx context.Context, asked Statement, from source, by sealer.Ref) (made Statement, err error) {
	holding, err := dispute.Holding(ctx, d.db.Read(), asked.TenantID)
	if err != nil {
		return made, err
	}
	now := store.At(d.db.Now())
	next := documented{Statement: asked}
	next.ID, next.State, next.CreatedAt, next.UpdatedAt = api.NewID(prefix, now.Time), Draft, now, now
	next.AsOf, next.PackID = from.end.Position.String(), from.end.PackID
	document := sealer.Statement{
		AsOf: asOf(from.end), CounterpartyID: asked.CounterpartyID, Currency: asked.Currency,
		From: sealer.Moment(asked.From), To: sealer.Moment(asked.To), StatementID: next.ID, TenantID: asked.TenantID, IssuedAt: sealer.Moment(now), Payees: from.payees, V: 1,
	}
	excluded := touching(holding, asked.From.Time, asked.To.Time, now.Time)
	if document.Excluded, err = exclusions(excluded); err != nil {
		return made, err
	}
	then := document
	if err := Compute(ctx, d.cfg.Warehouse, from.end.Position, from.rules, excluded, &document); err != nil {
		return made, err
	}
	if from.corrects != nil {
		if err := d.unaltered(ctx, from.corrects, from.rules); err != nil {
			return made, err
		}
		if err := Compute(ctx, d.cfg.Warehouse, from.corrects.position, from.rules, excluded, &then); err != nil {
			return made, err
		}
		if err := from.corrects.correct(&document, &then, from.payees); err != nil {
			return made, err
		}
		next.Difference = &document.Correction.Difference
	}
	for _, l := range document.Lines {
		next.Receipts += l.Receipts
	}
	text, err := document.Text()
	if err != nil {
		return made, err
	}
	most := sealer.MaxStatementBytes / 2 // what comes late needs space, too
	if from.corrects != nil {
		most = sealer.MaxStatementBytes
	}
	if len(text)+signatureBytes > most {
		return made, api.InvalidField("from", fmt.Sprintf("the statement would be larger than %d bytes: state a shorter period, or one counterparty", most))
	}
	next.Total, next.HeldAmount, next.Document = document.Total, document.HeldAmount, string(text)
	err = d.db.Change(ctx, func(tx *store.Tx) error {
		if err := hasSpace(ctx, tx, asked.TenantID); err != nil {
			return err
		}
		return statements.Create(ctx, tx, "statement.created", &next, by, nil)
	})
	return next.Statement, err
}

// asOf is the end of a pack as a document has it.
func asOf(end *proof.End) sealer.StatementAsOf {
	return sealer.StatementAsOf{PackID: end.PackID, RootHash: end.RootHash, TreeSize: end.TreeSize}
}

// end is the end of the log that is stated: that of now, or, where statements were issued whose
// period meets this one's, the same as theirs, so that no rule that was changed since rates
// something of theirs again.
func (d *drafter) end(ctx context.Context, asked *Statement, by sealer.Ref) (*proof.End, error) {
	packID, err := statedUpTo(ctx, d.db.Read(), asked)
	switch {
	case err != nil:
		return nil, err
	case packID != "":
		end, err := d.cfg.Packs.EndOf(ctx, asked.TenantID, packID)
		if store.IsNone(err) {
			err = api.Conflict("the period overlaps with that of a statement which was issued, and the restored database lacks its pack " + packID + ": state another period")
		}
		return end, err
	}
	end, err := d.cfg.Packs.SealToEnd(ctx, asked.TenantID, by)
	if err == nil && end == nil {
		err = errNothing
	}
	return end, err
}

// tooLarge turns an overflow of amounts into the error that the caller gets.
func tooLarge(err error) error {
	if errors.Is(err, sealer.ErrAmount) || errors.Is(err, rate.ErrOverflow) {
		return api.Conflict("the amounts of the period are more than can be added up: lower the prices or minimums of its rules, or ask for a shorter period")
	}
	return err
}

// signatureBytes is more than the line with a signature has.
const signatureBytes = 256

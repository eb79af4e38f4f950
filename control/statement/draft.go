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
var errNothing = api.Conflict("nothing has been delivered yet")

// draft writes a draft for requested.TenantID. The caller has set period, currency and
// counterparty.
func (d *drafter) draft(ctx context.Context, requested Statement, by sealer.Ref) (made Statement, err error) {
	payees, err := d.names(ctx, requested.TenantID)
	if err != nil {
		return made, err
	}
	if requested.CounterpartyID != nil && !slices.ContainsFunc(payees, func(p sealer.StatementPayee) bool { return p.CounterpartyID == *requested.CounterpartyID }) {
		return made, api.InvalidField("counterpartyId", "is not a counterparty of this tenant")
	}
	end, err := d.end(ctx, &requested, by)
	if err != nil {
		return made, err
	}
	return d.create(ctx, requested, source{end: end, rules: end.Rules, payees: payees}, by)
}

// source is the input of a draft.
type source struct {
	end   *proof.End
	rules []sealer.SettlementRule
	// payees lists all counterparties, with their names.
	payees []sealer.StatementPayee
	// corrects is nil for the first statement of a period.
	corrects *chain
}

// create computes and writes a draft.
func (d *drafter) create(ctx context.Context, requested Statement, from source, by sealer.Ref) (made Statement, err error) {
	excluded, err := dispute.Holding(ctx, d.db.Read(), requested.TenantID, requested.period())
	if err != nil {
		return made, err
	}
	if from.corrects == nil {
		if err := leavesSpace(from.rules, excluded, requested.period()); err != nil {
			return made, err
		}
	}
	now := store.At(d.db.Now())
	next := documented{Statement: requested}
	next.ID, next.State, next.CreatedAt, next.UpdatedAt = api.NewID(prefix, now.Time), Draft, now, now
	next.AsOf, next.PackID = from.end.Position.String(), from.end.PackID
	document := sealer.Statement{
		AsOf: asOf(from.end), CounterpartyID: requested.CounterpartyID, Currency: requested.Currency,
		From: sealer.Moment(requested.From), To: sealer.Moment(requested.To), StatementID: next.ID, TenantID: requested.TenantID, IssuedAt: sealer.Moment(now), Payees: from.payees, V: 1,
	}
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
	most := sealer.MaxStatementBytes / 2 // leaves space for late receipts in corrections
	if from.corrects != nil {
		most = sealer.MaxStatementBytes
	}
	if len(text)+signatureBytes > most {
		return made, api.InvalidField("from", fmt.Sprintf("the statement would be larger than %d bytes: choose a shorter period, or one counterparty", most))
	}
	next.Total, next.HeldAmount, next.Document = document.Total, document.HeldAmount, string(text)
	err = d.db.Change(ctx, func(tx *store.Tx) error {
		if err := store.WithinLimit(ctx, tx, mostDrafts, "drafts of statements", "issue or discard one", `SELECT COUNT(*) FROM statements WHERE tenant_id = $1 AND state = 'DRAFT'`, requested.TenantID); err != nil {
			return err
		}
		return statements.Create(ctx, tx, eventCreated, &next, by, nil)
	})
	return next.Statement, err
}

// asOf returns the end of a pack in the form of a statement's document.
func asOf(end *proof.End) sealer.StatementAsOf {
	return sealer.StatementAsOf{PackID: end.PackID, RootHash: end.RootHash, TreeSize: end.TreeSize}
}

// end returns the end of the log that a draft states: the current end, or, if issued statements
// overlap with its period, their end. So no rule that was changed since rates their receipts again. A
// period that goes on after that end is refused (statedUpTo): the draft would lack what came later.
func (d *drafter) end(ctx context.Context, requested *Statement, by sealer.Ref) (*proof.End, error) {
	packID, err := statedUpTo(ctx, d.db.Read(), requested)
	switch {
	case err != nil:
		return nil, err
	case packID != "":
		end, err := d.cfg.Packs.EndOf(ctx, requested.TenantID, packID)
		if store.IsNone(err) {
			err = api.Conflict("the period overlaps with that of an issued statement, and the restored database lacks its pack " + packID + ": choose another period")
		}
		return end, err
	}
	end, err := d.cfg.Packs.SealToEnd(ctx, requested.TenantID, by)
	if err == nil && end == nil {
		err = errNothing
	}
	return end, err
}

// tooLarge converts an overflow of amounts into STATE_CONFLICT.
func tooLarge(err error) error {
	if errors.Is(err, sealer.ErrAmount) || errors.Is(err, rate.ErrOverflow) {
		return api.Conflict("the sum of the period's amounts is too large: lower the prices or minimums of its rules, or choose a shorter period")
	}
	return err
}

// signatureBytes exceeds the length of the line with the signature.
const signatureBytes = 256

package statement

import (
	"context"

	"muniment/control/dispute"
	"muniment/control/route"
	"muniment/control/settle"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

// LineReceipt is a receipt behind a line.
type LineReceipt struct {
	RightID       string        `json:"rightId" doc:"The line's."`
	MeteringBasis string        `json:"meteringBasis" doc:"The line's."`
	RuleID        string        `json:"ruleId" doc:"The line's."`
	ReceiptID     string        `json:"receiptId" doc:"GET /v1/receipts/{receiptId} has all of it, and its proof."`
	RenderedAt    store.Instant `json:"renderedAt" doc:"When it was shown."`
	QuantityMs    int64         `json:"quantityMs" doc:"The metered milliseconds."`
	Impressions   string        `json:"impressions" doc:"Decimal: how many impressions it made."`
}

// LineReceipts is a page of them.
type LineReceipts struct {
	Receipts   []LineReceipt `json:"receipts" doc:"The receipts of this page, in the order of the log. A page may have fewer than the limit, or none, and go on."`
	NextCursor *string       `json:"nextCursor"`
}

type receiptsInput struct {
	StatementID   string `path:"statementId"`
	RightID       string `query:"rightId" maxLength:"64" doc:"Only those behind lines of this right."`
	RuleID        string `query:"ruleId" maxLength:"64" doc:"Only those behind lines of this rule."`
	MeteringBasis string `query:"meteringBasis" enum:"gross,viewable,audible,delivered" doc:"Only those behind lines of this metering basis."`
	route.Page
}

func (s *Service) getReceipts(ctx context.Context, in *receiptsInput) (LineReceipts, error) {
	answer := LineReceipts{Receipts: []LineReceipt{}}
	slice, err := in.Slice()
	if err != nil {
		return answer, err
	}
	found, err := statements.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.StatementID)
	if err != nil {
		return answer, err
	}
	var after *sealer.Position
	if slice.Behind != "" {
		at, err := sealer.ParsePosition(slice.Behind)
		if err != nil {
			return answer, route.BadCursor()
		}
		after = &at
	}
	b, err := s.behind(ctx, found, line{in.RightID, in.MeteringBasis, in.RuleID})
	if err != nil {
		return answer, err
	}
	var next string
	answer.Receipts, next, err = b.page(ctx, s.cfg.Warehouse, after, slice.Limit)
	answer.NextCursor = route.Cursor(next)
	return answer, err
}

// line names a line of a statement. As a filter, an empty name is any.
type line struct{ rightID, meteringBasis, ruleID string }

// behind are the lines of a statement, as their receipts are found again.
type behind struct {
	q        pipeline.EventQuery
	lines    map[line]bool
	rules    *rate.Precedence
	excluded dispute.Parts
	// atOnce is how many rows are looked through at once.
	atOnce int
}

// behind reads what is needed to find the receipts behind those lines that a filter keeps.
func (s *Service) behind(ctx context.Context, of *documented, only line) (*behind, error) {
	document, err := of.document()
	if err != nil {
		return nil, err
	}
	end, err := s.cfg.Packs.EndOf(ctx, of.TenantID, of.PackID)
	if err != nil {
		return nil, err
	}
	priced, err := s.pricedAt(ctx, of.TenantID, &document, end)
	if err != nil {
		return nil, err
	}
	excluded, err := excludedBy(document.Excluded)
	if err != nil {
		return nil, err
	}
	b := &behind{lines: map[line]bool{}, excluded: excluded.Parts(), atOnce: rowsAtOnce, q: pipeline.EventQuery{
		TenantID: of.TenantID, RightID: only.rightID, RenderedFrom: of.From.Time, RenderedTo: of.To.Time, Before: &end.Position,
	}}
	is := func(name, one string) bool { return name == "" || name == one }
	for _, l := range document.Lines {
		b.lines[line{l.RightID, l.MeteringBasis, l.RuleID}] = is(only.rightID, l.RightID) && is(only.meteringBasis, l.MeteringBasis) && is(only.ruleID, l.RuleID)
	}
	b.rules, err = settle.Precedence(priced.Rules)
	return b, err
}

const (
	// rowsAtOnce is how many rows are looked through at once, and pagesAtMost how often
	// for one answer: there may be many receipts behind other lines.
	rowsAtOnce  = 2000
	pagesAtMost = 10
)

// page lists up to limit receipts behind a position. next is that of the last row that was looked
// at; empty behind the last.
func (b *behind) page(ctx context.Context, w Warehouse, after *sealer.Position, limit int) (list []LineReceipt, next string, err error) {
	list = []LineReceipt{}
	for range pagesAtMost {
		q := b.q
		q.After, q.Limit = after, b.atOnce
		rows, err := w.Events(ctx, q)
		if err != nil || len(rows) == 0 {
			return list, "", err
		}
		var from sealer.Position // before all
		if after != nil {
			from = *after
		}
		last := rows[len(rows)-1].Position
		repeats, err := w.Duplicates(ctx, q.TenantID, from, last)
		if err != nil {
			return nil, "", err
		}
		copies := map[string]bool{}
		for _, d := range repeats {
			copies[d.EventID] = true
		}
		for i := range rows {
			row := &rows[i]
			if len(list) == limit {
				return list, after.String(), nil
			}
			after = &row.Position
			d := row.Delivery
			if !d.Metered || copies[row.EventID] || b.excluded.Has(d.ReceiptID, d.RightID, d.RenderedAt) {
				continue
			}
			if l := b.line(d); b.lines[l] {
				list = append(list, LineReceipt{l.rightID, l.meteringBasis, l.ruleID, d.ReceiptID, store.At(d.RenderedAt), d.QuantityMs, sealer.FormatImpressions(d.Impressions)})
			}
		}
		if len(rows) < b.atOnce {
			return list, "", nil
		}
	}
	return list, after.String(), nil
}

// line is the one that a delivery is behind, without a rule if none rates it.
func (b *behind) line(d *pipeline.Delivery) line {
	l := line{rightID: d.RightID, meteringBasis: d.MeteringBasis}
	if rule := b.rules.Of(&rate.Metered{
		RightID: d.RightID, BasisID: d.BasisID, Substrate: d.Substrate, MeteringBasis: d.MeteringBasis, Completion: d.Completion, RenderedAt: d.RenderedAt,
	}); rule != nil {
		l.ruleID = rule.ID
	}
	return l
}

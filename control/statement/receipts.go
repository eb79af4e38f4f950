package statement

import (
	"context"

	"muniment.example/control/dispute"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// LineReceipt is a receipt behind a line.
type LineReceipt struct {
	RightID       string        `json:"rightId" doc:"The right of the line."`
	MeteringBasis string        `json:"meteringBasis" doc:"The metering basis of the line."`
	RuleID        string        `json:"ruleId" doc:"The rule of the line."`
	RuleLeaf      uint64        `json:"ruleLeaf" doc:"The leaf of the log with the rule's text by which the line is rated."`
	ReceiptID     string        `json:"receiptId" doc:"The receipt: GET /v1/receipts/{receiptId} returns it, with its proof at .../proof."`
	RenderedAt    store.Instant `json:"renderedAt" doc:"When the content was rendered."`
	QuantityMs    int64         `json:"quantityMs" doc:"The metered milliseconds."`
	Impressions   string        `json:"impressions" doc:"Decimal: the metered impressions."`
}

// LineReceipts is a page of receipts behind lines.
type LineReceipts struct {
	Receipts   []LineReceipt `json:"receipts" doc:"The receipts of this page, in the order of the log. A page may have fewer receipts than the limit, or none, while nextCursor is set."`
	NextCursor *string       `json:"nextCursor"`
}

type receiptsInput struct {
	StatementID   string `path:"statementId"`
	RightID       string `query:"rightId" maxLength:"64" doc:"Only receipts behind lines of this right."`
	RuleID        string `query:"ruleId" maxLength:"64" doc:"Only receipts behind lines of this rule."`
	MeteringBasis string `query:"meteringBasis" enum:"gross,viewable,audible,delivered" doc:"Only receipts behind lines of this metering basis."`
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
	b, err := s.receiptFinder(ctx, found, line{rightID: in.RightID, meteringBasis: in.MeteringBasis, ruleID: in.RuleID})
	if err != nil {
		return answer, err
	}
	var next string
	answer.Receipts, next, err = b.page(ctx, s.cfg.Warehouse, after, slice.Limit)
	answer.NextCursor = in.Next(next)
	return answer, err
}

// line identifies a line of a statement. In a filter an empty field matches any.
type line struct {
	rightID, meteringBasis, ruleID string
	ruleLeaf                       uint64 // not in a filter
}

// receiptFinder finds the receipts behind the lines of a statement.
type receiptFinder struct {
	q        pipeline.EventQuery
	lines    map[line]bool
	terms    *terms
	excluded dispute.Parts
	// atOnce is how many rows one query reads.
	atOnce int
}

// receiptFinder reads what is needed to find the receipts behind the lines that a filter selects.
func (s *Service) receiptFinder(ctx context.Context, of *fullStatement, only line) (*receiptFinder, error) {
	document, err := of.document()
	if err != nil {
		return nil, err
	}
	t, end, err := s.termsOf(ctx, &of.Statement, &document)
	if err != nil {
		return nil, err
	}
	return newReceiptFinder(&document, t, end, only)
}

// newReceiptFinder finds the receipts behind the lines of a statement, which it rates by the terms, up to a
// position.
func newReceiptFinder(s *statement.Statement, t *terms, end sealer.Position, only line) (*receiptFinder, error) {
	excluded, err := excludedBy(s.Excluded)
	if err != nil {
		return nil, err
	}
	b := &receiptFinder{lines: map[line]bool{}, terms: t, excluded: excluded.Parts(), atOnce: rowsAtOnce, q: pipeline.EventQuery{
		TenantID: s.TenantID, RightID: only.rightID, RenderedFrom: s.From.Time, RenderedTo: s.To.Time, Before: &end,
	}}
	is := func(name, one string) bool { return name == "" || name == one }
	for _, l := range s.Lines {
		b.lines[line{l.RightID, l.MeteringBasis, l.RuleID, l.RuleLeaf}] = is(only.rightID, l.RightID) && is(only.meteringBasis, l.MeteringBasis) && is(only.ruleID, l.RuleID)
	}
	return b, nil
}

const (
	// rowsAtOnce is how many rows one query reads, and pagesAtMost how many queries one response
	// may need: there may be many receipts behind other lines.
	rowsAtOnce  = 2000
	pagesAtMost = 10
)

// page lists up to limit receipts behind a position. next is the position of the last row that it
// read; empty if there are no more.
func (b *receiptFinder) page(ctx context.Context, w Warehouse, after *sealer.Position, limit int) (list []LineReceipt, next string, err error) {
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
		known, err := rightsOf(ctx, q.TenantID, []*terms{b.terms}, func(yield func(string) bool) {
			for i := range rows {
				if !yield(rows[i].Delivery.RightID) {
					return
				}
			}
		})
		if err != nil {
			return nil, "", err
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
			if l := b.line(row, known[d.RightID]); b.lines[l] {
				list = append(list, LineReceipt{l.rightID, l.meteringBasis, l.ruleID, l.ruleLeaf, d.ReceiptID, store.At(d.RenderedAt), d.QuantityMs, sealer.FormatImpressions(d.Impressions)})
			}
		}
		if len(rows) < b.atOnce {
			return list, "", nil
		}
	}
	return list, after.String(), nil
}

// line returns the line of a delivery, on a right with what rules name of it; without a rule if none rates it.
func (b *receiptFinder) line(row *pipeline.Row, right *settlement.Right) line {
	d := row.Delivery
	l := line{rightID: d.RightID, meteringBasis: d.MeteringBasis}
	if rule, _ := b.terms.Rule(&settlement.Metered{
		RightID: d.RightID, BasisID: d.BasisID, Substrate: d.Substrate, MeteringBasis: d.MeteringBasis, Completion: d.Completion, RenderedAt: d.RenderedAt, Leaf: b.terms.leafOf(row.Position),
		Right: right,
	}); rule != nil {
		l.ruleID, l.ruleLeaf = rule.ID(), rule.Leaf
	}
	return l
}

package event

import (
	"context"
	"io"
	"net/http"

	"muniment.example/control/analyst"
	"muniment.example/control/route"
	"muniment.example/control/table"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const (
	// rowsAPage is how many receipts of a file are held in memory. Nothing of the warehouse is held
	// while they are sent.
	rowsAPage = 1000
	// leastSpan is how much of the log one query covers at least: without a bound, a warehouse may sort
	// all remaining rows for each page. mostSpan is how much it covers at most, where the tenant has little there.
	leastSpan, mostSpan = 1 << 14, 1 << 40
	// duplicatesSpan is how much of the log one query for duplicates covers, whose answer is in memory.
	duplicatesSpan = 1 << 16
)

// receiptFile returns the file of all receipts before a position that a query selects, newest first; without a
// position it is empty. Its first page is read before the response begins, so a failure to read it is an ordinary error response.
func (s *Service) receiptFile(q pipeline.EventQuery, asOf *sealer.Position, format table.Format, bom bool) *route.File {
	f := &route.File{Name: "receipts." + string(format), Type: format.MediaType(), Size: route.UnknownSize, Header: map[string]string{}}
	p := &pages{warehouse: s.warehouse, q: q, over: asOf == nil, span: leastSpan}
	if asOf != nil {
		p.before = *asOf
		f.Name, f.Header[route.HeaderAsOf] = "receipts-"+asOf.String()+"."+string(format), asOf.String()
	}
	f.Open = func(ctx context.Context) (func(io.Writer), error) {
		rows, err := p.next(ctx)
		return func(to io.Writer) {
			out := format.New(to, analyst.Receipts.Columns, bom)
			var err error
			for err == nil && len(rows) > 0 {
				if err = s.writeReceipts(ctx, out, rows); err == nil {
					rows, err = p.next(ctx)
				}
			}
			if err == nil {
				err = out.Close()
			}
			if err != nil {
				s.logger.InfoContext(ctx, "a file of receipts was not sent completely", "tenantId", q.TenantID, "err", err)
				panic(http.ErrAbortHandler)
			}
		}, err
	}
	return f
}

// writeReceipts writes a page.
func (s *Service) writeReceipts(ctx context.Context, out table.Writer, rows []pipeline.Row) error {
	duplicates, err := s.duplicates(ctx, rows)
	if err != nil {
		return err
	}
	for i := range rows {
		cells, err := receiptCells(&rows[i], duplicates[rows[i].Position])
		if err == nil {
			err = out.Write(cells)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// duplicates returns which of the rows are duplicates. They are in descending order, of one partition.
func (s *Service) duplicates(ctx context.Context, rows []pipeline.Row) (map[sealer.Position]bool, error) {
	found := map[sealer.Position]bool{}
	for len(rows) > 0 {
		last, n := rows[0].Position, 1
		for n < len(rows) && rows[n].Position.Generation == last.Generation && last.Offset-rows[n].Position.Offset < duplicatesSpan {
			n++
		}
		after := rows[n-1].Position
		after.Offset--
		list, err := s.warehouse.Duplicates(ctx, rows[0].TenantID, after, last)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			found[d.Position] = true
		}
		rows = rows[n:]
	}
	return found, nil
}

// receiptCells are the cells of analyst.Receipts.
func receiptCells(row *pipeline.Row, duplicate bool) ([]any, error) {
	parts, err := sealer.SplitDelivery(row.Event)
	if err != nil {
		return nil, err
	}
	receipt, err := sealer.ParseReceipt(parts.Receipt)
	if err != nil {
		return nil, err
	}
	d := row.Delivery
	metered, reason, basis, quantity, impressions, placement := d.Metered, d.Reason, d.MeteringBasis, d.QuantityMs, d.Impressions, ""
	if duplicate {
		metered, reason, basis, quantity, impressions = false, pipeline.ReasonDuplicate, "none", 0, 0
	}
	if receipt.SpatialPlacementID != nil {
		placement = *receipt.SpatialPlacementID
	}
	return []any{
		row.TenantID, d.ReceiptID, row.EventID, d.RightID, d.RightRevision, d.BasisID, d.Substrate,
		d.RenderedAt, d.IssuedAt, d.SigningKeyID, duplicate, metered,
		reason, basis, quantity, sealer.FormatImpressions(impressions), d.Completion,
		int64(row.Position.Generation), int64(row.Position.Partition), row.Position.Offset, d.MeteringBasis, d.Reason, row.Node, receipt.SpatialAnchorID, placement,
	}, nil
}

// pages reads the rows before a position that a query selects, from the newest down. Each query is for the
// rows of a span of the log that has about a page of them.
type pages struct {
	warehouse pipeline.Warehouse
	q         pipeline.EventQuery
	before    sealer.Position
	span      int64
	over      bool
}

// next reads the next rows; none if there are no more.
func (p *pages) next(ctx context.Context) ([]pipeline.Row, error) {
	for !p.over {
		rows, err := p.page(ctx)
		if err != nil || len(rows) > 0 {
			return rows, err
		}
	}
	return nil, nil
}

func (p *pages) page(ctx context.Context) ([]pipeline.Row, error) {
	before, after := p.before, p.before
	after.Offset = max(-1, before.Offset-p.span-1)
	p.q.Newest, p.q.Limit, p.q.After, p.q.Before = true, rowsAPage, &after, &before
	rows, err := p.warehouse.Events(ctx, p.q)
	switch {
	case err != nil:
		return nil, err
	case len(rows) == rowsAPage:
		p.before = rows[len(rows)-1].Position
		p.span = max(leastSpan, 2*(before.Offset-p.before.Offset))
	case after.Offset >= 0:
		p.before.Offset = after.Offset + 1
		if len(rows) < rowsAPage/2 {
			p.span = min(2*p.span, mostSpan)
		}
	default: // the generation is read: continue in the one before it, wherever that ends
		p.before.Offset = 0
		begin := p.before
		p.q.After, p.q.Before, p.q.Limit = nil, &begin, 1
		older, err := p.warehouse.Events(ctx, p.q)
		if err != nil {
			return nil, err
		}
		p.over, p.span = len(older) == 0, leastSpan
		if !p.over {
			p.before = older[0].Position.Next()
		}
	}
	return rows, nil
}

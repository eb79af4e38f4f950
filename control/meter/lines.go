package meter

import (
	"context"
	"slices"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// lines reads the lines of one response.
type lines struct {
	query
	service *Service
	by      by
	q       pipeline.MeterQuery // without a page
}

// cut sets the query's buckets. some is false if there is nothing to list. totals is nil unless they
// were needed to determine the buckets.
func (l *lines) cut(ctx context.Context) (totals *pipeline.MeterTotals, some bool, err error) {
	if l.asOf == nil {
		return nil, false, nil
	}
	first, last := l.q.From, l.q.To
	if l.open() {
		t, err := l.service.sums.MeterTotals(ctx, l.q)
		if err != nil || t.Receipts == 0 {
			return nil, false, err
		}
		totals, first, last = &t, t.First, t.Last
	}
	l.q.Buckets, err = l.buckets(first, last)
	return totals, err == nil, err
}

// rightsAtOnce is for how many rows one query looks up campaigns: a right may have thousands of them.
const rightsAtOnce = 500

// each calls take with every line of rows until take returns more = false. row is the index of the
// line's row, campaign the index of its campaign among those of the right.
func (l *lines) each(ctx context.Context, rows []pipeline.MeterRow, take func(row, campaign int, line MeteringRow) (more bool, err error)) error {
	number := 0
	for some := range slices.Chunk(rows, rightsAtOnce) {
		campaigns, err := l.campaigns(ctx, some)
		if err != nil {
			return err
		}
		for _, row := range some {
			line := l.line(row)
			under := []*string{nil}
			if of := campaigns[row.RightID]; len(of) > 0 {
				under = under[:0]
				for i := range of {
					under = append(under, &of[i])
				}
			}
			for i := range under {
				if l.by.campaign {
					line.CampaignID = &under[i]
				}
				if more, err := take(number, i, line); err != nil || !more {
					return err
				}
			}
			number++
		}
	}
	return nil
}

// campaigns returns the campaigns of the rows' rights if lines are by campaign.
func (l *lines) campaigns(ctx context.Context, rows []pipeline.MeterRow) (map[string][]string, error) {
	if !l.by.campaign {
		return nil, nil
	}
	rights := make([]string, len(rows))
	for i, row := range rows {
		rights[i] = row.RightID
	}
	slices.Sort(rights)
	scopes, err := l.service.scopes(ctx, l.q.TenantID, nil, slices.Compact(rights))
	campaigns := make(map[string][]string, len(scopes))
	for _, s := range scopes {
		campaigns[s.RightID] = s.Campaigns
	}
	return campaigns, err
}

// line converts a row into a line of the response, without a campaign.
func (l *lines) line(row pipeline.MeterRow) MeteringRow {
	line := MeteringRow{
		Bucket: l.bucket(row.Bucket), RightID: row.RightID, Substrate: row.Substrate, BasisID: row.BasisID, MeteringBasis: row.MeteringBasis, Reason: row.Reason,
		Receipts: row.Receipts, QuantityMs: row.QuantityMs, Impressions: sealer.FormatImpressions(row.Impressions),
	}
	if l.by.Anchor {
		line.SpatialAnchorID = &row.SpatialAnchorID
	}
	if l.by.Placement {
		line.SpatialPlacementID = new(*string)
		if row.SpatialPlacementID != "" {
			*line.SpatialPlacementID = &row.SpatialPlacementID
		}
	}
	return line
}

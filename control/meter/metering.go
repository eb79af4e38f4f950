package meter

import (
	"context"

	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

// Metering is the answer to GET /v1/metering.
type Metering struct {
	Frame
	Rows       []MeteringRow  `json:"rows"`
	Totals     MeteringTotals `json:"totals"`
	NextCursor *string        `json:"nextCursor"`
}

// MeteringRow is one line of the answer. All but its last three fields are its key.
type MeteringRow struct {
	Bucket        *string `json:"bucket,omitempty" format:"date-time" doc:"Start of the bucket, with the zone's offset; absent when time is not cut."`
	RightID       string  `json:"rightId"`
	Substrate     string  `json:"substrate"`
	BasisID       string  `json:"basisId"`
	MeteringBasis string  `json:"meteringBasis" enum:"viewable,gross,audible,delivered,none" doc:"What the quantity is of."`
	Reason        string  `json:"reason" doc:"METERED, why it was suppressed, or DUPLICATE." example:"METERED"`
	Receipts      int64   `json:"receipts"`
	QuantityMs    int64   `json:"quantityMs"`
	Impressions   string  `json:"impressions" pattern:"^(0|[1-9][0-9]*)(\\.[0-9]{0,3}[1-9])?$" doc:"A decimal: the multipliers of what is metered, 1 where none was given." example:"12.5"`
}

// MeteringTotals are sums over all rows; receipts = metered + suppressed + duplicates.
type MeteringTotals struct {
	Receipts    int64  `json:"receipts"`
	Metered     int64  `json:"metered"`
	Suppressed  int64  `json:"suppressed"`
	Duplicates  int64  `json:"duplicates"`
	QuantityMs  int64  `json:"quantityMs"`
	Impressions string `json:"impressions" pattern:"^(0|[1-9][0-9]*)(\\.[0-9]{0,3}[1-9])?$" doc:"A decimal: the sum over all rows." example:"12.5"`
}

func (r *Room) getMetering(ctx context.Context, in *Question) (Metering, error) {
	a, err := in.read(ctx, r, "")
	if err != nil {
		return Metering{}, err
	}
	body := Metering{Frame: a.frame(), Rows: []MeteringRow{}, Totals: MeteringTotals{Impressions: sealer.FormatImpressions(0)}}
	if a.asOf == nil {
		return body, nil
	}
	q := pipeline.MeterQuery{
		TenantID: auth.PrincipalFrom(ctx).TenantID, RightID: in.RightID,
		From: a.from.Time, To: a.to.Time, AsOf: a.asOf, Skip: a.row, Limit: in.Limit + 1,
	}
	var totals *pipeline.MeterTotals
	total := func() error {
		t, err := r.warehouse.MeterTotals(ctx, q)
		totals = &t
		return err
	}
	if a.open() {
		if err := total(); err != nil {
			return Metering{}, err
		}
		if totals.Receipts == 0 {
			return body, nil
		}
		if q.Buckets, err = a.buckets(totals.First, totals.Last); err != nil {
			return Metering{}, err
		}
	} else if q.Buckets, err = a.buckets(q.From, q.To); err != nil {
		return Metering{}, err
	}
	rows, err := r.warehouse.Metering(ctx, q)
	if err != nil {
		return Metering{}, err
	}
	switch {
	case totals != nil:
	case a.row == 0 && len(rows) <= in.Limit: // the page is the whole answer
		totals = sum(rows)
	default:
		if err := total(); err != nil {
			return Metering{}, err
		}
	}
	body.Totals = MeteringTotals{
		Receipts: totals.Receipts, Metered: totals.Metered, Duplicates: totals.Duplicates, QuantityMs: totals.QuantityMs,
		Suppressed:  totals.Receipts - totals.Metered - totals.Duplicates,
		Impressions: sealer.FormatImpressions(totals.Impressions),
	}
	rows, body.NextCursor = page(&a, rows, in.Limit)
	for _, x := range rows {
		body.Rows = append(body.Rows, MeteringRow{
			a.bucket(x.Bucket), x.RightID, x.Substrate, x.BasisID, x.MeteringBasis, x.Reason, x.Receipts, x.QuantityMs, sealer.FormatImpressions(x.Impressions),
		})
	}
	return body, nil
}

// reasonMetered is the reason of a delivery that is billed.
const reasonMetered = "METERED"

// sum adds up rows, where they are all there are.
func sum(rows []pipeline.MeterRow) *pipeline.MeterTotals {
	var t pipeline.MeterTotals
	for _, r := range rows {
		t.Receipts += r.Receipts
		t.QuantityMs += r.QuantityMs
		t.Impressions += r.Impressions
		switch r.Reason {
		case reasonMetered:
			t.Metered += r.Receipts
		case pipeline.ReasonDuplicate:
			t.Duplicates += r.Receipts
		}
	}
	return &t
}

package meter

import (
	"context"
	"strings"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Metering is the response to GET /v1/metering.
type Metering struct {
	Frame
	Rows       []MeteringRow  `json:"rows"`
	Totals     MeteringTotals `json:"totals"`
	NextCursor *string        `json:"nextCursor"`
}

// MeteringRow is one line of the response. All but its last three fields are its key.
type MeteringRow struct {
	Bucket        *string `json:"bucket,omitempty" format:"date-time" doc:"Start of the bucket, with the zone's offset; absent without buckets."`
	RightID       string  `json:"rightId"`
	Substrate     string  `json:"substrate"`
	BasisID       string  `json:"basisId"`
	MeteringBasis string  `json:"meteringBasis" enum:"viewable,gross,audible,delivered,none" doc:"The tier at which the quantity is metered."`
	Reason        string  `json:"reason" doc:"METERED, why it was suppressed, or DUPLICATE." example:"METERED"`
	// A pointer to nil is null; nil is absent.
	SpatialAnchorID    *string  `json:"spatialAnchorId,omitempty" doc:"With by=anchor alone." example:"screen-0042"`
	SpatialPlacementID **string `json:"spatialPlacementId,omitempty" nullable:"true" doc:"With by=placement alone; null for receipts without one." example:"slot-3"`
	CampaignID         **string `json:"campaignId,omitempty" nullable:"true" doc:"With by=campaign alone: a campaign that the right's scope lists; null if it lists none." example:"spring"`
	Receipts           int64    `json:"receipts"`
	QuantityMs         int64    `json:"quantityMs"`
	Impressions        string   `json:"impressions" pattern:"^(0|[1-9][0-9]*)(\\.[0-9]{0,3}[1-9])?$" doc:"Decimal: the sum of the multipliers of metered receipts; a receipt without one counts 1." example:"12.5"`
}

// MeteringTotals are sums over all receipts, each counted once;
// receipts = metered + suppressed + duplicates.
type MeteringTotals struct {
	Receipts    int64  `json:"receipts"`
	Metered     int64  `json:"metered"`
	Suppressed  int64  `json:"suppressed"`
	Duplicates  int64  `json:"duplicates"`
	QuantityMs  int64  `json:"quantityMs"`
	Impressions string `json:"impressions" pattern:"^(0|[1-9][0-9]*)(\\.[0-9]{0,3}[1-9])?$" doc:"Decimal: the sum over all rows." example:"12.5"`
}

// MeteringQuestion is exported for the same reason as Question.
type MeteringQuestion struct {
	Question
	By     []string `query:"by,explode" maxItems:"10" minLength:"1" doc:"Also sum by anchor, placement or campaign. Repeat the parameter, or separate values with commas."`
	BOM    string   `query:"bom" enum:"true,false" doc:"Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8."`
	Format string   `query:"format" enum:"json,csv,ndjson" default:"json" doc:"json: a page in the envelope, with totals. csv, ndjson: a file of all rows, without limit and cursor."`
}

// by is what rows are summed by in addition.
type by struct {
	pipeline.MeterBy
	campaign bool
}

func (in *MeteringQuestion) by() (b by, err error) {
	for _, several := range in.By {
		for name := range strings.SplitSeq(several, ",") {
			switch strings.TrimSpace(name) {
			case "anchor":
				b.Anchor = true
			case "placement":
				b.Placement = true
			case "campaign":
				b.campaign = true
			default:
				return b, api.InvalidField("by", "must be anchor, placement or campaign")
			}
		}
	}
	return b, nil
}

func (s *Service) getMetering(ctx context.Context, in *MeteringQuestion) (body Metering, _ *route.File, err error) {
	l := lines{service: s}
	if in.Format != formatJSON && in.PageGiven() {
		return body, nil, api.InvalidField("format", "is a file of all rows: limit and cursor are for json")
	}
	if in.BOM == "true" && in.Format != formatCSV {
		return body, nil, api.InvalidField("bom", "requires format csv")
	}
	if l.by, err = in.by(); err != nil {
		return body, nil, err
	}
	if l.query, err = in.read(ctx, s, "", l.by.campaign); err != nil {
		return body, nil, err
	}
	l.q = pipeline.MeterQuery{
		TenantID: auth.PrincipalFrom(ctx).TenantID, RightID: in.RightID, By: l.by.MeterBy, From: l.from.Time, To: l.to.Time, AsOf: l.asOf,
	}
	if in.Format != formatJSON {
		return body, l.file(in.Format, in.BOM == "true"), nil
	}
	body, err = l.page(ctx, in.Limit)
	return body, nil, err
}

// page returns the response with the rows of one page.
func (l *lines) page(ctx context.Context, limit int) (Metering, error) {
	body := Metering{Frame: l.frame(), Rows: []MeteringRow{}, Totals: MeteringTotals{Impressions: sealer.FormatImpressions(0)}}
	totals, some, err := l.cut(ctx)
	if err != nil || !some {
		return body, err
	}
	l.q.Skip, l.q.Limit = l.row, limit+1
	rows, err := l.service.sums.Metering(ctx, l.q)
	if err != nil {
		return Metering{}, err
	}
	if totals == nil && l.row == 0 && len(rows) <= limit { // the page has all rows
		totals = sum(rows)
	}
	if totals == nil {
		t, err := l.service.sums.MeterTotals(ctx, l.q)
		if err != nil {
			return Metering{}, err
		}
		totals = &t
	}
	body.Totals = MeteringTotals{
		Receipts: totals.Receipts, Metered: totals.Metered, Duplicates: totals.Duplicates, QuantityMs: totals.QuantityMs,
		Suppressed:  totals.Receipts - totals.Metered - totals.Duplicates,
		Impressions: sealer.FormatImpressions(totals.Impressions),
	}
	err = l.each(ctx, rows, func(row, campaign int, line MeteringRow) (more bool, err error) {
		switch {
		case row == 0 && campaign < l.campaign: // on an earlier page
		case len(body.Rows) == limit:
			body.NextCursor = l.paged.Next(place{*l.asOf, l.row + row, campaign}.String())
			return false, nil
		default:
			body.Rows = append(body.Rows, line)
		}
		return true, nil
	})
	return body, err
}

// sum computes the totals of rows, which must be all rows.
func sum(rows []pipeline.MeterRow) *pipeline.MeterTotals {
	var t pipeline.MeterTotals
	for _, r := range rows {
		t.Receipts += r.Receipts
		t.QuantityMs += r.QuantityMs
		t.Impressions += r.Impressions
		switch r.Reason {
		case sealer.ReasonMetered:
			t.Metered += r.Receipts
		case pipeline.ReasonDuplicate:
			t.Duplicates += r.Receipts
		}
	}
	return &t
}

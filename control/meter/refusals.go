package meter

import (
	"context"

	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer/calendar"
)

// Refusals is the response to GET /v1/metering/refusals.
type Refusals struct {
	Frame
	Rows         []RefusalRow      `json:"rows"`
	Totals       RefusalTotals     `json:"totals"`
	Unrecognised []UnrecognisedRow `json:"unrecognised" doc:"Misspelt fields of telemetry: the gate did not see their values. The newest 1000, on the first page, and none if a right or a rule is asked for."`
	NextCursor   *string           `json:"nextCursor"`
}

// RefusalRow is one line of the response. All but its last field are its key.
type RefusalRow struct {
	Bucket   *string `json:"bucket" format:"date-time" doc:"Start of the bucket, with the zone's offset."`
	RightID  *string `json:"rightId" doc:"Null where a node had too many counts to separate them by right."`
	Rule     string  `json:"rule" doc:"A rule of the gate; beacon-prefetch, beacon-macro, beacon-malformed, beacon-expired, beacon-key and beacon-limited count beacon calls that were not recorded." example:"automotive-speed"`
	Refusals int64   `json:"refusals"`
}

// UnrecognisedRow is one name of one bucket.
type UnrecognisedRow struct {
	Bucket     *string `json:"bucket" format:"date-time" doc:"Start of the bucket, with the zone's offset."`
	Name       *string `json:"name" doc:"As it was sent. Null where a node had too many names to separate them." example:"speed_mph"`
	Meant      string  `json:"meant" doc:"The field of telemetry that it stands for: the same but for case, _ and -, or one edit." example:"speedMph"`
	Deliveries int64   `json:"deliveries" doc:"How often it was sent, in deliveries that were refused as well."`
}

// RefusalTotals are sums over all rows.
type RefusalTotals struct {
	Refusals int64 `json:"refusals"`
}

type refusalsQuestion struct {
	Question
	Rule string `query:"rule" maxLength:"64" doc:"One rule only." example:"automotive-speed"`
}

func (s *Service) getRefusals(ctx context.Context, in *refusalsQuestion) (Refusals, error) {
	a, err := in.read(ctx, s, calendar.Hour, false)
	if err != nil {
		return Refusals{}, err
	}
	body := Refusals{Frame: a.frame(), Rows: []RefusalRow{}, Unrecognised: []UnrecognisedRow{}}
	if a.asOf == nil {
		return body, nil
	}
	q := pipeline.RefusalQuery{
		TenantID: auth.PrincipalFrom(ctx).TenantID, RightID: in.RightID, Rule: in.Rule,
		From: a.from.Time, To: a.to.Time, AsOf: a.asOf, Skip: a.row, Limit: in.Limit + 1,
	}
	totals, err := s.warehouse.RefusalTotals(ctx, q)
	if err != nil {
		return Refusals{}, err
	}
	if a.open() && totals.First.IsZero() {
		return body, nil
	}
	if q.Buckets, err = a.buckets(totals.First, totals.Last); err != nil {
		return Refusals{}, err
	}
	rows, err := s.warehouse.Refusals(ctx, q)
	if err != nil {
		return Refusals{}, err
	}
	if a.row == 0 && in.RightID == "" && in.Rule == "" {
		if err := s.unrecognised(ctx, &a, q, &body); err != nil {
			return Refusals{}, err
		}
	}
	body.Totals.Refusals = totals.Refusals
	rows, body.NextCursor = page(&a, rows, in.Limit)
	for _, x := range rows {
		row := RefusalRow{Bucket: a.bucket(x.Bucket), Rule: x.Rule, Refusals: x.Refusals}
		if x.RightID != "" {
			row.RightID = &x.RightID
		}
		body.Rows = append(body.Rows, row)
	}
	return body, nil
}

// maxUnrecognised is the most names of one response.
const maxUnrecognised = 1000

func (s *Service) unrecognised(ctx context.Context, a *query, q pipeline.RefusalQuery, body *Refusals) error {
	q.Limit = maxUnrecognised
	rows, err := s.warehouse.Unrecognised(ctx, q)
	for _, x := range rows {
		row := UnrecognisedRow{Bucket: a.bucket(x.Bucket), Meant: x.Meant, Deliveries: x.Deliveries}
		if x.Name != "" {
			row.Name = &x.Name
		}
		body.Unrecognised = append(body.Unrecognised, row)
	}
	return err
}

package proof

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
)

// Checked returns sums whose Metering fails with STATE_CONFLICT if rows of sealed entries that it counts, or
// rows beside them in the same hour or pack, are not those that were sealed. So nothing is lost in its result
// that the warehouse has lost. Queries that name events, or sum by anchor or placement, are not checked.
func (s *Sums) Checked() *Sums {
	checked := *s
	checked.checked = true
	return &checked
}

// hoursAtOnce is how many hours one query of rows compares.
const hoursAtOnce = pipeline.MaxMeterHours / 2

// compared adds what is counted by rows of cut hours to a table, by the indexes of buckets, and returns the
// queries of what is left. The rows that are counted are those that are compared: of whole hours.
func (s *Sums) compared(ctx context.Context, q *pipeline.MeterQuery, p *split, t *sums.Table) (rest []pipeline.MeterQuery, err error) {
	var edges []time.Time
	for _, of := range p.spans {
		for _, ms := range []int64{of.low, of.high} {
			if ms != noLow && ms != noHigh && p.cuts(sums.StartOf(ms, sums.HourMs)) {
				edges = append(edges, time.UnixMilli(ms).UTC())
			}
		}
	}
	end := p.end.Next()
	var rows sums.Table
	for some := range slices.Chunk(p.cut, hoursAtOnce) {
		last := some[len(some)-1].Add(time.Hour)
		within := pipeline.MeterQuery{TenantID: q.TenantID, RightID: q.RightID, AsOf: &end, Hours: some, From: some[0], To: last, By: pipeline.MeterBy{Completion: true}}
		for _, edge := range edges {
			if edge.After(some[0]) && edge.Before(last) {
				within.Buckets = append(within.Buckets, edge)
			}
		}
		within.Buckets = append(within.Buckets, some...)
		slices.SortFunc(within.Buckets, time.Time.Compare)
		within.Buckets = slices.CompactFunc(within.Buckets, time.Time.Equal)
		list, err := s.rows.Metering(ctx, within)
		if err != nil {
			return nil, err
		}
		for i := range list {
			start, kind, sum := list[i].Bucket.UnixMilli(), kindOf(&list[i]), sumOf(&list[i])
			rows.Add(sums.StartOf(start, sums.HourMs), rows.Number(kind), sum)
			if bucket, ok := p.bucket(start, 1); ok {
				if !q.By.Completion {
					kind.Completion = ""
				}
				t.Add(bucket, t.Number(kind), sum)
			}
		}
	}
	if start, apart := rows.Apart(&p.sealed); apart {
		return nil, errLacks("in the hour from " + store.At(time.UnixMilli(start)).String())
	}
	cut := *p
	cut.cut = nil
	rest = cut.rest(*q)
	if len(rest) > 0 {
		err = s.compareNext(ctx, q.TenantID, p)
	}
	return rest, err
}

// compareNext compares the rows of the pack behind those that count as a whole, if there is one, with its sums:
// the position of the query cuts it.
func (s *Sums) compareNext(ctx context.Context, tenantID string, p *split) error {
	list, err := listSummaries(ctx, s.db.Read(), tenantID, selection{after: p.sequence}, 1)
	if err != nil || len(list) == 0 {
		return err
	}
	pack := &list[0]
	days, err := storedOf(ctx, s.db.Read(), s.codec, pack, "whole")
	if err != nil {
		return err
	}
	end := pack.Last.Next()
	rows, err := s.rows.Metering(ctx, pipeline.MeterQuery{TenantID: tenantID, After: &p.end, AsOf: &end, By: pipeline.MeterBy{Completion: true}})
	if err != nil {
		return err
	}
	var sealed, loaded sums.Table
	for i := range days {
		sealed.Add(0, sealed.Number(days[i].Kind), &days[i].Sum)
	}
	for i := range rows {
		loaded.Add(0, loaded.Number(kindOf(&rows[i])), sumOf(&rows[i]))
	}
	if _, apart := loaded.Apart(&sealed); apart {
		return errLacks("of pack " + pack.ID)
	}
	return nil
}

// errLacks refuses what can't be counted, as the warehouse doesn't have the deliveries that were sealed.
func errLacks(where string) error {
	return api.Conflict(fmt.Sprintf("the warehouse does not have the deliveries %s that the proof packs have: load them again, and send the request again. GET /v1/settlement/reconciliation lists the packs whose deliveries it lacks", where))
}

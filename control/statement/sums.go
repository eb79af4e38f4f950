package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment/control/dispute"
	"muniment/control/settle"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
)

// question describes the sums to compute.
type question struct {
	tenantID string
	from, to time.Time
	asOf     *sealer.Position // nil: nothing is loaded
	edges    []time.Time      // moments at which rules begin or end
	excluded dispute.Excluded
}

// counted holds the metered receipts of a period, as sums over those that no rule distinguishes.
type counted struct {
	// free are under no dispute, held under an open one. Receipts of upheld disputes are in neither.
	free, held []sealer.Metered
}

// mostRows bounds the sums that are held in memory.
const mostRows = 1_000_000

// mostEdges bounds the length of the query.
const mostEdges = 4000

// mostIDs is how many receipts one query names.
const mostIDs = 10_000

// Sums sums receipts. It has methods of pipeline.Warehouse, with their contract.
type Sums interface {
	Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error)
}

// Compute fills in the results of a statement: lines, adjustments, unrated, total and held amount.
// It counts the receipts before asOf, by the rules that the log has there. The caller has set all
// other fields, including exclusions and the names of payees.
func Compute(ctx context.Context, w Sums, asOf sealer.Position, rules []sealer.SettlementRule, excluded dispute.Excluded, document *sealer.Statement) error {
	edges, err := settle.Edges(rules)
	if err != nil {
		return err
	}
	sums, err := count(ctx, w, question{document.TenantID, document.From.Time, document.To.Time, &asOf, edges, excluded})
	if err != nil {
		return err
	}
	return tooLarge(sealer.Settle(settle.Rating, rules, slices.Values(sums.free), slices.Values(sums.held), document))
}

// count sums the receipts.
func count(ctx context.Context, w Sums, q question) (counted, error) {
	if q.asOf == nil {
		return counted{}, nil
	}
	held, upheld := split(q.excluded)
	edges := slices.Clone(q.edges)
	for _, x := range q.excluded {
		edges = append(edges, x.Window.From.Time, x.Window.To.Time) // zero times without a window
	}
	buckets, err := bucketsOf(q.from, q.to, edges, mostEdges)
	if err != nil {
		return counted{}, err
	}
	requested := pipeline.MeterQuery{
		TenantID: q.tenantID, From: q.from, To: q.to, AsOf: q.asOf, Buckets: buckets, By: pipeline.MeterBy{Completion: true}, Limit: mostRows + 1,
	}
	rows, err := w.Metering(ctx, requested)
	if err != nil {
		return counted{}, err
	}
	if len(rows) > mostRows {
		return counted{}, api.InvalidField("from", fmt.Sprintf("the period has more than %d different sums of receipts: choose a shorter one", mostRows))
	}
	sums := map[key]*sealer.Metered{}
	var order []key
	for i := range rows {
		if row := &rows[i]; row.Reason == sealer.ReasonMetered {
			m := metered(row)
			sums[keyOf(row)], order = &m, append(order, keyOf(row))
		}
	}
	heldSums := map[key]*sealer.Metered{}
	for _, parts := range []*dispute.Parts{&upheld, &held} {
		receipts := parts.ReceiptIDs
		if parts == &held { // receipts of an upheld dispute are not held for another
			receipts = slices.DeleteFunc(slices.Clone(receipts), func(id string) bool { return upheld.Has(id, "", time.Time{}) })
		}
		for ids := range slices.Chunk(receipts, mostIDs) {
			requested := requested
			for _, id := range ids {
				requested.EventIDs = append(requested.EventIDs, api.EventOf(id))
			}
			rows, err := w.Metering(ctx, requested)
			if err != nil {
				return counted{}, err
			}
			for i := range rows {
				if row := &rows[i]; row.Reason == sealer.ReasonMetered {
					move(sums, heldSums, keyOf(row), metered(row), parts == &held)
				}
			}
		}
	}
	var c counted
	for _, k := range order {
		free, of := sums[k], heldSums[k]
		at := time.UnixMilli(k.bucket)
		switch {
		case upheld.Has("", k.rightID, at):
		case held.Has("", k.rightID, at):
			c.held = appendSome(c.held, free, of)
		default:
			c.free, c.held = appendSome(c.free, free), appendSome(c.held, of)
		}
	}
	return c, nil
}

// bucketsOf returns the starts of the intervals into which edges cut a period, at most so many.
func bucketsOf(from, to time.Time, edges []time.Time, most int) ([]time.Time, error) {
	buckets := append([]time.Time{from}, edges...)
	buckets = slices.DeleteFunc(buckets, func(at time.Time) bool { return at.Before(from) || !at.Before(to) })
	slices.SortFunc(buckets, time.Time.Compare)
	buckets = slices.CompactFunc(buckets, time.Time.Equal)
	if len(buckets) > most {
		return nil, api.InvalidField("from", fmt.Sprintf("rules and disputed windows begin or end at more than %d moments of the period: resolve some disputes, or choose a shorter one", most))
	}
	return buckets, nil
}

// leavesSpace refuses a first statement if there would be no space for the windows of disputes that are
// UPHELD later: it could not be corrected, as its period can't be shortened.
func leavesSpace(rules []sealer.SettlementRule, excluded dispute.Excluded, period dispute.Window) error {
	edges, err := settle.Edges(rules)
	if err != nil {
		return err
	}
	for _, x := range excluded {
		edges = append(edges, x.Window.From.Time, x.Window.To.Time)
	}
	_, err = bucketsOf(period.From.Time, period.To.Time, edges, mostEdges-2*dispute.MaxUpheldWindows)
	return err
}

// move subtracts sums from those that are stated, and adds them to those that are held.
func move(from, to map[key]*sealer.Metered, k key, m sealer.Metered, held bool) {
	of := from[k]
	if of == nil {
		return // the row was quarantined since the first query
	}
	of.Receipts, of.QuantityMs, of.Impressions = of.Receipts-m.Receipts, of.QuantityMs-m.QuantityMs, of.Impressions-m.Impressions
	switch {
	case !held:
	case to[k] == nil:
		to[k] = &m
	default:
		to[k].Receipts, to[k].QuantityMs, to[k].Impressions = to[k].Receipts+m.Receipts, to[k].QuantityMs+m.QuantityMs, to[k].Impressions+m.Impressions
	}
}

// appendSome appends the sums that have at least one receipt.
func appendSome(list []sealer.Metered, some ...*sealer.Metered) []sealer.Metered {
	for _, m := range some {
		if m != nil && m.Receipts > 0 {
			list = append(list, *m)
		}
	}
	return list
}

// key is what the receipts of one sum have in common.
type key struct {
	bucket                                                 int64
	rightID, substrate, basisID, meteringBasis, completion string
}

func keyOf(row *pipeline.MeterRow) key {
	return key{row.Bucket.UnixMilli(), row.RightID, row.Substrate, row.BasisID, row.MeteringBasis, row.Completion}
}

func metered(row *pipeline.MeterRow) sealer.Metered {
	return sealer.Metered{
		RightID: row.RightID, BasisID: row.BasisID, Substrate: row.Substrate, MeteringBasis: row.MeteringBasis, Completion: row.Completion,
		RenderedAt: row.Bucket, Receipts: row.Receipts, QuantityMs: row.QuantityMs, Impressions: row.Impressions,
	}
}

package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/dispute"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// question describes the sums to compute.
type question struct {
	tenantID string
	from, to time.Time
	asOf     *sealer.Position // nil: all that is loaded
	// terms are all by which the sums will be rated.
	terms []*terms
	// edges are more moments that divide the sums.
	edges    []time.Time
	excluded dispute.Excluded
	// rightID and eventIDs select deliveries as in pipeline.MeterQuery.
	rightID  string
	eventIDs []string
	// rows are the warehouse's. If they are set, the sums are refused unless they have all receipts that
	// disputes name, as far as these are in the log.
	rows Warehouse
}

// periodSums holds the metered receipts of a period, as sums over those that no terms distinguish.
type periodSums struct {
	// free are under no dispute, held under an open one. Receipts of upheld disputes are in neither.
	free, held []settlement.Metered
}

// below returns the receipts below a leaf, which must be an end of the terms of the question.
func (c periodSums) below(leaf uint64) periodSums {
	behind := func(m settlement.Metered) bool { return m.Leaf >= leaf }
	return periodSums{slices.DeleteFunc(slices.Clone(c.free), behind), slices.DeleteFunc(slices.Clone(c.held), behind)}
}

// settle computes statements about the receipts.
func (c periodSums) settle(by settlement.Rating, t *terms, statements ...*statement.Statement) error {
	return tooLarge(statement.Settle(by, t.Terms, slices.Values(c.free), slices.Values(c.held), statements...))
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

// sums are those of the receipts before a position.
type sums struct {
	receipts   int64 // how many, with those that are excluded
	free, held map[key]settlement.Metered
}

// count sums the receipts between the ends of the terms.
func count(ctx context.Context, w Sums, q question) (c periodSums, err error) {
	buckets, err := q.buckets(mostEdges)
	if err != nil {
		return c, err
	}
	var ends []end
	for _, t := range q.terms {
		ends = append(ends, t.ends...)
	}
	slices.SortFunc(ends, func(a, b end) int { return a.position.Compare(b.position) })
	ends = slices.Compact(ends)
	if q.asOf != nil {
		ends = slices.DeleteFunc(ends, func(e end) bool { return e.position.Compare(*q.asOf) >= 0 })
	}
	requested := pipeline.MeterQuery{
		TenantID: q.tenantID, From: q.from, To: q.to, RightID: q.rightID, EventIDs: q.eventIDs, Buckets: buckets, By: pipeline.MeterBy{Completion: true}, Limit: mostRows + 1,
	}
	at := func(i int) (sums, error) {
		requested := requested
		if requested.AsOf = q.asOf; i < len(ends) {
			requested.AsOf = &ends[i].position
		}
		return sum(ctx, w, q.rows, requested, q.excluded)
	}
	last, err := at(len(ends))
	if err != nil {
		return c, err
	}
	if err := c.between(sums{}, last, -1, len(ends), ends, at); err != nil {
		return c, err
	}
	return c, c.scope(ctx, q.tenantID, q.terms)
}

// scope sets what the rules of terms name of the scopes of rights.
func (c *periodSums) scope(ctx context.Context, tenantID string, by []*terms) error {
	known, err := rightsOf(ctx, tenantID, by, func(yield func(string) bool) {
		for _, list := range [][]settlement.Metered{c.free, c.held} {
			for i := range list {
				if !yield(list[i].RightID) {
					return
				}
			}
		}
	})
	for _, list := range [][]settlement.Metered{c.free, c.held} {
		for i := range list {
			list[i].Right = known[list[i].RightID]
		}
	}
	return err
}

// between adds what came between two ends, of which the sums are known. It asks for those at an end in
// between only if something did.
func (c *periodSums) between(before, now sums, first, last int, ends []end, at func(i int) (sums, error)) error {
	if before.receipts == now.receipts {
		return nil
	}
	if last-first > 1 {
		middle := (first + last) / 2
		half, err := at(middle)
		if err == nil {
			err = c.between(before, half, first, middle, ends, at)
		}
		if err == nil {
			err = c.between(half, now, middle, last, ends, at)
		}
		return err
	}
	leaf := uint64(0)
	if first >= 0 {
		leaf = ends[first].size
	}
	c.free, c.held = added(c.free, now.free, before.free, leaf), added(c.held, now.held, before.held, leaf)
	if len(c.free)+len(c.held) > mostRows {
		return errManySums
	}
	return nil
}

// compute computes a statement by the first terms of a question. The caller has set all that
// statement.Settle does not, and the question's edges.
func compute(ctx context.Context, w Sums, q question, s *statement.Statement) error {
	sums, err := count(ctx, w, q)
	if err != nil {
		return err
	}
	return sums.settle(ratingOf, q.terms[0], s)
}

// Compute computes a statement that overlaps with no other: it counts the receipts before asOf, by the
// rules that the log has there. rights returns what these name of rights.
func Compute(ctx context.Context, w Sums, asOf sealer.Position, rules []settlement.Rule, rights settlement.Rights, s *statement.Statement) error {
	t, err := statement.NewTerms(ratingOf, nil, rules)
	if err == nil {
		err = reach(s, rules)
	}
	if err != nil {
		return err
	}
	by := func(_ context.Context, _ string, names *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error) {
		return rights(names, rightIDs)
	}
	return compute(ctx, w, question{tenantID: s.TenantID, from: s.Since.Time, to: s.To.Time, edges: s.Edges(), asOf: &asOf, terms: []*terms{{Terms: t, scopes: by}}}, s)
}

// added appends what has been added to sums, with a leaf.
func added(list []settlement.Metered, now, before map[key]settlement.Metered, leaf uint64) []settlement.Metered {
	list = slices.Grow(list, len(now))
	for k, m := range now {
		was := before[k]
		m.Receipts, m.QuantityMs, m.Impressions, m.Leaf = m.Receipts-was.Receipts, m.QuantityMs-was.QuantityMs, m.Impressions-was.Impressions, leaf
		if m.Receipts > 0 {
			list = append(list, m)
		}
	}
	return list
}

var errManySums = api.InvalidField("from", fmt.Sprintf("the period has more than %d different sums of receipts: choose a shorter one", mostRows))

// errNamed refuses a statement that would bill receipts under a dispute, as nothing tells what they come to.
var errNamed = api.Conflict("the warehouse does not have all receipts that disputes of the period name, nor all deliveries of the period that the proof packs have: load them again, and send the request again. GET /v1/settlement/reconciliation lists the packs whose deliveries it lacks")

// sum sums the receipts of one query. named is a question's rows.
func sum(ctx context.Context, w Sums, named Warehouse, requested pipeline.MeterQuery, excluded dispute.Excluded) (s sums, err error) {
	held, upheld := split(excluded)
	rows, err := w.Metering(ctx, requested)
	if err != nil {
		return s, err
	}
	if len(rows) > mostRows {
		return s, errManySums
	}
	all, apart := make(map[key]*settlement.Metered, len(rows)), map[key]*settlement.Metered{}
	each := make([]settlement.Metered, len(rows))
	for i := range rows {
		if row := &rows[i]; row.Reason == sealer.ReasonMetered {
			each[i] = metered(row)
			all[keyOf(row)] = &each[i]
			s.receipts += each[i].Receipts
		}
	}
	for _, parts := range []*dispute.Parts{&upheld, &held} {
		receipts := parts.ReceiptIDs
		if parts == &held { // receipts of an upheld dispute are not held for another
			receipts = slices.DeleteFunc(slices.Clone(receipts), func(id string) bool { return upheld.Has(id, "", time.Time{}) })
		}
		for ids := range slices.Chunk(receipts, mostIDs) {
			requested := requested
			requested.EventIDs = nil
			for _, id := range ids {
				requested.EventIDs = append(requested.EventIDs, api.EventOf(id))
			}
			found, err := w.Metering(ctx, requested)
			if err == nil && named != nil {
				err = requireNamed(ctx, named, requested, rows, found)
			}
			if err != nil {
				return s, err
			}
			for i := range found {
				if row := &found[i]; row.Reason == sealer.ReasonMetered {
					move(all, apart, keyOf(row), metered(row), parts == &held)
				}
			}
		}
	}
	s.free, s.held = make(map[key]settlement.Metered, len(all)), map[key]settlement.Metered{}
	for k, free := range all {
		at := time.UnixMilli(k.bucket)
		switch {
		case upheld.Has("", k.rightID, at):
		case held.Has("", k.rightID, at):
			if of := apart[k]; of != nil {
				free.Receipts, free.QuantityMs, free.Impressions = free.Receipts+of.Receipts, free.QuantityMs+of.QuantityMs, free.Impressions+of.Impressions
			}
			s.held[k] = *free
		default:
			s.free[k] = *free
			if of := apart[k]; of != nil {
				s.held[k] = *of
			}
		}
	}
	return s, nil
}

// requireNamed returns errNamed if the warehouse has not all receipts that a query names, unless the others can't
// be in the log of its period: as the rows of that come to all that is sealed. found is what the query has found,
// all what the period comes to.
func requireNamed(ctx context.Context, w Warehouse, requested pipeline.MeterQuery, all, found []pipeline.MeterRow) error {
	receipts := int64(0)
	for i := range found {
		receipts += found[i].Receipts
	}
	if receipts == int64(len(requested.EventIDs)) {
		return nil
	}
	totals, err := w.MeterTotals(ctx, pipeline.MeterQuery{TenantID: requested.TenantID, EventIDs: requested.EventIDs})
	if err != nil || totals.Receipts == int64(len(requested.EventIDs)) { // of another time, or late
		return err
	}
	requested.EventIDs = nil
	rows, err := w.Metering(ctx, requested)
	if err == nil && !slices.Equal(rows, all) {
		err = errNamed
	}
	return err
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

// buckets are the starts of the intervals whose receipts may be summed, at most so many.
func (q *question) buckets(most int) ([]time.Time, error) {
	edges := slices.Clone(q.edges)
	for _, t := range q.terms {
		edges = append(edges, t.Edges()...)
	}
	for _, x := range q.excluded {
		edges = append(edges, x.Window.From.Time, x.Window.To.Time) // zero times without a window
	}
	return bucketsOf(q.from, q.to, edges, most)
}

// leavesSpace refuses a first statement if there would be no space for the windows of disputes that are
// UPHELD later: it could not be corrected, as its period can't be shortened.
func leavesSpace(q *question) error {
	_, err := q.buckets(mostEdges - 2*dispute.MaxUpheldWindows)
	return err
}

// move subtracts sums from those that are stated, and adds them to those that are held.
func move(from, to map[key]*settlement.Metered, k key, m settlement.Metered, held bool) {
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

// key is what the receipts of one sum have in common.
type key struct {
	bucket                                                 int64
	rightID, substrate, basisID, meteringBasis, completion string
}

func keyOf(row *pipeline.MeterRow) key {
	return key{row.Bucket.UnixMilli(), row.RightID, row.Substrate, row.BasisID, row.MeteringBasis, row.Completion}
}

func metered(row *pipeline.MeterRow) settlement.Metered {
	return settlement.Metered{
		RightID: row.RightID, BasisID: row.BasisID, Substrate: row.Substrate, MeteringBasis: row.MeteringBasis, Completion: row.Completion,
		RenderedAt: row.Bucket, Receipts: row.Receipts, QuantityMs: row.QuantityMs, Impressions: row.Impressions,
	}
}

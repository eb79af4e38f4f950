package proof

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Rows has the methods of pipeline.Warehouse that add up rows, with their contract.
type Rows interface {
	Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error)
	MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error)
}

// Sums implements Rows by the sums of sealed packs, as far as these hold what is asked for, and by the
// rows of the warehouse for the rest:
//
//   - packs that end before the query's position count by their sums; what comes behind them, the rest
//     of a pack that the position cuts included, counts by rows;
//   - hours (UTC) that a bound or a bucket's start cuts count by rows, those of packs too;
//   - queries that name events, or that sum by anchor or placement, count by rows alone.
//
// The result is what the rows alone add up to, for every position and window, as long as the rows of
// sealed events are unchanged; the check for drift compares them. Sums that can't be read are counted again
// from the packs (see MendSums); where that fails rows answer, unless they are to be checked. Safe for
// concurrent use.
type Sums struct {
	db    *store.DB
	rows  Rows
	codec *sums.Codec
	// runs are of how many packs runs are merged, the shortest first. Each is a multiple of the one before.
	runs []int64
	// checked says that rows of packs are compared with these (see Checked).
	checked bool
	// mend mends what is stored of a tenant, and unread notes that a query was answered from rows because this
	// failed; both nil: what can't be read stays so.
	mend   func(ctx context.Context, tenantID string) error
	unread func(ctx context.Context, tenantID string, err error)
	// step is called with the name of each step that another process may change the database before; an error
	// fails the step. Tests set it.
	step func(name string) error
}

// NewSums returns the sums of the packs in a database, and of the rows behind them.
func NewSums(db *store.DB, rows Rows) (*Sums, error) {
	codec, err := sums.NewCodec()
	return newSums(db, rows, codec), err
}

func newSums(db *store.DB, rows Rows, codec *sums.Codec) *Sums {
	return &Sums{db: db, rows: rows, codec: codec, runs: []int64{16, 256}, step: func(string) error { return nil }}
}

var _ Rows = (*Sums)(nil)

// split says which part of a query is counted by sums.
type split struct {
	sequence int64           // of the last pack that counts as a whole
	end      sealer.Position // of its last entry
	spans    []span
	runs     []dayRun
	cut      []time.Time // the hours that are counted by rows
	// sealed is what the packs have of the cut hours, by completion; only of sums that are checked.
	sealed sums.Table
	// enough is how many lines of the first buckets are asked for; 0: all.
	enough int
}

// span is the part of the query's window that a bucket takes: low ≤ renderedAt < high.
type span struct {
	bucket    int64 // its index
	low, high int64 // in milliseconds
}

// dayRun is days of which all is needed, or only some hours.
type dayRun struct {
	from, to int64 // days since 1970, to exclusive
	whole    bool
}

const (
	noLow  = math.MinInt64
	noHigh = math.MaxInt64
)

// split divides a query; nil if rows have to answer it alone.
func (s *Sums) split(ctx context.Context, q *pipeline.MeterQuery) (*split, error) {
	if q.EventIDs != nil || q.After != nil || q.Hours != nil || q.By.Anchor || q.By.Placement {
		return nil, nil
	}
	p := &split{spans: spansOf(q)}
	if some := p.divide(); !s.checked && (!some || len(p.cut) > pipeline.MaxMeterHours) {
		return nil, nil
	}
	before, args := "", []any{q.TenantID}
	if q.AsOf != nil {
		before, args = " AND (last_generation, last_offset) < ($2, $3)", append(args, int64(q.AsOf.Generation), q.AsOf.Offset)
	}
	err := s.db.Read().QueryRowContext(ctx, `SELECT sequence, last_generation, last_offset FROM proof_packs
		WHERE tenant_id = $1`+before+` ORDER BY last_generation DESC, last_offset DESC LIMIT 1`, args...).Scan(&p.sequence, &p.end.Generation, &p.end.Offset)
	if errors.Is(err, sql.ErrNoRows) {
		if err = nil; !s.checked {
			return nil, nil
		}
		p.end = newHead().position
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the newest pack of %s: %w", q.TenantID, err)
	}
	return p, nil
}

// spansOf are the buckets of a query, cut to its window. Without buckets it is the window.
func spansOf(q *pipeline.MeterQuery) (spans []span) {
	low, high := int64(noLow), int64(noHigh)
	if !q.From.IsZero() {
		low = pipeline.CeilMilli(q.From)
	}
	if !q.To.IsZero() {
		high = pipeline.CeilMilli(q.To)
	}
	add := func(bucket int, low, high int64) {
		if low < high {
			spans = append(spans, span{int64(bucket), low, high})
		}
	}
	if len(q.Buckets) == 0 {
		add(0, low, high)
	}
	for i, start := range q.Buckets {
		end := high
		if i+1 < len(q.Buckets) {
			end = min(end, pipeline.CeilMilli(q.Buckets[i+1]))
		}
		add(i, max(low, pipeline.CeilMilli(start)), end)
	}
	return spans
}

// ceil is the first start of an hour or day that is not before a moment.
func ceil(ms, length int64) int64 {
	if start := sums.StartOf(ms, length); start < ms {
		return start + length
	}
	return ms
}

// divide divides the spans into days, hours of days and cut hours; some is false if there is nothing for
// sums.
func (p *split) divide() (some bool) {
	hours, partial := map[int64]bool{}, map[int64]bool{}
	edge := func(ms int64) {
		if ms == noLow || ms == noHigh {
			return
		}
		if start := sums.StartOf(ms, sums.HourMs); start != ms {
			hours[start] = true
		}
		if start := sums.StartOf(ms, sums.DayMs); start != ms {
			partial[start/sums.DayMs] = true
		}
	}
	for _, s := range p.spans {
		edge(s.low)
		edge(s.high)
		from, to := s.low, s.high
		if from != noLow {
			from = ceil(from, sums.HourMs)
		}
		if to != noHigh {
			to = sums.StartOf(to, sums.HourMs)
		}
		some = some || from < to
		if s.low != noLow {
			from = ceil(from, sums.DayMs)
		}
		if s.high != noHigh {
			to = sums.StartOf(to, sums.DayMs)
		}
		if from < to {
			p.run(dayRun{from / sums.DayMs, to / sums.DayMs, true})
		}
	}
	for _, day := range slices.Sorted(maps.Keys(partial)) {
		p.run(dayRun{day, day + 1, false})
	}
	for _, start := range slices.Sorted(maps.Keys(hours)) {
		p.cut = append(p.cut, time.UnixMilli(start).UTC())
	}
	return some
}

// run adds days; those of one kind come in their order.
func (p *split) run(r dayRun) {
	if n := len(p.runs) - 1; n >= 0 && p.runs[n].whole == r.whole && p.runs[n].to == r.from {
		p.runs[n].to = r.to
		return
	}
	p.runs = append(p.runs, r)
}

// page says that the first lines are enough, and has the days of each bucket read before those of the next.
func (p *split) page(lines int) {
	p.enough = lines
	var runs []dayRun
	for _, r := range p.runs {
		for r.from < r.to {
			next := r.to
			if !r.whole {
				next = r.from + 1
			} else if i := slices.IndexFunc(p.spans, func(s span) bool { return s.low > r.from*sums.DayMs }); i >= 0 {
				next = min(next, sums.StartOf(p.spans[i].low, sums.DayMs)/sums.DayMs)
			}
			runs = append(runs, dayRun{r.from, next, r.whole})
			r.from = next
		}
	}
	slices.SortFunc(runs, func(a, b dayRun) int { return cmp.Compare(a.from, b.from) })
	p.runs = runs
}

// full reports whether a table that has all before a day, in days since 1970, has the lines that are asked for.
func (p *split) full(t *sums.Table, day int64) bool {
	if p.enough == 0 {
		return false
	}
	i := slices.IndexFunc(p.spans, func(s span) bool { return s.high > day*sums.DayMs })
	return i >= 0 && t.Before(p.spans[i].bucket) >= p.enough
}

// bucket returns the index of the bucket that holds an hour or day as a whole.
func (p *split) bucket(start, length int64) (bucket int64, ok bool) {
	i, _ := slices.BinarySearchFunc(p.spans, start, func(s span, start int64) int {
		if s.high <= start {
			return -1
		}
		return 1
	})
	if i == len(p.spans) || p.spans[i].low > start || p.spans[i].high < start+length {
		return 0, false
	}
	return p.spans[i].bucket, true
}

// stored is the sums of a pack's day.
type stored struct {
	day   int64
	block []byte
}

func scanStored(row store.Row) (of stored, err error) { return of, row.Scan(&of.day, &of.block) }

// sealed adds the sums of the packs to a table, by the indexes of buckets. It reads one state of the database: else
// what is merged could be unmerged between finding and reading it.
func (s *Sums) sealed(ctx context.Context, q *pipeline.MeterQuery, p *split, t *sums.Table) error {
	if p.sequence == 0 {
		return nil
	}
	return s.db.View(ctx, func(db store.Querier) error { return s.addSealed(ctx, db, q, p, t) })
}

func (s *Sums) addSealed(ctx context.Context, db store.Querier, q *pipeline.MeterQuery, p *split, t *sums.Table) error {
	byDay, err := s.byDay(ctx, db, q.TenantID, p.sequence)
	if err == nil {
		err = s.step("read sums")
	}
	if err != nil {
		return err
	}
	for _, r := range p.runs {
		if p.full(t, r.from) {
			break
		}
		query, length := fmt.Sprintf(`SELECT day, hours FROM proof_sums WHERE tenant_id = $1 AND day >= $2 AND day < $3 AND sequence <= %d`, p.sequence), sums.HourMs
		if r.whole {
			query, length = byDay, sums.DayMs
		}
		err := store.Each(ctx, db, "the sums of packs of "+q.TenantID, scanStored, func(of stored) error {
			block, err := s.codec.Decode(of.day, of.block, r.whole)
			if err != nil {
				return err
			}
			numbers := t.Numbers(&block, q.RightID, q.By.Completion)
			for i := range block.Lines {
				l := &block.Lines[i]
				if numbers[l.Kind] < 0 {
					continue
				}
				if bucket, ok := p.bucket(l.Start, length); ok {
					t.Add(bucket, uint32(numbers[l.Kind]), &l.Sum)
				} else if s.checked && !r.whole && p.cuts(l.Start) {
					p.sealed.Add(l.Start, p.sealed.Number(block.Kind(l.Kind)), &l.Sum)
				}
			}
			return nil
		}, query, q.TenantID, r.from, r.to)
		if err != nil {
			return err
		}
	}
	return nil
}

// Stored is what is stored of a pack.
type Stored struct {
	// Hours and Days are its sums by hour and by day, as Metering lists them by completion. Days have besides what
	// merged runs that end with the pack have more than their packs, so that they sum to the pack's only if these
	// agree too. What can't be decoded is left out.
	Hours, Days []pipeline.MeterRow
	// FirstByHour and so on are the earliest and the latest renderedAt of these; zero without a delivery.
	FirstByHour, LastByHour, FirstByDay, LastByDay time.Time
}

// Stored returns what is stored of a pack.
func (s *Sums) Stored(ctx context.Context, p Pack) (of Stored, err error) {
	hours, err := storedOf(ctx, s.db.Read(), s.codec, &p, "hours")
	if err != nil {
		return Stored{}, err
	}
	days, err := storedOf(ctx, s.db.Read(), s.codec, &p, "whole")
	if err != nil {
		return Stored{}, err
	}
	of.Hours, of.FirstByHour, of.LastByHour = hours.rows()
	of.Days, of.FirstByDay, of.LastByDay = days.rows()
	apart, err := s.apart(ctx, &p)
	of.Days = append(of.Days, apart...)
	return of, err
}

// storedLines are the lines that are stored of a pack.
type storedLines []sums.Line

// rows are the lines as rows, with their earliest and latest renderedAt.
func (l storedLines) rows() (rows []pipeline.MeterRow, first, last time.Time) {
	var all sums.Sum
	for i := range l {
		row := rowOf(&l[i].Kind, &l[i].Sum)
		row.Bucket = time.UnixMilli(l[i].Start).UTC()
		rows = append(rows, row)
		all.Add(&l[i].Sum)
	}
	if len(l) > 0 {
		first, last = time.UnixMilli(all.First).UTC(), time.UnixMilli(all.Last).UTC()
	}
	return rows, first, last
}

// storedOf returns what a column has of a pack, hours or whole, rising by start and kind. What can't be decoded is left out.
func storedOf(ctx context.Context, db *sql.DB, codec *sums.Codec, p *Pack, column string) (lines storedLines, err error) {
	err = store.Each(ctx, db, "the sums of pack "+p.ID, scanStored, func(stored stored) error {
		block, err := codec.Decode(stored.day, stored.block, column == "whole")
		if errors.Is(err, sums.ErrBlock) {
			return nil
		}
		for i := range block.Lines {
			l := &block.Lines[i]
			lines = append(lines, sums.Line{Start: l.Start, Kind: block.Kind(l.Kind), Sum: l.Sum})
		}
		return err
	}, `SELECT day, `+column+` FROM proof_sums WHERE tenant_id = $1 AND sequence = $2 ORDER BY day`, p.TenantID, p.Sequence)
	return lines, err
}

func kindOf(r *pipeline.MeterRow) sums.Kind {
	return sums.Kind{RightID: r.RightID, Substrate: r.Substrate, BasisID: r.BasisID, MeteringBasis: r.MeteringBasis, Reason: r.Reason, Completion: r.Completion}
}

// sumOf is the sum of a row, which doesn't have First and Last.
func sumOf(r *pipeline.MeterRow) *sums.Sum {
	return &sums.Sum{Receipts: r.Receipts, QuantityMs: r.QuantityMs, Impressions: r.Impressions}
}

// rowOf is the row of a sum, without a bucket.
func rowOf(k *sums.Kind, s *sums.Sum) pipeline.MeterRow {
	return pipeline.MeterRow{
		RightID: k.RightID, Substrate: k.Substrate, BasisID: k.BasisID, MeteringBasis: k.MeteringBasis, Reason: k.Reason, Completion: k.Completion,
		Receipts: s.Receipts, QuantityMs: s.QuantityMs, Impressions: s.Impressions,
	}
}

// cuts reports whether an hour is one of those that are counted by rows.
func (p *split) cuts(start int64) bool {
	_, cut := slices.BinarySearchFunc(p.cut, start, func(hour time.Time, start int64) int { return cmp.Compare(hour.UnixMilli(), start) })
	return cut
}

// rest are the queries of what is counted by rows: behind the packs, and in cut hours.
func (p *split) rest(q pipeline.MeterQuery) (queries []pipeline.MeterQuery) {
	q.Skip, q.Limit = 0, 0
	end := p.end.Next()
	if q.AsOf == nil || q.AsOf.Compare(end) > 0 {
		behind := q
		behind.After = &p.end
		queries = append(queries, behind)
	}
	if len(p.cut) > 0 {
		within := q
		within.AsOf, within.Hours = &end, p.cut
		queries = append(queries, within)
	}
	return queries
}

// Metering implements Rows.
func (s *Sums) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	fromRows := func() ([]pipeline.MeterRow, error) { return s.rows.Metering(ctx, q) }
	if s.checked {
		fromRows = nil
	}
	return mended(ctx, s, &q, func() ([]pipeline.MeterRow, error) { return s.metering(ctx, q) }, fromRows)
}

func (s *Sums) metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	p, err := s.split(ctx, &q)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return s.rows.Metering(ctx, q)
	}
	var t sums.Table
	rest := p.rest(q)
	if s.checked {
		if err = s.sealed(ctx, &q, p, &t); err == nil {
			rest, err = s.compared(ctx, &q, p, &t)
		}
		if err != nil {
			return nil, err
		}
	}
	buckets := map[int64]int64{}
	for i, start := range q.Buckets {
		buckets[start.UnixMilli()] = int64(i)
	}
	for _, rest := range rest {
		rows, err := s.rows.Metering(ctx, rest)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			t.Add(buckets[rows[i].Bucket.UnixMilli()], t.Number(kindOf(&rows[i])), sumOf(&rows[i]))
		}
	}
	if !s.checked { // behind the rows, any of which may be of the page's buckets
		if q.Limit > 0 {
			p.page(q.Skip + q.Limit)
		}
		if err := s.sealed(ctx, &q, p, &t); err != nil {
			return nil, err
		}
	}
	lines := t.Slice(q.Skip, q.Limit)
	rows := make([]pipeline.MeterRow, len(lines))
	for i := range lines {
		rows[i] = rowOf(&lines[i].Kind, &lines[i].Sum)
		if len(q.Buckets) > 0 {
			rows[i].Bucket = q.Buckets[lines[i].Start].UTC()
		}
	}
	return rows, nil
}

// MeterTotals implements Rows.
func (s *Sums) MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error) {
	q.Buckets, q.By = nil, pipeline.MeterBy{}
	return mended(ctx, s, &q, func() (pipeline.MeterTotals, error) { return s.meterTotals(ctx, q) },
		func() (pipeline.MeterTotals, error) { return s.rows.MeterTotals(ctx, q) })
}

func (s *Sums) meterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error) {
	p, err := s.split(ctx, &q)
	if err != nil {
		return pipeline.MeterTotals{}, err
	}
	if p == nil {
		return s.rows.MeterTotals(ctx, q)
	}
	var table sums.Table
	if err := s.sealed(ctx, &q, p, &table); err != nil {
		return pipeline.MeterTotals{}, err
	}
	var all pipeline.MeterTotals
	for _, l := range table.Lines() {
		one := pipeline.MeterTotals{Receipts: l.Receipts, QuantityMs: l.QuantityMs, Impressions: l.Impressions, First: time.UnixMilli(l.First).UTC(), Last: time.UnixMilli(l.Last).UTC()}
		switch l.Reason {
		case sealer.ReasonMetered:
			one.Metered = l.Receipts
		case sealer.ReasonDuplicate:
			one.Duplicates = l.Receipts
		}
		addTotals(&all, one)
	}
	for _, rest := range p.rest(q) {
		one, err := s.rows.MeterTotals(ctx, rest)
		if err != nil {
			return pipeline.MeterTotals{}, err
		}
		addTotals(&all, one)
	}
	return all, nil
}

func addTotals(t *pipeline.MeterTotals, more pipeline.MeterTotals) {
	if more.Receipts == 0 {
		return
	}
	if t.Receipts == 0 || more.First.Before(t.First) {
		t.First = more.First
	}
	if t.Receipts == 0 || more.Last.After(t.Last) {
		t.Last = more.Last
	}
	t.Receipts, t.Metered, t.Duplicates = t.Receipts+more.Receipts, t.Metered+more.Metered, t.Duplicates+more.Duplicates
	t.QuantityMs, t.Impressions = t.QuantityMs+more.QuantityMs, t.Impressions+more.Impressions
}

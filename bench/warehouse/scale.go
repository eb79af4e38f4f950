package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"muniment.example/bench/measure"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
)

// Scale measures the queries of analysts and of a tenant in a ClickHouse in which that
// tenant has many deliveries of ten days, of which one in five came up to 30 days late and
// one in 1,000 is a duplicate. Some are loaded by the product; the others are copies of
// theirs, with times, ids and positions of their own, that the server makes itself.
type Scale struct {
	Config *clickhouse.Config // a database of its own is made there, and dropped
	Out    io.Writer
	// Deliveries in all, and how many times as many they are as those that are loaded.
	Deliveries, Copies int

	*database
	tenantID string
	begin    time.Time
	verdicts []measure.Verdict
}

// tenDays are the days in which the deliveries came.
const tenDays = 10 * 24 * time.Hour

// Run measures, and prints each figure when it is known.
func (s *Scale) Run(ctx context.Context) (_ []measure.Verdict, err error) {
	if s.database, err = openDatabase(ctx, *s.Config, ""); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	// One month has all of them, as it has those of a real tenant.
	month := time.Now().UTC()
	s.begin = time.Date(month.Year(), month.Month()-1, 10, 0, 0, 0, 0, time.UTC)
	for _, step := range []func(context.Context) error{s.load, s.multiply, s.views, s.pages, s.copied} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s.verdicts, nil
}

// templates is how many deliveries are loaded.
func (s *Scale) templates() int { return s.Deliveries / s.Copies }

// load loads the deliveries that are copied then. They are another tenant's.
func (s *Scale) load(ctx context.Context) error {
	fmt.Fprintf(s.Out, "loading %s deliveries\n", measure.Count(s.templates()))
	a := newAuthor(s.begin, 1)
	a.repeats = 1000
	for left := s.templates(); left > 0; left -= largeGroup {
		batches, err := a.batches(1, min(left, largeGroup))
		if err != nil {
			return err
		}
		if err := s.warehouse.Load(ctx, batches[0]); err != nil {
			return err
		}
	}
	s.tenantID = string(api.AppendID(nil, api.PrefixTenant, s.begin, [10]byte{1}))
	return nil
}

// multiply copies whatever the product has stored of a delivery.
func (s *Scale) multiply(ctx context.Context) error {
	fmt.Fprintf(s.Out, "making %s of them\n", measure.Count(s.Deliveries))
	tables, err := s.tables(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		begun := time.Now()
		var names, values []string
		for _, c := range t.columns {
			names, values = append(names, c.name), append(values, s.valueOf(c, t))
		}
		for n := range s.Copies {
			err := s.conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) WITH toInt64(%d) AS n, position + n * %d AS place, %d + intDiv(place * %d, 1000) AS came SELECT %s FROM %s WHERE tenant_id != '%s'",
				t.name, strings.Join(names, ", "), n, s.templates(), s.begin.UnixMilli(), tenDays.Microseconds()/int64(s.Deliveries),
				strings.Join(values, ", "), t.name, s.tenantID))
			if err != nil {
				return fmt.Errorf("cannot copy what %s holds: %w", t.name, err)
			}
		}
		fmt.Fprintf(s.Out, "%s: %.0f s\n", t.name, time.Since(begun).Seconds())
	}
	return s.merged(ctx)
}

type stored struct {
	name    string
	columns []column
}

type column struct{ name, kind string }

func (t stored) has(name string) bool {
	for _, c := range t.columns {
		if c.name == name {
			return true
		}
	}
	return false
}

// tables are those that hold something of each delivery, with the columns that are written.
func (s *Scale) tables(ctx context.Context) (all []stored, err error) {
	rows, err := s.conn.Query(ctx, `SELECT table, name, type FROM system.columns WHERE database = currentDatabase()
		AND default_kind NOT IN ('MATERIALIZED', 'ALIAS')
		AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree%' AND has_own_data)
		ORDER BY table, position`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var c column
		if err := rows.Scan(&name, &c.name, &c.kind); err != nil {
			return nil, err
		}
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, stored{name: name})
		}
		last := &all[len(all)-1]
		last.columns = append(last.columns, c)
	}
	of := all[:0]
	for _, t := range all {
		if t.has("tenant_id") && t.has("position") && t.name != "set_aside" {
			of = append(of, t)
		}
	}
	return of, rows.Err()
}

// valueOf is what a column of a copy holds: n is the number of the copy, place its position,
// came the moment at which it came.
func (s *Scale) valueOf(c column, t stored) string {
	const late = 30 * 24 * 3600 * 1000
	switch c.name {
	case "tenant_id":
		return "'" + s.tenantID + "'"
	case "position":
		return "place"
	case "first_position":
		return fmt.Sprintf("first_position + n * %d", s.templates())
	case "at", "issued_at":
		return c.moment("came")
	case "rendered_at":
		return c.moment(fmt.Sprintf("if(place %% 5 = 0, came - toInt64(cityHash64(place) %% %d), came - 500)", late))
	case "event_id", "receipt_id":
		if t.has("at") { // else it names another delivery, or is only shown
			return "concat(substring(" + c.name + ", 1, 4), " + timeOfULID("came") + ", substring(" + c.name + ", 15))"
		}
	case "idempotency":
		return "concat(leftPad(toString(n), 4, '0'), substring(idempotency, 5))"
	}
	return c.name
}

// moment is a time in milliseconds, as the column has it.
func (c column) moment(ms string) string {
	if strings.HasPrefix(c.kind, "DateTime64(3") {
		return "fromUnixTimestamp64Milli(" + ms + ", 'UTC')"
	}
	return ms
}

// timeOfULID is the part of a ULID that is its time, in SQL.
func timeOfULID(ms string) string {
	return "arrayStringConcat(arrayMap(i -> substring('0123456789ABCDEFGHJKMNPQRSTVWXYZ', toUInt8(bitAnd(bitShiftRight(toUInt64(" + ms + "), 5 * i), 31)) + 1, 1), range(9, -1, -1)))"
}

// find holds the median of times against a bound.
func (s *Scale) find(what string, bound time.Duration, took []float64, rest string) {
	s.verdicts = append(s.verdicts, measure.AtMost(s.Out, what, " ms", measure.Median(took), measure.Milliseconds(bound), measure.Spans(took), rest))
}

// views times the queries of analysts.
func (s *Scale) views(ctx context.Context) error {
	for _, window := range []struct {
		what  string
		lasts time.Duration
		bound time.Duration
	}{{"a day", 24 * time.Hour, 200 * time.Millisecond}, {"ten days", tenDays, 600 * time.Millisecond}} {
		if err := s.view(ctx, window.what, window.lasts, "", map[string]time.Duration{"metering_hourly": window.bound, "receipts": window.bound}); err != nil {
			return err
		}
	}
	return nil
}

// view times hourly sums of a window through views, which have bounds.
func (s *Scale) view(ctx context.Context, what string, lasts time.Duration, says string, bounds map[string]time.Duration) error {
	from := s.begin.Add((tenDays - lasts) / 2)
	totals, err := s.warehouse.MeterTotals(ctx, pipeline.MeterQuery{TenantID: s.tenantID, From: from, To: from.Add(lasts)})
	if err != nil {
		return err
	}
	if totals.Receipts == 0 || totals.Duplicates == 0 {
		return fmt.Errorf("the copies say nothing: %s", totalsText(totals))
	}
	within := fmt.Sprintf("tenant_id = '%s' AND %%[1]s >= toDateTime(%d, 'UTC') AND %%[1]s < toDateTime(%d, 'UTC')", s.tenantID, from.Unix(), from.Add(lasts).Unix())
	queries := map[string]string{
		"metering_hourly": "SELECT hour, right_id, substrate, basis_id, metering_basis, reason, receipts, quantity_ms FROM metering_hourly WHERE " + fmt.Sprintf(within, "hour"),
		"receipts": "SELECT toStartOfHour(rendered_at) AS hour, right_id, substrate, basis_id, metering_basis, reason, toInt64(count()) AS receipts, sum(quantity_ms) AS quantity_ms" +
			" FROM receipts WHERE " + fmt.Sprintf(within, "rendered_at") + " GROUP BY hour, right_id, substrate, basis_id, metering_basis, reason",
	}
	for view, bound := range bounds {
		var sum pipeline.MeterTotals
		took, err := measure.FiveTimes(func() (err error) {
			sum, err = s.sum(ctx, queries[view])
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", view, err)
		}
		what := "hourly sums of " + what + ", view " + view + says
		if sum.Receipts != totals.Receipts || sum.QuantityMs != totals.QuantityMs || sum.Duplicates != totals.Duplicates {
			s.verdicts = append(s.verdicts, measure.Verdict{What: what, Figure: totalsText(sum), Bound: totalsText(totals), State: measure.Missed})
			continue
		}
		s.find(what, bound, took, totalsText(totals))
	}
	return nil
}

func totalsText(t pipeline.MeterTotals) string {
	return fmt.Sprintf("%s receipts, %s duplicates, %s ms", measure.Count(t.Receipts), measure.Count(t.Duplicates), measure.Count(t.QuantityMs))
}

// sum reads all lines, and adds them up.
func (s *Scale) sum(ctx context.Context, query string) (sum pipeline.MeterTotals, err error) {
	rows, err := s.conn.Query(ctx, "SELECT reason = 'DUPLICATE' AS duplicate, toInt64(sum(receipts)), toInt64(sum(quantity_ms)) FROM ("+query+") GROUP BY duplicate")
	if err != nil {
		return sum, err
	}
	defer rows.Close()
	for rows.Next() {
		var duplicate bool
		var receipts, quantity int64
		if err := rows.Scan(&duplicate, &receipts, &quantity); err != nil {
			return sum, err
		}
		sum.Receipts, sum.QuantityMs = sum.Receipts+receipts, sum.QuantityMs+quantity
		if duplicate {
			sum.Duplicates += receipts
		}
	}
	return sum, rows.Err()
}

// pages times what GET /v1/metering reads: a page, and for the totals of all of them where
// the page isn't the last.
func (s *Scale) pages(ctx context.Context) error {
	var hours []time.Time
	for h := s.begin; h.Before(s.begin.Add(tenDays)); h = h.Add(time.Hour) {
		hours = append(hours, h)
	}
	const limit, bound = 51, 300 * time.Millisecond
	for _, one := range []struct {
		what    string
		buckets []time.Time
	}{{"page of metering of ten days", nil}, {"page of metering of ten days by hour, with its totals", hours}} {
		q := pipeline.MeterQuery{TenantID: s.tenantID, From: s.begin, To: s.begin.Add(tenDays), Buckets: one.buckets, Limit: limit}
		took, err := measure.FiveTimes(func() error {
			rows, err := s.warehouse.Metering(ctx, q)
			if err == nil && len(rows) == limit {
				_, err = s.warehouse.MeterTotals(ctx, q)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.find(one.what, bound, took, measure.Count(s.Deliveries)+" deliveries")
	}
	return nil
}

// copied times the hourly view once the sums of packs are copied: of all deliveries but those that fill a pack.
func (s *Scale) copied(ctx context.Context) error {
	var hours []time.Time
	for h := s.begin.Add(-31 * 24 * time.Hour).Truncate(time.Hour); h.Before(s.begin.Add(tenDays)); h = h.Add(time.Hour) { // some came late
		hours = append(hours, h)
	}
	copied := pipeline.PackSumsCopied{TenantID: s.tenantID, Copy: 1}
	lines, packs := 0, 0
	for ; (packs+2)*packEntries <= s.Deliveries; packs++ {
		after := at(packs*packEntries - 1)
		copied.Position = at((packs+1)*packEntries - 1)
		rows, err := s.warehouse.Metering(ctx, pipeline.MeterQuery{TenantID: s.tenantID, After: &after, AsOf: new(copied.Position.Next()), Buckets: hours})
		if err != nil {
			return err
		}
		sums := make([]pipeline.PackSum, len(rows))
		for i, r := range rows {
			sums[i] = pipeline.PackSum{
				TenantID: s.tenantID, Copy: copied.Copy, Position: copied.Position, Hour: r.Bucket, Line: uint32(i), RightID: r.RightID, Substrate: r.Substrate, BasisID: r.BasisID,
				MeteringBasis: r.MeteringBasis, Reason: r.Reason, Receipts: r.Receipts, QuantityMs: r.QuantityMs, Impressions: r.Impressions,
			}
		}
		if err := s.warehouse.AddPackSums(ctx, sums); err != nil {
			return err
		}
		lines += len(rows)
	}
	if packs == 0 { // a quick run
		return nil
	}
	copied.PackID = "ppk_" + numbered(packs)
	if err := s.warehouse.SetPackSumsCopied(ctx, []pipeline.PackSumsCopied{copied}); err != nil {
		return err
	}
	if err := s.merged(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s packs copied: %s lines by hour\n", measure.Count(packs), measure.Count(lines))
	return s.view(ctx, "ten days", tenDays, ", packs copied", map[string]time.Duration{"metering_hourly": 150 * time.Millisecond})
}

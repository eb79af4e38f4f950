package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	native "github.com/ClickHouse/clickhouse-go/v2"

	"muniment.example/bench/measure"
	"muniment.example/control/proof"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/settlement"
	sealerstatement "muniment.example/sealer/statement"
)

// Settlement holds what a tenant's month takes to be settled, in a ClickHouse with many rows,
// against a bare sum over the same rows.
type Settlement struct {
	Config *clickhouse.Config
	Out    io.Writer
	// Rows in all; a tenth of them are the month's.
	Rows int
	// Rounds is how often each is measured, alternating.
	Rounds int
	// Keep is a database that is made, or was before, and stays; empty: one that is dropped.
	Keep string

	*database
	rows     *generated
	rules    []settlement.Rule
	payees   []sealerstatement.Payee
	verdicts []measure.Verdict

	// What of packs is sealed: see seal.
	control                   *store.DB
	sums                      *proof.Sums
	sealedIn                  string
	packs, sealedLines        int
	sealedReceipts, sumsBytes int64
}

// settledMonth is the month that is settled, of the tenant that has most: rows of it came in the
// month behind it too.
const settledMonth = 1

// How many times as long as the bare sum a month may take, and how many times the memory of one
// month four of them: it goes with what rules distinguish, and not with rows.
const (
	mostSettlement = 3
	mostMemory     = 2
)

// Run measures, and prints each figure when it is known.
func (s *Settlement) Run(ctx context.Context) (_ []measure.Verdict, err error) {
	if s.database, err = openDatabase(ctx, *s.Config, s.Keep); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	for _, step := range []func(context.Context) error{s.make, s.agree, s.age, s.compare, s.agree, s.memory, s.fromSums} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s.verdicts, nil
}

// make makes the rows and the rules, and waits until no merge is under way.
func (s *Settlement) make(ctx context.Context) (err error) {
	s.rows = &generated{conn: s.conn, rows: s.Rows}
	fmt.Fprintf(s.Out, "making %s rows\n", measure.Count(s.Rows))
	err = s.rows.make(ctx, func(m, rows int, took time.Duration) {
		fmt.Fprintf(s.Out, "month %d: %s rows in %.0f s\n", m+1, measure.Count(rows), took.Seconds())
	})
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.merged(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "merged after %.0f s more\n", time.Since(begun).Seconds())
	s.rules, s.payees, err = pricing()
	return err
}

// measurement is what one question took.
type measurement struct {
	took       time.Duration
	cpu        time.Duration // of the server
	peak, read int64         // bytes: most memory of the server, and what it read of its columns
	rows       int64         // read
}

// watch has the server report what a query costs.
func (m *measurement) watch(ctx context.Context) context.Context {
	return native.Context(ctx, native.WithProfileEvents(func(events []native.ProfileEvent) {
		for _, e := range events {
			switch e.Name {
			case "MemoryTrackerPeakUsage":
				m.peak = max(m.peak, e.Value)
			case "OSCPUVirtualTimeMicroseconds":
				m.cpu += time.Duration(e.Value) * time.Microsecond
			case "SelectedBytes":
				m.read += e.Value
			case "SelectedRows":
				m.rows += e.Value
			}
		}
	}))
}

// bare is the sum that settlement is held against: of the rows as they are stored, or, with FINAL, of
// each once, by the settings that the product has for it.
func (s *Settlement) bare(ctx context.Context, final string, from, to time.Time) (m measurement, n int64, err error) {
	var sum int64
	begun := time.Now()
	err = s.conn.QueryRow(m.watch(ctx), fmt.Sprintf("SELECT sum(quantity_ms), toInt64(count()) FROM events%s WHERE tenant_id = '%s' AND rendered_at >= toDateTime(%d, 'UTC') AND rendered_at < toDateTime(%d, 'UTC')"+
		" SETTINGS do_not_merge_across_partitions_select_final = 1", final, tenantOf(0), from.Unix(), to.Unix())).Scan(&sum, &n)
	m.took = time.Since(begun)
	return m, n, err
}

// settled is a statement, and what its parts took: the question to the warehouse, rating, and
// the text that is kept.
type settled struct {
	statement      *sealerstatement.Statement
	query          measurement
	sums           int // lines of the answer
	rates, written time.Duration
	text           int // bytes
}

func (d *settled) took() time.Duration { return d.query.took + d.rates + d.written }

// timedSums notes what the questions of a statement take.
type timedSums struct {
	statement.Sums
	of *settled
}

// Metering implements statement.Sums.
func (t timedSums) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	begun := time.Now()
	rows, err := t.Sums.Metering(t.of.query.watch(ctx), q)
	t.of.query.took += time.Since(begun)
	t.of.sums += len(rows)
	return rows, err
}

// settle makes a statement of a tenant's period, as of a position.
func (s *Settlement) settle(ctx context.Context, sums statement.Sums, asOf sealer.Position, from, to time.Time) (*settled, error) {
	d := &settled{statement: &sealerstatement.Statement{
		StatementID: "stm_" + numbered(1), TenantID: tenantOf(0), Currency: "EUR", From: canonical.Moment{Time: from}, To: canonical.Moment{Time: to}, IssuedAt: canonical.Moment{Time: to},
		Payees: append([]sealerstatement.Payee(nil), s.payees...), Excluded: []sealerstatement.Exclusion{}, V: 1,
		AsOf: sealerstatement.PackRef{PackID: "pck_" + numbered(1), RootHash: strings.Repeat("A", 43), TreeSize: uint64(s.Rows)},
	}}
	begun := time.Now()
	if err := statement.Compute(ctx, timedSums{sums, d}, asOf, s.rules, scoped, d.statement); err != nil {
		return nil, err
	}
	d.rates = time.Since(begun) - d.query.took
	begun = time.Now()
	text, err := d.statement.Text()
	d.written, d.text = time.Since(begun), len(text)
	return d, err
}

// receipts are all that the statement has.
func (d *settled) receipts() (n int64) {
	for _, l := range d.statement.Lines {
		n += l.Receipts
	}
	for _, u := range d.statement.Unrated {
		n += u.Receipts
	}
	return n
}

// agree ends the measurement where what is compared is not about the same rows.
func (s *Settlement) agree(ctx context.Context) error {
	from, to := month(settledMonth), month(settledMonth+1)
	d, err := s.settle(ctx, s.warehouse, s.rows.end(), from, to)
	if err != nil {
		return err
	}
	var all, copies, metered int64
	err = s.conn.QueryRow(ctx, fmt.Sprintf(`SELECT toInt64(countIf(position < %[4]d)), toInt64(countIf(position >= %[4]d)),
			toInt64(countIf(metered AND position < %[4]d AND position NOT IN (SELECT position FROM duplicates WHERE tenant_id = '%[1]s')))
		FROM events WHERE tenant_id = '%[1]s' AND rendered_at >= toDateTime(%[2]d, 'UTC') AND rendered_at < toDateTime(%[3]d, 'UTC')`,
		tenantOf(0), from.Unix(), to.Unix(), s.Rows)).Scan(&all, &copies, &metered)
	if err != nil {
		return err
	}
	_, once, err := s.bare(ctx, " FINAL", from, to)
	if err != nil {
		return err
	}
	_, stored, err := s.bare(ctx, "", from, to)
	if err != nil {
		return err
	}
	if once != all || stored != all+copies || d.receipts() != metered {
		return fmt.Errorf("the statement has %s receipts, and %s are metered once; the bare sums have %s and %s rows, and %s of %s are there twice",
			measure.Count(d.receipts()), measure.Count(metered), measure.Count(stored), measure.Count(once), measure.Count(copies), measure.Count(all))
	}
	fmt.Fprintf(s.Out, "the month has %s receipts, %s of them there twice; the statement has %s, which are all that are metered and no duplicates: %s lines, %s sums, %s bytes\n",
		measure.Count(all), measure.Count(copies), measure.Count(metered), measure.Count(len(d.statement.Lines)), measure.Count(d.sums), measure.Count(d.text))
	return nil
}

// age has the server do with all months what it does a day after the last row came.
func (s *Settlement) age(ctx context.Context) error {
	begun := time.Now()
	if err := s.conn.Exec(ctx, "ALTER TABLE events MODIFY SETTING min_age_to_force_merge_seconds = 1"); err != nil {
		return err
	}
	for parts := uint64(2); parts > 1; {
		err := s.conn.QueryRow(ctx, "SELECT max(n) FROM (SELECT count() AS n FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active GROUP BY partition)").Scan(&parts)
		if err != nil {
			return err
		}
		if err := pipeline.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.Out, "merged into one part a month after %.0f s\n\n", time.Since(begun).Seconds())
	return nil
}

// compare measures both, alternating.
func (s *Settlement) compare(ctx context.Context) error {
	if err := resetPeak(); err != nil {
		return err
	}
	from, to := month(settledMonth), month(settledMonth+1)
	const with, without = " FINAL", ""
	var whole, query, rates, written []float64
	sums, ratios := map[string][]float64{}, map[string][]float64{}
	last := map[string]measurement{}
	for range s.Rounds {
		d, err := s.settle(ctx, s.warehouse, s.rows.end(), from, to)
		if err != nil {
			return err
		}
		whole, query = append(whole, measure.Milliseconds(d.took())), append(query, measure.Milliseconds(d.query.took))
		rates, written = append(rates, measure.Milliseconds(d.rates)), append(written, measure.Milliseconds(d.written))
		last["settlement"] = d.query
		for _, final := range []string{without, with} {
			m, _, err := s.bare(ctx, final, from, to)
			if err != nil {
				return err
			}
			last["bare sum"+final] = m
			sums[final] = append(sums[final], measure.Milliseconds(m.took))
			ratios[final] = append(ratios[final], measure.Milliseconds(d.took())/measure.Milliseconds(m.took))
		}
	}
	for _, final := range []string{without, with} {
		middle, least, most := measure.Spread(ratios[final])
		s.verdicts = append(s.verdicts, measure.AtMost(s.Out, "a tenant's month settled, to the bare sum"+final, " ×", middle, mostSettlement,
			fmt.Sprintf("%.2f to %.2f in %d; %.0f to %.0f ms", least, most, s.Rounds, measure.Median(sums[final]), measure.Median(whole))))
	}
	var b strings.Builder
	rows := [][]string{{"", "median", "least", "most", "server CPU", "most memory", "rows read", "read"}}
	for _, r := range []struct {
		what string
		took []float64
		m    *measurement
	}{
		{"bare sum", sums[without], new(last["bare sum"])}, {"bare sum, FINAL", sums[with], new(last["bare sum FINAL"])},
		{"settlement", whole, nil}, {"of it the question", query, new(last["settlement"])}, {"of it rating", rates, nil}, {"of it the text", written, nil},
	} {
		middle, least, most := measure.Spread(r.took)
		row := []string{r.what, measure.Millis(middle), measure.Millis(least), measure.Millis(most), "", "", "", ""}
		if r.m != nil {
			row = append(row[:4], r.m.columns()...)
		}
		rows = append(rows, row)
	}
	b.WriteString("\n")
	measure.Table(&b, rows)
	fmt.Fprintf(&b, "\nThis process held at most %d MiB meanwhile.\n\n", measure.PeakOf(os.Getpid())>>20)
	_, err := io.WriteString(s.Out, b.String())
	return err
}

func (m *measurement) columns() []string {
	return []string{measure.Millis(measure.Milliseconds(m.cpu)), fmt.Sprintf("%d MiB", m.peak>>20), measure.Count(m.rows), fmt.Sprintf("%d MiB", m.read>>20)}
}

// memory measures how it grows with the rows.
func (s *Settlement) memory(ctx context.Context) error {
	var b strings.Builder
	var peaks []int64
	rows := [][]string{{"settled", "receipts", "took", "server CPU", "most memory", "rows read", "read"}}
	for _, of := range []struct {
		what     string
		from, to time.Time
	}{
		{"a day", month(settledMonth), month(settledMonth).AddDate(0, 0, 1)}, {"a month", month(settledMonth), month(settledMonth + 1)}, {"four months", month(0), month(months)},
	} {
		d, err := s.settle(ctx, s.warehouse, s.rows.end(), of.from, of.to)
		if err != nil {
			return err
		}
		peaks = append(peaks, d.query.peak)
		rows = append(rows, append([]string{of.what, measure.Count(d.receipts()), measure.Millis(measure.Milliseconds(d.took()))}, d.query.columns()...))
	}
	s.verdicts = append(s.verdicts, measure.AtMost(s.Out, "the server's memory while four months are settled, to that of one", " ×",
		float64(peaks[2])/float64(peaks[1]), mostMemory, fmt.Sprintf("%d to %d MiB", peaks[2]>>20, peaks[1]>>20)))
	b.WriteString("\n")
	measure.Table(&b, rows)
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// resetPeak has the kernel forget the most memory that this process has held so far.
func resetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// scoped are the scopes of rights, of which every second has the campaign and every third the label of a rule.
func scoped(_ *settlement.ScopeNames, rightIDs []string) (list []settlement.Right, err error) {
	for i, id := range rightIDs {
		r := settlement.Right{RightID: id, Labels: map[string]string{"venue": "south"}}
		if i%2 == 0 {
			r.Campaigns = []string{"spring"}
		}
		if i%3 == 0 {
			r.Labels["venue"] = "north"
		}
		list = append(list, r)
	}
	return list, nil
}

// pricing is 50 rules for 20 counterparties: a price for each tier on each substrate, others for
// what was played to its end, for a campaign and a label, for some bases and some rights, of which some begin or end in the
// month that is settled.
func pricing() (rules []settlement.Rule, payees []sealerstatement.Payee, err error) {
	const counterparties, wanted = 20, 50
	payee := func(n int) string { return "cpy_" + numbered(n%counterparties) }
	for n := range counterparties {
		payees = append(payees, sealerstatement.Payee{CounterpartyID: payee(n), Name: fmt.Sprintf("Payee %d", n)})
	}
	begin := canonical.FormatTime(monthsBegin)
	add := func(match map[string]any, priority int, more map[string]any) {
		n := len(rules)
		all := map[string]any{"basisId": nil, "campaign": nil, "completion": nil, "label": nil, "meteringBasis": nil, "rightId": nil, "substrate": nil}
		for name, value := range match {
			all[name] = value
		}
		record := map[string]any{
			"cap": nil, "createdAt": begin, "currency": "EUR", "effectiveFrom": begin, "effectiveUntil": nil, "id": "rul_" + numbered(n), "match": all,
			"minimum": nil, "price": fmt.Sprintf("0.%03d1", n), "priority": priority, "revision": 1, "state": "ACTIVE", "tiers": []any{}, "tiersMode": nil, "timeZone": "UTC", "updatedAt": begin,
			"unit": []string{"EVENT", "CPM", "SECOND", "IMPRESSION"}[n%4],
			"shares": []any{
				map[string]any{"bps": 7000, "counterpartyId": payee(n)}, map[string]any{"bps": 2000, "counterpartyId": payee(n + 7)}, map[string]any{"bps": 1000, "counterpartyId": payee(n + 13)},
			},
		}
		for name, value := range more {
			record[name] = value
		}
		text, canonicalErr := canonical.JSON(record)
		err = errors.Join(err, canonicalErr)
		rules = append(rules, settlement.Rule{Leaf: uint64(n), Record: text})
	}
	for _, substrate := range substratesOf {
		for _, tier := range []string{"viewable", "gross", "audible", "delivered"} {
			add(map[string]any{"substrate": substrate, "meteringBasis": tier}, 0, nil)
		}
	}
	for _, substrate := range substratesOf[:2] {
		add(map[string]any{"substrate": substrate, "completion": "complete"}, 10, nil)
	}
	add(map[string]any{"campaign": "spring", "completion": "complete"}, 12, nil)
	add(map[string]any{"label": map[string]any{"name": "venue", "value": "north"}, "completion": "complete"}, 11, nil)
	for n := range 4 {
		add(map[string]any{"basisId": basisWith(n)}, 20, map[string]any{"effectiveFrom": canonical.FormatTime(month(settledMonth).AddDate(0, 0, 3+n))})
	}
	for n := 0; len(rules) < wanted; n++ {
		add(map[string]any{"rightId": rightWith(n)}, 30, map[string]any{"effectiveUntil": canonical.FormatTime(month(settledMonth).AddDate(0, 0, 10+n/4))})
	}
	return rules, payees, err
}

package warehouse

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"muniment.example/bench/measure"
)

// The bounds of RowCost.
const (
	mostLarge  = 1.6 // product to bare insert, in large groups
	mostSmall  = 2.2 // and in small ones
	mostSQLite = 20  // microseconds a row

	// Bytes a receipt takes on disk, once nothing of it is needed for the log any more.
	mostBytesSQLite     = 1000
	mostBytesClickHouse = 460
)

// RowCosts is what a RowCost found.
type RowCosts struct {
	At       time.Time
	Machine  string
	Rounds   int
	RowBytes float64 // of event and private part
	// Reading and checking, and checking alone, in microseconds a row; by round.
	Reading, Checking []float64
	Costs             []Cost
	Sizes             []OnDisk
	Reads             []Read
	Verdicts          []measure.Verdict
}

// OnDisk is what a table or an index takes on disk, in bytes a receipt.
type OnDisk struct {
	Warehouse string
	Group     int
	What      string
	Bytes     float64
}

type sizes []OnDisk

func (s sizes) of(warehouse string, group int) sizes {
	for i := range s {
		s[i].Warehouse, s[i].Group = warehouse, group
	}
	return s
}

// figures are a way's by round, in the order of the rounds.
func (r *RowCosts) figures(warehouse string, group int, way string, figure func(Cost) float64) (all []float64) {
	for _, c := range r.Costs {
		if c.Warehouse == warehouse && c.Group == group && c.Way == way {
			all = append(all, figure(c))
		}
	}
	return all
}

// toBare divides a way by the bare insert, round by round.
func (r *RowCosts) toBare(warehouse string, group int, way string) (all []float64) {
	a, b := r.figures(warehouse, group, way, Cost.sum), r.figures(warehouse, group, bareInsert, Cost.sum)
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]/b[i])
	}
	return all
}

func (r *RowCosts) judge() {
	r.Verdicts = nil
	for _, group := range []int{largeGroup, smallGroup} {
		bound := mostLarge
		if group == smallGroup {
			bound = mostSmall
		}
		if all := r.toBare("ClickHouse", group, product); len(all) > 0 {
			r.bound(fmt.Sprintf("ClickHouse, groups of %s: product to bare insert", measure.Count(group)), all, "%.2f ×", "%g ×", bound)
		}
	}
	if all := r.figures("SQLite", largeGroup, unsearched, Cost.sum); len(all) > 0 {
		r.bound("SQLite, groups of "+measure.Count(largeGroup)+": a row, no search indexes", all, "%.1f µs", "%g µs", mostSQLite)
	}
	r.boundBytes("SQLite", mostBytesSQLite)
	r.boundBytes("ClickHouse", mostBytesClickHouse)
}

// onDisk is what a receipt takes, without keys that go two days after the log has.
func (r *RowCosts) onDisk(warehouse string, group int) (sum float64) {
	for _, s := range r.Sizes {
		if s.Warehouse == warehouse && s.Group == group && s.What != bareCopy && s.What != droppedKeys {
			sum += s.Bytes
		}
	}
	return sum
}

func (r *RowCosts) boundBytes(warehouse string, most float64) {
	bytes := r.onDisk(warehouse, largeGroup)
	if bytes == 0 {
		return
	}
	v := measure.Verdict{What: warehouse + ": bytes a receipt, after the log's week", Figure: fmt.Sprintf("%.0f", bytes), Bound: fmt.Sprintf("≤ %g", most), State: measure.Missed}
	if bytes <= most {
		v.State = measure.Holds
	}
	r.Verdicts = append(r.Verdicts, v)
}

func (r *RowCosts) bound(what string, all []float64, format, boundFormat string, bound float64) {
	middle, least, most := measure.Spread(all)
	v := measure.Verdict{
		What: what, Figure: fmt.Sprintf(format+" ("+format+" to "+format+" in %d rounds)", middle, least, most, len(all)),
		Bound: fmt.Sprintf("≤ "+boundFormat, bound), State: measure.Missed,
	}
	if middle <= bound {
		v.State = measure.Holds
	}
	r.Verdicts = append(r.Verdicts, v)
}

// WriteText writes the figures as Markdown.
func (r *RowCosts) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, on %s. Rows of %s bytes of %d tenants, CPU, %d rounds.\n\n",
		r.At.Format("2 January 2006"), r.Machine, measure.Count(int(r.RowBytes)), authorTenants, r.Rounds)
	measure.WriteVerdicts(&b, r.Verdicts)
	fmt.Fprintf(&b, "Before a row is in memory: %s to read it from a node's log and check it, of which checking is %s.\n\n",
		microsOf(r.Reading), microsOf(r.Checking))
	r.writeCosts(&b)
	r.writeSizes(&b)
	r.writeReads(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// microsOf is the median, and how far the rounds lie apart.
func microsOf(all []float64) string {
	middle, least, most := measure.Spread(all)
	return fmt.Sprintf("%.1f µs (%.1f to %.1f)", middle, least, most)
}

func (r *RowCosts) writeCosts(b *strings.Builder) {
	type place struct {
		warehouse string
		group     int
		way       string
	}
	var places []place
	for _, c := range r.Costs {
		if p := (place{c.Warehouse, c.Group, c.Way}); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	rows := [][]string{{"warehouse", "group", "", "here", "server", "together", "to bare insert"}}
	for _, p := range places {
		get := func(figure func(Cost) float64) []float64 { return r.figures(p.warehouse, p.group, p.way, figure) }
		ratio, least, most := measure.Spread(r.toBare(p.warehouse, p.group, p.way))
		rows = append(rows, []string{
			p.warehouse, measure.Count(p.group), p.way,
			fmt.Sprintf("%.1f µs", measure.Median(get(func(c Cost) float64 { return c.Here }))),
			fmt.Sprintf("%.1f µs", measure.Median(get(func(c Cost) float64 { return c.Server }))),
			microsOf(get(Cost.sum)), fmt.Sprintf("%.2f × (%.2f to %.2f)", ratio, least, most),
		})
	}
	measure.Table(b, rows)
}

func (r *RowCosts) writeSizes(b *strings.Builder) {
	rows := [][]string{{"warehouse", "group", "on disk", "bytes a receipt"}}
	for i, s := range r.Sizes {
		rows = append(rows, []string{s.Warehouse, measure.Count(s.Group), s.What, fmt.Sprintf("%.1f", s.Bytes)})
		if i+1 < len(r.Sizes) && r.Sizes[i+1].Warehouse == s.Warehouse && r.Sizes[i+1].Group == s.Group {
			continue
		}
		together := "together"
		if s.Warehouse == "ClickHouse" {
			together = "together, without " + droppedKeys
		}
		rows = append(rows, []string{s.Warehouse, measure.Count(s.Group), together, fmt.Sprintf("%.1f", r.onDisk(s.Warehouse, s.Group))})
	}
	b.WriteString("\n")
	measure.Table(b, rows)
}

func (r *RowCosts) writeReads(b *strings.Builder) {
	if len(r.Reads) == 0 {
		return
	}
	rows := [][]string{{"warehouse", "group", "reading", "median", "least", "CPU"}}
	for _, q := range r.Reads {
		rows = append(rows, []string{q.Warehouse, measure.Count(q.Group), q.What,
			fmt.Sprintf("%.0f µs", q.Median), fmt.Sprintf("%.0f µs", q.Least), fmt.Sprintf("%.0f µs", q.CPU)})
	}
	b.WriteString("\n")
	measure.Table(b, rows)
}

// bareCopy is no part of the product.
const bareCopy = "bare copy of events"

// droppedKeys go two days after the log has dropped their records.
const droppedKeys = "idempotency_keys"

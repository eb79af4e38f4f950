package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"muniment.example/bench/measure"
)

var variantNames = map[Variant]string{
	Signed: "(a) decode + sign", Logged: "(b) and log", Full: "(c) full, loader paused", Loaded: "(d) full, with loader",
	Topical: "(k) and topic", Edge: "(s) gateway",
}

// WriteText writes the figures as Markdown that is also readable as it is.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, on %s. %d measurements of %g s in alternation, %d of them disturbed.\n\n",
		r.At.Format("2 January 2006"), r.Machine, len(r.Rounds), r.Seconds, r.Disturbed)
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "**Doubtful:** %s.\n\n", warning)
	}
	r.writeVerdicts(&b)
	if len(r.Medians) > 0 {
		r.writeRounds(&b)
	}
	if r.Batched != nil {
		r.Batched.write(&b)
	}
	if r.Sustained != nil {
		r.Sustained.write(&b)
	}
	if r.Loading != nil {
		r.Loading.write(&b)
	}
	if len(r.Where) > 0 {
		b.WriteString("\n")
		writeUsage(&b, r.Where, r.compares())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRounds writes what came of the rounds: medians, and how they compare.
func (r *Report) writeRounds(b *strings.Builder) {
	measure.Table(b, r.medianRows())
	b.WriteString("\n")
	head := []string{"median of paired rounds"}
	for _, n := range r.Connections {
		head = append(head, fmt.Sprint(n))
	}
	rows := [][]string{head}
	for _, c := range r.compares().compared {
		row := []string{c.name}
		for _, ratio := range r.Ratios {
			if ratio.Name == c.name {
				row = append(row, fmt.Sprintf("%.2f", ratio.Value))
			}
		}
		rows = append(rows, row)
	}
	measure.Table(b, rows)
}

// medianRows are those of the table of medians, with the broker's CPU where there is one.
func (r *Report) medianRows() [][]string {
	scaled := r.Loading != nil
	head := []string{"connections", "", "receipts/s", "server CPU a receipt", "p50", "p99", "p99.9", "rounds"}
	if scaled {
		head = slices.Insert(head, 4, "broker's", "load's")
	}
	rows := [][]string{head}
	for _, m := range r.Medians {
		row := []string{
			fmt.Sprint(m.Connections), variantNames[m.Variant], measure.Count(int(m.PerSecond)), fmt.Sprintf("%.1f µs", m.CPUMicros),
			measure.Millis(m.P50), measure.Millis(m.P99), measure.Millis(m.P999), fmt.Sprint(m.Of),
		}
		if scaled {
			row = slices.Insert(row, 4, fmt.Sprintf("%.1f µs", m.BrokerMicros), fmt.Sprintf("%.1f µs", m.ClientMicros))
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Report) writeVerdicts(b *strings.Builder) {
	if r.Quick {
		b.WriteString("A quick run: everything works, the figures say nothing.\n\n")
		return
	}
	measure.WriteVerdicts(b, r.Verdicts)
}

func (s *Sustained) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nSustained, (d) with %d connections for %.0f s: %s receipts, %s/s answered, %s/s answered and loaded, "+
		"p50 %s, p99 %s, p99.9 %s, %.1f %% of the machine stolen.\n\n", s.Connections, s.Seconds, measure.Count(s.Receipts), measure.Count(int(s.PerSecond)),
		measure.Count(int(s.SustainedPerSecond)), measure.Millis(s.P50), measure.Millis(s.P99), measure.Millis(s.P999), 100*s.Steal)
	rows := [][]string{{"second", "memory (RSS)", "of it idempotency keys", "records not loaded yet"}}
	for i, m := range s.Memory {
		if i%max(1, len(s.Memory)/10) != 0 && i < len(s.Memory)-1 {
			continue
		}
		rows = append(rows, []string{fmt.Sprintf("%.0f", m.Second), fmt.Sprintf("%.0f MiB", m.MiB),
			fmt.Sprintf("%s in %.0f MiB", measure.Count(m.Keys), m.KeysMiB), measure.Count(m.Behind)})
	}
	measure.Table(b, rows)
}

func writeUsage(b *strings.Builder, all []Usage, l lineup) {
	rows := [][]string{{"where the CPU goes", fmt.Sprintf("of (%s)", l.profiled), fmt.Sprintf("a receipt, (%s)", l.profiled), fmt.Sprintf("(%s)", l.beside)}}
	var sum Usage
	for _, s := range all {
		rows = append(rows, []string{s.What, fmt.Sprintf("%.1f %%", 100*s.Part), fmt.Sprintf("%.1f µs", s.Micros), fmt.Sprintf("%.1f µs", s.Less)})
		sum.Micros, sum.Less = sum.Micros+s.Micros, sum.Less+s.Less
	}
	measure.Table(b, append(rows, []string{"together", "", fmt.Sprintf("%.1f µs", sum.Micros), fmt.Sprintf("%.1f µs", sum.Less)}))
}

// Publish writes the figures as text, and as JSON if a file for it is named.
func (r *Report) Publish(w io.Writer, jsonFile string) error {
	if err := r.WriteText(w); err != nil || jsonFile == "" {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(jsonFile, append(text, '\n'), 0o644)
}

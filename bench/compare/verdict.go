package compare

import (
	"fmt"

	"muniment.example/bench/measure"
)

// The bounds that no Ratio has.
const (
	mostAppend = 3.0 // microseconds of CPU
	// Memory is flat if it grew by no more than this part between the second tenth
	// and the last of the sustained measurement, idempotency keys left out.
	mostGrowth = 0.15

	// What the loader of (d) must keep up with, and cost.
	leastLoaded   = 0.98 // of what is answered
	leastAnswered = 0.55 // of what (c) answers
	mostLoader    = 50.0 // microseconds of CPU a row
	// What loaders of the scaled service must do.
	mostRow     = 100.0   // microseconds of CPU a row, on everything together
	leastRows   = 16_000  // a second
	mostLag     = 700.0   // milliseconds, at the median
	mostLateLag = 1_500.0 // at p99
	// What batches must do: the signature's part of the CPU, embedded and on Kafka, and what the
	// p99 of single deliveries may be beside them.
	leastSignature, leastSignatureKafka = 0.55, 0.45
	mostBeside                          = 2.0
)

// judge holds the figures against their bounds.
func (r *Report) judge() {
	r.Verdicts = nil
	state := func(calm int, holds bool) measure.State {
		switch {
		case 2*calm < r.Wanted:
			return measure.Unclear
		case holds:
			return measure.Holds
		default:
			return measure.Missed
		}
	}
	for _, ratio := range r.Ratios {
		if ratio.Bound == "" {
			continue
		}
		r.Verdicts = append(r.Verdicts, measure.Verdict{
			What:   fmt.Sprintf("%s, %d connections", ratio.Name, ratio.Connections),
			Figure: fmt.Sprintf("%.2f (%.2f to %.2f in %s)", ratio.Value, ratio.Least, ratio.Most, pairs(ratio.Of, ratio.Calm)),
			Bound:  ratio.Bound, State: state(ratio.Calm, ratio.Met),
		})
	}
	if a := r.Append; a != nil {
		r.Verdicts = append(r.Verdicts, measure.Verdict{
			What:   fmt.Sprintf("CPU of a log append, %d writers, %s bytes", a.Writers, measure.Count(a.Bytes)),
			Figure: fmt.Sprintf("%.2f µs (%.2f to %.2f)", a.Micros, a.Least, a.Most),
			Bound:  fmt.Sprintf("≤ %g µs", mostAppend), State: state(a.Calm, a.Micros <= mostAppend),
		})
	}
	if s := r.Sustained; s != nil {
		before, after := s.levels()
		v := measure.Verdict{
			What:   fmt.Sprintf("memory of (d) within %.0f s, idempotency keys left out", s.Seconds),
			Figure: fmt.Sprintf("%.0f to %.0f MiB", before, after), Bound: fmt.Sprintf("≤ +%.0f %%", 100*mostGrowth), State: measure.Missed,
		}
		if after <= before*(1+mostGrowth) {
			v.State = measure.Holds
		}
		r.Verdicts = append(r.Verdicts, v)
		r.judgeLoader(s)
	}
	if b := r.Batched; b != nil {
		r.judgeBatches(b)
	}
	if l := r.Loading; l != nil {
		r.judgeLoading(l)
	}
}

// judgeBatches holds batches against their bounds.
func (r *Report) judgeBatches(b *Batched) {
	bound := leastSignature
	if b.Variant == Edge {
		bound = leastSignatureKafka
	}
	if len(b.Where) > 0 {
		r.hold("the signature's part of the CPU of a row of a batch", "%.2f", b.Signature, bound, true, measure.Loss{})
	}
	r.hold("p99 of single deliveries during batches, to that without", "%.2f", b.Times, mostBeside, false, b.Loss)
}

// hold adds a figure that is at its bound or on the right side of it. What rests on a
// disturbed measurement shows nothing.
func (r *Report) hold(what, format string, figure, bound float64, atLeast bool, lost measure.Loss) {
	v := measure.Verdict{What: what, Figure: fmt.Sprintf(format, figure) + lost.Disturbance(), Bound: "≤ " + fmt.Sprintf(format, bound), State: measure.Missed}
	holds := figure <= bound
	if atLeast {
		v.Bound, holds = "≥ "+fmt.Sprintf(format, bound), figure >= bound
	}
	switch {
	case lost.Disturbed():
		v.State = measure.Unclear
	case holds:
		v.State = measure.Holds
	}
	r.Verdicts = append(r.Verdicts, v)
}

// judgeLoader holds the loader of (d) against its bounds.
func (r *Report) judgeLoader(s *Sustained) {
	r.hold("loaded of what (d) answers", "%.2f", s.loadedPart(), leastLoaded, true, s.Loss)
	full, whole := r.median(Full, s.Connections), r.median(Loaded, s.Connections)
	if full.PerSecond == 0 || whole.Of == 0 {
		return
	}
	r.hold("receipts/s of (d), sustained, to (c)", "%.2f", s.PerSecond/full.PerSecond, leastAnswered, true, s.Loss)
	r.hold("CPU of (d) for a row beyond that of (c), until it is loaded", "%.1f µs", whole.CPUMicros-full.CPUMicros, mostLoader, false, measure.Loss{})
}

func (r *Report) median(v Variant, connections int) Median {
	for _, m := range r.Medians {
		if m.Variant == v && m.Connections == connections {
			return m
		}
	}
	return Median{}
}

// loadedPart is how much was loaded while it was measured of what was answered meanwhile.
func (s *Sustained) loadedPart() float64 {
	if len(s.Memory) == 0 || s.Receipts == 0 {
		return 0
	}
	return 1 - float64(s.Memory[len(s.Memory)-1].Behind-s.Memory[0].Behind)/float64(s.Receipts)
}

// judgeLoading holds a loader of the scaled service against its bounds.
func (r *Report) judgeLoading(l *Loading) {
	r.hold("CPU of a row of a backlog, loader, warehouse and broker", "%.0f µs", l.AllMicros, mostRow, false, l.Loss)
	r.hold("rows/s of a backlog", "%.0f", l.PerSecond, leastRows, true, l.Loss)
	r.hold(fmt.Sprintf("lag at %s/s, p50", measure.Count(l.Lag.PerSecond)), "%.0f ms", l.Lag.P50, mostLag, false, l.Lag.Loss)
	r.hold(fmt.Sprintf("lag at %s/s, p99", measure.Count(l.Lag.PerSecond)), "%.0f ms", l.Lag.P99, mostLateLag, false, l.Lag.Loss)
}

func pairs(of, calm int) string {
	if calm == 0 {
		return fmt.Sprintf("%d pairs, all disturbed", of)
	}
	return fmt.Sprintf("%d pairs", of)
}

// levels are the memory in MiB, without what idempotency keys take of it, of the
// second tenth and the last of the measurement.
func (s *Sustained) levels() (before, after float64) {
	tenth := func(n float64) float64 {
		var all []float64
		for _, m := range s.Memory {
			if at := 10 * m.Second / s.Seconds; at >= n && at < n+1 {
				all = append(all, m.MiB-m.KeysMiB)
			}
		}
		return measure.Median(all)
	}
	return tenth(1), tenth(9)
}

// Failed names the figures that must hold and don't.
func (r *Report) Failed() error { return measure.Failed(r.Verdicts) }

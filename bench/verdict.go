package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict says of a figure that must hold whether it does.
type Verdict struct {
	What   string
	Figure string // with its unit, and what it rests on
	Bound  string
	State  State
}

// State of a Verdict.
type State string

// What a figure that must hold may be.
const (
	Holds  State = "holds"
	Missed State = "missed"
	// Unclear is a figure that rests on fewer undisturbed measurements than half of
	// those that were wanted: it shows nothing, whatever it says.
	Unclear State = "not shown"
)

// The bounds that no Ratio has.
const (
	mostAppend = 3.0 // microseconds of CPU
	// Memory is flat if it grew by no more than this part between the second tenth
	// and the last of the sustained measurement, idempotency keys left out.
	mostGrowth = 0.15
)

// judge holds the figures against their bounds.
func (r *Report) judge() {
	r.Verdicts = nil
	state := func(calm int, holds bool) State {
		switch {
		case 2*calm < r.Wanted:
			return Unclear
		case holds:
			return Holds
		default:
			return Missed
		}
	}
	for _, ratio := range r.Ratios {
		if ratio.Bound == "" {
			continue
		}
		r.Verdicts = append(r.Verdicts, Verdict{
			fmt.Sprintf("%s, %d connections", ratio.Name, ratio.Connections),
			fmt.Sprintf("%.2f (%.2f to %.2f in %s)", ratio.Value, ratio.Least, ratio.Most, pairs(ratio.Of, ratio.Calm)),
			ratio.Bound, state(ratio.Calm, ratio.Met),
		})
	}
	if a := r.Append; a != nil {
		r.Verdicts = append(r.Verdicts, Verdict{
			fmt.Sprintf("CPU of a log append, %d writers, %s bytes", a.Writers, count(a.Bytes)),
			fmt.Sprintf("%.2f µs (%.2f to %.2f)", a.Micros, a.Least, a.Most),
			fmt.Sprintf("≤ %g µs", mostAppend), state(a.Calm, a.Micros <= mostAppend),
		})
	}
	if s := r.Sustained; s != nil {
		before, after := s.levels()
		v := Verdict{
			fmt.Sprintf("memory of (d) within %.0f s, idempotency keys left out", s.Seconds),
			fmt.Sprintf("%.0f to %.0f MiB", before, after), fmt.Sprintf("≤ +%.0f %%", 100*mostGrowth), Missed,
		}
		if after <= before*(1+mostGrowth) {
			v.State = Holds
		}
		r.Verdicts = append(r.Verdicts, v)
	}
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
		return median(all)
	}
	return tenth(1), tenth(9)
}

// failed names the figures that must hold and don't.
func (r *Report) failed() error { return failed(r.Verdicts) }

func failed(verdicts []Verdict) error {
	var all []string
	for _, v := range verdicts {
		if v.State != Holds {
			all = append(all, fmt.Sprintf("%s is %s, must be %s: %s", v.What, v.Figure, v.Bound, v.State))
		}
	}
	if len(all) == 0 {
		return nil
	}
	if slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.State == Unclear }) {
		all = append(all, "what was not shown needs a quieter machine")
	}
	return fmt.Errorf("%s", strings.Join(all, "\n"))
}

package measure

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// AtMost prints a figure that must be at most bound.
func AtMost(out io.Writer, what, unit string, figure, bound float64, details ...string) Verdict {
	v := Verdict{What: what, Figure: fmt.Sprintf("%.4g%s", figure, unit), Bound: fmt.Sprintf("≤ %g%s", bound, unit), State: Missed}
	if len(details) > 0 {
		v.Figure += " (" + strings.Join(details, "; ") + ")"
	}
	if figure <= bound {
		v.State = Holds
	}
	fmt.Fprintf(out, "%s: %s, must be %s: %s\n", v.What, v.Figure, v.Bound, v.State)
	return v
}

// FiveTimes returns how many milliseconds each call of f took.
func FiveTimes(f func() error) (took []float64, err error) {
	for range 5 {
		begin := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		took = append(took, Milliseconds(time.Since(begin)))
	}
	return took, nil
}

// Spans writes the least and the greatest of some figures, and how many there are.
func Spans(all []float64) string {
	return fmt.Sprintf("%.4g to %.4g in %d", slices.Min(all), slices.Max(all), len(all))
}

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

// Failed is an error that names the figures that must hold and do not; nil if all hold.
func Failed(verdicts []Verdict) error {
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

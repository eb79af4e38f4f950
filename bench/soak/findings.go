package soak

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"muniment.example/bench/abuse"
	"muniment.example/bench/measure"
)

// findings are the things that must hold under abuse, as they were found.
type findings []finding

type finding struct {
	what, figure, bound string
	ok                  bool
}

func (f *findings) find(ok bool, what, bound, figure string, args ...any) {
	*f = append(*f, finding{what, fmt.Sprintf(figure, args...), bound, ok})
}

// window is one measurement of good traffic.
type window struct {
	p50, p99 float64 // milliseconds
	measure.Loss
}

func newWindow(latencies []time.Duration, before, after measure.Meters) window {
	slices.Sort(latencies)
	return window{measure.Quantile(latencies, 0.5), measure.Quantile(latencies, 0.99), measure.LossBetween(before, after)}
}

// pair is a window without abuse and the next one with it.
type pair struct{ quiet, loud window }

func (p pair) disturbed() bool { return p.quiet.Disturbed() || p.loud.Disturbed() }

func (p pair) disturbance() string {
	if !p.disturbed() {
		return ""
	}
	return fmt.Sprintf("  disturbed: %.0f %% and %.0f %% stolen, %.0f %% and %.0f %% others",
		100*p.quiet.Steal, 100*p.loud.Steal, 100*p.quiet.Others, 100*p.loud.Others)
}

// slowdown holds the windows of each pair against each other. The median of the
// undisturbed pairs counts, or of all if there are none.
func (f *findings) slowdown(beside string, most float64, pairs []pair) {
	calm := slices.DeleteFunc(slices.Clone(pairs), pair.disturbed)
	said := fmt.Sprintf("%d of %d pairs", len(calm), len(pairs))
	if len(calm) == 0 {
		calm, said = pairs, "doubtful: all pairs disturbed"
	}
	var ratios, quiet, loud []float64
	for _, p := range calm {
		ratios = append(ratios, p.loud.p99/p.quiet.p99)
		quiet, loud = append(quiet, p.quiet.p99), append(loud, p.loud.p99)
	}
	slowdown := measure.Median(ratios)
	f.find(len(calm) > 0 && slowdown <= most, "p99 of good traffic beside "+beside, fmt.Sprintf("≤ %g ×", most),
		"%.2f × (%s → %s; %s)", slowdown, measure.Millis(measure.Median(quiet)), measure.Millis(measure.Median(loud)), said)
}

func (f *findings) drips(got abuse.Counts) {
	f.find(got.Closed > 0 && got.Longest <= maxDrip, "longest life of a drip", "≤ "+maxDrip.String(),
		"%.1f s, %s closed by the server", got.Longest.Seconds(), measure.Count(got.Closed))
}

func (f *findings) bombs(got abuse.Counts, sent int) {
	f.find(got.Refused == sent && got.Other == 0, "header bombs answered 4xx", "all", "%s of %s", measure.Count(got.Refused), measure.Count(sent))
}

func (f *findings) crowd(got abuse.Counts) {
	f.find(got.OK > 0 && got.Refused > 0 && got.Other == 0, "answers to the crowd", "200 and 429 only",
		"%s × 200, %s × 429, %s others", measure.Count(got.OK), measure.Count(got.Refused), measure.Count(got.Other))
}

func (f *findings) level(when string, level, most, now int64, after time.Duration) {
	f.find(now <= level+memorySlack, "memory (RSS) "+when, fmt.Sprintf("level + %d MiB", memorySlack>>20),
		"%d MiB before, %d MiB during, %d MiB %.0f s later", level>>20, most>>20, now>>20, after.Seconds())
}

func (f *findings) leaks(l leaked) {
	f.find(l.lines > 0 && len(l.leaking) == 0, "log lines that hold a key, a body or a header", "0", "%d of %s", len(l.leaking), measure.Count(l.lines))
}

var errSoak = errors.New("abuse was felt where it must not be")

// report writes a line for each, and fails if one doesn't hold.
func (f findings) report(w io.Writer) error {
	rows, ok := [][]string{{"what", "figure", "must be", ""}}, len(f) > 0
	for _, one := range f {
		verdict := "holds"
		if !one.ok {
			verdict, ok = "MISSED", false
		}
		rows = append(rows, []string{one.what, one.figure, one.bound, verdict})
	}
	var b strings.Builder
	b.WriteString("\n")
	measure.Table(&b, rows)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if !ok {
		return errSoak
	}
	return nil
}

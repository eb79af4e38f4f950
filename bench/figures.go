package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Report is what a Comparison found. It is also its JSON form.
type Report struct {
	At          time.Time
	Machine     string
	Connections []int
	// Seconds is how long each measurement took.
	Seconds float64
	Rounds  []Round
	// Medians holds, for each number of connections and variant, the median of the
	// undisturbed rounds, or of all if there are none.
	Medians []Median
	Ratios  []Ratio
	// Disturbed counts the rounds that were left out.
	Disturbed int
	// Warnings say what makes a figure doubtful.
	Warnings  []string   `json:",omitempty"`
	Sustained *Sustained `json:",omitempty"`
	Where     []Share    `json:",omitempty"`
}

// Round is one measurement of one variant.
type Round struct {
	Round       int
	Variant     Variant
	Connections int
	Seconds     float64
	Receipts    int
	PerSecond   float64
	// SustainedPerSecond is the rate until everything was loaded; (d) only.
	SustainedPerSecond float64 `json:",omitempty"`
	// CPUMicros is the server's CPU for a receipt, ClientMicros the load's.
	CPUMicros, ClientMicros float64
	P50, P99, P999          float64 // milliseconds
	// Steal is the share of the machine's time that the hypervisor gave to others,
	// Others what processes beside server and load used.
	Steal, Others float64
	// LoaderRan says that (c) was measured with a loader that should have been paused.
	LoaderRan bool `json:",omitempty"`
}

// Rounds with more than this of the machine's time lost are left out.
const (
	maxSteal  = 0.03
	maxOthers = 0.06
)

func (r *Round) disturbed() bool { return r.Steal > maxSteal || r.Others > maxOthers }

func (r *Round) disturbance() string {
	if !r.disturbed() {
		return ""
	}
	return fmt.Sprintf("  disturbed: %.0f %% stolen, %.0f %% others", 100*r.Steal, 100*r.Others)
}

func newRound(v Variant, connections int, latencies []time.Duration, begin, end meters) Round {
	slices.Sort(latencies)
	machine := end.machine.sub(begin.machine)
	server, client := end.server-begin.server, end.client-begin.client
	r := Round{
		Variant: v, Connections: connections, Seconds: end.at.Sub(begin.at).Seconds(), Receipts: len(latencies),
		P50: quantile(latencies, 0.5), P99: quantile(latencies, 0.99), P999: quantile(latencies, 0.999),
	}
	r.PerSecond = float64(r.Receipts) / r.Seconds
	if r.Receipts > 0 {
		r.CPUMicros, r.ClientMicros = micros(server)/float64(r.Receipts), micros(client)/float64(r.Receipts)
	}
	if machine.total > 0 {
		r.Steal = float64(machine.stolen) / float64(machine.total)
		r.Others = max(0, float64(machine.worked-server-client)/float64(machine.total))
	}
	return r
}

// quantile of sorted latencies, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return micros(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / 1000
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Median is the middle of several rounds.
type Median struct {
	Connections             int
	Variant                 Variant
	Of                      int // rounds
	PerSecond, Sustained    float64
	CPUMicros, ClientMicros float64
	P50, P99, P999          float64
}

// Ratio compares two variants, round by round.
type Ratio struct {
	Name        string
	Connections int
	Value       float64 // the median of the pairs' ratios
	Of          int     // pairs
	// Target is what the ratio should be at the most connections, 0 for no target.
	Target float64 `json:",omitempty"`
	Met    bool
}

// compared are the ratios of interest. A target with a lower bound has atLeast.
var compared = []struct {
	name    string
	of, to  Variant
	figure  func(*Round) float64
	target  float64
	atLeast bool
}{
	{"receipts/s, (c) to (b)", Full, Logged, func(r *Round) float64 { return r.PerSecond }, 0.85, true},
	{"receipts/s, (c) to (a)", Full, Signed, func(r *Round) float64 { return r.PerSecond }, 0.6, true},
	{"p99, (c) to (b)", Full, Logged, func(r *Round) float64 { return r.P99 }, 1.5, false},
	{"server CPU, (c) to (b)", Full, Logged, func(r *Round) float64 { return r.CPUMicros }, 0, false},
	{"receipts/s, (d) to (c)", Loaded, Full, func(r *Round) float64 { return r.PerSecond }, 0, false},
}

// summarise computes medians and ratios from the rounds.
func (r *Report) summarise() {
	r.Medians, r.Ratios, r.Disturbed, r.Warnings = nil, nil, 0, nil
	for i := range r.Rounds {
		if r.Rounds[i].disturbed() {
			r.Disturbed++
		}
	}
	if 2*r.Disturbed > len(r.Rounds) {
		r.Warnings = append(r.Warnings, "other processes or machines took CPU in most measurements; where all of a kind were disturbed, all are counted")
	}
	if slices.ContainsFunc(r.Rounds, func(m Round) bool { return m.LoaderRan }) {
		r.Warnings = append(r.Warnings, "(c) was measured with its loader at work: the server does not pause it")
	}
	for _, n := range r.Connections {
		for _, v := range variants {
			r.Medians = append(r.Medians, medians(n, v, r.pick(n, v)))
		}
		for _, c := range compared {
			r.Ratios = append(r.Ratios, r.ratio(n, c.name, c.of, c.to, c.figure, c.target, c.atLeast))
		}
	}
}

// pick returns the rounds that count.
func (r *Report) pick(connections int, v Variant) []*Round {
	var calm, all []*Round
	for i := range r.Rounds {
		m := &r.Rounds[i]
		if m.Connections != connections || m.Variant != v {
			continue
		}
		if all = append(all, m); !m.disturbed() {
			calm = append(calm, m)
		}
	}
	if len(calm) > 0 {
		return calm
	}
	return all
}

func medians(connections int, v Variant, of []*Round) Median {
	get := func(figure func(*Round) float64) float64 {
		all := make([]float64, len(of))
		for i, r := range of {
			all[i] = figure(r)
		}
		return median(all)
	}
	return Median{
		Connections: connections, Variant: v, Of: len(of),
		PerSecond:    get(func(r *Round) float64 { return r.PerSecond }),
		Sustained:    get(func(r *Round) float64 { return r.SustainedPerSecond }),
		CPUMicros:    get(func(r *Round) float64 { return r.CPUMicros }),
		ClientMicros: get(func(r *Round) float64 { return r.ClientMicros }),
		P50:          get(func(r *Round) float64 { return r.P50 }),
		P99:          get(func(r *Round) float64 { return r.P99 }),
		P999:         get(func(r *Round) float64 { return r.P999 }),
	}
}

// ratio pairs the rounds of two variants by their number. Pairs with a disturbed
// half are left out, unless there are no others.
func (r *Report) ratio(connections int, name string, of, to Variant, figure func(*Round) float64, target float64, atLeast bool) Ratio {
	var calm, all []float64
	for i := range r.Rounds {
		a := &r.Rounds[i]
		if a.Variant != of || a.Connections != connections {
			continue
		}
		for j := range r.Rounds {
			b := &r.Rounds[j]
			if b.Variant != to || b.Connections != connections || b.Round != a.Round || figure(b) == 0 {
				continue
			}
			all = append(all, figure(a)/figure(b))
			if !a.disturbed() && !b.disturbed() {
				calm = append(calm, all[len(all)-1])
			}
		}
	}
	if len(calm) > 0 {
		all = calm
	}
	ratio := Ratio{Name: name, Connections: connections, Value: median(all), Of: len(all)}
	if target > 0 && connections == slices.Max(r.Connections) {
		ratio.Target = target
		ratio.Met = len(all) > 0 && (atLeast && ratio.Value >= target || !atLeast && ratio.Value <= target)
	}
	return ratio
}

// median is 0 of nothing.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.SortFunc(all, cmp.Compare[float64])
	mid := len(all) / 2
	if len(all)%2 == 1 {
		return all[mid]
	}
	return (all[mid-1] + all[mid]) / 2
}

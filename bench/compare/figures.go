package compare

import (
	"fmt"
	"slices"
	"time"

	"muniment.example/bench/measure"
)

// Report is what a Comparison found. It is also its JSON form.
type Report struct {
	At          time.Time
	Machine     string
	Connections []int
	// Seconds is how long each measurement took.
	Seconds float64
	// Wanted is how many undisturbed rounds were wanted.
	Wanted int
	// Quick says that the figures mean nothing: they are of a moment.
	Quick  bool `json:",omitempty"`
	Rounds []Round
	// Medians holds, for each number of connections and variant, the median of the
	// undisturbed rounds, or of all if there are none.
	Medians []Median
	Ratios  []Ratio
	// Disturbed counts the rounds that were left out.
	Disturbed int
	// Warnings say what makes a figure doubtful.
	Warnings  []string   `json:",omitempty"`
	Append    *Append    `json:",omitempty"`
	Sustained *Sustained `json:",omitempty"`
	Where     []Usage    `json:",omitempty"`
	// Batched is what becomes of batches.
	Batched *Batched `json:",omitempty"`
	// Loading is what loaders of the scaled service did, in a StackComparison.
	Loading *Loading `json:",omitempty"`
	// Verdicts are about the figures that must hold; none in a quick run.
	Verdicts []measure.Verdict `json:",omitempty"`

	lineup lineup // empty is that of a Comparison
}

// lineup is what a comparison compares.
type lineup struct {
	variants []Variant
	compared []comparison
	// profiled is the server whose CPU is attributed to kinds of work, beside the one that it
	// is compared with.
	profiled, beside Variant
}

func (r *Report) compares() lineup {
	if r.lineup.variants == nil {
		return lineup{variants, compared, Full, Logged}
	}
	return r.lineup
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
	// BrokerMicros is what a broker on the machine used for it, where there is one.
	BrokerMicros   float64 `json:",omitempty"`
	P50, P99, P999 float64 // milliseconds
	measure.Loss
	// LoaderRan says that (c) was measured with a loader that should have been paused.
	LoaderRan bool `json:",omitempty"`
}

func newRound(v Variant, connections int, latencies []time.Duration, begin, end measure.Meters) Round {
	slices.Sort(latencies)
	server, client := end.Server-begin.Server, end.Client-begin.Client
	r := Round{
		Variant: v, Connections: connections, Seconds: end.At.Sub(begin.At).Seconds(), Receipts: len(latencies),
		P50: measure.Quantile(latencies, 0.5), P99: measure.Quantile(latencies, 0.99), P999: measure.Quantile(latencies, 0.999),
		Loss: measure.LossBetween(begin, end),
	}
	r.PerSecond = float64(r.Receipts) / r.Seconds
	if r.Receipts > 0 {
		r.CPUMicros, r.ClientMicros = measure.Micros(server)/float64(r.Receipts), measure.Micros(client)/float64(r.Receipts)
		r.BrokerMicros = measure.Micros(end.Beside-begin.Beside) / float64(r.Receipts)
	}
	return r
}

// Median is the middle of several rounds.
type Median struct {
	Connections             int
	Variant                 Variant
	Of                      int // rounds
	PerSecond, Sustained    float64
	CPUMicros, ClientMicros float64
	BrokerMicros            float64 `json:",omitempty"`
	P50, P99, P999          float64
}

// Ratio compares two variants, round by round.
type Ratio struct {
	Name        string
	Connections int
	// Value is the median of the ratios of all undisturbed pairs, or of all pairs if
	// there are no others; Of says of how many. Calm are the undisturbed ones.
	Value, Least, Most float64
	Of, Calm           int
	// Bound is what must hold, "" if nothing must.
	Bound string `json:",omitempty"`
	Met   bool   `json:",omitempty"`
}

// comparison is a ratio of interest. One with a lower bound has atLeast.
type comparison struct {
	name    string
	of, to  Variant
	figure  func(*Round) float64
	target  func(connections, most int) float64 // nil or 0: nothing must hold
	atLeast bool
}

var compared = []comparison{
	{"receipts/s, (c) to (b)", Full, Logged, rate, withMost(0.85), true},
	{"receipts/s, (c) to (a)", Full, Signed, rate, withMost(0.6), true},
	{"p99, (c) to (b)", Full, Logged, func(r *Round) float64 { return r.P99 }, withMost(1.5), false},
	{"server CPU, (c) to (b)", Full, Logged, serverCPU, nil, false},
	{"receipts/s, (d) to (c)", Loaded, Full, rate, nil, false},
}

func rate(r *Round) float64 { return r.PerSecond }

func serverCPU(r *Round) float64 { return r.CPUMicros }

// withMost is a bound at the most connections.
func withMost(bound float64) func(connections, most int) float64 {
	return func(connections, most int) float64 {
		if connections < most {
			return 0
		}
		return bound
	}
}

// summarise computes medians and ratios from the rounds.
func (r *Report) summarise() {
	r.Medians, r.Ratios, r.Disturbed, r.Warnings = nil, nil, 0, nil
	for i := range r.Rounds {
		if r.Rounds[i].Disturbed() {
			r.Disturbed++
		}
	}
	if 2*r.Disturbed > len(r.Rounds) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d measurements were disturbed: more than %.0f %% of the machine was stolen from it, or more than %.0f %% used by other processes. "+
			"Where all of a kind were disturbed, all are counted", r.Disturbed, len(r.Rounds), 100*measure.MaxSteal, 100*measure.MaxOthers))
	}
	if slices.ContainsFunc(r.Rounds, func(m Round) bool { return m.LoaderRan }) {
		r.Warnings = append(r.Warnings, "(c) was measured with its loader at work: the server does not pause it")
	}
	for _, n := range r.Connections {
		for _, v := range r.compares().variants {
			r.Medians = append(r.Medians, medians(n, v, r.pick(n, v)))
		}
		for _, c := range r.compares().compared {
			r.Ratios = append(r.Ratios, r.ratio(n, c))
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
		if all = append(all, m); !m.Disturbed() {
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
		return measure.Median(all)
	}
	return Median{
		Connections: connections, Variant: v, Of: len(of),
		PerSecond:    get(func(r *Round) float64 { return r.PerSecond }),
		Sustained:    get(func(r *Round) float64 { return r.SustainedPerSecond }),
		CPUMicros:    get(func(r *Round) float64 { return r.CPUMicros }),
		ClientMicros: get(func(r *Round) float64 { return r.ClientMicros }),
		BrokerMicros: get(func(r *Round) float64 { return r.BrokerMicros }),
		P50:          get(func(r *Round) float64 { return r.P50 }),
		P99:          get(func(r *Round) float64 { return r.P99 }),
		P999:         get(func(r *Round) float64 { return r.P999 }),
	}
}

// ratio pairs the rounds of two variants by their number. Pairs with a disturbed
// half are left out, unless there are no others.
func (r *Report) ratio(connections int, c comparison) Ratio {
	var calm, all []float64
	for i := range r.Rounds {
		a := &r.Rounds[i]
		if a.Variant != c.of || a.Connections != connections {
			continue
		}
		for j := range r.Rounds {
			b := &r.Rounds[j]
			if b.Variant != c.to || b.Connections != connections || b.Round != a.Round || c.figure(b) == 0 {
				continue
			}
			all = append(all, c.figure(a)/c.figure(b))
			if !a.Disturbed() && !b.Disturbed() {
				calm = append(calm, all[len(all)-1])
			}
		}
	}
	if len(calm) > 0 {
		all = calm
	}
	ratio := Ratio{Name: c.name, Connections: connections, Of: len(all), Calm: len(calm)}
	ratio.Value, ratio.Least, ratio.Most = measure.Spread(all)
	target := 0.0
	if c.target != nil {
		target = c.target(connections, slices.Max(r.Connections))
	}
	if target > 0 {
		sign, met := "≤", ratio.Value <= target
		if c.atLeast {
			sign, met = "≥", ratio.Value >= target
		}
		ratio.Bound, ratio.Met = fmt.Sprintf("%s %g", sign, target), met && len(all) > 0
	}
	return ratio
}

// calm counts the rounds in which each of these variants was measured without disturbance, with
// a number of connections.
func (r *Report) calm(connections int, of ...Variant) (n int) {
	good := map[int]int{}
	for i := range r.Rounds {
		m := &r.Rounds[i]
		if m.Connections == connections && slices.Contains(of, m.Variant) && !m.Disturbed() {
			if good[m.Round]++; good[m.Round] == len(of) {
				n++
			}
		}
	}
	return n
}

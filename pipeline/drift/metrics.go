package drift

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	drift    *prometheus.GaugeVec
	checked  *prometheus.CounterVec
	failures prometheus.Counter
	seconds  prometheus.Counter
}

func newMetrics() *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "muniment", Subsystem: "metering", Name: name, Help: help}
	}
	m := &metrics{
		drift: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("drift",
			"Events whose row is missing, invented or not decided by the rule, and packs and statements that disagree with their rows, as found by two checks; must be 0.")),
			[]string{"kind"}),
		checked: prometheus.NewCounterVec(prometheus.CounterOpts(opts("checked_total",
			"Records of the log whose rows were compared, log positions whose duplicate decisions were recomputed, and packs and statements that were compared.")),
			[]string{"check"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts(opts("check_failures_total", "Failed drift checks, for example because the warehouse is unavailable."))),
		seconds:  prometheus.NewCounter(prometheus.CounterOpts(opts("check_seconds_total", "Time spent on drift checks, including waiting for log and warehouse."))),
	}
	for _, check := range []string{checkRows, checkDuplicates, checkPacks, checkStatements} {
		m.checked.WithLabelValues(check)
	}
	return m
}

// show sets the gauges to the known drift.
func (c *Checker) show() {
	sums := differenceCounts{KindMissing: 0, KindInvented: 0, KindDuplicates: 0, KindPack: 0, KindStatement: 0}
	for _, d := range c.known {
		for kind, n := range d {
			sums[kind] += n
		}
	}
	for kind, n := range sums {
		c.metrics.drift.WithLabelValues(kind).Set(float64(n))
	}
}

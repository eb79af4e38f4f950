package pipeline

import (
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one loader, all labelled with its partition. lag and retention are NaN
// until they are known: 0 would mean that all is well.
type metrics struct {
	position    prometheus.Gauge
	lag         prometheus.Gauge
	rows        prometheus.Counter
	quarantined prometheus.Counter
	failures    prometheus.Counter
	rewinds     prometheus.Counter
	stopped     prometheus.Gauge
	// retention is registered for a log that drops records whether they are loaded or not.
	retention prometheus.Gauge
	seconds   prometheus.Histogram

	registerer prometheus.Registerer
	all        []prometheus.Collector
}

func newMetrics(reg prometheus.Registerer, partition int32, retention bool) (*metrics, error) {
	labels := prometheus.Labels{"partition": strconv.Itoa(int(partition))}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "muniment", Subsystem: "loader", Name: name, Help: help, ConstLabels: labels,
		})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "muniment", Subsystem: "loader", Name: name, Help: help, ConstLabels: labels,
		})
	}
	m := &metrics{
		position:    gauge("position", "Offset that the warehouse has loaded up to."),
		lag:         gauge("lag_records", "Records in the log that were not yet loaded when it was last read."),
		rows:        counter("rows_total", "Records loaded as rows, copies of one event each counted."),
		quarantined: counter("set_aside_total", "Records quarantined because their parts disagree or can't be read."),
		failures:    counter("failures_total", "Failed calls to the log or the warehouse that were tried again."),
		rewinds:     counter("rewinds_total", "Times that the warehouse held less than was loaded into it, as an older copy of it does, and loading went on from there."),
		stopped:     gauge("stopped", "1 when the loader has stopped, because going on would lose or invent records."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "muniment", Subsystem: "loader", Name: "batch_seconds",
			Help:        "Time from a batch being read to its being durable in the warehouse, retries included.",
			Buckets:     prometheus.ExponentialBuckets(0.001, 4, 9),
			ConstLabels: labels,
		}),
	}
	m.retention = gauge("retention_used_ratio", "Age of the oldest record that is not loaded by the retention of the log; from 1 on it may be lost.")
	for _, unknown := range []prometheus.Gauge{m.lag, m.retention} {
		unknown.Set(math.NaN())
	}
	m.all = []prometheus.Collector{m.position, m.lag, m.rows, m.quarantined, m.failures, m.rewinds, m.stopped, m.seconds}
	if retention {
		m.all = append(m.all, m.retention)
	}
	m.registerer = reg
	return m, Register(reg, m.all...)
}

// Register registers collectors, all of them or none. With a nil Registerer it does
// nothing.
func Register(r prometheus.Registerer, all ...prometheus.Collector) error {
	if r == nil {
		return nil
	}
	for i, c := range all {
		if err := r.Register(c); err != nil {
			Unregister(r, all[:i]...)
			return err
		}
	}
	return nil
}

// Unregister undoes Register.
func Unregister(r prometheus.Registerer, all ...prometheus.Collector) {
	if r == nil {
		return
	}
	for _, c := range all {
		r.Unregister(c)
	}
}

// loaded counts a batch that is in the warehouse.
func (m *metrics) loaded(b Batch, took time.Duration) {
	m.position.Set(float64(b.Next.Offset))
	m.rows.Add(float64(len(b.Rows)))
	m.quarantined.Add(float64(len(b.Quarantined)))
	m.seconds.Observe(took.Seconds())
}

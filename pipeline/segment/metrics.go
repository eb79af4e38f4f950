package segment

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one log. The label "reason" is full (no space for now) or failed (permanently).
type metrics struct {
	append   prometheus.Histogram
	sync     prometheus.Histogram
	records  prometheus.Histogram
	bytes    prometheus.Gauge
	limit    prometheus.Gauge
	end      prometheus.Gauge
	first    prometheus.Gauge
	removed  prometheus.Counter
	full     prometheus.Gauge
	failures *prometheus.CounterVec

	all []prometheus.Collector
}

func newMetrics(maxBytes int64) *metrics {
	m := &metrics{
		append: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "muniment_log_append_seconds",
			Help:    "Time from Append to the record being durable.",
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 15),
		}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "muniment_log_sync_seconds",
			Help:    "Time of one sync of the log to disk.",
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 15),
		}),
		records: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "muniment_log_group_records",
			Help:    "Records made durable by one sync.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_log_bytes",
			Help: "Bytes of all segment files, preallocation included.",
		}),
		limit: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_log_bytes_limit",
			Help: "Most bytes that the segment files may take together; +Inf for a log that the disk alone bounds.",
		}),
		end: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_log_end_offset",
			Help: "Offset that the next durable record gets.",
		}),
		first: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_log_first_offset",
			Help: "Offset of the first record that is still held.",
		}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_log_segments_removed_total",
			Help: "Segments that were removed because all their records are old, or because space was needed.",
		}),
		full: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_log_full",
			Help: "1 while there is no space for records that were refused, on the disk or below the limit, else 0.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_log_failures_total",
			Help: "Groups of records that could not be made durable, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"full", "failed"} {
		m.failures.WithLabelValues(reason)
	}
	m.limit.Set(math.Inf(1))
	if maxBytes > 0 {
		m.limit.Set(float64(maxBytes))
	}
	m.all = []prometheus.Collector{m.append, m.sync, m.records, m.bytes, m.limit, m.end, m.first, m.removed, m.full, m.failures}
	return m
}

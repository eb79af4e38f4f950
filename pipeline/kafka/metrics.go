package kafka

import "github.com/prometheus/client_golang/prometheus"

// metrics of one log. What is labelled "reason" is unavailable (the brokers could
// not be reached or asked to come again), refused (they will never take the
// records), or full (too many wait).
type metrics struct {
	append   prometheus.Histogram
	request  prometheus.Histogram
	records  prometheus.Histogram
	queued   prometheus.GaugeFunc
	failures *prometheus.CounterVec

	all []prometheus.Collector
}

func newMetrics(queued func() float64) *metrics {
	m := &metrics{
		append: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "muniment_kafka_append_seconds",
			Help:    "Time from Append to the acknowledgement by all in-sync replicas.",
			Buckets: prometheus.ExponentialBuckets(250e-6, 2, 16),
		}),
		request: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "muniment_kafka_request_seconds",
			Help:    "Time of one produce request that was acknowledged.",
			Buckets: prometheus.ExponentialBuckets(250e-6, 2, 16),
		}),
		records: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "muniment_kafka_request_records",
			Help:    "Records that share one produce request.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		queued: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_kafka_queue_bytes",
			Help: "Bytes of the records that wait for an acknowledgement.",
		}, queued),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_kafka_failures_total",
			Help: "Produce requests and records that failed, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"unavailable", "refused", "full"} {
		m.failures.WithLabelValues(reason)
	}
	m.all = []prometheus.Collector{m.append, m.request, m.records, m.queued, m.failures}
	return m
}

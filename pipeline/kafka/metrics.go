package kafka

import "github.com/prometheus/client_golang/prometheus"

// metrics of one log. The label "reason" is unavailable (the brokers could not be reached,
// or failed for now), refused (they will never take the records), or full (too many wait).
type metrics struct {
	append   prometheus.Histogram
	request  prometheus.Histogram
	records  prometheus.Histogram
	queued   prometheus.GaugeFunc
	failures *prometheus.CounterVec

	all []prometheus.Collector
}

func newMetrics(queued func() float64, ready func() error) *metrics {
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
			Help:    "Records of one produce request.",
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
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_kafka_ready",
		Help: "1 while the brokers describe the topic and it can be used, else 0.",
	}, func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	})
	for _, reason := range []string{"unavailable", "refused", "full"} {
		m.failures.WithLabelValues(reason)
	}
	m.all = []prometheus.Collector{m.append, m.request, m.records, m.queued, m.failures, known}
	return m
}

// spoolMetrics of one Spooled.
type spoolMetrics struct {
	spooled, drained, failures prometheus.Counter

	all []prometheus.Collector
}

func newSpoolMetrics(s *Spooled) spoolMetrics {
	m := spoolMetrics{
		spooled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_spool_records_total",
			Help: "Records that were made durable in the spool because Kafka did not acknowledge them in time.",
		}),
		drained: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_spool_drained_total",
			Help: "Records of the spool that Kafka has acknowledged.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_spool_failures_total",
			Help: "Records that the spool could not take either: it was full or has failed.",
		}),
	}
	m.all = []prometheus.Collector{m.spooled, m.drained, m.failures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_spool_pending_records",
			Help: "Records in the spool that are not in Kafka yet.",
		}, func() float64 { return float64(s.Pending()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_spool_active",
			Help: "1 while new records go to the spool, else 0.",
		}, func() float64 {
			if route, _ := s.currentRoute(); route == toTopic {
				return 0
			}
			return 1
		}),
	}
	return m
}

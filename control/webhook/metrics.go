package webhook

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/pipeline"
)

type metrics struct {
	attempts *prometheus.CounterVec
	pending  prometheus.Gauge
	behind   *unreadPartitions
}

func newMetrics() metrics {
	return metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_webhook_attempts_total", Help: "Attempts to send to webhooks, by result: delivered, retried, or failed (no further attempt).",
		}, []string{"result"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_webhook_pending_deliveries", Help: "Deliveries that wait for an attempt, in the whole service; counted once a minute.",
		}),
		behind: &unreadPartitions{since: map[int32]time.Time{}},
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	for _, result := range results {
		m.attempts.WithLabelValues(result)
	}
	lag := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_webhook_queue_lag_seconds", Help: "Time since the process that queues events for webhooks last reached the end of the partition that is furthest behind; 0 in other processes.",
	}, m.behind.seconds)
	return pipeline.Register(r, m.attempts, m.pending, lag)
}

// results maps the state in which an attempt leaves the delivery to the metric's label.
var results = map[DeliveryState]string{Delivered: "delivered", Pending: "retried", Failed: "failed"}

// count counts an attempt.
func (m *metrics) count(e *finishedAttempt) {
	if e.outcome != nil && (e.outcome.held == nil || e.next.State == Failed) {
		m.attempts.WithLabelValues(results[e.next.State]).Inc()
	}
}

// unreadPartitions records since when each partition has not been read to its end.
type unreadPartitions struct {
	mu    sync.Mutex
	since map[int32]time.Time
}

// reach records that a partition was read, to its end or not.
func (b *unreadPartitions) reach(partition int32, end bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.since[partition]; end {
		delete(b.since, partition)
	} else if !known {
		b.since[partition] = time.Now()
	}
}

func (b *unreadPartitions) seconds() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	longest := time.Duration(0)
	for _, since := range b.since {
		longest = max(longest, time.Since(since))
	}
	return longest.Seconds()
}

package issue

import (
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/gate"
)

// metrics holds the issuer's counters. Their labels are bounded: rules and reasons are
// closed lists.
type metrics struct {
	deliveries   *prometheus.CounterVec
	byReason     [256]atomic.Pointer[prometheus.Counter] // looked up by its label once
	refusedRules *prometheus.CounterVec
	appendErrors prometheus.Counter
	replayErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, i *Issuer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_gateway_deliveries_total", Help: "Receipts issued, by METERED or the first reason of suppression.",
		}, []string{"reason"}),
		refusedRules: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_gateway_refusals_total", Help: "Violations of deliveries that the gate refused, by rule.",
		}, []string{"rule"}),
		appendErrors: counter("muniment_gateway_append_errors_total", "Deliveries that could not be made durable."),
		replayErrors: counter("muniment_gateway_replay_errors_total", "Earlier answers that could not be read from the log."),
	}
	reg.MustRegister(m.refusedRules, m.deliveries,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_idempotency_entries", Help: "Idempotency keys remembered.",
		}, func() float64 { return float64(i.claims.Entries()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_idempotency_bytes", Help: "Memory that the idempotency keys take.",
		}, func() float64 { return float64(i.claims.Bytes()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_idempotency_entries_limit", Help: "Most idempotency keys that are remembered.",
		}, func() float64 { return float64(i.cfg.IdempotencyEntries) }),
	)
	return m
}

func (m *metrics) refused(rule string) { m.refusedRules.WithLabelValues(rule).Inc() }

func (m *metrics) recorded(reason gate.Reason) {
	c := m.byReason[reason].Load()
	if c == nil {
		looked := m.deliveries.WithLabelValues(reason.String())
		c = &looked
		m.byReason[reason].Store(c)
	}
	(*c).Inc()
}

// What an outage is of.
const (
	appendToLog   = "append deliveries to the log"
	signDelivered = "sign deliveries"
	keepClaims    = "keep checkpoints of idempotency keys: the next start reads more of the log"
)

// checkpointTrouble logs what keeps the claims from writing checkpoints, nil when they do again.
func (i *Issuer) checkpointTrouble(err error) {
	if err != nil {
		i.keepTrouble.Begins(i.cfg.Logger, keepClaims, err)
	} else {
		i.keepTrouble.Ends(i.cfg.Logger, keepClaims)
	}
}

// Outage logs when a part begins to fail and when it works again, instead of once for
// each delivery in between. The zero value is ready.
type Outage struct{ why atomic.Pointer[error] }

// Begins logs that the part fails, unless it did before.
func (o *Outage) Begins(log *slog.Logger, what string, err error) {
	if o.why.Load() == nil && o.why.CompareAndSwap(nil, &err) {
		log.Error("cannot "+what, "err", err)
	}
}

// Ends logs that the part works, if it failed before.
func (o *Outage) Ends(log *slog.Logger, what string) {
	if o.why.Load() != nil && o.why.Swap(nil) != nil {
		log.Info("can " + what + " again")
	}
}

// Err is why the part fails, as of when it began to; nil while it works.
func (o *Outage) Err() error {
	if why := o.why.Load(); why != nil {
		return *why
	}
	return nil
}

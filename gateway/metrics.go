package gateway

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"muniment/gate"
)

// metrics holds the gateway's counters. Their labels are bounded: routes, status
// codes, rules and reasons are closed lists.
type metrics struct {
	requests     *prometheus.CounterVec
	byCode       [routes][600]resolved
	seconds      [routes]prometheus.Observer
	deliveries   *prometheus.CounterVec
	byReason     [256]resolved
	refusedRules *prometheus.CounterVec
	appendErrors prometheus.Counter
	replayErrors prometheus.Counter
	turns        prometheus.Counter
	acceptErrors prometheus.Counter
	refusedConns prometheus.Counter

	handshakeErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, g *Gateway) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_gateway_requests_total", Help: "Requests answered, by route and HTTP status.",
		}, []string{"route", "code"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_gateway_deliveries_total", Help: "Receipts issued, by METERED or the first reason of suppression.",
		}, []string{"reason"}),
		refusedRules: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_gateway_refusals_total", Help: "Violations of deliveries that the gate refused, by rule.",
		}, []string{"rule"}),
		appendErrors: counter("muniment_gateway_append_errors_total", "Deliveries that could not be made durable."),
		replayErrors: counter("muniment_gateway_replay_errors_total", "Earlier answers that could not be read from the log."),
		turns:        counter("muniment_gateway_turns_total", "Deliveries of tenants above their bound that waited for their turn."),
		acceptErrors: counter("muniment_gateway_accept_errors_total", "Connections that could not be accepted."),
		refusedConns: counter("muniment_gateway_refused_connections_total", "Connections turned away at a bound."),

		handshakeErrors: counter("muniment_gateway_handshake_errors_total", "TLS handshakes that failed or took too long."),
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "muniment_gateway_request_seconds", Help: "Time from a request's arrival to its answer, by route.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"route"})
	for r := range routes {
		m.seconds[r] = seconds.WithLabelValues(r.String())
	}
	reg.MustRegister(m.requests, m.refusedRules, seconds, m.deliveries,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_requests_in_flight", Help: "Requests being answered.",
		}, func() float64 { return float64(g.inFlight.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_answers_held_back", Help: "Refusals above a bound that wait to be told.",
		}, func() float64 { return float64(g.heldBack.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_connections", Help: "Open connections.",
		}, func() float64 { return float64(g.listener.open()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_idempotency_entries", Help: "Idempotency keys remembered.",
		}, func() float64 { return float64(g.claims.entries()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_idempotency_bytes", Help: "Memory that the idempotency keys take.",
		}, func() float64 { return float64(g.claims.bytes()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_idempotency_entries_limit", Help: "Most idempotency keys that are remembered.",
		}, func() float64 { return float64(g.cfg.IdempotencyEntries) }),
	)
	return m
}

// resolved is one counter of a vector, looked up by its labels once.
type resolved struct {
	counter atomic.Pointer[prometheus.Counter]
}

func (r *resolved) of(vec *prometheus.CounterVec, labels func() []string) prometheus.Counter {
	if c := r.counter.Load(); c != nil {
		return *c
	}
	c := vec.WithLabelValues(labels()...)
	r.counter.Store(&c)
	return c
}

func (m *metrics) observe(r route, status int, took time.Duration) {
	if status < 100 || status >= len(m.byCode[r]) {
		status = fasthttp.StatusInternalServerError
	}
	m.byCode[r][status].of(m.requests, func() []string { return []string{r.String(), strconv.Itoa(status)} }).Inc()
	m.seconds[r].Observe(took.Seconds())
}

func (m *metrics) refused(rule string) { m.refusedRules.WithLabelValues(rule).Inc() }

func (m *metrics) recorded(reason gate.Reason) {
	m.byReason[reason].of(m.deliveries, func() []string { return []string{reason.String()} }).Inc()
}

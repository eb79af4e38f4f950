package gateway

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway/issue"
	"muniment.example/pipeline/trace"
)

// metrics holds the gateway's counters. Their labels are bounded: routes and status
// codes are closed lists.
type metrics struct {
	requests     *prometheus.CounterVec
	byCode       [routes][600]atomic.Pointer[prometheus.Counter] // looked up by its labels once
	seconds      [routes]prometheus.Observer
	rows         [issue.RowStatuses]prometheus.Counter
	beacons      [beaconOutcomes]prometheus.Counter
	delayed      prometheus.Counter
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
		delayed:      counter("muniment_gateway_turns_total", "Deliveries that were delayed because their tenant exceeded its limit."),
		acceptErrors: counter("muniment_gateway_accept_errors_total", "Connections that could not be accepted."),
		refusedConns: counter("muniment_gateway_refused_connections_total", "Connections refused above a bound."),

		handshakeErrors: counter("muniment_gateway_handshake_errors_total", "TLS handshakes that failed or took too long."),
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "muniment_gateway_request_seconds", Help: "Time from a request's arrival to its answer, by route.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"route"})
	for r := range routes {
		m.seconds[r] = seconds.WithLabelValues(r.String())
	}
	rows := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muniment_gateway_rows_total", Help: "Rows of batches that were answered, by status.",
	}, []string{"status"})
	for s := range issue.RowStatuses {
		m.rows[s] = rows.WithLabelValues(s.String())
	}
	beacons := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muniment_gateway_beacons_total", Help: "Calls of beacons, by outcome. All are answered with an image.",
	}, []string{"outcome"})
	for o := range beaconOutcomes {
		m.beacons[o] = beacons.WithLabelValues(o.String())
	}
	reg.MustRegister(m.requests, seconds, rows, beacons,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_batch_bytes", Help: "Bodies of batches in memory, in bytes.",
		}, func() float64 { return float64(g.batches.bytes.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_batches_in_hand", Help: "Batches that wait for a slot or are served.",
		}, func() float64 { return float64(g.batches.inHand.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_requests_in_flight", Help: "Requests being answered.",
		}, func() float64 { return float64(g.inFlight.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_answers_held_back", Help: "Refusals above a bound that are held back.",
		}, func() float64 { return float64(g.heldBack.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_connections", Help: "Open connections.",
		}, func() float64 { return float64(g.listener.open()) }),
	)
	for name, pool := range g.pools() {
		labels := prometheus.Labels{"pool": name}
		reg.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "muniment_gateway_places_in_use", Help: "Places for requests that are taken, by the kind of caller; of bodies: bytes.", ConstLabels: labels,
			}, func() float64 { return float64(pool.inUse()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "muniment_gateway_places_limit", Help: "Places for requests that there are, by the kind of caller; three quarters of them for requests that change nothing. Of bodies: bytes.",
				ConstLabels: labels,
			}, func() float64 { return float64(pool.most) }),
		)
	}
	for _, part := range g.Checks() {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_gateway_ready", Help: "1 while the part is ready, 0 while each delivery is answered 503 for it.",
			ConstLabels: prometheus.Labels{"part": part.Name},
		}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), probeTime)
			defer cancel()
			if part.Ready(ctx) != nil {
				return 0
			}
			return 1
		}))
	}
	return m
}

// observe counts a request. One that is traced is an example of how long such requests take.
func (m *metrics) observe(r route, status int, took time.Duration, span *trace.Span) {
	if status < 100 || status >= len(m.byCode[r]) {
		status = fasthttp.StatusInternalServerError
	}
	c := m.byCode[r][status].Load()
	if c == nil {
		looked := m.requests.WithLabelValues(r.String(), strconv.Itoa(status))
		c = &looked
		m.byCode[r][status].Store(c)
	}
	(*c).Inc()
	if with, ok := m.seconds[r].(prometheus.ExemplarObserver); ok && span != nil {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID()})
		return
	}
	m.seconds[r].Observe(took.Seconds())
}

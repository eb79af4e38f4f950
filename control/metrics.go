package control

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/gateway/auth"
)

// newMetrics returns the histogram of requests by operation and status.
func newMetrics(to prometheus.Registerer) (*prometheus.HistogramVec, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "muniment_control_request_duration_seconds",
		Help:    "Time to answer a request to control, refused ones included. The operation " + unmatched + " stands for unknown paths and methods.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation", "status"})
	if to == nil {
		return seconds, nil
	}
	return seconds, to.Register(seconds)
}

// unmatched is the operation, and the route, of requests that match none.
const unmatched = "unmatched"

// noteOperation is the outermost middleware: it records which operation a request has reached.
func noteOperation(ctx huma.Context, next func(huma.Context)) {
	if x, ok := exchangeOf(ctx.Context()); ok {
		x.operation = ctx.Operation()
	}
	next(ctx)
}

// observe counts and times a request after its response, and logs it at debug level. Neither its path
// nor its query is logged: a caller can put anything into them.
func (d *handler) observe(x *exchange, r *http.Request, w *responseWriter, began time.Time) {
	took := d.now().Sub(began)
	operation, route := x.operationID(), unmatched
	if x.operation != nil {
		route = x.operation.Path
	}
	status := w.status
	if status == 0 { // a panic without a response, since the caller has disconnected
		status = http.StatusInternalServerError
	}
	d.seconds.WithLabelValues(operation, strconv.Itoa(status)).Observe(took.Seconds())
	x.endSpan(r, operation, status)
	d.count(x, r, operation)
	if _, inside := r.Context().Value(inProcess{}).(auth.Principal); inside || !d.logger.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	x.logger.Debug("request", "method", r.Method, "route", route, "status", status,
		"tenantId", x.tenantID, "duration", took)
}

// shownTimeout bounds how long a refused request waits to learn whose it is.
const shownTimeout = time.Second

// count counts a request with a key. One that no key has admitted is counted if it has shown the secret of one that is
// revoked or has expired, or if nothing is under its path.
func (d *handler) count(x *exchange, r *http.Request, operation string) {
	if _, inside := r.Context().Value(inProcess{}).(auth.Principal); inside || d.requests == nil {
		return
	}
	counter, now, key := d.requests.Counter(), d.db.Now(), x.key
	switch {
	case key != nil:
		counter.Used(key, now)
	case x.refused != nil && (x.operation == nil || x.dead):
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), shownTimeout)
		defer cancel()
		key = auth.Shown(ctx, auth.Header(r.Header), d.keys)
	}
	if key != nil && x.refused != nil {
		counter.Refused(key, operation, x.refused, x.requestID, now)
	}
}

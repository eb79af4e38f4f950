package control

import (
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// newMetrics measures requests by operation and status, both of which are few.
func newMetrics(to prometheus.Registerer) (*prometheus.HistogramVec, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "muniment_control_request_duration_seconds", Help: "Time to answer a request to control.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation", "status"})
	if to == nil {
		return seconds, nil
	}
	return seconds, to.Register(seconds)
}

func observe(seconds *prometheus.HistogramVec, now func() time.Time) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		start := now()
		defer func() {
			status := ctx.Status()
			if status == 0 { // a panic, which the door answers
				status = http.StatusInternalServerError
			}
			seconds.WithLabelValues(ctx.Operation().OperationID, strconv.Itoa(status)).Observe(now().Sub(start).Seconds())
		}()
		next(ctx)
	}
}

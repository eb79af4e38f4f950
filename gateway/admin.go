package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is one part that must be ready before the process may be sent requests.
type Check struct {
	Name string
	// Ready is nil if it is. Its error is shown to operators.
	Ready func(ctx context.Context) error
}

// Admin configures the handler of the admin listener, which is for operators only
// and must not be reachable from outside.
type Admin struct {
	Gatherer prometheus.Gatherer
	Checks   []Check
	// Mount adds handlers by pattern of http.ServeMux.
	Mount map[string]http.Handler
}

// Handler serves /metrics, /livez, /readyz, /debug/pprof and what is mounted.
//
// /livez is 200 as long as the process answers: it depends on nothing else, so
// that nothing else gets the process killed. /readyz is 200 {"ready":true}, or 503
// with the name and reason of each part that is not ready.
func (a Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]bool{"live": true})
	})
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for pattern, h := range a.Mount {
		mux.Handle(pattern, h)
	}
	return mux
}

func (a Admin) readyz(w http.ResponseWriter, r *http.Request) {
	type part struct {
		Name   string `json:"name"`
		Reason string `json:"reason"`
	}
	var answer struct {
		Ready    bool   `json:"ready"`
		NotReady []part `json:"notReady,omitempty"`
	}
	for _, c := range a.Checks {
		if err := c.Ready(r.Context()); err != nil {
			answer.NotReady = append(answer.NotReady, part{c.Name, err.Error()})
		}
	}
	answer.Ready = len(answer.NotReady) == 0
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", contentJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

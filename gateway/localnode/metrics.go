package localnode

import "github.com/prometheus/client_golang/prometheus"

// registerer registers the metrics of one node. end unregisters them, so that those of the node's
// successor can be registered.
type registerer struct {
	prometheus.Registerer
	all   []prometheus.Collector
	ended bool
}

// Register implements prometheus.Registerer.
func (r *registerer) Register(c prometheus.Collector) error {
	r.all = append(r.all, c)
	return r.Registerer.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r *registerer) MustRegister(all ...prometheus.Collector) {
	r.all = append(r.all, all...)
	r.Registerer.MustRegister(all...)
}

// Unregister implements prometheus.Registerer. After end it does nothing: it would unregister the
// successor's collectors, which have the same names.
func (r *registerer) Unregister(c prometheus.Collector) bool {
	return !r.ended && r.Registerer.Unregister(c)
}

func (r *registerer) end() {
	for _, c := range r.all {
		r.Unregister(c)
	}
	r.ended = true
}

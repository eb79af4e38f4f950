package localnode

import "github.com/prometheus/client_golang/prometheus"

// registerer unregisters the metrics of a node when it issues no more, for those of its
// successor.
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

// Unregister implements prometheus.Registerer. After the end the successor's collectors have
// the same names, and stay.
func (r *registerer) Unregister(c prometheus.Collector) bool {
	return !r.ended && r.Registerer.Unregister(c)
}

func (r *registerer) end() {
	for _, c := range r.all {
		r.Unregister(c)
	}
	r.ended = true
}

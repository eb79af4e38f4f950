package identity

import (
	"github.com/prometheus/client_golang/prometheus"
)

func newMetrics(n *Node) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_identity_key_left_seconds",
			Help: "How long the node can continue to sign with its current keys; +Inf while no end is set, 0 without a key.",
		}, n.secondsLeft),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_identity_key_change_failing",
			Help: "1 while the node fails to enrol or retire a signing key, else 0.",
		}, func() float64 {
			if n.failing.Load() {
				return 1
			}
			return 0
		}),
	}
}

// register registers all metrics or none.
func register(r prometheus.Registerer, all []prometheus.Collector) error {
	if r == nil {
		return nil
	}
	for i, m := range all {
		if err := r.Register(m); err != nil {
			for _, done := range all[:i] {
				r.Unregister(done)
			}
			return err
		}
	}
	return nil
}

package snapshot

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	hits, misses, changes, feedErrors, loadErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, v *View) *metrics {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muniment_rights_lookups_total",
		Help: "Rights, keys and mappings looked up, by whether the cache could answer.",
	}, []string{"result"})
	m := &metrics{
		hits:   lookups.WithLabelValues("hit"),
		misses: lookups.WithLabelValues("miss"),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_rights_changes_total", Help: "Changes of rights, keys and mappings applied from control's feed.",
		}),
		feedErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_rights_feed_errors_total", Help: "Requests for control's feed that failed, or whose answer shows that the clock is ahead of control's.",
		}),
		loadErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_rights_load_errors_total", Help: "Requests to control for rights, keys or mappings that failed.",
		}),
	}
	reg.MustRegister(lookups, m.changes, m.feedErrors, m.loadErrors,
		gauge("muniment_rights_lease_age_seconds", "Age of the lease on rights; +Inf without one. Deliveries are refused above the bound.", func() float64 {
			age, held := v.LeaseAge()
			if !held {
				return math.Inf(1)
			}
			return age.Seconds()
		}),
		gauge("muniment_rights_lease_bound_seconds", "Age of the lease from which deliveries are refused.", func() float64 {
			return v.cfg.LeaseBound.Seconds()
		}),
		gauge("muniment_rights_superseded", "1 while control refuses this process because another one, which started later, runs as the same node.", func() float64 {
			if v.superseded.Load() {
				return 1
			}
			return 0
		}),
		gauge("muniment_rights_applied_revision", "Newest revision of control's feed that was applied.", func() float64 {
			return float64(v.Applied())
		}),
		gauge("muniment_rights_stopped_entries", "Rights and keys remembered because they are or were stopped.", func() float64 {
			return float64(v.stopped.len() + v.revoked.len())
		}),
	)
	return m
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

package proof

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	seals   *prometheus.CounterVec
	packs   prometheus.Counter
	entries prometheus.Counter
	forged  prometheus.Counter
	seconds prometheus.Histogram
	mended  *prometheus.CounterVec
	unread  prometheus.Counter
}

// What was mended of stored sums.
const (
	mendedPack   = "pack"
	mendedMerged = "merged"
)

// Results of a seal.
const (
	resultSealed      = "sealed"
	resultNothing     = "nothing_new"
	resultBehind      = "behind"
	resultQuarantined = "set_aside"
	resultFailed      = "failed"
)

func newMetrics() *metrics {
	m := &metrics{
		seals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_proof_seals_total", Help: "Calls to seal, by result.",
		}, []string{"result"}),
		packs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_proof_packs_total", Help: "Proof packs sealed by this process.",
		}),
		entries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_proof_entries_total", Help: "Events in the proof packs sealed by this process.",
		}),
		forged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_proof_forged_total", Help: "Records that were quarantined during sealing because they could not be verified.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muniment_proof_seal_seconds", Help: "Duration of a call to seal, including waiting.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 100},
		}),
	}
	m.mended = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muniment_proof_sums_mended_total", Help: "Stored sums that could not be read or were not those of their pack: of a pack, counted again from its entries; merged ones, merged again.",
	}, []string{"sums"})
	m.mended.WithLabelValues(mendedPack)
	m.mended.WithLabelValues(mendedMerged)
	m.unread = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muniment_proof_sums_unread_total", Help: "Queries of metering that were answered from rows because the sums of packs could not be read.",
	})
	for _, result := range []string{resultSealed, resultNothing, resultBehind, resultQuarantined, resultFailed} {
		m.seals.WithLabelValues(result)
	}
	return m
}

func (m *metrics) register(to prometheus.Registerer) error {
	if to == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.seals, m.packs, m.entries, m.forged, m.seconds, m.mended, m.unread} {
		if err := to.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// dueGauges are what SealDue found at its last check, which may have been done since.
func dueGauges(r *Service) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_proof_unsealed_age_seconds", Help: "Age of the oldest event that is in no proof pack, as of the last check; NaN if none is known and not all tenants were checked since the start.",
		}, func() float64 {
			at, all := r.due.oldest()
			switch {
			case !at.IsZero():
				return max(0, r.now().Sub(at).Seconds())
			case !all:
				return math.NaN()
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_proof_seal_every_seconds", Help: "Age at which events are sealed automatically; 0: whatever their age.",
		}, func() float64 { return r.cfg.SealEvery.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_proof_seal_failing_tenants", Help: "Tenants that could not be sealed automatically at the last attempt; not those that quarantined records hold.",
		}, func() float64 { return float64(r.due.failing()) }),
	}
}

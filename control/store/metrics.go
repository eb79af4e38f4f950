package store

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	relayed, failed prometheus.Counter
}

func (db *DB) register() error {
	db.metrics = metrics{
		relayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_store_events_relayed_total", Help: "Audit events that the relay brought into the log.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_store_relay_failures_total", Help: "Attempts of the relay that failed and are tried again.",
		}),
	}
	if db.cfg.Registerer == nil {
		return nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_store_outbox_events", Help: "Audit events that are not in the log yet; NaN when the database does not answer.",
	}, db.outboxLen)
	for _, c := range []prometheus.Collector{db.metrics.relayed, db.metrics.failed, waiting} {
		if err := db.cfg.Registerer.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) outboxLen() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var n int64
	if err := db.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM outbox`).Scan(&n); err != nil {
		return math.NaN()
	}
	return float64(n)
}

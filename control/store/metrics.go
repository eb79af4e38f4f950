package store

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// readyTimeout is the longest that ReadyGauge waits for an answer, within the ten seconds that Prometheus
// waits for all metrics.
const readyTimeout = 3 * time.Second

// ReadyGauge returns the gauge muniment_database_ready: 1 if PostgreSQL answers, else 0. It has a connection
// of its own, which release closes. So it doesn't wait for other queries, and if it is registered before
// Open it also shows an outage during the start.
func ReadyGauge(cfg Config) (gauge prometheus.Collector, release func() error, err error) {
	config, err := connection(cfg.URL)
	if err != nil {
		return nil, nil, err
	}
	pool := cfg.pool(config)
	pool.SetMaxOpenConns(1)
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_database_ready", Help: "1 if PostgreSQL answers, else 0.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		var one float64
		if err := pool.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil {
			return 0
		}
		return one
	}), pool.Close, nil
}

type metrics struct {
	relayed, failed prometheus.Counter
}

func (db *DB) register() error {
	db.Outbox.metrics = metrics{
		relayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_store_events_relayed_total", Help: "Audit events that the relay appended to the log.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_store_relay_failures_total", Help: "Failed attempts of the relay. They are retried.",
		}),
	}
	if db.cfg.Registerer == nil {
		return nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_store_outbox_events", Help: "Audit events that are not in the log yet; NaN if the database does not answer.",
	}, db.Outbox.length)
	changes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_store_changes_waiting", Help: "Changes of this process that wait for the one that runs.",
	}, func() float64 { return float64(db.WaitingChanges()) })
	for _, c := range []prometheus.Collector{db.Outbox.metrics.relayed, db.Outbox.metrics.failed, waiting, changes, jobGauges{db}} {
		if err := db.cfg.Registerer.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (outbox *Outbox) length() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var n int64
	if err := outbox.db.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM outbox`).Scan(&n); err != nil {
		return math.NaN()
	}
	return float64(n)
}

// jobGauges show the jobs in the database, with the same values in every process, and nothing if
// the database does not answer. Kinds are constants.
type jobGauges struct{ db *DB }

var (
	jobCount = prometheus.NewDesc("muniment_store_jobs", "Jobs that are not done, by kind and state.", []string{"kind", "state"}, nil)
	jobAge   = prometheus.NewDesc("muniment_store_job_wait_seconds", "How long the longest due job has waited, by kind, including jobs whose worker was lost; 0 if none is due.", []string{"kind"}, nil)
)

func (g jobGauges) Describe(to chan<- *prometheus.Desc) { to <- jobCount; to <- jobAge }

func (g jobGauges) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	type group struct {
		kind, state string
		n           int64
		due         Instant // the earliest
	}
	groups, err := List(ctx, g.db.read, "jobs", func(row Row) (g group, err error) {
		return g, row.Scan(&g.kind, &g.state, &g.n, &g.due)
	}, `SELECT kind, state, COUNT(*), MIN(due_at) FROM jobs GROUP BY kind, state`)
	if err != nil {
		return
	}
	age := map[string]time.Duration{}
	for _, of := range groups {
		to <- prometheus.MustNewConstMetric(jobCount, prometheus.GaugeValue, float64(of.n), of.kind, of.state)
		age[of.kind] = max(age[of.kind], 0)
		if of.state != JobFailed {
			age[of.kind] = max(age[of.kind], g.db.Now().Sub(of.due.Time))
		}
	}
	for kind, d := range age {
		to <- prometheus.MustNewConstMetric(jobAge, prometheus.GaugeValue, d.Seconds(), kind)
	}
}

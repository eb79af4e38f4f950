package warehouse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"muniment.example/bench/measure"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Read is how long a query of what was loaded takes, in microseconds.
type Read struct {
	Warehouse           string
	Group               int
	What                string
	Median, Least, Most float64
	CPU                 float64 // of one, on average
}

// measureReads reads events of some tenants at random places, as pages, exports and look-ups of single events do.
func measureReads(ctx context.Context, w pipeline.Warehouse, tenants []string) (all []Read, err error) {
	random := rand.New(rand.NewPCG(1, 1))
	rows := map[string][]pipeline.Row{}
	for _, id := range tenants {
		if rows[id], err = w.Events(ctx, pipeline.EventQuery{TenantID: id, Limit: 20_000}); err != nil {
			return nil, err
		}
		for i := range rows[id] { // these are kept
			rows[id][i].Event, rows[id][i].Private = nil, nil
		}
	}
	draw := func() (tenant string, at pipeline.Row) {
		tenant = tenants[random.IntN(len(tenants))]
		return tenant, rows[tenant][random.IntN(len(rows[tenant]))]
	}
	list := func(limit int, newest bool) error {
		tenant, at := draw()
		q := pipeline.EventQuery{TenantID: tenant, Limit: limit, Newest: newest}
		if bound := at.Position; newest {
			q.Before = &bound
		} else {
			q.After = &sealer.Position{Generation: bound.Generation}
		}
		_, err := w.Events(ctx, q)
		return err
	}
	single := func() error {
		tenant, at := draw()
		_, err := w.Event(ctx, tenant, at.EventID)
		return err
	}
	for _, one := range []struct {
		what  string
		times int
		query func() error
	}{
		{"a single event", 2000, single},
		{"50 scattered events", 60, func() error {
			for range 50 {
				if err := single(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"a page of 51", 600, func() error { return list(51, true) }},
		{"1,000 events to export or seal", 60, func() error { return list(1000, false) }},
	} {
		var took []float64
		cpu, err := timed(func() error {
			for range one.times {
				begin := time.Now()
				if err := one.query(); err != nil {
					return fmt.Errorf("cannot read %s: %w", one.what, err)
				}
				took = append(took, float64(time.Since(begin))/float64(time.Microsecond))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		r := Read{What: one.what, CPU: float64(cpu) / float64(time.Microsecond) / float64(one.times)}
		r.Median, r.Least, r.Most = measure.Spread(took)
		all = append(all, r)
	}
	return all, nil
}

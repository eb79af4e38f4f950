package compare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
)

// lagSample is how far the loader had come at a moment.
type lagSample struct {
	at        time.Time
	positions map[int32]int64
}

var errCopies = errors.New("the topic has copies")

// lag delivers at a fixed rate, one connection a tenant, and watches the loader. Nothing
// else writes the topic, so the n-th receipt of a partition stands n records behind
// where it ended before.
func (c *StackComparison) lag(ctx context.Context, edge *target) (Lag, error) {
	before, err := c.settled(ctx)
	if err != nil {
		return Lag{}, err
	}
	if err := c.awaitPositions(ctx, before); err != nil {
		return Lag{}, err
	}
	begin, err := c.around(edge)
	if err != nil {
		return Lag{}, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var seen []lagSample
	watched := make(chan error, 1)
	go func() {
		watched <- system.Every(watching, lookEvery, func() error {
			at, err := c.positions(watching)
			seen = append(seen, lagSample{time.Now(), at})
			return err
		})
	}()
	due, err := c.stream(ctx, edge)
	if err != nil {
		return Lag{}, err
	}
	end, err := c.around(edge)
	if err != nil {
		return Lag{}, err
	}
	ends, err := c.settled(ctx)
	if err != nil {
		return Lag{}, err
	}
	for p, all := range due {
		if n := ends[p] - before[p]; n != int64(len(all)) {
			return Lag{}, fmt.Errorf("%w: partition %d has %d records more, and %d were acknowledged", errCopies, p, n, len(all))
		}
	}
	if err := c.awaitPositions(ctx, ends); err != nil {
		return Lag{}, err
	}
	stop()
	if err := <-watched; err != nil {
		return Lag{}, err
	}
	last, err := c.positions(ctx) // which the watcher may have missed
	if err != nil {
		return Lag{}, err
	}
	seen = append(seen, lagSample{time.Now(), last})
	lags := delays(due, before, seen)
	l := Lag{PerSecond: c.PerSecond, Seconds: c.Lag.Seconds(), Receipts: len(lags), Loss: measure.LossBetween(begin, end)}
	l.P50, l.P99, l.Most = measure.Quantile(lags, 0.5), measure.Quantile(lags, 0.99), measure.Quantile(lags, 1)
	return l, nil
}

// awaitPositions returns once the loader has come so far.
func (c *StackComparison) awaitPositions(ctx context.Context, ends map[int32]int64) error {
	ctx, cancel := context.WithTimeout(ctx, system.MaxBacklog)
	defer cancel()
	for {
		at, err := c.positions(ctx)
		if err != nil {
			return err
		}
		if total(at) >= total(ends) {
			return nil
		}
		if err := pipeline.Pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("%d records are not loaded: %w", total(ends)-total(at), err)
		}
	}
}

// stream delivers, and returns by partition when each receipt was due.
func (c *StackComparison) stream(ctx context.Context, edge *target) (map[int32][]time.Time, error) {
	p := &load.Pressure{Senders: edge.senders}
	period := time.Second * time.Duration(len(edge.senders)) / time.Duration(c.PerSecond)
	from := time.Now().Add(50 * time.Millisecond)
	to := from.Add(c.Lag)
	due := map[int32][]time.Time{}
	var mu sync.Mutex
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sending sync.WaitGroup
	for i := range edge.senders {
		conn, err := net.Dial("tcp", system.HostOf(edge.server.API))
		if err != nil {
			cancel(err)
			break
		}
		defer conn.Close()
		number := edge.callers.Add(1)
		caller := p.NewCaller(conn, number)
		tenant := c.tenants[int(number)%len(edge.senders)].TenantID
		sending.Go(func() {
			partition, err := c.log.PartitionOf(ctx, tenant)
			if err != nil {
				cancel(err)
				return
			}
			var own []time.Time
			for at := from.Add(period * time.Duration(i) / time.Duration(len(edge.senders))); at.Before(to); at = at.Add(period) {
				if pipeline.Pause(ctx, time.Until(at)) != nil {
					return
				}
				if err := caller.Deliver(to); err != nil {
					cancel(err)
					return
				}
				own = append(own, at)
			}
			mu.Lock()
			defer mu.Unlock()
			due[partition] = append(due[partition], own...)
		})
	}
	sending.Wait()
	return due, context.Cause(ctx)
}

// delays holds the moments at which receipts were due against those at which the loader
// was first seen behind them; sorted. before are the ends of the partitions before all
// of them.
func delays(due map[int32][]time.Time, before map[int32]int64, seen []lagSample) (all []time.Duration) {
	for p, moments := range due {
		slices.SortFunc(moments, time.Time.Compare)
		look := 0
		for n, at := range moments {
			for look < len(seen) && seen[look].positions[p] <= before[p]+int64(n) {
				look++
			}
			if look == len(seen) {
				break // the caller has looked when all was loaded: not reached
			}
			all = append(all, seen[look].at.Sub(at))
		}
	}
	slices.Sort(all)
	return all
}

package compare

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
)

// Loading is what one loader did with a backlog, and with a steady stream.
type Loading struct {
	// Rows of the backlog that were loaded while it was watched, and how long it took.
	Rows      int
	Seconds   float64
	PerSecond float64
	// LoaderMicros is the loader's CPU for a row, AllMicros that of all processes of the
	// service and its engines: broker and warehouse too.
	LoaderMicros, AllMicros float64
	measure.Loss
	Lag Lag
}

// Lag is how long receipts took from when they were due to be delivered until they were
// seen in the warehouse, at a fixed rate.
type Lag struct {
	PerSecond int
	Seconds   float64
	Receipts  int
	P50, P99  float64 // milliseconds
	Most      float64
	measure.Loss
}

// lookEvery is how often the loader's position is read: no lag is known finer.
const lookEvery = 20 * time.Millisecond

// loading lets receipts gather, starts a loader, and stops it when it has been measured.
func (c *StackComparison) loading(ctx context.Context, edge *target) (*Loading, error) {
	fmt.Fprintf(c.Out, "gathering a backlog for %v\n", c.Backlog)
	p := &load.Pressure{
		Addr: system.HostOf(edge.server.API), Senders: edge.senders, Connections: 4 * stackTenants, During: c.Backlog,
	}
	if _, err := p.Run(ctx, &edge.callers); err != nil {
		return nil, fmt.Errorf("(%s): %w", edge.variant, err)
	}
	ends, err := c.settled(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.Out, "loading %s records\n", measure.Count(total(ends)))
	c.cluster.Loaders = []*system.Server{nil}
	if err := c.cluster.StartLoader(ctx, 0); err != nil {
		return nil, err
	}
	l, err := c.backlog(ctx, edge, ends)
	if err != nil {
		return nil, fmt.Errorf("cannot load the backlog: %w", err)
	}
	fmt.Fprintf(c.Out, "%s rows/s; measuring lag at %s/s for %v\n", measure.Count(int(l.PerSecond)), measure.Count(c.PerSecond), c.Lag)
	const tries = 3 // a broker that pauses for longer than the gateway waits makes copies
	for n := 1; ; n++ {
		l.Lag, err = c.lag(ctx, edge)
		if errors.Is(err, errCopies) && n < tries {
			fmt.Fprintf(c.Out, "once more: %v\n", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot measure lag: %w", err)
		}
		return l, c.cluster.Loaders[0].Stop()
	}
}

// settled waits until the gateway's spool is empty, and returns the ends of the topic's
// partitions.
func (c *StackComparison) settled(ctx context.Context) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		v, err := c.cluster.Gateways[0].Gauges(ctx, "muniment_spool_active")
		if err != nil {
			return nil, err
		}
		if v[0] == 0 {
			return c.ends(ctx)
		}
		if err := pipeline.Pause(ctx, lookEvery); err != nil {
			return nil, fmt.Errorf("the spool is not drained: %w", err)
		}
	}
}

// ends are those of the topic's partitions.
func (c *StackComparison) ends(ctx context.Context) (map[int32]int64, error) {
	ends := map[int32]int64{}
	for p := range int32(c.Partitions) {
		_, end, err := c.log.Bounds(ctx, p)
		if err != nil {
			return nil, err
		}
		ends[p] = end.Offset
	}
	return ends, nil
}

func total(offsets map[int32]int64) (n int64) {
	for _, o := range offsets {
		n += o
	}
	return n
}

// positions are how far the loader has come in each partition.
func (c *StackComparison) positions(ctx context.Context) (map[int32]int64, error) {
	at := map[int32]int64{}
	err := c.cluster.Loaders[0].ReadMetrics(ctx, func(name, labels string, value float64) {
		number, ok := strings.CutPrefix(strings.TrimSuffix(labels, `"}`), `partition="`)
		if p, err := strconv.ParseInt(number, 10, 32); ok && err == nil && name == system.MetricLoaded {
			at[int32(p)] = int64(value)
		}
	})
	return at, err
}

// around are the meters of the loader, with all others that it needs beside it.
func (c *StackComparison) around(edge *target) (measure.Meters, error) {
	beside := append([]int{edge.server.PID()}, c.broker...)
	return measure.ReadMeters(c.cluster.Loaders[0].PID(), append(beside, c.keepers...)...)
}

// backlog watches the loader from the first rows on until all are loaded.
func (c *StackComparison) backlog(ctx context.Context, edge *target, ends map[int32]int64) (*Loading, error) {
	var begin measure.Meters
	var before int64
	ctx, cancel := context.WithTimeout(ctx, system.MaxBacklog)
	defer cancel()
	for {
		at, err := c.positions(ctx)
		if err != nil {
			return nil, err
		}
		loaded := total(at)
		now, err := c.around(edge)
		if err != nil {
			return nil, err
		}
		if loaded > 0 && begin.At.IsZero() {
			begin, before = now, loaded
		}
		if loaded >= total(ends) {
			l := &Loading{Rows: int(loaded - before), Seconds: now.At.Sub(begin.At).Seconds(), Loss: measure.LossBetween(begin, now)}
			rows := float64(max(1, l.Rows))
			l.PerSecond = rows / max(l.Seconds, lookEvery.Seconds())
			l.LoaderMicros = measure.Micros(now.Server-begin.Server) / rows
			l.AllMicros = measure.Micros(now.Server-begin.Server+now.Beside-begin.Beside) / rows
			return l, nil
		}
		if err := pipeline.Pause(ctx, lookEvery); err != nil {
			return nil, fmt.Errorf("%s of %s records are loaded: %w", measure.Count(loaded), measure.Count(total(ends)), err)
		}
	}
}

func (l *Loading) write(b *strings.Builder) {
	doubt := func(l measure.Loss) string {
		if l.Disturbed() {
			return l.Disturbance()
		}
		return ""
	}
	fmt.Fprintf(b, "\nOne loader, gateway idle: %s rows of a backlog in %.1f s, %s rows/s; %s rows/s for each core that the loader used (%.1f µs a row), "+
		"%s for each that it, the warehouse and the broker used together (%.1f µs)%s.\n", measure.Count(l.Rows), l.Seconds, measure.Count(int(l.PerSecond)),
		perCore(l.LoaderMicros), l.LoaderMicros, perCore(l.AllMicros), l.AllMicros, doubt(l.Loss))
	fmt.Fprintf(b, "\nLag, from when a delivery is due until its receipt is in the warehouse, at %s/s for %.0f s: %s receipts, p50 %s, p99 %s, most %s%s.\n",
		measure.Count(l.Lag.PerSecond), l.Lag.Seconds, measure.Count(l.Lag.Receipts), measure.Millis(l.Lag.P50), measure.Millis(l.Lag.P99), measure.Millis(l.Lag.Most), doubt(l.Lag.Loss))
}

// perCore is how much a core does in a second that spends so many microseconds on one.
func perCore(micros float64) string {
	if micros == 0 {
		return "—"
	}
	return measure.Count(int(1e6 / micros))
}

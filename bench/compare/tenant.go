package compare

import (
	"context"
	"fmt"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
)

// TenantRate is what one tenant, whose records are all in one partition, can sustain, and beside it what as many callers get done as
// 64 tenants in all partitions. Each round measures both, one after the other, so that their ratio says
// what the one partition costs on whatever machine.
type TenantRate struct{ Rounds []TenantRound }

// TenantRound is one measurement of each.
type TenantRound struct{ One, All TenantFigures }

// TenantFigures are of deliveries per second: answered while they were sent, and in the warehouse, from the first request until the last
// receipt was there. A rate that is loaded as fast as it is answered can be sustained.
type TenantFigures struct {
	Receipts         int
	Answered, Loaded float64
	measure.Loss
}

// tenantConnections is how many connections deliver: as many as a node's throughput needs, and fewer than its limit of a tenant.
const tenantConnections = 256

// TenantRate measures. Nothing else may use the stack's machine if the figures are to say anything; each has how much did.
func (c *StackComparison) TenantRate(ctx context.Context) (*TenantRate, error) {
	if err := measure.RaiseFileLimit(2*tenantConnections + 1024); err != nil {
		return nil, err
	}
	c.cluster = system.Cluster{Exe: c.Exe, Dir: c.Dir, Engines: c.Stack.Engines}
	defer c.cluster.End()
	fmt.Fprintf(c.Out, "raising a gateway, a loader and control, with %d tenants\n", stackTenants)
	edge, err := c.raise(ctx)
	if err != nil {
		return nil, err
	}
	defer c.log.Close()
	c.cluster.Loaders = []*system.Server{nil}
	if err := c.cluster.StartLoader(ctx, 0); err != nil {
		return nil, err
	}
	if _, err := c.tenantFigures(ctx, edge, edge.senders, c.Warm); err != nil { // of engines that are cold
		return nil, err
	}
	report := &TenantRate{}
	for n := range c.Rounds {
		var round TenantRound
		if round.One, err = c.tenantFigures(ctx, edge, edge.senders[n%len(edge.senders):][:1], c.During); err != nil {
			return nil, err
		}
		if round.All, err = c.tenantFigures(ctx, edge, edge.senders, c.During); err != nil {
			return nil, err
		}
		report.Rounds = append(report.Rounds, round)
		fmt.Fprintf(c.Out, "one tenant: %s; %d tenants: %s\n", round.One, stackTenants, round.All)
	}
	return report, nil
}

// tenantFigures delivers for so long, and waits until all of it is loaded.
func (c *StackComparison) tenantFigures(ctx context.Context, edge *target, senders []load.Sender, during time.Duration) (f TenantFigures, err error) {
	before, err := c.settled(ctx)
	if err != nil {
		return f, err
	}
	begin, err := c.around(edge)
	if err != nil {
		return f, err
	}
	p := &load.Pressure{Addr: system.HostOf(edge.server.API), Senders: senders, Connections: tenantConnections, During: during}
	pressed, err := p.Run(ctx, &edge.callers)
	if err != nil {
		return f, err
	}
	answered := time.Since(begin.At)
	ends, err := c.settled(ctx)
	if err != nil {
		return f, err
	}
	if err := c.awaitPositions(ctx, ends); err != nil {
		return f, err
	}
	end, err := c.around(edge)
	if err != nil {
		return f, err
	}
	f.Receipts = int(total(ends) - total(before))
	f.Answered = float64(pressed.Total) / answered.Seconds()
	f.Loaded = float64(f.Receipts) / end.At.Sub(begin.At).Seconds()
	f.Loss = measure.LossBetween(begin, end)
	return f, nil
}

// String has both rates.
func (f TenantFigures) String() string {
	return fmt.Sprintf("%s receipts, %s/s answered, %s/s loaded%s", measure.Count(f.Receipts), measure.Count(int(f.Answered)), measure.Count(int(f.Loaded)), f.Disturbance())
}

// String is the medians, and the ratios of the pairs.
func (r *TenantRate) String() string {
	median := func(of func(TenantRound) float64) float64 {
		var all []float64
		for _, round := range r.Rounds {
			all = append(all, of(round))
		}
		return measure.Median(all)
	}
	return fmt.Sprintf("median of %d rounds: one tenant in one partition %s/s answered and %s/s loaded; that is %.2f and %.2f of what %d tenants get",
		len(r.Rounds), measure.Count(int(median(func(t TenantRound) float64 { return t.One.Answered }))), measure.Count(int(median(func(t TenantRound) float64 { return t.One.Loaded }))),
		median(func(t TenantRound) float64 { return t.One.Answered / t.All.Answered }), median(func(t TenantRound) float64 { return t.One.Loaded / t.All.Loaded }), stackTenants)
}

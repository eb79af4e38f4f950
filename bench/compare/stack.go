package compare

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
)

// The variants of a StackComparison, beside Signed.
const (
	Topical Variant = "k" // decode, sign, and append to a topic
	Edge    Variant = "s" // muniment gateway, no loader running
)

// stackTenants is how many tenants deliver: each of them is in one partition.
const stackTenants = 64

// StackComparison measures a gateway of the scaled service against servers that do
// less, with Kafka on the same machine, and then what a loader makes of its receipts.
// Of Comparison's fields Sustain has no meaning here.
type StackComparison struct {
	Comparison
	// Stack has the engines. What is made on them stays.
	Stack      system.Stack
	Partitions int
	// Backlog is how long receipts gather before the loader is started.
	Backlog time.Duration
	// PerSecond is the rate of receipts, for Lag, at which the loader's lag is measured.
	PerSecond int
	Lag       time.Duration

	cluster system.Cluster
	log     system.ReadCloser // of the cluster's topic
	tenants []*load.Tenant
	broker  []int // its process, if it is one of this machine
	keepers []int // those of the warehouse and of control, too
}

// stackLineup holds the bounds of the scaled path.
func stackLineup() lineup {
	always := func(bound float64) func(int, int) float64 { return func(int, int) float64 { return bound } }
	return lineup{
		variants: []Variant{Signed, Topical, Edge},
		compared: []comparison{
			{"receipts/s, (s) to (a)", Edge, Signed, rate, func(connections, _ int) float64 {
				if connections < 256 { // the fewer, the more of a receipt is waiting for the broker
					return 0.5
				}
				return 0.65
			}, true},
			{"receipts/s, (s) to (k)", Edge, Topical, rate, always(0.85), true},
			{"server CPU, (s) to (a)", Edge, Signed, serverCPU, always(1.5), false},
			{"receipts/s, (k) to (a)", Topical, Signed, rate, nil, false},
			{"server CPU, (s) to (k)", Edge, Topical, serverCPU, nil, false},
			{"p99, (s) to (k)", Edge, Topical, func(r *Round) float64 { return r.P99 }, nil, false},
		},
		profiled: Edge, beside: Topical,
	}
}

// Run measures. An answer that is no 200, or whose receipt does not verify, is an
// error.
func (c *StackComparison) Run(ctx context.Context) (*Report, error) {
	report := &Report{
		At: time.Now().UTC().Truncate(time.Second), Machine: measure.DescribeMachine(c.Dir),
		Connections: c.Connections, Seconds: c.During.Seconds(), Wanted: c.Rounds, Quick: c.quick, lineup: stackLineup(),
	}
	if err := measure.RaiseFileLimit(uint64(2*slices.Max(c.Connections) + 1024)); err != nil {
		return nil, err
	}
	c.cluster = system.Cluster{Exe: c.Exe, Dir: c.Dir, Engines: c.Stack.Engines}
	defer c.cluster.End()
	var targets []*target
	defer func() {
		for _, t := range targets {
			t.server.Kill()
		}
	}()
	fmt.Fprintf(c.Out, "raising a gateway and control, with %d tenants\n", stackTenants)
	edge, err := c.raise(ctx)
	if err != nil {
		return nil, err
	}
	defer c.log.Close()
	for _, v := range []Variant{Signed, Topical} {
		t, err := c.startBare(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("cannot start (%s): %w", v, err)
		}
		targets = append(targets, t)
	}
	// The loader comes first: its backlog warms the broker, and it is gone before
	// anything is compared.
	if report.Loading, err = c.loading(ctx, edge); err != nil {
		return nil, err
	}
	all := append(slices.Clone(targets), edge)
	if err := c.warmUp(ctx, all); err != nil {
		return nil, err
	}
	for round := range c.Rounds + c.Spare {
		for _, connections := range c.Connections {
			if round >= c.Rounds && report.calm(connections, report.lineup.variants...) >= c.Rounds {
				continue
			}
			if err := c.round(ctx, report, round, all, connections); err != nil {
				return nil, err
			}
		}
	}
	report.summarise()
	if c.Profile > 0 {
		if report.Where, err = c.where(ctx, targets[1], edge, c.Connections[len(c.Connections)/2]); err != nil {
			return nil, err
		}
	}
	if report.Batched, err = c.batched(ctx, edge); err != nil {
		return nil, err
	}
	if !c.quick {
		report.judge()
	}
	return report, nil
}

// raise raises the service, and makes its tenants and the topic of (k).
func (c *StackComparison) raise(ctx context.Context) (*target, error) {
	if err := c.cluster.Raise(ctx, system.Size{Gateways: 1, Controls: 1, Partitions: c.Partitions}); err != nil {
		return nil, err
	}
	var err error
	if c.log, err = c.Stack.OpenLog(c.cluster.Topic); err != nil {
		return nil, err
	}
	gateway := c.cluster.Gateways[0]
	t := &target{variant: Edge, server: gateway}
	if c.tenants, err = c.register(ctx); err != nil {
		return nil, err
	}
	for _, r := range c.tenants {
		bodies, err := load.Bodies(load.DistinctBodies/stackTenants, load.BodySeed, r.Rights)
		if err != nil {
			return nil, err
		}
		t.senders = append(t.senders, load.Sender{Key: r.Client.Key, Bodies: bodies})
	}
	if t.signers, err = receiptKeys(ctx, c.tenants[0].Client, c.cluster.Operator()); err != nil {
		return nil, err
	}
	c.broker = measure.Listeners(c.Stack.Engines.Kafka)
	c.keepers = []int{c.cluster.Operator().PID()}
	for _, engine := range []string{c.Stack.Engines.ClickHouse, c.Stack.Engines.Database} {
		if u, err := url.Parse(engine); err == nil {
			c.keepers = append(c.keepers, measure.Listeners(u.Host)...)
		}
	}
	t.beside = c.broker
	cmd := c.cluster.Command(ctx, "migrate", "--topic", c.bareTopic(), "--partitions", strconv.Itoa(c.Partitions), "--replication", "1")
	cmd.Env = append(cmd.Env, "MUNIMENT_CLICKHOUSE=", "MUNIMENT_DATABASE=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot make the topic of (%s): %w: %s", Topical, err, out)
	}
	return t, nil
}

func (c *StackComparison) bareTopic() string { return c.cluster.Topic + "_bare" }

// register makes the tenants, a few at a time.
func (c *StackComparison) register(ctx context.Context) ([]*load.Tenant, error) {
	all, failures := make([]*load.Tenant, stackTenants), make([]error, stackTenants)
	slots := make(chan struct{}, 4)
	var making sync.WaitGroup
	for i := range all {
		making.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			all[i], failures[i] = load.Register(ctx, c.Exe, c.cluster.Operator(), c.cluster.APIs()[0])
		})
	}
	making.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c *StackComparison) startBare(ctx context.Context, v Variant) (*target, error) {
	const anywhere = "127.0.0.1:0"
	cmd := exec.Command(c.Bench, "bare", "--listen", anywhere, "--admin", anywhere)
	t := &target{variant: v}
	if v == Topical {
		cmd.Args = append(cmd.Args, "--kafka", c.Stack.Engines.Kafka, "--topic", c.bareTopic())
		t.beside = c.broker
	}
	var err error
	if t.server, err = system.Start(ctx, cmd, filepath.Join(c.Dir, string(v))); err != nil {
		return nil, err
	}
	if err := c.prepareBare(t); err != nil {
		t.server.Kill()
		return nil, err
	}
	return t, nil
}

// warmUp presses all until the broker gets no faster: a cold one has a quarter of its
// later rate.
func (c *StackComparison) warmUp(ctx context.Context, all []*target) error {
	fmt.Fprintln(c.Out, "warming up")
	const most, faster = 5, 1.05
	before := 0.0
	for range most {
		var slowest float64
		for _, t := range all {
			m, err := c.measure(ctx, t, slices.Max(c.Connections))
			if err != nil {
				return err
			}
			if t.variant == Topical {
				slowest = m.PerSecond
			}
		}
		if c.quick || slowest < faster*before {
			return nil
		}
		before = slowest
	}
	return nil
}

// Shorten leaves of the measurements what shows that they work.
func (c *StackComparison) Shorten() {
	c.Comparison.Shorten()
	c.Backlog, c.Lag, c.PerSecond = 500*time.Millisecond, time.Second, 200
}

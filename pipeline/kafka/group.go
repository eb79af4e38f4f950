package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// DefaultGroup is the consumer group of the loaders of a topic.
func DefaultGroup(topic string) string { return "muniment.pipeline." + topic }

// GroupConfig says how the partitions of a topic are divided among loader processes.
type GroupConfig struct {
	// Name of the consumer group; default that of DefaultGroup. Services with different
	// topics may use one group; then each rebalance affects all of them.
	Name string
	// SessionTimeout is how long the partitions of a member that died stay unloaded.
	// Default 10 s; brokers refuse less than their group.min.session.timeout.ms, 6 s.
	SessionTimeout time.Duration
	// Heartbeat is the pause between two heartbeats, and how long a member may take to
	// notice a rebalance; default 500 ms.
	Heartbeat time.Duration
	// RebalanceTimeout is how long the others wait for a member to hand over its
	// partitions before they go on without it; default 30 s.
	RebalanceTimeout time.Duration
	// JoinBackoff is the pause after joining has failed; default 1 s.
	JoinBackoff time.Duration

	// Loaded returns the warehouse's position of a partition. It is committed as the
	// group's offset every CommitEvery (default 10 s), for monitors of consumer lag and for
	// Committed; loading never begins there. nil commits nothing.
	Loaded      func(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
	CommitEvery time.Duration
}

func (c GroupConfig) complete(topic string) (GroupConfig, error) {
	c.Name = cmp.Or(c.Name, DefaultGroup(topic))
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 500*time.Millisecond)
	c.RebalanceTimeout = cmp.Or(c.RebalanceTimeout, 30*time.Second)
	c.JoinBackoff = cmp.Or(c.JoinBackoff, time.Second)
	c.CommitEvery = cmp.Or(c.CommitEvery, 10*time.Second)
	switch {
	case c.SessionTimeout < 0 || c.Heartbeat < 0 || c.RebalanceTimeout < 0 || c.JoinBackoff < 0 || c.CommitEvery < 0:
		return c, errors.New("kafka: a duration of the group is negative")
	case c.Heartbeat >= c.SessionTimeout:
		return c, fmt.Errorf("kafka: Heartbeat %v is not below SessionTimeout %v", c.Heartbeat, c.SessionTimeout)
	}
	return c, nil
}

// Group is this process as a member of a consumer group, which divides the partitions of a
// topic among its members. It decides which process loads a partition and nothing else: a
// loader begins at the warehouse's position, and two members that load one partition, as
// when one of them was thought dead, waste work and harm nothing.
type Group struct {
	log     *Log
	cfg     GroupConfig
	metrics groupMetrics

	mu sync.Mutex
	// notMember is why this process is no member now; nil if it is. Guarded by mu.
	notMember error
	// committed are the group's offsets as of the last assignment of partitions to this
	// process. Guarded by mu.
	committed map[int32]sealer.Position
}

var _ pipeline.Assignment = (*Group)(nil)

type groupMetrics struct {
	generations prometheus.Counter
	failures    prometheus.Counter
}

// Group makes this process a member of a group while Run runs, which may be called
// once. It uses the log's configuration of the brokers, and its registry for metrics, until
// Run returns.
func (l *Log) Group(cfg GroupConfig) (*Group, error) {
	cfg, err := cfg.complete(l.cfg.Topic)
	if err != nil {
		return nil, err
	}
	g := &Group{log: l, cfg: cfg, notMember: errors.New("it has not joined yet"), metrics: groupMetrics{
		generations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_kafka_group_generations_total",
			Help: "How often this process was assigned partitions anew.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_kafka_group_failures_total",
			Help: "Failed attempts to join the consumer group, and to commit offsets to it.",
		}),
	}}
	if err := pipeline.Register(l.cfg.Registerer, g.metrics.generations, g.metrics.failures); err != nil {
		return nil, fmt.Errorf("cannot register metrics of group %s: %w", cfg.Name, err)
	}
	return g, nil
}

// Ready returns why this process is no member of the group; nil if it is.
func (g *Group) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.notMember != nil {
		return fmt.Errorf("not a member of consumer group %s: %w", g.cfg.Name, g.notMember)
	}
	return nil
}

func (g *Group) setNotMember(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notMember = err
}

// Committed is the warehouse's position as the group had stored it when the partition was
// last assigned to this process; ok is false when that is not known. It is at or before
// what is loaded, unless the log was restored.
func (g *Group) Committed(partition int32) (next sealer.Position, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next, ok = g.committed[partition]
	return next, ok
}

// Run implements pipeline.Assignment. It waits until the topic is known, and for
// brokers that are away. It returns an error when the log has failed or was closed.
func (g *Group) Run(ctx context.Context, load func(ctx context.Context, partition int32)) error {
	defer pipeline.Unregister(g.log.cfg.Registerer, g.metrics.generations, g.metrics.failures)
	ctx, cancel := g.log.untilStopped(ctx)
	defer cancel()
	if err := g.run(ctx, load); err != nil {
		return fmt.Errorf("cannot be a member of consumer group %s: %w", g.cfg.Name, err)
	}
	return g.log.stopErr()
}

func (g *Group) run(ctx context.Context, load func(ctx context.Context, partition int32)) error {
	t, err := g.log.await(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	mechanism, err := g.log.cfg.SASL.mechanism()
	if err != nil {
		return err
	}
	calls, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID:      g.cfg.Name,
		Brokers: g.log.cfg.Brokers,
		Topics:  []string{g.log.cfg.Topic},
		Dialer: &kafkago.Dialer{
			ClientID:      clientID,
			Timeout:       requestTime,
			SASLMechanism: mechanism,
			DialFunc:      until(calls, g.log.cfg.Dial),
		},
		GroupBalancers:    []kafkago.GroupBalancer{balancer{g.log.cfg.Topic, len(t.queues)}},
		SessionTimeout:    g.cfg.SessionTimeout,
		HeartbeatInterval: g.cfg.Heartbeat,
		RebalanceTimeout:  g.cfg.RebalanceTimeout,
		JoinGroupBackoff:  g.cfg.JoinBackoff,
		Timeout:           requestTime,
	})
	if err != nil {
		return err
	}
	defer leave(group, hangUp)
	for {
		generation, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kafkago.RebalanceInProgress):
			// Others joined or left while this process did; it does so again.
		case err != nil:
			g.metrics.failures.Inc()
			g.setNotMember(err)
			g.log.cfg.Log.Warn("cannot join the consumer group", "group", g.cfg.Name, "err", err)
		default:
			g.metrics.generations.Inc()
			g.setNotMember(nil)
			g.serve(ctx, t, generation, load)
		}
	}
}

const (
	// requestTime bounds a request to the group's coordinator, beside the time for
	// which that waits for other members.
	requestTime = 5 * time.Second
	// leaveTime is how long leaving may take: a process that has to stop can't wait for
	// brokers that are away, or for a rebalance that others delay.
	leaveTime = 3 * time.Second
)

// leave leaves the group, so that the other members needn't wait for the end of this
// process's session.
func leave(group *kafkago.ConsumerGroup, hangUp func()) {
	timeout := time.AfterFunc(leaveTime, hangUp)
	defer timeout.Stop()
	_ = group.Close() // always nil
}

// serve loads the partitions of one generation until it ends, or ctx is done.
func (g *Group) serve(ctx context.Context, t *topic, generation *kafkago.Generation, load func(ctx context.Context, partition int32)) {
	var partitions []int32
	committed := map[int32]sealer.Position{}
	for _, a := range generation.Assignments[g.log.cfg.Topic] {
		p := int32(a.ID)
		partitions = append(partitions, p)
		if a.Offset >= 0 { // else there is none
			committed[p] = sealer.Position{Generation: t.generation, Partition: p, Offset: a.Offset}
		}
	}
	g.mu.Lock()
	g.committed = committed
	g.mu.Unlock()
	g.log.cfg.Log.Info("partitions are assigned", "group", g.cfg.Name, "generation", generation.ID, "partitions", partitions)
	loading, stop := context.WithCancel(ctx)
	defer stop()
	idle := make(chan struct{})
	defer close(idle)
	// The library rejoins once this function has returned, and would at once if it
	// returned early: it stays until the generation ends, and the loaders with it.
	generation.Start(func(ended context.Context) {
		<-ended.Done()
		stop()
		<-idle
	})
	var work sync.WaitGroup
	for _, p := range partitions {
		work.Go(func() { load(loading, p) })
	}
	if g.cfg.Loaded != nil && len(partitions) > 0 {
		work.Go(func() { g.commit(loading, t, generation, partitions) })
	}
	<-loading.Done()
	work.Wait()
}

// commit commits the warehouse's positions every CommitEvery, until ctx is done.
func (g *Group) commit(ctx context.Context, t *topic, generation *kafkago.Generation, partitions []int32) {
	for {
		offsets := map[int]int64{}
		for _, p := range partitions {
			// The loader logs a warehouse that is away.
			next, ok, loadedErr := g.cfg.Loaded(ctx, p)
			if loadedErr == nil && ok && next.Generation == t.generation {
				offsets[int(p)] = next.Offset
			}
		}
		var err error
		if len(offsets) > 0 && ctx.Err() == nil {
			err = generation.CommitOffsets(map[string]map[int]int64{g.log.cfg.Topic: offsets})
		}
		if err != nil && ctx.Err() == nil {
			g.metrics.failures.Inc()
			g.log.cfg.Log.Warn("cannot commit offsets for monitors", "group", g.cfg.Name, "err", err)
		}
		if pipeline.Pause(ctx, g.cfg.CommitEvery) != nil {
			return
		}
	}
}

// balancer assigns all partitions of the topic, in ranges of equal length. The library
// would assign those that a broker lists: for a broker that has just started that may be
// none, and nothing would be loaded until the next member joins or leaves. The group's
// leader assigns for all members; those with other topics get what the broker lists.
type balancer struct {
	topic      string
	partitions int
}

func (balancer) ProtocolName() string { return kafkago.RangeGroupBalancer{}.ProtocolName() }

func (balancer) UserData() ([]byte, error) { return nil, nil }

func (b balancer) AssignGroups(members []kafkago.GroupMember, known []kafkago.Partition) kafkago.GroupMemberAssignments {
	var all []kafkago.Partition
	for _, p := range known {
		if p.Topic != b.topic {
			all = append(all, p)
		}
	}
	for i := range b.partitions {
		all = append(all, kafkago.Partition{Topic: b.topic, ID: i})
	}
	return kafkago.RangeGroupBalancer{}.AssignGroups(members, all)
}

// until is dial for connections that break when ctx is done, also while they are being
// made.
func until(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(dialling context.Context, network, address string) (net.Conn, error) {
		dialling, cancel := context.WithCancel(dialling)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := dial(dialling, network, address)
		if err != nil {
			return nil, err
		}
		return breakable{conn, context.AfterFunc(ctx, func() { conn.Close() })}, nil
	}
}

type breakable struct {
	net.Conn
	forget func() bool
}

func (b breakable) Close() error {
	b.forget()
	return b.Conn.Close()
}

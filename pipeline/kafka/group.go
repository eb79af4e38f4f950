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

	"muniment/pipeline"
	"muniment/sealer"
)

// DefaultGroup is the consumer group of the loaders of a topic.
func DefaultGroup(topic string) string { return "muniment.pipeline." + topic }

// GroupConfig says how loader processes share the partitions of a topic.
type GroupConfig struct {
	// Name of the consumer group; default that of DefaultGroup. Services with topics of
	// their own may share a group, and rebalance each other then.
	Name string
	// SessionTimeout is how long the partitions of a member that died stay unloaded.
	// Default 10 s; brokers refuse less than their group.min.session.timeout.ms, 6 s.
	SessionTimeout time.Duration
	// Heartbeat is the pause between two signs of life, and how long a member may take
	// to notice that partitions are shared anew; default 500 ms.
	Heartbeat time.Duration
	// RebalanceTimeout is how long the others wait for a member to hand over its
	// partitions before they go on without it; default 30 s.
	RebalanceTimeout time.Duration
	// JoinBackoff is the pause after joining has failed; default 1 s.
	JoinBackoff time.Duration

	// Loaded is where the warehouse stands. It is committed as the group's offset every
	// CommitEvery (default 10 s), for monitors of consumer lag and for Committed; no
	// loading begins there. nil commits nothing.
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

// Group is this process as a member of a consumer group, which shares the partitions
// of a topic among its members. It decides who loads and nothing else: where a loader
// begins is what the warehouse says, and two members that load one partition, as when
// one of them was thought dead, waste work and harm nothing.
type Group struct {
	log     *Log
	cfg     GroupConfig
	metrics groupMetrics

	mu sync.Mutex
	// outside is why this process is no member now; nil if it is. Guarded by mu.
	outside error
	// committed are the offsets that the group had when it last gave partitions to this
	// process. Guarded by mu.
	committed map[int32]sealer.Position
}

var _ pipeline.Assignment = (*Group)(nil)

type groupMetrics struct {
	generations prometheus.Counter
	failures    prometheus.Counter
}

// Group makes this process a member of a group while Run runs, which may be called
// once. It reaches the brokers as the log does, and shows its metrics where the log
// shows its own, until Run returns.
func (l *Log) Group(cfg GroupConfig) (*Group, error) {
	cfg, err := cfg.complete(l.cfg.Topic)
	if err != nil {
		return nil, err
	}
	g := &Group{log: l, cfg: cfg, outside: errors.New("it has not joined yet"), metrics: groupMetrics{
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

// Ready says why this process is no member of the group.
func (g *Group) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.outside != nil {
		return fmt.Errorf("not a member of consumer group %s: %w", g.cfg.Name, g.outside)
	}
	return nil
}

func (g *Group) setOutside(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.outside = err
}

// Committed is where the warehouse stood, as the group has it, when the partition was
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
	ctx, cancel := g.log.bound(ctx)
	defer cancel()
	if err := g.run(ctx, load); err != nil {
		return fmt.Errorf("cannot be a member of consumer group %s: %w", g.cfg.Name, err)
	}
	return g.log.dead()
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
			g.setOutside(err)
			g.log.cfg.Log.Warn("cannot join the consumer group", "group", g.cfg.Name, "err", err)
		default:
			g.metrics.generations.Inc()
			g.setOutside(nil)
			g.serve(ctx, t, generation, load)
		}
	}
}

const (
	// requestTime bounds a request to the group's coordinator, beside the time for
	// which that waits for other members.
	requestTime = 5 * time.Second
	// leaveTime is how long leaving may take: a process that is told to stop can't wait
	// for brokers that are away, or for a rebalance that others delay.
	leaveTime = 3 * time.Second
)

// leave tells the group that this process goes, so that the others needn't wait for
// the end of its session.
func leave(group *kafkago.ConsumerGroup, hangUp func()) {
	patience := time.AfterFunc(leaveTime, hangUp)
	defer patience.Stop()
	_ = group.Close() // it has no error to tell
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

// commit tells the brokers now and then how far the warehouse is.
func (g *Group) commit(ctx context.Context, t *topic, generation *kafkago.Generation, partitions []int32) {
	for {
		offsets := map[int]int64{}
		for _, p := range partitions {
			// A warehouse that is away is the loader's to tell, and no fault of the group.
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
		if !pause(ctx, g.cfg.CommitEvery) {
			return
		}
	}
}

// balancer shares out all partitions of the topic, in runs of equal length. The
// library would share out those that a broker knows of: for one that has just started
// that may be none, and then nobody would load anything until somebody joins or leaves.
// Members with other topics get what the broker knows: who leads the group shares out
// for all of them.
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

// until makes connections that break when ctx is done, those that are being made
// included.
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

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// quick is a group that notices everything soon.
func quick(tb testing.TB) GroupConfig {
	return GroupConfig{
		Name: tb.Name(), Heartbeat: 50 * time.Millisecond, JoinBackoff: 50 * time.Millisecond,
		SessionTimeout: 6 * time.Second, CommitEvery: 50 * time.Millisecond,
	}
}

// roll is who loads which partition, of all members of a test.
type roll struct {
	mu      sync.Mutex
	loading map[string][]int32
}

// member runs a member of the group; stop ends it and waits.
func (r *roll) member(tb testing.TB, cfg Config, group GroupConfig, name string) (g *Group, stop func() error) {
	tb.Helper()
	g, err := mustOpen(tb, cfg).Group(group)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() {
		done <- g.Run(ctx, func(ctx context.Context, partition int32) {
			r.set(name, func(p []int32) []int32 { return append(p, partition) })
			<-ctx.Done()
			r.set(name, func(p []int32) []int32 {
				return slices.DeleteFunc(slices.Clone(p), func(other int32) bool { return other == partition })
			})
		})
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	tb.Cleanup(func() { stop() })
	return g, stop
}

func (r *roll) set(name string, change func([]int32) []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loading == nil {
		r.loading = map[string][]int32{}
	}
	if r.loading[name] = change(r.loading[name]); len(r.loading[name]) == 0 {
		delete(r.loading, name)
	}
}

// shares are how many partitions each member loads, if each of n is loaded once.
func (r *roll) shares(n int) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	shares := map[string]int{}
	var all []int32
	for name, p := range r.loading {
		shares[name] = len(p)
		all = append(all, p...)
	}
	if slices.Sort(all); len(all) != n || len(slices.Compact(all)) != n {
		return nil
	}
	return shares
}

// requireShares waits for it.
func (r *roll) requireShares(tb testing.TB, want map[string]int) {
	tb.Helper()
	n := 0
	for _, share := range want {
		n += share
	}
	waittest.Until(tb, func() bool {
		got := r.shares(n)
		for name, share := range want {
			if got[name] != share {
				return false
			}
		}
		return len(got) == len(want)
	}, "the members share the partitions as %v", want)
}

func testGroup(t *testing.T, brokers []string) {
	cfg := freshTopic(t, brokers, Topic{Partitions: 6})
	group := quick(t)
	group.Name = cfg.Topic
	group.SessionTimeout = 4 * time.Minute // longer than this test waits for those who take over
	generation := described(t, cfg).mustGeneration(t)
	group.Loaded = func(_ context.Context, partition int32) (sealer.Position, bool, error) {
		return sealer.Position{Generation: generation, Offset: int64(partition)}, partition != 5, nil
	}
	outsider, err := mustOpen(t, cfg).Group(group)
	require.NoError(t, err)
	require.ErrorContains(t, outsider.Ready(), "has not joined yet")
	var r roll
	a, stopA := r.member(t, cfg, group, "a")
	r.requireShares(t, map[string]int{"a": 6})
	require.NoError(t, a.Ready())
	b, stopB := r.member(t, cfg, group, "b")
	r.requireShares(t, map[string]int{"a": 3, "b": 3})
	c, stopC := r.member(t, cfg, group, "c")
	r.requireShares(t, map[string]int{"a": 2, "b": 2, "c": 2})

	// Monitors of lag see the warehouse's positions.
	client, transport, err := cfg.mustComplete(t).client()
	require.NoError(t, err)
	defer transport.CloseIdleConnections()
	waittest.Until(t, func() bool {
		res, err := client.OffsetFetch(t.Context(), &kafkago.OffsetFetchRequest{
			GroupID: group.Name, Topics: map[string][]int{cfg.Topic: {0, 1, 2, 3, 4, 5}},
		})
		if err != nil || res.Error != nil {
			return false
		}
		for _, p := range res.Topics[cfg.Topic] {
			if want := int64(p.Partition); p.CommittedOffset != want && want != 5 || want == 5 && p.CommittedOffset >= 0 {
				return false
			}
		}
		return len(res.Topics[cfg.Topic]) == 6
	})

	// Who leaves says so: its partitions don't wait for the end of its session.
	require.NoError(t, stopA())
	r.requireShares(t, map[string]int{"b": 3, "c": 3})
	// And so do those who take over.
	remembered := map[int32]sealer.Position{}
	for _, g := range []*Group{b, c} {
		for p := range int32(6) {
			if at, ok := g.Committed(p); ok {
				remembered[p] = at
			}
		}
	}
	want := map[int32]sealer.Position{}
	for p := range int32(5) {
		want[p] = sealer.Position{Generation: generation, Partition: p, Offset: int64(p)}
	}
	require.Equal(t, want, remembered)
	require.NoError(t, stopB())
	require.NoError(t, stopC())
	require.Empty(t, r.loading)
}

func (d description) mustGeneration(tb testing.TB) uint32 {
	generation, err := d.generation()
	require.NoError(tb, err)
	return generation
}

func (c Config) mustComplete(tb testing.TB) Config {
	c, err := c.complete()
	require.NoError(tb, err)
	return c
}

func TestGroup(t *testing.T)        { testGroup(t, fakeBrokers(t)) }
func TestGroupOnKafka(t *testing.T) { testGroup(t, realBrokers(t)) }

// More members than partitions: some stand by, and take over.
func TestGroupStandby(t *testing.T) {
	cfg := freshTopic(t, fakeBrokers(t), Topic{Partitions: 1})
	var r roll
	_, stopA := r.member(t, cfg, quick(t), "a")
	r.requireShares(t, map[string]int{"a": 1})
	b, _ := r.member(t, cfg, quick(t), "b")
	waittest.Until(t, func() bool { return b.Ready() == nil && r.shares(1) != nil })
	require.NoError(t, stopA())
	r.requireShares(t, map[string]int{"b": 1})
}

// network is the way of one member to the brokers, which can be cut without a word.
type network struct {
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		return nil, errors.New("network is cut")
	}
	conn, err := new(net.Dialer).DialContext(ctx, kind, address)
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

func (n *network) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

// A member that loses the brokers stops loading and reports why; its partitions are
// loaded by another one when its session has ended, and rebalanced once it is back.
func TestGroupLosesAMember(t *testing.T) {
	t.Parallel()
	cfg := freshTopic(t, fakeBrokers(t, kfake.GroupMinSessionTimeout(100*time.Millisecond)), Topic{})
	group := quick(t)
	group.SessionTimeout = time.Second
	var r roll
	var way network
	own := cfg
	own.Dial = way.dial
	a, _ := r.member(t, own, group, "a")
	r.requireShares(t, map[string]int{"a": 4})
	r.member(t, cfg, group, "b")
	r.requireShares(t, map[string]int{"a": 2, "b": 2})
	way.set(true)
	r.requireShares(t, map[string]int{"b": 4})
	waittest.Until(t, func() bool {
		err := a.Ready()
		return err != nil && strings.Contains(err.Error(), "network is cut")
	})
	way.set(false)
	r.requireShares(t, map[string]int{"a": 2, "b": 2})
	waittest.Until(t, func() bool { return a.Ready() == nil })
}

// The group assigns the topic's partitions as the log knows them, even if a broker has
// forgotten them.
func TestGroupTrustsTheLogForPartitions(t *testing.T) {
	assigned := balancer{"topic", 3}.AssignGroups([]kafkago.GroupMember{
		{ID: "a", Topics: []string{"topic"}}, {ID: "b", Topics: []string{"topic"}},
	}, nil)
	require.ElementsMatch(t, []int{0, 1, 2}, slices.Concat(assigned["a"]["topic"], assigned["b"]["topic"]))
	require.Len(t, assigned, 2)
}

// Services with topics of their own in one group don't starve each other, and they have
// different groups by default.
func TestGroupOfTwoTopics(t *testing.T) {
	brokers := fakeBrokers(t)
	first, second := freshTopic(t, brokers, Topic{Partitions: 4}), freshTopic(t, brokers, Topic{Partitions: 3})
	var one, other roll
	a, _ := one.member(t, first, quick(t), "a")
	one.requireShares(t, map[string]int{"a": 4})
	b, stopB := other.member(t, second, quick(t), "b")
	other.requireShares(t, map[string]int{"b": 3})
	one.requireShares(t, map[string]int{"a": 4})
	one.member(t, first, quick(t), "c")
	one.requireShares(t, map[string]int{"a": 2, "c": 2})
	other.requireShares(t, map[string]int{"b": 3})
	require.NoError(t, errors.Join(a.Ready(), b.Ready(), stopB()))

	own, err := mustOpen(t, second).Group(GroupConfig{})
	require.NoError(t, err)
	require.Equal(t, "muniment.pipeline."+second.Topic, own.cfg.Name)
}

// A warehouse that is away is not a failure of the group.
func TestGroupWithoutWarehouse(t *testing.T) {
	cfg := freshTopic(t, fakeBrokers(t), Topic{})
	group := quick(t)
	group.CommitEvery = time.Millisecond
	requested := make(chan struct{})
	group.Loaded = func(ctx context.Context, _ int32) (sealer.Position, bool, error) {
		select {
		case requested <- struct{}{}:
		case <-ctx.Done():
		}
		return sealer.Position{}, false, errors.New("the warehouse is away")
	}
	var r roll
	g, _ := r.member(t, cfg, group, "a")
	for range 20 {
		<-requested
	}
	require.Zero(t, testutil.ToFloat64(g.metrics.failures))
}

// Joining is tried again until it succeeds, and ends at once with its ctx.
func TestGroupRefused(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	refused := kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1}
	fault := cluster.Fault(refused)
	var r roll
	a, stop := r.member(t, cfg, quick(t), "a")
	require.NoError(t, fault.Wait(t.Context(), 3))
	require.ErrorIs(t, a.Ready(), kafkago.GroupAuthorizationFailed)
	fault.Remove()
	r.requireShares(t, map[string]int{"a": 4})
	require.NoError(t, a.Ready())
	require.NoError(t, stop())

	cluster.Fault(refused)
	b, stop := r.member(t, cfg, quick(t), "b")
	waittest.Until(t, func() bool { return errors.Is(b.Ready(), kafkago.GroupAuthorizationFailed) })
	require.NoError(t, stop())
}

// No process gets a partition while the member that had it is still busy with it.
func TestGroupWaitsForItsLoaders(t *testing.T) {
	cfg := freshTopic(t, fakeBrokers(t), Topic{})
	group := quick(t)
	group.SessionTimeout, group.RebalanceTimeout = 4*time.Minute, 4*time.Minute // it stays a member, however long this takes
	g, err := mustOpen(t, cfg).Group(group)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done, requested, release := make(chan error, 1), make(chan struct{}, 100), make(chan struct{})
	go func() {
		done <- g.Run(ctx, func(ctx context.Context, _ int32) {
			requested <- struct{}{}
			<-ctx.Done()
			requested <- struct{}{}
			<-release
		})
	}()
	for range 4 {
		<-requested
	}
	var r roll
	r.member(t, cfg, group, "b")
	for range 4 {
		<-requested
	}
	require.Never(t, func() bool { return r.shares(2) != nil || r.shares(4) != nil }, 200*time.Millisecond, time.Millisecond)
	close(release)
	r.requireShares(t, map[string]int{"b": 2})
	cancel()
	require.NoError(t, <-done)
	r.requireShares(t, map[string]int{"b": 4})
}

func TestGroupConfigIsChecked(t *testing.T) {
	l := mustOpen(t, freshTopic(t, fakeBrokers(t), Topic{}))
	for want, cfg := range map[string]GroupConfig{
		"negative": {JoinBackoff: -1},
		"Heartbeat 10s is not below SessionTimeout 10s": {Heartbeat: 10 * time.Second},
	} {
		_, err := l.Group(cfg)
		require.ErrorContains(t, err, want)
	}
}

// Loaders come and go all the time, while records arrive: each is loaded, and none
// but those.
func TestFleetUnderRebalances(t *testing.T) {
	cfg := freshTopic(t, fakeBrokers(t, kfake.GroupMinSessionTimeout(100*time.Millisecond)), Topic{Partitions: 8})
	log := mustOpen(t, cfg)
	writers, stopWriters := run(t, log, 8, "tnt_fleet_", 10*time.Millisecond)
	var w conform.MemoryWarehouse
	starts := func(name string) (stop func()) {
		own := mustOpen(t, cfg)
		g, err := own.Group(quick(t))
		require.NoError(t, err)
		f, err := pipeline.NewFleet(pipeline.FleetConfig{
			Loader: pipeline.LoaderConfig{Log: own, Warehouse: &w, BatchSize: 50}, Assignment: g,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		waittest.Until(t, func() bool { return len(f.Partitions()) > 0 }, name)
		return func() { cancel(); require.NoError(t, <-done) }
	}
	var members []func()
	for i := range 4 {
		members = append(members, starts(fmt.Sprint("member ", i)))
	}
	for i := range 8 {
		members[i%4]()
		members[i%4] = starts(fmt.Sprint("member ", 4+i))
	}
	stopWriters()
	for p := range int32(8) {
		_, end, err := log.Bounds(t.Context(), p)
		require.NoError(t, err)
		waittest.Until(t, func() bool {
			next, ok, err := w.Resume(t.Context(), p)
			return err == nil && (ok && next == end || end.Offset == 0)
		})
	}
	for _, stop := range members {
		stop()
	}
	// The records of this test fail every check, so each is quarantined, where it stands.
	kept, _ := requireKept(t, log, writers)
	list, total, err := w.Held(t.Context(), pipeline.HeldQuery{Limit: 1 << 20})
	require.NoError(t, err)
	var want []sealer.Position
	for _, e := range collect(t, log) {
		want = append(want, e.Position)
	}
	var got []sealer.Position
	for _, s := range list {
		got = append(got, s.Position)
	}
	require.Equal(t, want, got, "0 missing, 0 twice")
	require.EqualValues(t, len(want), total)
	require.Positive(t, kept)
}

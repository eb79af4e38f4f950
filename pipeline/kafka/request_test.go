package kafka

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment.example/bench/waittest"
)

// tenantOf is a tenant of a partition of four.
func tenantOf(partition int32) string {
	for i := 0; ; i++ {
		if tenant := fmt.Sprintf("tnt_%d", i); partitionOf(tenant, 4) == partition {
			return tenant
		}
	}
}

// requests keeps which partitions the produce requests of a cluster had, each list in
// order.
type requests struct {
	mu  sync.Mutex
	all [][]int32
}

func watchRequests(cluster *kfake.Cluster) *requests {
	r := &requests{}
	var last kmsg.Request
	cluster.Fault(kfake.Fault{Keys: produceKey, Observe: true, Count: -1, When: func(req kmsg.Request) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if req != last { // one call for each partition
			r.all = append(r.all, partitionsIn(req))
		}
		last = req
		return true
	}})
	return r
}

func partitionsIn(req kmsg.Request) (all []int32) {
	for _, p := range req.(*kmsg.ProduceRequest).Topics[0].Partitions {
		all = append(all, p.Partition)
	}
	slices.Sort(all)
	return all
}

// since returns the requests behind the first n.
func (r *requests) since(n int) [][]int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all[n:])
}

// feed enqueues records; keep numbers them by tenant.
type feed struct {
	*testing.T
	log  *Log
	keep map[string]int
}

func (f feed) enqueue(partitions ...int32) (all []pending) {
	for _, p := range partitions {
		tenant := tenantOf(p)
		r := testRecord(tenant, f.keep[tenant])
		f.keep[tenant]++
		sent, err := f.log.enqueue(f.Context(), &r, nil)
		require.NoError(f, err)
		all = append(all, sent)
	}
	return all
}

func (f feed) acknowledged(all ...pending) {
	for _, p := range all {
		_, err := p.wait(f.Context())
		require.NoError(f, err)
	}
}

// inOrder requires that the topic holds every record, each tenant's in the order in which
// they were enqueued, each once.
func (f feed) inOrder() {
	found := map[string]int{}
	for _, e := range collect(f, f.log) {
		require.Equal(f, testRecord(e.TenantID, found[e.TenantID]), e.Record)
		found[e.TenantID]++
	}
	require.Equal(f, f.keep, found)
}

// holdRequest holds the next produce request for just these partitions until release is
// closed.
func holdRequest(cluster *kfake.Cluster, partitions ...int32) (entered <-chan struct{}, release chan<- struct{}) {
	in, out := make(chan struct{}), make(chan struct{})
	var held atomic.Bool // requests that come meanwhile run the same function
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		switch {
		case !slices.Equal(partitions, partitionsIn(req)):
			cluster.KeepControl()
		case held.CompareAndSwap(false, true):
			cluster.SleepControl(func() { close(in); <-out })
		}
		return nil, nil, false
	})
	return in, out
}

// idle waits until no queue has an owner: the records in it are acknowledged before.
func (f feed) idle() {
	for _, q := range f.log.topic.queues {
		waittest.Until(f, func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return !q.busy
		})
	}
}

// unhurried is a feed of a log that passes no request for slow.
func unhurried(t *testing.T, brokers []string) feed {
	l := mustOpen(t, freshTopic(t, brokers, Topic{}))
	l.slow = time.Hour
	return feed{t, l, map[string]int{}}
}

// TestPartitionsShareARequest: what has gathered for all partitions of a broker while
// its last request ran is one request.
func TestPartitionsShareARequest(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	f := unhurried(t, brokers)
	seen := watchRequests(cluster)
	entered, release := holdRequest(cluster, 0)
	all := f.enqueue(0)
	<-entered
	for range 10 {
		all = append(all, f.enqueue(0, 1, 2, 3)...)
	}
	close(release)
	f.acknowledged(all...)
	require.Equal(t, [][]int32{{0}, {0, 1, 2, 3}}, seen.since(0))
	f.inOrder()
}

// TestOnePartitionFails: of the partitions in one request the brokers fail to take one,
// for a while. It is tried again alone, its records stay in order, and the others'
// don't wait for it.
func TestOnePartitionFails(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	f := unhurried(t, brokers)
	seen := watchRequests(cluster)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Partitions: []int32{2}, Err: kerr.NotEnoughReplicas, Count: -1})
	entered, release := holdRequest(cluster, 0)
	good := f.enqueue(0)
	<-entered
	var late []pending
	for range 10 {
		good = append(good, f.enqueue(0, 1, 3)...)
		late = append(late, f.enqueue(2)...)
	}
	all, fail := holdRequest(cluster, 0, 1, 2, 3)
	close(release)
	<-all
	late = append(late, f.enqueue(2, 2)...) // these stand behind what is about to fail
	close(fail)
	f.acknowledged(good...)
	for range 10 {
		f.acknowledged(f.enqueue(0, 1, 3)...)
		late = append(late, f.enqueue(2)...)
	}
	require.NoError(t, fault.Wait(t.Context(), 3))
	require.Equal(t, []int32{0, 1, 2, 3}, seen.since(0)[1])
	for _, partitions := range seen.since(2) {
		if slices.Contains(partitions, 2) {
			require.Equal(t, []int32{2}, partitions)
		}
	}
	fault.Remove()
	f.acknowledged(late...)
	f.inOrder()
	f.idle()

	// It is in common requests again.
	before := len(seen.since(0))
	entered, release = holdRequest(cluster, 0)
	again := f.enqueue(0)
	<-entered
	again = append(again, f.enqueue(1, 2)...)
	close(release)
	f.acknowledged(again...)
	require.Equal(t, [][]int32{{0}, {1, 2}}, seen.since(before))
}

// TestSharedRequestIsLost: the outcome is unknown of a request of several
// partitions. Each of them is sent again alone.
func TestSharedRequestIsLost(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	f := unhurried(t, brokers)
	entered, release := holdRequest(cluster, 0)
	all := f.enqueue(0)
	<-entered
	for range 10 {
		all = append(all, f.enqueue(0, 1, 2, 3)...)
	}
	lost := make(chan []int32, 1)
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if len(partitionsIn(req)) == 1 {
			cluster.KeepControl()
			return nil, nil, false
		}
		lost <- partitionsIn(req)
		return nil, errors.New("cut the connection"), true
	})
	seen := watchRequests(cluster)
	close(release)
	f.acknowledged(all...)
	require.Equal(t, []int32{0, 1, 2, 3}, <-lost)
	for _, partitions := range seen.since(1) {
		require.Len(t, partitions, 1)
	}
	f.inOrder()
}

// TestPoisonedRecordInAShare: content that is refused is the affair of its partition.
func TestPoisonedRecordInAShare(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	f := unhurried(t, brokers)
	entered, release := holdRequest(cluster, 0)
	all := f.enqueue(0)
	<-entered
	all = append(all, f.enqueue(0, 1, 3)...)
	poisoned := f.enqueue(2)
	// The partition's batch in the request, and then its record alone.
	cluster.Fault(kfake.Fault{Keys: produceKey, Partitions: []int32{2}, Err: kerr.InvalidRecord, Count: 1})
	close(release)
	f.acknowledged(all...)
	_, err := poisoned[0].wait(t.Context())
	require.True(t, refusedContent(err), "%v", err)
	delete(f.keep, tenantOf(2))
	f.inOrder()
}

// TestSlowRequest: the partitions that aren't in a request that takes long don't wait
// for it; those that are do, and stay in order.
func TestSlowRequest(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	f := feed{t, mustOpen(t, freshTopic(t, brokers, Topic{})), map[string]int{}}
	entered, release := holdRequest(cluster, 0)
	slow := f.enqueue(0)
	<-entered
	slow = append(slow, f.enqueue(0)...)
	f.acknowledged(f.enqueue(1, 2, 3)...)
	f.acknowledged(f.enqueue(1, 2, 3)...)
	for _, p := range slow {
		select {
		case <-p.done:
			require.Fail(t, "acknowledged, but the request is held")
		default:
		}
	}
	close(release)
	f.acknowledged(slow...)
	f.inOrder()
}

// TestLeadersMove: partitions change between two brokers under load, and take their
// order along.
func TestLeadersMove(t *testing.T) {
	t.Parallel()
	cluster, brokers := fakeCluster(t, kfake.NumBrokers(2))
	cfg := freshTopic(t, brokers, Topic{})
	cfg.MaxBackoff = cfg.MinBackoff
	f := feed{t, mustOpen(t, cfg), map[string]int{}}
	move := func(of func(partition int32) int32) {
		for p := range int32(4) {
			require.NoError(t, cluster.MoveTopicPartition(cfg.Topic, p, of(p)))
		}
	}
	for i := range int32(8) {
		move(func(p int32) int32 { return (p + i) / 2 % 2 })
		var all []pending
		for range 50 {
			all = append(all, f.enqueue(0, 1, 2, 3)...)
		}
		f.acknowledged(all...)
	}
	f.inOrder()
}

// TestUnknownLeaders: where the library doesn't know the leaders, each partition has
// requests of its own, and is in common ones again once it does.
func TestUnknownLeaders(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	f := unhurried(t, brokers)
	know := func(lastRefresh time.Time) {
		f.log.leaders.mu.Lock()
		defer f.log.leaders.mu.Unlock()
		f.log.leaders.lastRefresh = lastRefresh
	}
	know(time.Now().Add(time.Hour)) // no leader
	seen := watchRequests(cluster)
	entered, release := holdRequest(cluster, 0)
	all := f.enqueue(0)
	<-entered
	f.acknowledged(f.enqueue(1, 2)...)
	all = append(all, f.enqueue(0)...)
	close(release)
	f.acknowledged(all...)
	require.ElementsMatch(t, [][]int32{{0}, {1}, {2}, {0}}, seen.since(0)) // what was held is seen late

	f.idle()
	know(time.Time{}) // the library is called
	entered, release = holdRequest(cluster, 0)
	all = f.enqueue(0)
	<-entered
	all = append(all, f.enqueue(1, 2)...)
	close(release)
	f.acknowledged(all...)
	require.Equal(t, [][]int32{{0}, {1, 2}}, seen.since(4))
	f.inOrder()
}

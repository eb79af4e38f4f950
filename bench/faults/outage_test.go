package faults

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment.example/bench/load"
	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/sealer"
)

// The faults of the scaled service, each under load with clients that keep every
// answer (make faults). When it is over, log, warehouse, packs and metering must
// say what the clients hold: 0 missing, 0 counted twice, no drift.

func TestFaultGatewayKilled(t *testing.T) {
	tr := newTrial(t)
	tr.begin(system.Size{Gateways: 3, Loaders: 2, Controls: 2, Partitions: 6})
	const kills = 9
	for i := range kills {
		tr.Gateways[i%3].Kill()
		require.NoError(t, tr.StartGateway(t.Context(), i%3))
		tr.more(500)
	}
	tr.balance("%d kills of a gateway", kills)
}

// Each time both loaders die, one of them in the middle of an insert, of which
// ClickHouse gets no more than the first part.
func TestFaultLoaderKilled(t *testing.T) {
	tr := newTrial(t)
	tap := tr.tapped()
	tr.begin(system.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	const kills = 4
	for range kills {
		held := tap.hold(t)
		for _, l := range tr.Loaders {
			l.Kill()
		}
		close(held.cut)
		for i := range tr.Loaders {
			require.NoError(t, tr.StartLoader(t.Context(), i))
		}
		tr.more(500)
	}
	tr.balance("%d kills of the loaders in the middle of an insert", kills)
}

func TestFaultClickHouseKilled(t *testing.T) {
	tr := newTrial(t)
	server := systemtest.StartEngine(t, "clickhouse", "MUNIMENT_CLICKHOUSE_TCP=29490", "MUNIMENT_CLICKHOUSE_HTTP=29491")
	tr.Engines.ClickHouse = server.Variable("MUNIMENT_TEST_CLICKHOUSE")
	tap := tr.tapped()
	tr.begin(system.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	const kills = 4
	for range kills {
		held := tap.hold(t)
		require.NoError(t, syscall.Kill(server.PID("pid"), syscall.SIGKILL))
		close(held.goOn)
		server.Do("up") // the script starts it again by itself; this waits for it
		tr.more(500)
	}
	tr.balance("%d kills of ClickHouse in the middle of a batch", kills)
}

func TestFaultBrokerKilled(t *testing.T) {
	tr := newTrial(t)
	broker := tr.ownKafka()
	tr.begin(system.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	const kills = 3
	for range kills {
		broker.Do("kill", "1")
		tr.more(300) // spooled
		broker.Do("up")
		tr.more(1000)
	}
	tr.balance("%d kills of the only broker", kills)
}

// While Kafka is away the spool makes the promise: no delivery is refused. What was
// spooled is in Kafka before twice as many deliveries have come as in the outage.
func TestFaultKafkaAway(t *testing.T) {
	tr := newTrial(t)
	broker := tr.ownKafka()
	tr.begin(system.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	before, gone := tr.answered.Load(), time.Now()
	broker.Do("kill", "1")
	<-time.After(time.Minute)
	during := tr.answered.Load() - before
	require.Greater(t, during, int64(1000), "answers without Kafka")
	spooled := systemtest.Sum(tr.Gateways, "muniment_spool_pending_records")
	require.Positive(t, spooled)
	broker.Do("up")
	back, drained := time.Now(), tr.answered.Load()
	tr.until("the spools are drained", func() bool { return systemtest.Sum(tr.Gateways, "muniment_spool_pending_records") == 0 })
	away, took := back.Sub(gone), time.Since(back)
	require.Less(t, tr.answered.Load()-drained, 2*during, "deliveries while the spools drain")
	tr.more(500)
	audit := tr.balance("Kafka away for %.0f s, %.0f records in the spools before its start, drained under load in %.1f s", away.Seconds(), spooled, took.Seconds())
	require.Zero(t, audit.Retried, "deliveries that were refused")
}

// With a node under half of the load that it can take, Kafka is held (SIGSTOP). What was
// spooled is in Kafka before twice as many deliveries have come as in the outage, and each
// client's receipts stand in the topic in the order in which it got them.
func TestFaultDrain(t *testing.T) {
	tr := newTrial(t)
	tr.tenants = 12
	broker := tr.ownKafka()
	tr.raise(system.Size{Gateways: 1, Controls: 1, Partitions: 12})
	const clients = 8 // of each tenant
	capacity := tr.capacity(clients)
	half := tr.load(load.Load{Name: "half", Clients: clients, Every: time.Duration(float64(tr.tenants*clients) / (capacity / 2) * float64(time.Second))})
	tr.more(int64(2 * capacity))

	pid := broker.PID("node1.pid")
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // or it can't be ended
	gone, before := time.Now(), tr.answered.Load()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	<-time.After(trialOutage)
	during := tr.answered.Load() - before
	spooled := systemtest.Sum(tr.Gateways, "muniment_spool_pending_records")
	require.Positive(t, spooled)
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	back, before := time.Now(), tr.answered.Load()
	tr.until("the spool is drained", func() bool {
		return systemtest.Sum(tr.Gateways, "muniment_spool_pending_records")+systemtest.Sum(tr.Gateways, "muniment_spool_active") == 0
	})
	away, took := back.Sub(gone), time.Since(back)
	under := tr.answered.Load() - before
	response := fmt.Sprintf("capacity %.0f/s; Kafka held for %.1f s under %.0f/s, %.0f records in the spool; drained in %.1f s under %.0f/s",
		capacity, away.Seconds(), float64(during)/away.Seconds(), spooled, took.Seconds(), float64(under)/took.Seconds())
	t.Log(response)
	require.Less(t, under, 2*during, "deliveries while the spool drains")
	tr.more(int64(capacity))
	tr.end(half)
	tr.inOrder(half)

	tr.Loaders = append(tr.Loaders, nil)
	require.NoError(t, tr.StartLoader(t.Context(), 0))
	audit := tr.balance("%s", response)
	require.Zero(t, audit.Retried, "deliveries that were refused")
}

// trialOutage is how long Kafka is held.
const trialOutage = time.Minute

// capacity is how many deliveries a second the cluster answers, when Kafka is warm.
func (tr *trial) capacity(clients int) (perSecond float64) {
	tr.Helper()
	all := tr.load(load.Load{Name: "capacity", Clients: clients})
	defer tr.end(all)
	for range 6 {
		before, began := tr.answered.Load(), time.Now()
		<-time.After(3 * time.Second)
		now := float64(tr.answered.Load()-before) / time.Since(began).Seconds()
		if now < 1.05*perSecond {
			break
		}
		perSecond = now
	}
	return perSecond
}

// inOrder requires that each client's receipts stand in the topic in the order of its
// requests: each was answered before the next was begun.
func (tr *trial) inOrder(w *loadTide) {
	tr.Helper()
	stand := systemtest.InTopic(tr.T, tr.Cluster)
	for _, answers := range w.answers {
		last := map[int]sealer.Position{} // by client
		for _, a := range answers {
			if a.Status != http.StatusOK {
				continue
			}
			_, rest, _ := bytes.Cut(a.Body, []byte(`"receiptId":"`))
			id, _, _ := bytes.Cut(rest, []byte(`"`))
			at, ok := stand[string(id)]
			require.True(tr, ok, "%s is not in the topic", id)
			require.Positive(tr, at.Compare(last[a.Client]), "%s stands before the one that was acknowledged before it", id)
			last[a.Client] = at
		}
	}
}

// Kafka is away until the spool is at its cap: deliveries are refused with the time when to
// come again, and are taken when Kafka is back.
func TestFaultSpoolFull(t *testing.T) {
	tr := newTrial(t)
	broker := tr.ownKafka()
	tr.GatewayFlags = []string{"--spool-bytes", strconv.Itoa(128 << 20)}
	tr.raise(system.Size{Gateways: 1, Loaders: 1, Controls: 1, Partitions: 6})
	tr.load(load.Load{Name: "fault", Clients: 16})
	tr.more(1000)
	require.Zero(t, tr.saw.refusals())
	broker.Do("kill", "1")
	tr.until("the spool is full", func() bool { return tr.saw.refusals() > 1000 })
	spooled := systemtest.Sum(tr.Gateways, "muniment_spool_pending_records")
	readiness := func() string {
		return string(systemtest.Call(t, tr.Gateways[0].Admin, "", systemtest.Operation{Method: "GET", Path: "/readyz"}).Body)
	}
	require.Contains(t, readiness(), `"ready":false,"notReady":[{"name":"log","reason":"cannot append to spool`)
	broker.Do("up")
	tr.until("the node is ready again", func() bool { return strings.Contains(readiness(), `"ready":true`) })
	tr.more(5000)
	require.Equal(t, map[int]int{http.StatusServiceUnavailable: tr.saw.returned}, tr.saw.refused, "each has a Retry-After")
	tr.until("the spool is drained", func() bool { return systemtest.Sum(tr.Gateways, "muniment_spool_pending_records") == 0 })
	again := tr.saw.refusals()
	tr.more(1000)
	require.Equal(t, again, tr.saw.refusals(), "refusals with a spool that is empty")
	audit := tr.balance("spool full at %.0f records, %d times answered 503 with Retry-After", spooled, again)
	require.Positive(t, audit.Retried)
}

// Kafka, ClickHouse and PostgreSQL die at once, and are away until the leases of the nodes have ended.
func TestFaultAllEngines(t *testing.T) {
	tr := newTrial(t)
	broker := tr.ownKafka()
	warehouse := systemtest.StartEngine(t, "clickhouse", "MUNIMENT_CLICKHOUSE_TCP=29490", "MUNIMENT_CLICKHOUSE_HTTP=29491")
	tr.Engines.ClickHouse = warehouse.Variable("MUNIMENT_TEST_CLICKHOUSE")
	database := systemtest.StartEngine(t, "postgres", "MUNIMENT_POSTGRES_PORT=29492")
	tr.Engines.Database = database.Variable("MUNIMENT_TEST_POSTGRES")
	tr.begin(system.Size{Gateways: 2, Loaders: 2, Controls: 2, Partitions: 6})

	broker.Do("kill", "1")
	require.NoError(t, syscall.Kill(warehouse.PID("pid"), syscall.SIGKILL))
	require.NoError(t, syscall.Kill(database.PID("data/postmaster.pid"), syscall.SIGQUIT)) // its children with it, without a checkpoint
	gone := tr.answered.Load()
	tr.until("the leases have ended", func() bool { return tr.saw.refusals() > 0 })
	spooled := tr.answered.Load() - gone
	require.Positive(t, spooled, "deliveries that were taken under a lease")
	for _, engine := range []*systemtest.Engine{database, warehouse, broker} {
		engine.Do("up")
	}
	tr.more(1000)
	tr.until("the spools are drained", func() bool { return systemtest.Sum(tr.Gateways, "muniment_spool_pending_records") == 0 })
	require.Equal(t, map[int]int{http.StatusServiceUnavailable: tr.saw.returned}, tr.saw.refused, "each has a Retry-After")
	tr.balance("all engines killed at once: %d deliveries answered under leases", spooled)
}

// A node's folder is copied while it works, and a second process starts on the copy, which is refused
// nothing: it is the newest start. The first goes on until its lease ends, and is refused the next.
func TestFaultNodeCopied(t *testing.T) {
	tr := newTrial(t)
	tr.begin(system.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 6})
	original := tr.Gateways[0]
	require.NoError(t, tr.CopyGateway(t.Context(), 0))
	require.Zero(t, systemtest.Sum(tr.Gateways[2:], "muniment_rights_superseded"))
	tr.until("the original has no lease", func() bool { return tr.saw.refusals() > 0 })
	require.Equal(t, 1.0, systemtest.Sum([]*system.Server{original}, "muniment_rights_superseded"))
	both := tr.load(load.Load{Name: "copy", Clients: trialClients * 3, Pause: trialPause}) // a third of it is the copy's
	tr.more(1000)
	original.Kill()
	require.NoError(t, tr.StartGateway(t.Context(), 0)) // the newest start again
	tr.end(both)
	tr.until("the copy is refused", func() bool { return systemtest.Sum(tr.Gateways[2:], "muniment_rights_superseded") == 1 })
	require.NoError(t, tr.Gateways[2].Stop())
	tr.more(1000)
	tr.balance("a node and its copy")
}

// The broker takes the records, and one of twenty of its answers is lost with the
// connection.
func TestFaultLostAcknowledgements(t *testing.T) {
	tr := newTrial(t)
	var answers, swallowed atomic.Int64
	proxy := systemtest.StartRelay(t, "127.0.0.1:29392", swallowProduced(20, &answers, &swallowed))
	_, port, _ := strings.Cut(proxy.Addr(), ":")
	tr.ownKafka("MUNIMENT_KAFKA_ADVERTISED=" + port)
	tr.Engines.Kafka = proxy.Addr()
	tr.begin(system.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	tr.until("answers are lost", func() bool { return swallowed.Load() >= 100 })
	audit := tr.balance("%d of %d acknowledgements of Kafka lost", swallowed.Load(), answers.Load())
	require.Positive(t, audit.Copies, "records stand in the log twice")
}

func TestFaultRebalances(t *testing.T) {
	tr := newTrial(t)
	tr.begin(system.Size{Gateways: 2, Loaders: 4, Controls: 1, Partitions: 12})
	const rebalances = 20 // at least: one that leaves, and one that comes
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for i := range rebalances {
		<-tick.C
		require.NoError(t, tr.Loaders[i%4].Stop())
		require.NoError(t, tr.StartLoader(t.Context(), i%4))
	}
	tr.balance("%d times a loader left 4 and one came, 2 s apart", rebalances)
}

// A loader is stopped in the middle of an insert, its successor loads the same records,
// and then it goes on with its batch.
func TestFaultZombie(t *testing.T) {
	tr := newTrial(t)
	tap := tr.tapped()
	tr.begin(system.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 6})
	tr.Loaders = append(tr.Loaders, nil)
	const rounds = 3
	for i := range rounds {
		zombie, heir := i%2, 1-i%2
		held := tap.hold(t)
		require.NoError(t, syscall.Kill(tr.Loaders[zombie].PID(), syscall.SIGSTOP))
		close(held.goOn)
		require.NoError(t, tr.StartLoader(t.Context(), heir))
		tr.until("the successor loads", func() bool { return systemtest.Sum(tr.Loaders[heir:heir+1], "muniment_loader_rows_total") > 1000 })
		require.NoError(t, syscall.Kill(tr.Loaders[zombie].PID(), syscall.SIGCONT))
		tr.more(1000)
		require.NoError(t, tr.Loaders[zombie].Stop())
	}
	tr.balance("%d zombies", rounds)
}

// The warehouse's positions are lost under load, three times, and so everything is
// loaded again; packs that were sealed before stay as they are.
func TestFaultReplay(t *testing.T) {
	tr := newTrial(t)
	tr.begin(system.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 6})
	database := strings.TrimPrefix(urlPath(t, tr.ClickHouse), "/")
	var again float64
	const replays = 3
	for range replays {
		tr.more(2000)
		for _, c := range tr.callers {
			tr.until("what is there is sealed", func() bool {
				return c.Client.Do(t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil) == nil
			})
		}
		loaded := tr.answered.Load()
		require.NoError(t, tr.Loaders[0].Stop())
		tr.until("the positions are gone", func() bool { return systemtest.Query("TRUNCATE TABLE "+database+".positions") == nil })
		require.NoError(t, tr.StartLoader(t.Context(), 0))
		// Some of the answers are refusals by the gate, which are not in the log.
		tr.until("all is loaded again", func() bool { return systemtest.Sum(tr.Loaders, "muniment_loader_rows_total") > 0.8*float64(loaded) })
		again += systemtest.Sum(tr.Loaders, "muniment_loader_rows_total")
	}
	tr.balance("%d replays of the whole topic, %.0f rows loaded again", replays, again)
}

// ClickHouse is away until records near the end of their retention: the loader raises
// the alarm, and an operator has them kept for longer. Then a loader is away until
// records are gone: it stops, and names them.
func TestFaultRetention(t *testing.T) {
	tr := newTrial(t)
	u, err := url.Parse(tr.Engines.ClickHouse)
	require.NoError(t, err)
	server := u.Host
	door, err := system.NewBalancer(server)
	require.NoError(t, err)
	t.Cleanup(func() { _ = door.Close() })
	u.Host = door.Addr()
	tr.Engines.ClickHouse = u.String()
	tr.begin(system.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 1})
	systemtest.SetTopic(t, tr.Engines.Kafka, tr.Topic, "retention.ms", "60000")
	used := func() float64 { return systemtest.Sum(tr.Loaders, "muniment_loader_retention_used_ratio") }
	door.Set() // nobody
	tr.until("the alarm rises", func() bool { return used() >= 0.5 })
	alarm := used()
	require.Contains(t, string(systemtest.ReadFile(t, filepath.Join(tr.Dir, "pipeline1.log"))), "records near the end of their retention and are not loaded")
	systemtest.Command(t, "migrate", "--kafka", tr.Engines.Kafka, "--topic", tr.Topic,
		"--partitions", "1", "--replication", "1", "--retention", "168h")
	door.Set(server)
	tr.until("the alarm ends", func() bool { return used() < 0.5 })
	tr.balance("ClickHouse away until %.0f %% of the retention were used, alarm", 100*alarm)

	require.NoError(t, tr.Loaders[0].Stop())
	deliver := func(n int) {
		for range n {
			require.NoError(t, tr.callers[0].Client.Do(t.Context(), "POST", "/v1/delivery",
				map[string]any{"rightId": tr.rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 4200}, nil))
		}
	}
	log := systemtest.OpenTopic(t, tr.Cluster)
	defer log.Close()
	_, loaded, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	deliver(20)
	deleteRecords(t, tr.Engines.Kafka, tr.Topic, loaded.Offset+15)
	loader := systemtest.StartLoader(t, "--kafka", tr.Engines.Kafka, "--topic", tr.Topic, "--clickhouse", tr.ClickHouse, "--from-all")
	gone := loaded
	gone.Offset += 15
	want := fmt.Sprintf("gap in the log: nothing from %s up to %s", loaded, gone)
	tr.until("the loader names the gap", func() bool {
		status, text := loader.Ready()
		return status == http.StatusServiceUnavailable && strings.Contains(text, want)
	})
	stopped, err := systemtest.Metric(&system.Server{Admin: loader.Admin}, "muniment_loader_stopped")
	require.NoError(t, err)
	require.EqualValues(t, 1, stopped)
	t.Log(want)
}

// deleteRecords drops what stands before an offset of the only partition.
func deleteRecords(t *testing.T, brokers, topic string, before int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	require.NoError(t, err)
	defer client.Close()
	partition := kmsg.NewDeleteRecordsRequestTopicPartition()
	partition.Offset = before
	in := kmsg.NewDeleteRecordsRequestTopic()
	in.Topic, in.Partitions = topic, append(in.Partitions, partition)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, in)
	res, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, res.Topics[0].Partitions[0].ErrorCode)
}

func urlPath(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u.Path
}

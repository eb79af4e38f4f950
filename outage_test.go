package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment/bench"
	"muniment/pipeline/clickhouse"
	"muniment/sealer"
)

// The faults of the scaled service, each under load with clients that keep every
// answer (make faults). When it is over, log, warehouse, packs, metering and rollups
// must say what the clients hold: 0 missing, 0 counted twice, no drift.

// trial is a cluster under the load of some tenants.
type trial struct {
	*testing.T
	*bench.Cluster
	tenants    int
	callers    []bench.Caller
	deliveries [][]bench.Delivery // of each caller
	rights     map[string]string  // of the first tenant, by substrate
	answered   atomic.Int64
	loads      []*tide
}

// The usual load: a trial's clients together ask at most 300 times a second.
const (
	trialTenants = 3 // unless a test sets trial.tenants
	trialClients = 4 // of each tenant
	trialPause   = 40 * time.Millisecond
)

// trialDeliveries of a tenant are more than any load gets done.
const trialDeliveries = 300_000

// newTrial is a cluster on the stack's engines, to be given others and then raised.
func newTrial(t *testing.T) *trial {
	t.Helper()
	if os.Getenv("MUNIMENT_TEST_FAULTS") == "" {
		t.Skip("MUNIMENT_TEST_FAULTS is not set: make faults")
	}
	tr := &trial{T: t, tenants: trialTenants, Cluster: &bench.Cluster{
		Exe: muniment(t), Dir: t.TempDir(), Engines: engines(t),
		// As short as brokers allow: the partitions of a loader that was killed wait for it.
		LoaderFlags: []string{"--session-timeout", "6s"},
	}}
	t.Cleanup(tr.End)
	// The one of the trial before may have ended with the loaders that were killed, and
	// be starting again.
	tr.until("ClickHouse answers", func() bool { return query("SELECT 1") == nil })
	return tr
}

// raise raises the cluster, with its tenants.
func (tr *trial) raise(size bench.Size) {
	tr.Helper()
	require.NoError(tr, tr.Raise(tr.Context(), size))
	for i := range tr.tenants {
		client, rights, _ := registerOn(tr.T, tr.Cluster)
		if i == 0 {
			tr.rights = rights
		}
		some, err := bench.Deliveries(trialDeliveries/100, uint64(i), bench.Profiles(), rights)
		require.NoError(tr, err)
		tr.callers = append(tr.callers, bench.Caller{Client: client})
		tr.deliveries = append(tr.deliveries, slices.Repeat(some, 100))
	}
}

// begin raises the cluster and starts the usual load.
func (tr *trial) begin(size bench.Size) {
	tr.Helper()
	tr.raise(size)
	tr.load(bench.Load{Name: "fault", Clients: trialClients, Pause: trialPause})
	tr.more(1000)
}

// tide is a load by all tenants that was begun.
type tide struct {
	stop    chan struct{}
	running sync.WaitGroup
	answers [][]bench.Answer // of each tenant
	errs    []error
	stopped bool
}

// load starts one like this for each tenant.
func (tr *trial) load(like bench.Load) *tide {
	tr.Helper()
	w := &tide{stop: make(chan struct{}), answers: make([][]bench.Answer, tr.tenants), errs: make([]error, tr.tenants)}
	ctx, cancel := context.WithCancel(context.Background())
	tr.Cleanup(func() { cancel(); w.running.Wait() })
	for i := range tr.callers {
		load := like
		load.Key, load.Deliveries, load.Stop = tr.callers[i].Client.Key, tr.deliveries[i], w.stop
		load.Answered = func(int) { tr.answered.Add(1) }
		for _, url := range tr.APIs() {
			load.Addrs = append(load.Addrs, hostPort(url))
		}
		w.running.Go(func() { w.answers[i], w.errs[i] = load.Run(ctx) })
	}
	tr.loads = append(tr.loads, w)
	return w
}

// end ends a load, and keeps what it was answered.
func (tr *trial) end(w *tide) {
	tr.Helper()
	if w.stopped {
		return
	}
	w.stopped = true
	close(w.stop)
	w.running.Wait()
	for i, err := range w.errs {
		require.NoError(tr, err)
		tr.callers[i].Answers = append(tr.callers[i].Answers, w.answers[i]...)
	}
}

// more waits until so many further deliveries are answered.
func (tr *trial) more(n int64) {
	tr.Helper()
	target := tr.answered.Load() + n
	tr.until("the load goes on", func() bool { return tr.answered.Load() >= target })
}

// until waits for a condition.
func (tr *trial) until(what string, holds func() bool) {
	tr.Helper()
	require.Eventually(tr, holds, 10*time.Minute, 10*time.Millisecond, "in vain: until %s", what)
}

// within waits for a channel to be closed.
func within(t *testing.T, done <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Minute):
		require.Fail(t, otherwise)
	}
}

// balance ends the loads and closes the books.
func (tr *trial) balance(what string, args ...any) *bench.Audit {
	tr.Helper()
	for _, w := range tr.loads {
		tr.end(w)
	}
	ctx, cancel := context.WithTimeout(tr.Context(), 20*time.Minute)
	defer cancel()
	log := openTopic(tr.T, tr.Cluster)
	defer log.Close()
	audit, err := tr.Audit(ctx, log, tr.callers...)
	require.NoError(tr, err)
	require.Greater(tr, audit.Acknowledged, 1000)
	warehouse, err := clickhouse.Open(ctx, clickhouse.Config{URL: tr.ClickHouse})
	require.NoError(tr, err)
	defer warehouse.Close()
	receipts, quantityMs, err := warehouse.Drift(ctx, "", time.Time{}, time.Time{})
	require.NoError(tr, err)
	require.Zero(tr, receipts, "drift of the rollups in receipts")
	require.Zero(tr, quantityMs, "drift of the rollups in milliseconds")
	for _, l := range tr.Loaders {
		if drift, err := metric(l, "muniment_metering_drift"); err == nil { // else it is not running
			require.Zero(tr, drift)
		}
	}
	tr.Logf("%s: %d acknowledged, 0 missing, 0 counted twice, drift 0; %d recorded but never told, %d copies in the log, %d deliveries sent again; %d metered, %d suppressed, %d ms",
		fmt.Sprintf(what, args...), audit.Acknowledged, audit.Untold, audit.Copies, audit.Retried, audit.Metered, audit.Suppressed, audit.QuantityMs)
	return audit
}

// metric is a process's, summed over its labels.
func metric(p *bench.Server, name string) (sum float64, err error) {
	resp, err := http.Get(p.Admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if bare, _, _ := strings.Cut(series, "{"); bare != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, lines.Err()
}

// sum adds a metric up over the processes that answer.
func sum(parts []*bench.Server, name string) (all float64) {
	for _, p := range parts {
		if v, err := metric(p, name); err == nil {
			all += v
		}
	}
	return all
}

// engine is a server of a test's own, which it may kill.
type engine struct {
	*testing.T
	name, dir string
	env       []string
}

// startEngine starts one by its script in deploy/stack.
func startEngine(t *testing.T, name string, env ...string) *engine {
	t.Helper()
	e := &engine{T: t, name: name, dir: t.TempDir()}
	cache := os.Getenv("MUNIMENT_TEST_KAFKA_CACHE")
	require.NotEmpty(t, cache, "deploy/stack/stack.sh env names it")
	e.env = append(append(os.Environ(), "MUNIMENT_STACK="+e.dir, "MUNIMENT_STACK_CACHE="+cache), env...)
	t.Cleanup(func() { e.do("down") })
	e.do("up")
	return e
}

func (e *engine) do(arg ...string) string {
	e.Helper()
	// A file: what the script starts inherits it, and a pipe would be waited for.
	out, err := os.CreateTemp(e.dir, "said")
	require.NoError(e, err)
	defer out.Close()
	cmd := exec.Command(filepath.Join("deploy", "stack", e.name+".sh"), arg...)
	cmd.Env, cmd.Stdout, cmd.Stderr = e.env, out, out
	err = cmd.Run()
	said, readErr := os.ReadFile(out.Name())
	require.NoError(e, readErr)
	require.NoError(e, err, "%s.sh %v: %s", e.name, arg, said)
	return string(said)
}

// pid is in a file of the engine.
func (e *engine) pid(file string) int {
	e.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, e.name, file))
	require.NoError(e, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(e, err)
	return pid
}

// variable is one of those that the script's env prints.
func (e *engine) variable(name string) string {
	e.Helper()
	for line := range strings.Lines(e.do("env")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "export "+name+"="); ok {
			return strings.Trim(value, "'")
		}
	}
	require.Fail(e, name+" is not printed")
	return ""
}

// ownKafka is a broker for this trial alone.
func (tr *trial) ownKafka(env ...string) *engine {
	broker := startEngine(tr.T, "kafka", append([]string{"MUNIMENT_KAFKA_PORT=29392"}, env...)...)
	tr.Engines.Kafka = broker.variable("MUNIMENT_TEST_KAFKA")
	return broker
}

// tapped puts a batchTap in front of ClickHouse.
func (tr *trial) tapped() *batchTap {
	u, err := url.Parse(tr.Engines.ClickHouse)
	require.NoError(tr, err)
	tap := tapBatches(tr.T, u.Host)
	u.Host = tap.addr()
	tr.Engines.ClickHouse = u.String()
	return tap
}

func TestFaultGatewayKilled(t *testing.T) {
	tr := newTrial(t)
	tr.begin(bench.Size{Gateways: 3, Loaders: 2, Controls: 2, Partitions: 6})
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
	tr.begin(bench.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
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
	server := startEngine(t, "clickhouse", "MUNIMENT_CLICKHOUSE_TCP=29490", "MUNIMENT_CLICKHOUSE_HTTP=29491")
	tr.Engines.ClickHouse = server.variable("MUNIMENT_TEST_CLICKHOUSE")
	tap := tr.tapped()
	tr.begin(bench.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	const kills = 4
	for range kills {
		held := tap.hold(t)
		require.NoError(t, syscall.Kill(server.pid("pid"), syscall.SIGKILL))
		close(held.goOn)
		server.do("up") // the script starts it again by itself; this waits for it
		tr.more(500)
	}
	tr.balance("%d kills of ClickHouse in the middle of a batch", kills)
}

func TestFaultBrokerKilled(t *testing.T) {
	tr := newTrial(t)
	broker := tr.ownKafka()
	tr.begin(bench.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	const kills = 3
	for range kills {
		broker.do("kill", "1")
		tr.more(300) // spooled
		broker.do("up")
		tr.more(1000)
	}
	tr.balance("%d kills of the only broker", kills)
}

// While Kafka is away the spool makes the promise: no delivery is refused. What was
// spooled is in Kafka within twice the time of the outage.
func TestFaultKafkaAway(t *testing.T) {
	tr := newTrial(t)
	broker := tr.ownKafka()
	tr.begin(bench.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	before, gone := tr.answered.Load(), time.Now()
	broker.do("kill", "1")
	<-time.After(time.Minute)
	during := tr.answered.Load() - before
	require.Greater(t, during, int64(1000), "answers without Kafka")
	spooled := sum(tr.Gateways, "muniment_spool_pending_records")
	require.Positive(t, spooled)
	broker.do("up")
	back := time.Now()
	tr.until("the spools are drained", func() bool { return sum(tr.Gateways, "muniment_spool_pending_records") == 0 })
	away, took := back.Sub(gone), time.Since(back)
	require.Less(t, took, 2*away)
	tr.more(500)
	audit := tr.balance("Kafka away for %.0f s, %.0f records in the spools before its start, drained under load in %.1f s", away.Seconds(), spooled, took.Seconds())
	require.Zero(t, audit.Retried, "deliveries that were refused")
}

// With a node under half of the load that it can take, Kafka is held (SIGSTOP). What was
// spooled is in Kafka within twice the time of the outage, under that load, and each
// client's receipts stand in the topic in the order in which it got them.
func TestFaultDrain(t *testing.T) {
	tr := newTrial(t)
	tr.tenants = 12
	broker := tr.ownKafka()
	tr.raise(bench.Size{Gateways: 1, Controls: 1, Partitions: 12})
	const clients = 8 // of each tenant
	capacity := tr.capacity(clients)
	half := tr.load(bench.Load{Name: "half", Clients: clients, Every: time.Duration(float64(tr.tenants*clients) / (capacity / 2) * float64(time.Second))})
	tr.more(int64(2 * capacity))

	pid := broker.pid("node1.pid")
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // or it can't be ended
	gone, before := time.Now(), tr.answered.Load()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	<-time.After(trialOutage)
	during := tr.answered.Load() - before
	spooled := sum(tr.Gateways, "muniment_spool_pending_records")
	require.Positive(t, spooled)
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	back, before := time.Now(), tr.answered.Load()
	tr.until("the spool is drained", func() bool {
		return sum(tr.Gateways, "muniment_spool_pending_records")+sum(tr.Gateways, "muniment_spool_active") == 0
	})
	away, took := back.Sub(gone), time.Since(back)
	under := tr.answered.Load() - before
	told := fmt.Sprintf("capacity %.0f/s; Kafka held for %.1f s under %.0f/s, %.0f records in the spool; drained in %.1f s under %.0f/s",
		capacity, away.Seconds(), float64(during)/away.Seconds(), spooled, took.Seconds(), float64(under)/took.Seconds())
	t.Log(told)
	require.Less(t, took, 2*away)
	tr.more(int64(capacity))
	tr.end(half)
	tr.inOrder(half)

	tr.Loaders = append(tr.Loaders, nil)
	require.NoError(t, tr.StartLoader(t.Context(), 0))
	audit := tr.balance("%s", told)
	require.Zero(t, audit.Retried, "deliveries that were refused")
}

// trialOutage is how long Kafka is held.
const trialOutage = time.Minute

// capacity is how many deliveries a second the cluster answers, when Kafka is warm.
func (tr *trial) capacity(clients int) (perSecond float64) {
	tr.Helper()
	all := tr.load(bench.Load{Name: "capacity", Clients: clients})
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
func (tr *trial) inOrder(w *tide) {
	tr.Helper()
	stand := inTopic(tr.T, tr.Cluster)
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

// Kafka is away until the spool is at its cap: deliveries are refused and told when to
// come again, and are taken when Kafka is back.
func TestFaultSpoolFull(t *testing.T) {
	tr := newTrial(t)
	broker := tr.ownKafka()
	tr.GatewayFlags = []string{"--spool-bytes", strconv.Itoa(128 << 20)}
	tr.raise(bench.Size{Gateways: 1, Loaders: 1, Controls: 1, Partitions: 6})
	var refused, unsaid, other atomic.Int64
	tr.load(bench.Load{Name: "fault", Clients: 16, Refused: func(status int, retryAfter string) {
		refused.Add(1)
		if seconds, err := strconv.Atoi(retryAfter); err != nil || seconds < 1 {
			unsaid.Add(1)
		}
		if status != http.StatusServiceUnavailable {
			other.Add(1)
		}
	}})
	tr.more(1000)
	require.Zero(t, refused.Load())
	broker.do("kill", "1")
	tr.until("the spool is full", func() bool { return refused.Load() > 1000 })
	spooled := sum(tr.Gateways, "muniment_spool_pending_records")
	broker.do("up")
	tr.more(5000)
	require.Zero(t, unsaid.Load(), "refusals without Retry-After")
	require.Zero(t, other.Load(), "other refusals than 503")
	tr.until("the spool is drained", func() bool { return sum(tr.Gateways, "muniment_spool_pending_records") == 0 })
	again := refused.Load()
	tr.more(1000)
	require.Equal(t, again, refused.Load(), "refusals with a spool that is empty")
	audit := tr.balance("spool full at %.0f records, %d times answered 503 with Retry-After", spooled, again)
	require.Positive(t, audit.Retried)
}

// The broker takes the records, and one of twenty of its answers is lost with the
// connection.
func TestFaultLostAcknowledgements(t *testing.T) {
	tr := newTrial(t)
	var answers, swallowed atomic.Int64
	proxy := startRelay(t, "127.0.0.1:29392", swallowProduced(20, &answers, &swallowed))
	_, port, _ := strings.Cut(proxy.addr(), ":")
	tr.ownKafka("MUNIMENT_KAFKA_ADVERTISED=" + port)
	tr.Engines.Kafka = proxy.addr()
	tr.begin(bench.Size{Gateways: 2, Loaders: 2, Controls: 1, Partitions: 6})
	tr.until("answers are lost", func() bool { return swallowed.Load() >= 100 })
	audit := tr.balance("%d of %d acknowledgements of Kafka lost", swallowed.Load(), answers.Load())
	require.Positive(t, audit.Copies, "records stand in the log twice")
}

func TestFaultRebalances(t *testing.T) {
	tr := newTrial(t)
	tr.begin(bench.Size{Gateways: 2, Loaders: 4, Controls: 1, Partitions: 12})
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
	tr.begin(bench.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 6})
	tr.Loaders = append(tr.Loaders, nil)
	const rounds = 3
	for i := range rounds {
		zombie, heir := i%2, 1-i%2
		held := tap.hold(t)
		require.NoError(t, syscall.Kill(tr.Loaders[zombie].PID(), syscall.SIGSTOP))
		close(held.goOn)
		require.NoError(t, tr.StartLoader(t.Context(), heir))
		tr.until("the successor loads", func() bool { return sum(tr.Loaders[heir:heir+1], "muniment_loader_rows_total") > 1000 })
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
	tr.begin(bench.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 6})
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
		tr.until("the positions are gone", func() bool { return query("TRUNCATE TABLE "+database+".positions") == nil })
		require.NoError(t, tr.StartLoader(t.Context(), 0))
		// Some of the answers are refusals by the gate, which are not in the log.
		tr.until("all is loaded again", func() bool { return sum(tr.Loaders, "muniment_loader_rows_total") > 0.8*float64(loaded) })
		again += sum(tr.Loaders, "muniment_loader_rows_total")
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
	door, err := bench.NewBalancer(server)
	require.NoError(t, err)
	t.Cleanup(func() { _ = door.Close() })
	u.Host = door.Addr()
	tr.Engines.ClickHouse = u.String()
	tr.MigrateFlags = []string{"--retention", "1m"}
	tr.begin(bench.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 1})
	used := func() float64 { return sum(tr.Loaders, "muniment_loader_retention_used_ratio") }
	door.Set() // nobody
	tr.until("the alarm rises", func() bool { return used() >= 0.5 })
	alarm := used()
	said, err := os.ReadFile(filepath.Join(tr.Dir, "pipeline1.log"))
	require.NoError(t, err)
	require.Contains(t, string(said), "records near the end of their retention and are not loaded")
	out, err := exec.Command(tr.Exe, "migrate", "--kafka", tr.Engines.Kafka, "--topic", tr.Topic,
		"--partitions", "1", "--replication", "1", "--retention", "168h").CombinedOutput()
	require.NoError(t, err, string(out))
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
	log := openTopic(t, tr.Cluster)
	defer log.Close()
	_, loaded, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	deliver(20)
	deleteRecords(t, tr.Engines.Kafka, tr.Topic, loaded.Offset+15)
	loader := startLoader(t, tr.Exe, "--kafka", tr.Engines.Kafka, "--topic", tr.Topic, "--clickhouse", tr.ClickHouse, "--from-all")
	gone := loaded
	gone.Offset += 15
	want := fmt.Sprintf("gap in the log: nothing from %s up to %s", loaded, gone)
	tr.until("the loader names the gap", func() bool {
		status, text := loader.ready(t)
		return status == http.StatusServiceUnavailable && strings.Contains(text, want)
	})
	stopped, err := metric(&bench.Server{Admin: loader.admin}, "muniment_loader_stopped")
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

// query runs a statement on the stack's ClickHouse.
func query(statement string) error {
	resp, err := http.Post(os.Getenv("MUNIMENT_TEST_CLICKHOUSE_HTTP"), "text/plain", strings.NewReader(statement))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", statement, resp.Status)
	}
	return nil
}

func urlPath(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u.Path
}

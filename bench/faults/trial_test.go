package faults

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/demo"
	"muniment.example/bench/load"
	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline/clickhouse"
)

// trial is a cluster under the load of some tenants.
type trial struct {
	*testing.T
	*system.Cluster
	tenants    int
	callers    []demo.Caller
	deliveries [][]load.Delivery // of each caller
	rights     map[string]string // of the first tenant, by substrate
	answered   atomic.Int64
	saw        sight
	loads      []*loadTide
}

// sight is what the clients saw.
type sight struct {
	mu       sync.Mutex
	refused  map[int]int // answers after which a delivery was sent again, by status
	last     time.Time   // an answer came
	longest  time.Duration
	returned int // refusals with a Retry-After
}

func (s *sight) answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.last.IsZero() {
		s.longest = max(s.longest, now.Sub(s.last))
	}
	s.last = now
}

func (s *sight) refusal(status int, retryAfter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused = map[int]int{}
	}
	s.refused[status]++
	if seconds, err := strconv.Atoi(retryAfter); err == nil && seconds > 0 {
		s.returned++
	}
}

// refusals is how often the clients were refused, by all of the statuses.
func (s *sight) refusals() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.refused {
		n += of
	}
	return n
}

func (s *sight) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%v refusals by status, %d of them with Retry-After; at most %.1f s without an answer", s.refused, s.returned, s.longest.Seconds())
}

// The usual load: a trial's clients together send at most 300 requests a second.
const (
	trialTenants = 3 // unless a test sets trial.tenants
	trialClients = 4 // of each tenant
	trialPause   = 40 * time.Millisecond
	trialAgain   = 5 // one delivery in so many is sent to two gateways
)

// trialDeliveries of a tenant are more than any load gets done.
const trialDeliveries = 300_000

// newTrial is a cluster on the stack's engines, to be given others and then raised.
func newTrial(t *testing.T) *trial {
	t.Helper()
	stacktest.OnlyWith(t, "MUNIMENT_TEST_FAULTS", "faults")
	tr := &trial{T: t, tenants: trialTenants, Cluster: &system.Cluster{
		Exe: "muniment", Dir: t.TempDir(), Engines: systemtest.Engines(t),
		// As short as brokers allow: the partitions of a loader that was killed wait for it.
		LoaderFlags: []string{"--session-timeout", "6s"},
	}}
	t.Cleanup(tr.End)
	// The one of the trial before may have ended with the loaders that were killed, and
	// be starting again.
	tr.until("ClickHouse answers", func() bool { return systemtest.Query("SELECT 1") == nil })
	return tr
}

// raise raises the cluster, with its tenants.
func (tr *trial) raise(size system.Size) {
	tr.Helper()
	require.NoError(tr, tr.Raise(tr.Context(), size))
	for i := range tr.tenants {
		client, rights := systemtest.RegisterOn(tr.T, tr.Cluster)
		if i == 0 {
			tr.rights = rights
		}
		some, err := load.Deliveries(trialDeliveries/100, uint64(i), load.Profiles(), rights)
		require.NoError(tr, err)
		tr.callers = append(tr.callers, demo.Caller{Client: client})
		tr.deliveries = append(tr.deliveries, slices.Repeat(some, 100))
	}
}

// begin raises the cluster and starts the usual load.
func (tr *trial) begin(size system.Size) {
	tr.Helper()
	tr.raise(size)
	tr.load(load.Load{Name: "fault", Clients: trialClients, Pause: trialPause, Again: trialAgain})
	tr.more(1000)
}

// loadTide is a load by all tenants that was begun.
type loadTide struct {
	stop    chan struct{}
	running sync.WaitGroup
	answers [][]load.Answer // of each tenant
	errs    []error
	stopped bool
}

// load starts one like this for each tenant.
func (tr *trial) load(like load.Load) *loadTide {
	tr.Helper()
	w := &loadTide{stop: make(chan struct{}), answers: make([][]load.Answer, tr.tenants), errs: make([]error, tr.tenants)}
	ctx, cancel := context.WithCancel(context.Background())
	tr.Cleanup(func() { cancel(); w.running.Wait() })
	for i := range tr.callers {
		posting := like
		posting.Key, posting.Deliveries, posting.Stop = tr.callers[i].Client.Key, tr.deliveries[i], w.stop
		posting.Answered = func(int) { tr.answered.Add(1); tr.saw.answer() }
		posting.Refused = func(status int, retryAfter string) {
			tr.saw.refusal(status, retryAfter)
			if like.Refused != nil {
				like.Refused(status, retryAfter)
			}
		}
		for _, url := range tr.APIs() {
			posting.Addrs = append(posting.Addrs, systemtest.HostPort(url))
		}
		w.running.Go(func() { w.answers[i], w.errs[i] = posting.Run(ctx) })
	}
	tr.loads = append(tr.loads, w)
	return w
}

// end ends a load, and keeps what it was answered.
func (tr *trial) end(w *loadTide) {
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
	waittest.Until(tr, holds, "in vain: until %s", what)
}

// balance ends the loads and closes the books.
func (tr *trial) balance(what string, args ...any) *demo.Balance {
	tr.Helper()
	for _, w := range tr.loads {
		tr.end(w)
	}
	ctx := tr.Context()
	log := systemtest.OpenTopic(tr.T, tr.Cluster)
	defer log.Close()
	audit, err := demo.Audit(ctx, tr.Cluster, log, tr.callers...)
	require.NoError(tr, err)
	require.Greater(tr, audit.Acknowledged, 1000)
	if len(tr.Gateways) > 1 {
		require.Positive(tr, audit.Repeated, "deliveries that two gateways acknowledged")
	}
	warehouse, err := clickhouse.Open(ctx, clickhouse.Config{URL: tr.ClickHouse})
	require.NoError(tr, err)
	defer warehouse.Close()
	systemtest.RequireNoDrift(tr.T, log, warehouse)
	for _, c := range tr.Controls {
		if drift, err := systemtest.Metric(c, "muniment_metering_drift"); err == nil { // else it is not running
			require.Zero(tr, drift)
		}
	}
	tr.Logf("%s: %d acknowledged, 0 missing, 0 counted twice, drift 0; %d acknowledged twice and counted once, %d recorded but never acknowledged, %d copies in the log, %d deliveries sent again; %d metered, %d suppressed, %d ms; the clients saw %s",
		fmt.Sprintf(what, args...), audit.Acknowledged, audit.Repeated, audit.Unanswered, audit.Copies, audit.Retried, audit.Metered, audit.Suppressed, audit.QuantityMs, &tr.saw)
	return audit
}

// ownKafka is a broker for this trial alone.
func (tr *trial) ownKafka(env ...string) *systemtest.Engine {
	broker := systemtest.StartEngine(tr.T, "kafka", append([]string{"MUNIMENT_KAFKA_PORT=29392"}, env...)...)
	tr.Engines.Kafka = broker.Variable("MUNIMENT_TEST_KAFKA")
	return broker
}

// tapped puts a batchTap in front of ClickHouse.
func (tr *trial) tapped() *batchTap {
	u, err := url.Parse(tr.Engines.ClickHouse)
	require.NoError(tr, err)
	tap := tapBatches(tr.T, u.Host)
	u.Host = tap.Addr()
	tr.Engines.ClickHouse = u.String()
	return tap
}

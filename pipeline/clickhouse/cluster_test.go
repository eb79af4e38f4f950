package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// replicas are the addresses of a database at each replica alone.
func replicas(t *testing.T, cfg Config) []Config {
	t.Helper()
	scheme, rest, _ := strings.Cut(cfg.URL, "://")
	user, rest, _ := strings.Cut(rest, "@")
	hosts, path, _ := strings.Cut(rest, "/")
	var each []Config
	for host := range strings.SplitSeq(hosts, ",") {
		one := cfg
		one.URL = fmt.Sprintf("%s://%s@%s/%s", scheme, user, host, path)
		each = append(each, one)
	}
	return each
}

// freshOnCluster is a database of the cluster under test, and two of its replicas, each
// of them open by itself.
func freshOnCluster(t *testing.T) (Config, []*Warehouse) {
	t.Helper()
	stacktest.OnlyWith(t, cluster, "test-cluster")
	cfg := fresh(t, stacktest.ClickHouse(t))
	var each []*Warehouse
	for _, one := range replicas(t, cfg)[:2] {
		each = append(each, mustOpen(t, one))
	}
	return cfg, each
}

// What a replica has answered is seen at the other at once: rows, sums, the position,
// and that an event was retracted.
func TestReplicasSeeWhatWasLoaded(t *testing.T) {
	_, each := freshOnCluster(t)
	rows, _, _ := spread(0, 300)
	const size = 10
	for i := range len(rows) / size {
		to, other := each[i%2], each[1-i%2]
		require.NoError(t, to.Load(t.Context(), batch(rows[i*size:(i+1)*size])))
		next, ok, err := other.Resume(t.Context(), 3)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, rows[(i+1)*size-1].Next(), next)
		var n int64
		for _, tenant := range []string{"tnt_a", "tnt_b"} {
			count, err := other.CountEvents(t.Context(), tenant)
			require.NoError(t, err)
			n += count
		}
		require.EqualValues(t, (i+1)*size, n)
	}
	require.NoError(t, each[0].Load(t.Context(), retracting(rows[0])))
	_, err := each[1].Event(t.Context(), rows[0].TenantID, rows[0].EventID)
	require.ErrorIs(t, err, pipeline.ErrNoEvent)
}

// retracting is a batch that quarantines a loaded row's record, and releases it.
func retracting(row pipeline.Row) pipeline.Batch {
	released := delivery(pipeline.SystemTenant, 2_000_000, midnight, "")
	released.Type, released.Delivery = pipeline.TypeReleased, nil
	released.SubjectKind, released.SubjectID = pipeline.KindRecord, fmt.Sprintf("%d.%d.%d", row.Generation, row.Partition, row.Offset)
	b := batch([]pipeline.Row{released})
	b.From = row.Position
	b.Quarantined = []pipeline.Quarantined{{Position: row.Position, TenantID: row.TenantID, EventID: row.EventID, Reason: "forged"}}
	return b
}

// A configuration without the cluster, or with one for tables that are not replicated, would
// lose its guarantees, and is refused.
func TestClusterIsNamedWhereItIs(t *testing.T) {
	stacktest.OnlyWith(t, cluster, "test-cluster")
	cfg := fresh(t, stacktest.ClickHouse(t))
	cfg.Cluster = ""
	_, err := Open(t.Context(), cfg)
	require.ErrorContains(t, err, "are replicated, and no cluster is named")
	_, err = Migrate(t.Context(), cfg, true)
	require.ErrorContains(t, err, "are replicated, and no cluster is named")

	const name = "muniment_alone"
	alone := replicas(t, onServer(t, stacktest.ClickHouse(t), name))[0]
	dropped(t, alone, name)
	with := alone.Cluster
	alone.Cluster = ""
	_, err = Migrate(t.Context(), alone, false)
	require.NoError(t, err)
	mustOpen(t, alone)
	alone.Cluster = with
	_, err = Open(t.Context(), alone)
	require.ErrorContains(t, err, "are not replicated")
	_, err = Migrate(t.Context(), alone, true)
	require.ErrorContains(t, err, "are not replicated")
}

// errCut is what a loader gets whose connection is cut.
var errCut = errors.New("the connection is cut")

// severed is a connection that is cut at a statement that writes: before the server has it,
// or before its answer comes.
type severed struct {
	driver.Conn
	left   int // statements until then
	before bool
}

func (c *severed) PrepareBatch(ctx context.Context, query string, opts ...driver.PrepareBatchOption) (driver.Batch, error) {
	b, err := c.Conn.PrepareBatch(ctx, query, opts...)
	return &severedBatch{b, c}, err
}

type severedBatch struct {
	driver.Batch
	conn *severed
}

func (b *severedBatch) Send() error { return b.conn.write(b.Batch.Send) }

func (c *severed) Exec(ctx context.Context, query string, args ...any) error {
	return c.write(func() error { return c.Conn.Exec(ctx, query, args...) })
}

func (c *severed) write(f func() error) error {
	c.left--
	switch {
	case c.left >= 0:
		return f()
	case !c.before && c.left == -1:
		return errors.Join(errCut, f())
	}
	return errCut
}

// A loader is cut off from one replica at each of its statements, and brings the batch
// to the other: there is everything once, and what was inserted twice was dropped as a
// block, not only by the reader.
func TestLoaderMovesToTheOtherReplica(t *testing.T) {
	_, each := freshOnCluster(t)
	var all, metered, quantity int64
	cuts := 0
	for _, before := range []bool{true, false} {
		for at := 0; ; at++ {
			from, to := each[cuts%2], each[1-cuts%2]
			rows, m, q := spread(int64(cuts)*40, 40)
			for i := range rows { // keys are of one batch
				if d := rows[i].Delivery; d.Idempotency != "" {
					d.Idempotency += fmt.Sprint(" of ", cuts)
				}
			}
			all, metered, quantity, cuts = all+40, metered+m, quantity+q, cuts+1
			conn := from.conn
			from.conn = &severed{Conn: conn, left: at, before: before}
			err := from.Load(t.Context(), batch(rows))
			from.conn = conn
			require.NoError(t, to.Load(t.Context(), batch(rows)))
			if err == nil {
				require.Greater(t, at, 4, "statements of a load")
				break
			}
			require.ErrorIs(t, err, errCut)
		}
	}
	t.Logf("%d loads cut off", cuts-2)
	for _, w := range each {
		requireSums(t, w, all, metered, quantity)
		for _, table := range []string{"events", "idempotency_keys", "row_identities", "private_parts"} {
			var inserted, distinct uint64
			require.NoError(t, w.conn.QueryRow(t.Context(), `SELECT count(), uniqExact(tenant_id, event_id) FROM `+table).Scan(&inserted, &distinct))
			require.Equal(t, distinct, inserted, "rows of %s", table)
		}
	}
}

// Two loaders of different partitions, each at a replica of its own, load all the time.
func TestTwoPipelinesOfACluster(t *testing.T) {
	_, each := freshOnCluster(t)
	const loads, size = 15, 200
	var all, metered, quantity int64
	errs := make([]error, 2)
	var loaders sync.WaitGroup
	for i, w := range each {
		rows, m, q := spread(int64(i)*1_000_000, loads*size)
		all, metered, quantity = all+int64(len(rows)), metered+m, quantity+q
		for j := range rows {
			rows[j].Partition = int32(i)
			rows[j].TenantID = "tnt_" + string("abcd"[2*i+j%2])
		}
		loaders.Go(func() {
			for from := 0; from < len(rows); from += size {
				b := batch(rows[from : from+size])
				b.Partition = int32(i)
				errs[i] = errors.Join(errs[i], w.Load(t.Context(), b))
			}
		})
	}
	loaders.Wait()
	t.Logf("%d loads of %d rows at each of two replicas", loads, size)
	require.NoError(t, errors.Join(errs...))
	for _, w := range each {
		requireSums(t, w, all, metered, quantity)
	}
}

// ownCluster is a cluster of the test's own, whose replicas it may kill.
type ownCluster struct {
	t   *testing.T
	env []string
}

func startCluster(t *testing.T, replicas int) *ownCluster {
	stacktest.OnlyWith(t, cluster, "test-cluster")
	port := freePorts(3)
	c := &ownCluster{t: t, env: append(os.Environ(), "MUNIMENT_STACK="+t.TempDir(), "MUNIMENT_STACK_CACHE="+stacktest.Variable(t, cache),
		fmt.Sprint("MUNIMENT_CLUSTER_REPLICAS=", replicas), fmt.Sprint("MUNIMENT_CLUSTER_TCP=", port), fmt.Sprint("MUNIMENT_CLUSTER_HTTP=", port+1), fmt.Sprint("MUNIMENT_CLUSTER_KEEPER=", port+2))}
	t.Cleanup(func() { c.run("down") })
	c.run("up")
	return c
}

// run calls the script that starts and stops clusters.
func (c *ownCluster) run(arg ...string) string {
	c.t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("../../deploy/stack/clickhouse-cluster.sh", arg...)
	cmd.Env, cmd.Stderr = c.env, &said
	out, err := cmd.Output()
	require.NoError(c.t, err, said.String())
	return string(out)
}

// config is how to reach a new database of the cluster.
func (c *ownCluster) config() Config {
	c.t.Helper()
	cfg := Config{Cluster: os.Getenv(cluster), Timeout: 20 * time.Second}
	for line := range strings.Lines(c.run("env")) {
		if value, ok := strings.CutPrefix(line, "export "+native+"="); ok {
			cfg.URL = inDatabase(c.t, strings.Trim(strings.TrimSpace(value), "'"), "muniment") + "?connection_open_strategy=round_robin"
		}
	}
	_, err := Migrate(c.t.Context(), cfg, false)
	require.NoError(c.t, err)
	return cfg
}

// Replicas are killed again and again while batches are loaded, one, the other, and both,
// and come back: at the end there is every row, once, at each of them.
func TestKilledReplicas(t *testing.T) {
	c := startCluster(t, 2)
	cfg := c.config()
	w := mustOpen(t, cfg)

	const size = 500
	rows, metered, quantity := spread(0, 10_000)
	var loads atomic.Int64
	over := make(chan struct{})
	kills := [][]string{{"1"}, {"2"}, {"1", "2"}, {"2"}, {"1"}, {"2", "1"}}
	go func() { // kills at a moment of a load that is later each time
		defer close(over)
		for i, which := range kills {
			before := loads.Load()
			waittest.Until(t, func() bool { return loads.Load() > before })
			<-time.After(time.Duration(i) * 53 * time.Millisecond)
			for _, replica := range which {
				c.run("kill", replica)
			}
			for _, replica := range which {
				c.run("start", replica)
			}
		}
	}()
	var failures, replays int
	said := map[string]int{}
	for next := (sealer.Position{}); next.Offset < int64(len(rows)); {
		from := int(next.Offset)
		if err := w.Load(t.Context(), batch(rows[from:min(from+size, len(rows))])); err != nil {
			failures++
			said[why(err)]++
			<-time.After(50 * time.Millisecond) // a loader waits longer
		} else {
			loads.Add(1)
			next = at(int64(from + size))
		}
		if resume, ok, err := w.Resume(t.Context(), 3); err == nil && ok {
			require.GreaterOrEqual(t, resume.Offset, next.Offset, "what was loaded is known")
		}
		select {
		case <-over:
		default:
			if next.Offset >= int64(len(rows)) {
				next, replays = sealer.Position{}, replays+1
			}
		}
	}
	<-over
	t.Logf("%d kills, %d failed loads %v, %d replays of %d rows", len(kills), failures, said, replays, len(rows))
	require.Positive(t, failures, "no kill has hit a load")
	for _, one := range replicas(t, cfg) {
		requireSums(t, mustOpen(t, one), int64(len(rows)), metered, quantity)
	}

	// One of two is no majority: nothing is written without the other, all is read.
	c.run("kill", "1")
	more := delivery("tnt_a", int64(len(rows)), midnight, "")
	require.Error(t, w.Load(t.Context(), batch([]pipeline.Row{more})))
	next, _, err := w.Resume(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, rows[len(rows)-1].Next(), next)
	require.NoError(t, w.Ready(t.Context()))
	c.run("start", "1")
	waittest.Until(t, func() bool { return w.Load(t.Context(), batch([]pipeline.Row{more})) == nil })
	requireSums(t, w, int64(len(rows)+1), metered+1, quantity+more.Delivery.QuantityMs)
}

// One of three replicas is away: what two of them have is loaded, and all of it is read.
// Back again, it answers nothing until it has what it missed. To retract an event
// takes all three.
func TestOneOfThreeReplicas(t *testing.T) {
	c := startCluster(t, 3)
	cfg := c.config()
	w := mustOpen(t, cfg)
	const size = 50
	rows, metered, quantity := spread(0, 8*size)
	load := func(i int) {
		require.NoError(t, w.Load(t.Context(), batch(rows[i*size:(i+1)*size])))
	}
	for i := range 4 {
		load(i)
	}
	c.run("kill", "3")
	for i := 4; i < 8; i++ {
		load(i)
	}
	requireSums(t, w, int64(len(rows)), metered, quantity)
	gone := delivery("tnt_c", int64(len(rows)), midnight, "")
	require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{gone})))
	require.ErrorContains(t, w.Load(t.Context(), retracting(gone)), "inactive")
	next, _, err := w.Resume(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, gone.Next(), next)

	c.run("start", "3")
	back := mustOpen(t, replicas(t, cfg)[2])
	refusals := 0
	waittest.Until(t, func() bool {
		n, err := back.CountEvents(t.Context(), "tnt_a")
		if err != nil {
			refusals++
			return false
		}
		require.EqualValues(t, len(rows)/2, n, "an answer is a whole one")
		return true
	})
	t.Logf("%d questions refused", refusals)
	waittest.Until(t, func() bool { return w.Load(t.Context(), retracting(gone)) == nil })
	for _, one := range replicas(t, cfg) {
		requireSums(t, mustOpen(t, one), int64(len(rows)), metered, quantity)
	}
}

// why is an error without what differs from time to time.
func why(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i > 0 {
		text = text[i+2:]
	}
	return text[:min(len(text), 80)]
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
)

// The scaled service on the real engines. make test-stack starts them and says where.

// engines are those of the stack; without one the test is skipped.
func engines(t *testing.T) bench.Engines {
	t.Helper()
	e := bench.Engines{
		Kafka: os.Getenv("MUNIMENT_TEST_KAFKA"), ClickHouse: os.Getenv("MUNIMENT_TEST_CLICKHOUSE"), Database: os.Getenv("MUNIMENT_TEST_POSTGRES"),
	}
	if e.Kafka == "" || e.ClickHouse == "" || e.Database == "" {
		require.Empty(t, os.Getenv("MUNIMENT_TEST_STACK"), "the stack is up, but an engine is not named")
		t.Skip("needs Kafka, ClickHouse and PostgreSQL: make test-stack")
	}
	awaitClickHouse(t)
	return e
}

// awaitClickHouse waits for the stack's: it may have ended with a loader that a test before
// killed, and be starting again.
func awaitClickHouse(t *testing.T) {
	t.Helper()
	if os.Getenv("MUNIMENT_TEST_CLICKHOUSE_HTTP") != "" {
		require.Eventually(t, func() bool { return query("SELECT 1") == nil }, time.Minute, 20*time.Millisecond)
	}
}

// TestStoryOnTheStack tells the demo's story on three gateways, two loaders and two
// control processes, one of each killed in the middle.
func TestStoryOnTheStack(t *testing.T) {
	e := engines(t)
	cmd := exec.CommandContext(t.Context(), muniment(t), "demo", "--stack", "--deliveries", "6000",
		"--kafka", e.Kafka, "--clickhouse", e.ClickHouse, "--database", e.Database)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `metered \+ suppressed \+ duplicates +[\d,]+  =`, string(out))
}

// TestContractOnTheStack asks the scaled service what the embedded one is asked. Most of
// it waits until something is loaded, and may wait together; not so what compares times.
func TestContractOnTheStack(t *testing.T) {
	s := scaledOut(t)
	t.Run("foreign ids", func(t *testing.T) { foreignResources(t, s) })
	for name, test := range map[string]func(*testing.T, service){
		"scripts": playScripts, "scopes": scopeMatrix, "foreign ids in the sandbox": foreignInSandbox, "audit": auditWrites,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// cluster raises one, and ends it with the test.
func cluster(t *testing.T, size bench.Size) *bench.Cluster {
	t.Helper()
	c := &bench.Cluster{Exe: muniment(t), Dir: t.TempDir(), Engines: engines(t)}
	t.Cleanup(c.End)
	require.NoError(t, c.Raise(t.Context(), size))
	return c
}

// callers deliver through an address on connections that are kept, and count what
// they are told.
type callers struct {
	answered, failed atomic.Int64
	firstFailure     atomic.Value // string
	stop             context.CancelFunc
	all              sync.WaitGroup
}

func callThrough(ctx context.Context, n int, addr, key string, bodies [][]byte) *callers {
	c := new(callers)
	ctx, c.stop = context.WithCancel(ctx)
	for i := range n {
		c.all.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: time.Minute}
			defer client.CloseIdleConnections()
			for k := i; ctx.Err() == nil; k++ {
				req, _ := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/delivery", bytes.NewReader(bodies[k%len(bodies)]))
				req.Header.Set("Authorization", "Bearer "+key)
				req.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d", i, k))
				resp, err := client.Do(req)
				told := ""
				if err == nil {
					text, readErr := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err = readErr; err == nil && resp.StatusCode != 200 {
						told = fmt.Sprintf("%d %s", resp.StatusCode, text)
					}
				}
				if err != nil {
					told = err.Error()
				}
				if told != "" {
					c.failed.Add(1)
					c.firstFailure.CompareAndSwap(nil, told)
				}
				c.answered.Add(1)
			}
		})
	}
	return c
}

// more waits until so many further answers have come.
func (c *callers) more(t *testing.T, n int64) {
	t.Helper()
	target := c.answered.Load() + n
	require.Eventually(t, func() bool { return c.answered.Load() >= target }, 2*time.Minute, 5*time.Millisecond)
}

func (c *callers) end() {
	c.stop()
	c.all.Wait()
}

// registerOn makes a tenant with rights, and bodies of deliveries that pass the gate.
func registerOn(t *testing.T, c *bench.Cluster) (client bench.Client, rights map[string]string, bodies [][]byte) {
	t.Helper()
	client = bench.Client{API: c.APIs()[0], Key: createTenant(t, c.Exe, c.Operator().Data).APIKey}
	rights = issueRights(t, client)
	bodies, err := bench.Bodies(256, 1, rights)
	require.NoError(t, err)
	return client, rights, bodies
}

// TestRollingRestart restarts each gateway in turn behind a plain balancer, under load:
// no request fails.
func TestRollingRestart(t *testing.T) {
	c := cluster(t, bench.Size{Gateways: 3, Loaders: 1, Controls: 2, Partitions: 3})
	client, _, bodies := registerOn(t, c)
	var addrs []string
	for _, a := range c.APIs() {
		addrs = append(addrs, hostPort(a))
	}
	front, err := bench.NewBalancer(addrs...)
	require.NoError(t, err)
	defer front.Close()
	load := callThrough(t.Context(), 32, front.Addr(), client.Key, bodies)
	defer load.end()
	load.more(t, 500)
	for i := range c.Gateways {
		require.NoError(t, c.Gateways[i].Stop())
		load.more(t, 200)
		require.NoError(t, c.StartGateway(t.Context(), i))
		load.more(t, 500)
	}
	load.end()
	require.Zero(t, load.failed.Load(), "the first of them: %v", load.firstFailure.Load())
}

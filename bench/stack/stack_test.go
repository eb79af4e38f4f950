// Package stack tests the service on many machines, on a real Kafka, ClickHouse and PostgreSQL (make
// test-stack).
package stack

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestMain(m *testing.M) { systemtest.Main(m) }

// The scaled service on the real engines. make test-stack starts them and says where.

// TestStoryOnTheStack runs the demo's story on three gateways, two loaders and two
// control processes, one of each killed in the middle.
func TestStoryOnTheStack(t *testing.T) {
	t.Parallel()
	e := systemtest.Engines(t)
	out := systemtest.Command(t, "demo", "--stack", "--deliveries", fmt.Sprint(systemtest.Times(2000, 6000)),
		"--kafka", e.Kafka, "--clickhouse", e.ClickHouse, "--database", e.Database)
	require.Regexp(t, `metered \+ suppressed \+ duplicates +[\d,]+  =`, out)
}

// TestContractOnTheStack runs the embedded service's checks on the scaled one. Most of
// it waits until something is loaded, and may wait together; not so what compares times.
func TestContractOnTheStack(t *testing.T) {
	t.Parallel()
	s, _ := scaledOut(t)
	t.Run("foreign ids", func(t *testing.T) { storytest.ForeignResources(t, s) })
	for name, test := range map[string]func(*testing.T, *systemtest.Service){
		"scripts": storytest.Scripts, "scopes": storytest.ScopeMatrix, "foreign ids in the sandbox": storytest.ForeignResourcesInSandbox, "audit": storytest.AuditWrites,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// TestRollingRestartOnTheStack restarts one gateway after the other behind a plain balancer, under load:
// no request fails.
func TestRollingRestartOnTheStack(t *testing.T) {
	t.Parallel()
	c := cluster(t, system.Size{Gateways: 3, Loaders: 1, Controls: 2, Partitions: 3})
	client, rights := systemtest.RegisterOn(t, c)
	var addrs []string
	for _, a := range c.APIs() {
		addrs = append(addrs, systemtest.HostPort(a))
	}
	front, err := system.NewBalancer(addrs...)
	require.NoError(t, err)
	defer front.Close()
	load := systemtest.StartCallers(t, 32, "http://"+front.Addr(), client.Key, rights["DOOH"])
	load.More(500)
	for i := range c.Gateways {
		require.NoError(t, c.Gateways[i].Stop())
		load.More(200)
		require.NoError(t, c.StartGateway(t.Context(), i))
		load.More(500)
	}
	load.End()
	require.Equal(t, []string{"200"}, slices.Collect(maps.Keys(load.Since(time.Time{}))))
}

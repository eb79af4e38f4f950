package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
)

// The scaled service on the real engines. make test-stack starts them and says where.

// TestStoryOnTheStack runs the demo's story on three gateways, two loaders and two
// control processes, one of each killed in the middle.
func TestStoryOnTheStack(t *testing.T) {
	e := engines(t)
	out := muniment(t, "demo", "--stack", "--deliveries", fmt.Sprint(times(2000, 6000)),
		"--kafka", e.Kafka, "--clickhouse", e.ClickHouse, "--database", e.Database)
	require.Regexp(t, `metered \+ suppressed \+ duplicates +[\d,]+  =`, out)
}

// TestContractOnTheStack runs the embedded service's checks on the scaled one. Most of
// it waits until something is loaded, and may wait together; not so what compares times.
func TestContractOnTheStack(t *testing.T) {
	s, _ := scaledOut(t)
	t.Run("foreign ids", func(t *testing.T) { foreignResources(t, s) })
	for name, test := range map[string]func(*testing.T, *service){
		"scripts": playScripts, "scopes": scopeMatrix, "foreign ids in the sandbox": foreignInSandbox, "audit": auditWrites,
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
	c := cluster(t, system.Size{Gateways: 3, Loaders: 1, Controls: 2, Partitions: 3})
	client, rights := registerOn(t, c)
	var addrs []string
	for _, a := range c.APIs() {
		addrs = append(addrs, hostPort(a))
	}
	front, err := system.NewBalancer(addrs...)
	require.NoError(t, err)
	defer front.Close()
	load := startCallers(t, 32, "http://"+front.Addr(), client.Key, rights["DOOH"])
	load.more(500)
	for i := range c.Gateways {
		require.NoError(t, c.Gateways[i].Stop())
		load.more(200)
		require.NoError(t, c.StartGateway(t.Context(), i))
		load.more(500)
	}
	load.end()
	require.Equal(t, []string{"200"}, slices.Collect(maps.Keys(load.since(time.Time{}))))
}

package clickhouse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
)

// Where the servers under test are, and which cluster they are replicas of, if any:
// deploy/stack/clickhouse.sh env and clickhouse-cluster.sh env print them.
const (
	native  = "MUNIMENT_TEST_CLICKHOUSE"
	http    = "MUNIMENT_TEST_CLICKHOUSE_HTTP"
	cluster = "MUNIMENT_TEST_CLICKHOUSE_CLUSTER"
)

var databases atomic.Int64

// inDatabase is the server's URL for a database.
func inDatabase(tb testing.TB, server, name string) string {
	tb.Helper()
	scheme, rest, ok := strings.Cut(server, "://")
	require.True(tb, ok, "no URL: %s", server)
	hosts, _, _ := strings.Cut(rest, "/") // of several hosts net/url can make nothing
	return scheme + "://" + hosts + "/" + name
}

// onServer is how to reach a database. On a cluster the connections go to the replicas by
// alternation: each query of one is then sent to the other.
func onServer(tb testing.TB, server, name string) Config {
	tb.Helper()
	cfg := Config{URL: inDatabase(tb, server, name), Cluster: os.Getenv(cluster)}
	if cfg.Cluster != "" {
		cfg.URL += "?connection_open_strategy=round_robin"
	}
	return cfg
}

// fresh is a database of its own, dropped when the test ends.
func fresh(tb testing.TB, server string) Config {
	tb.Helper()
	name := fmt.Sprintf("muniment_test_%d_%d", os.Getpid(), databases.Add(1))
	cfg := onServer(tb, server, name)
	dropped(tb, cfg, name)
	_, err := Migrate(tb.Context(), cfg, false)
	require.NoError(tb, err)
	return cfg
}

// dropped drops a database now and when the test ends.
func dropped(tb testing.TB, cfg Config, name string) {
	tb.Helper()
	opt, err := cfg.options()
	require.NoError(tb, err)
	statement := "DROP DATABASE IF EXISTS " + quoted(name) + onCluster(cfg.Cluster)
	if cfg.Cluster != "" {
		statement += " SYNC" // else the name of a table's replica stays taken for minutes
	}
	drop := func() { require.NoError(tb, execute(context.Background(), opt, "", statement)) }
	drop()
	tb.Cleanup(drop)
}

// mustOpen opens a warehouse; the test closes it.
func mustOpen(tb testing.TB, cfg Config) *Warehouse {
	tb.Helper()
	w, err := Open(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, w.Close()) })
	return w
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{native, http} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			server := stacktest.Variable(t, protocol)
			conform.Warehouse(t, 4, func(tb testing.TB) conform.WarehouseEngine {
				cfg := fresh(tb, server)
				return conform.WarehouseEngine{
					Warehouse: mustOpen(tb, cfg),
					Reopen:    func() pipeline.Warehouse { return mustOpen(tb, cfg) },
				}
			})
		})
	}
}

// freePorts is the first of n ports of the loopback interface without a listener,
// below those that the system gives to outgoing connections, and those of the brokers
// under test: they stay free while a server is restarted.
func freePorts(n int) int {
	free := func(port int) bool {
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		return err == nil && listener.Close() == nil
	}
search:
	for {
		first := 20_000 + rand.IntN(9_000)
		for port := range n {
			if !free(first + port) {
				continue search
			}
		}
		return first
	}
}

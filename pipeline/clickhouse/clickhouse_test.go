package clickhouse

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/pipeline/conform"
)

// Where the servers under test are: deploy/stack/clickhouse.sh env prints both.
const (
	native = "MUNIMENT_TEST_CLICKHOUSE"
	http   = "MUNIMENT_TEST_CLICKHOUSE_HTTP"
)

// variable is an address of the environment, without which the test is skipped.
func variable(tb testing.TB, name string) string {
	tb.Helper()
	value := os.Getenv(name)
	if value == "" {
		tb.Skipf("SKIPPED: %s is not set, nothing was tested against ClickHouse (deploy/stack/clickhouse.sh up starts one)", name)
	}
	return value
}

var databases atomic.Int64

// inDatabase is the server's URL for a database.
func inDatabase(tb testing.TB, server, name string) string {
	tb.Helper()
	u, err := url.Parse(server)
	require.NoError(tb, err)
	u.Path = "/" + name
	return u.String()
}

// fresh is a database of its own, dropped when the test ends.
func fresh(tb testing.TB, server string) Config {
	tb.Helper()
	name := fmt.Sprintf("muniment_test_%d_%d", os.Getpid(), databases.Add(1))
	cfg := Config{URL: inDatabase(tb, server, name)}
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
	drop := func() {
		require.NoError(tb, execute(context.Background(), opt, "", "DROP DATABASE IF EXISTS "+quoted(name)))
	}
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
	// An insert costs a server some ten times what it costs a file.
	require.NoError(t, flag.Set("rapid.checks", "15"))
	for _, protocol := range []string{native, http} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // a case waits for the server's disk most of the time
			server := variable(t, protocol)
			conform.Warehouse(t, func(tb testing.TB) conform.WarehouseEngine {
				cfg := fresh(tb, server)
				return conform.WarehouseEngine{
					Warehouse: mustOpen(tb, cfg),
					Reopen:    func() pipeline.Warehouse { return mustOpen(tb, cfg) },
				}
			})
		})
	}
}

// freePort is a port of the loopback interface that nobody listens on, below those that
// the system gives to outgoing connections: it stays free while a server is restarted.
func freePort(tb testing.TB) string {
	tb.Helper()
	for {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			require.NoError(tb, listener.Close())
			return port
		}
	}
}

package stack

import (
	"math/rand/v2"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer"
)

// warehouseAt is a database of its own on the stack's ClickHouse.
func warehouseAt(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(systemtest.ClickHouse(t))
	require.NoError(t, err)
	u.Path = "/" + strings.ReplaceAll(name, ".", "_")
	return u.String()
}

// cluster raises one whose processes have some variables besides, and ends it with the test.
func cluster(t *testing.T, size system.Size, env ...string) *system.Cluster {
	t.Helper()
	c := &system.Cluster{Exe: "muniment", Dir: t.TempDir(), Engines: systemtest.Engines(t)}
	c.Engines.Env = append(c.Engines.Env, env...)
	t.Cleanup(func() {
		c.End()
		if t.Failed() {
			logErrors(t, c.Dir)
		}
	})
	require.NoError(t, c.Raise(t.Context(), size))
	return c
}

// logErrors shows what the processes of a folder have logged as errors.
func logErrors(t *testing.T, dir string) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	for _, name := range logs {
		for line := range strings.Lines(string(systemtest.ReadFile(t, name))) {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, `"level":"ERROR"`) {
				t.Logf("%s: %.2000s", filepath.Base(name), line)
			}
		}
	}
}

// scaledOut is two gateways, two control processes and a loader. A request goes to any of
// the gateways, and on to any of control's processes, whichever had the one before.
func scaledOut(t *testing.T, env ...string) (*systemtest.Service, *system.Cluster) {
	c := cluster(t, system.Size{Gateways: 2, Loaders: 1, Controls: 2, Partitions: 4}, append(env, limits...)...)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(c.APIs()[rand.N(len(c.Gateways))])
		require.NoError(t, err)
		r.SetURL(to)
		r.Out.Host = r.In.Host // links lead to the front
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	warehouse, err := clickhouse.Open(t.Context(), clickhouse.Config{URL: c.ClickHouse})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	events := func(tenantID string, after *sealer.Position) (list []systemtest.Logged) {
		rows, err := warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenantID, After: after, Limit: 500})
		require.NoError(t, err)
		for _, row := range rows {
			list = append(list, systemtest.ReadLogged(t, row.Position, row.Record.Event))
		}
		return list
	}
	s := systemtest.NotStarted(t, c.Operator().Data)
	s.Server, s.Client.API, s.Events = &system.Server{API: front.URL, Admin: c.Operator().Admin, Data: s.Data}, front.URL, events
	return s, c
}

// limits are as contractFlags are.
var limits = []string{"MUNIMENT_TRUSTED_PROXIES=1", "MUNIMENT_SANDBOX_BURST=200"}

func newScaled(t *testing.T) *systemtest.Scaled {
	t.Helper()
	server := stacktest.Postgres(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	s := &systemtest.Scaled{
		Data: filepath.Join(t.TempDir(), "data"), Kafka: strings.Join(cluster.ListenAddrs(), ","),
		Topic: kafka.DefaultTopic, Clickhouse: "clickhouse://127.0.0.1:1/muniment",
	}
	s.Database = storetest.Empty(t, server, s.Data)
	return s
}

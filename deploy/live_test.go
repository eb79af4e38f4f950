//go:build tools

package deploy

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/system"
	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/deploy/alerttest"
	"muniment.example/gateway"
	"muniment.example/gateway/certs"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/copies"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
)

// TestLive lets a real Prometheus scrape a service at work, and runs the queries of the
// dashboards and the rules: each result has data, with the labels that its
// legend shows. The service is muniment up, which must be built, and beside it the
// parts that only a process of the scaled service has.
func TestLive(t *testing.T) {
	api, admin := serveUp(t)
	scaled := serveScaled(t)
	prom := alerttest.StartPrometheus(t, "prometheus/rules.yml", 500*time.Millisecond, alerttest.Scraped{Job: "muniment", Targets: []string{admin, scaled}})
	deliver(t, api)

	for _, r := range rules(t, shown{}) {
		// An alert is quiet, and so are the records of what is away or late, and of what failed at control.
		quiet := r.Alert != "" || strings.HasSuffix(r.Record, ":count") || strings.HasSuffix(r.Record, ":bool") || strings.HasPrefix(r.Record, "muniment:control_errors:")
		prom.Require(t, r.Record+r.Alert, r.Expr, "", !quiet)
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "10s")
				prom.Require(t, d.Title+": "+p.Title, expr, target.LegendFormat, true)
			}
		}
	}
	var health struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	prom.Get(t, "/api/v1/rules", nil, &health)
	require.NotEmpty(t, health.Groups)
	for _, g := range health.Groups {
		for _, r := range g.Rules {
			require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
		}
	}
}

// serveUp runs the embedded service.
func serveUp(t *testing.T) (api system.Client, admin string) {
	t.Helper()
	exe, err := filepath.Abs("../bin/muniment")
	require.NoError(t, err)
	data := filepath.Join(t.TempDir(), "data")
	server, err := system.StartServer(t.Context(), exe, data, "127.0.0.1:0", "127.0.0.1:0")
	require.NoError(t, err, "is the binary built?")
	t.Cleanup(server.Kill)
	key, err := exec.Command(exe, "tenant", "create", "--data", data, "--org", "org_a", "--another", "--key-only").Output()
	require.NoError(t, err)
	return system.Client{API: server.API, Key: strings.TrimSpace(string(key))}, server.Admin
}

// deliver has the gate pass and refuse deliveries while the test runs, and packs sealed.
func deliver(t *testing.T, client system.Client) {
	t.Helper()
	right := issueRight(t, client, "AUTOMOTIVE")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			err := client.Do(ctx, "POST", "/v1/delivery", map[string]any{
				"rightId": right, "spatialAnchorId": "dash", "dwellMs": 5000,
				"telemetry": map[string]any{"speedMph": n % 2 * 65},
			}, nil)
			if err != nil && !strings.Contains(err.Error(), "answered 412") && ctx.Err() == nil {
				done <- err
				return
			}
			if n%100 == 0 {
				if err := client.Do(ctx, "POST", "/v1/proof-packs/seal", map[string]any{}, nil); err != nil && ctx.Err() == nil {
					done <- err
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

// openSpooled opens the log of a node on a topic, with the spool in dir, on brokers of its own.
func openSpooled(t *testing.T, all *prometheus.Registry, dir string, of segment.Config, cfg kafka.SpoolConfig) (*kfake.Cluster, *kafka.Log, *kafka.Spooled) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	brokers := kafka.Config{Brokers: cluster.ListenAddrs(), Registerer: all}
	_, err = kafka.Topic{Replication: 1}.Migrate(t.Context(), brokers, false)
	require.NoError(t, err)
	topic, err := kafka.Open(brokers)
	require.NoError(t, err)
	of.Dir, of.Registerer = filepath.Join(dir, "spool"), prometheus.WrapRegistererWith(prometheus.Labels{"log": "spool"}, all)
	spool, err := segment.Open(of)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spool.Close()) })
	cfg.Log, cfg.Spool, cfg.Mark, cfg.Registerer = topic, spool, filepath.Join(dir, "mark"), all
	spooled, err := kafka.OpenSpooled(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spooled.Close()) })
	return cluster, topic, spooled
}

// serveScaled opens the log of an edge on a topic, with a certificate, and writes to it,
// and loads what is written.
func serveScaled(t *testing.T) (admin string) {
	t.Helper()
	all, dir := prometheus.NewRegistry(), t.TempDir()
	_, topic, spooled := openSpooled(t, all, dir, segment.Config{}, kafka.SpoolConfig{})
	log, err := copies.Open(copies.Config{Promise: spooled, Dir: filepath.Join(dir, "copies"), Registerer: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	group, err := topic.Group(kafka.GroupConfig{})
	require.NoError(t, err)
	fleet, err := pipeline.NewFleet(pipeline.FleetConfig{Assignment: group, Loader: pipeline.LoaderConfig{
		Log: topic, Warehouse: warehouse, RetentionUsed: topic.RetentionUsed, Registerer: all,
	}})
	require.NoError(t, err)
	away, err := clickhouse.Open(t.Context(), clickhouse.Config{URL: "clickhouse://u:p@127.0.0.1:1/muniment", Away: true, Registerer: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, away.Close()) })
	joinControl(t, all, dir)
	cert, key := certificate(t, dir)
	_, err = certs.Server(certs.Options{Use: "api", Registerer: all}, certs.ServerFlags{Cert: cert, Key: key})
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var works sync.WaitGroup
	works.Go(func() { _ = fleet.Run(ctx) }) // a loader that stops is seen in the metrics
	works.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, _ = log.Append(ctx, &sealer.Record{TenantID: "tnt_a", EventID: fmt.Sprintf("evt_%026d", n),
				Node: "nod_a", Epoch: 1, Seq: uint64(n + 1), Event: fmt.Appendf(nil, `{"n":%d}`, n)})
		}
	})
	t.Cleanup(func() { stop(); works.Wait() })
	server := httptest.NewServer(gateway.Admin{Gatherer: all}.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

// joinControl has a node join a control of its own.
func joinControl(t *testing.T, all prometheus.Registerer, dir string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "control.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	keys, err := signing.New(t.Context(), signing.Config{DB: db, Dir: filepath.Join(dir, "keys")})
	require.NoError(t, err)
	nodes, err := node.New(t.Context(), node.Config{DB: db, Keys: keys, Registerer: all})
	require.NoError(t, err)
	none := func(context.Context, string) (int64, error) { return 0, nil }
	tenants, err := tenant.New(tenant.Config{DB: db, Nodes: nodes, Counters: tenant.Counters{Bases: none, Rights: none, Events: none}})
	require.NoError(t, err)
	log, err := segment.Open(segment.Config{Dir: filepath.Join(dir, "audit")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	ctl, err := control.New(control.Config{DB: db, Keys: keys, Nodes: nodes, Tenants: tenants, Log: log, Services: []control.Service{keys, tenants}, AdminToken: "token"})
	require.NoError(t, err)
	join(t, all, dir, ctl, nodes)
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/objects/s3test"
	"muniment.example/control/plane"
	"muniment.example/deploy/process"
)

// TestRefusedAtStart: who is refused while control starts can name the request.
func TestRefusedAtStart(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/v1/rights", nil)
	r.Header.Set("X-Request-Id", "req-1")
	w := httptest.NewRecorder()
	new(refusesAtStart).ServeHTTP(w, r)
	require.Equal(t, 503, w.Code)
	systemtest.RequireEnvelope(t, systemtest.Response{Status: w.Code, Header: w.Header(), Body: w.Body.String()})
}

// TestDatabaseGaugeAtStart: while control waits for PostgreSQL, a metric shows that it does not answer.
func TestDatabaseGaugeAtStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := &process.Process{Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Ctx: ctx}
	var c controlCmd
	c.Database, c.ClickHouse = "postgres://u:p@127.0.0.1:1/muniment?sslmode=disable", "clickhouse://u:p@127.0.0.1:1/muniment"
	waits, opened := process.NewAwaited(errors.New("control starts")), make(chan error, 1)
	go func() {
		_, _, _, err := c.openEngines(p, waits)
		opened <- err
	}()
	waittest.Until(t, func() bool { return strings.Contains(waits.Ready(t.Context()).Error(), "database") })
	require.NoError(t, testutil.GatherAndCompare(p.Registry, strings.NewReader(`
# HELP muniment_database_ready 1 if PostgreSQL answers, else 0.
# TYPE muniment_database_ready gauge
muniment_database_ready 0
`), "muniment_database_ready"))
	cancel()
	require.ErrorIs(t, <-opened, context.Canceled)
	require.NoError(t, p.Close())
}

// TestBucketOfPacksAtStart: control waits for a bucket that does not answer, and refuses one whose store would let
// two processes overwrite each other's packs.
func TestBucketOfPacksAtStart(t *testing.T) {
	const fine, away, careless = 0, 1, 2
	var behaves atomic.Int32
	url := s3test.Bucket(t, func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch behaves.Load() {
			case away:
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			case careless:
				r.Header.Del("If-None-Match")
			}
			store.ServeHTTP(w, r)
		})
	})
	p := &process.Process{Logger: slog.New(slog.DiscardHandler), Ctx: t.Context()}
	c := controlCmd{Data: t.TempDir(), Packs: url}
	waits, opened := process.NewAwaited(errors.New("control starts")), make(chan error, 1)
	behaves.Store(away)
	go func() {
		_, err := c.openPacks(p, waits)
		opened <- err
	}()
	waittest.Until(t, func() bool { return strings.Contains(waits.Ready(t.Context()).Error(), "bucket of packs") })
	behaves.Store(fine)
	require.NoError(t, <-opened)
	require.Equal(t, filepath.Join(c.Data, "packs"), c.packsDir())

	behaves.Store(careless)
	_, err := c.openPacks(p, waits)
	require.ErrorContains(t, err, "--packs: the store of the bucket evidence ignores If-None-Match")
	c.Packs = "gs://evidence"
	_, err = c.openPacks(p, waits)
	require.ErrorContains(t, err, "--packs: cannot open the bucket: a URL of gs://")
	c.Packs = filepath.Join(c.Data, "elsewhere")
	_, err = c.openPacks(p, waits)
	require.NoError(t, err)
	require.DirExists(t, c.packsDir())
	require.Equal(t, c.Packs, c.packsDir())
}

// TestBundlesBesidePacks: who keeps packs in a bucket keeps bundles in one, too.
func TestBundlesBesidePacks(t *testing.T) {
	for _, c := range []struct {
		packs, bundles string
		refused        bool
	}{
		{"", "", false}, {"/packs", "/bundles", false}, {"", "s3://bundles", false},
		{"s3://packs", "", true}, {"s3://packs", "/bundles", true}, {"s3://packs", "s3://bundles", false},
	} {
		err := (&controlCmd{
			Packs: c.packs, Plane: plane.Flags{Exports: plane.ExportFlags{Bundles: c.bundles}}, databaseFlags: databaseFlags{Database: "postgres://localhost/muniment"},
			clickhouseFlags: clickhouseFlags{ClickHouse: "clickhouse://localhost:9000/muniment"},
		}).Validate()
		if c.refused {
			require.ErrorContains(t, err, "--bundles 's3://NAME?region=REGION&prefix=bundles/'", c)
		} else {
			require.NoError(t, err, c)
		}
	}
}

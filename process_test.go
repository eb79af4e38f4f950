package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/netutil"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/objects/s3test"
	"muniment.example/gateway/certs"
)

func TestMain(m *testing.M) { systemtest.Main(m) }

// startingProcess is a process until its signal is received.
func startingProcess(t *testing.T) (p *process, signal context.CancelFunc) {
	p = &process{logger: slog.New(slog.DiscardHandler)}
	p.signalled, signal = context.WithCancel(t.Context())
	p.ctx, p.fail = context.WithCancelCause(p.signalled)
	t.Cleanup(func() { p.fail(nil) })
	return p, signal
}

// TestFailureDuringTheStart ends the process with its error, and not as if it was signalled,
// which it often is next: what watches it sees that it isn't ready.
func TestFailureDuringTheStart(t *testing.T) {
	p, signal := startingProcess(t)
	broken := errors.New("the spool is broken")
	p.fail(broken)
	<-p.ctx.Done()
	opening := fmt.Errorf("cannot open the identity: %w", p.ctx.Err())
	other := errors.New("cannot open")
	for _, then := range []func(){func() {}, signal} {
		then()
		require.Equal(t, broken, p.failure())
		for _, p.started = range []bool{false, true} {
			require.Equal(t, broken, p.outcome(opening))
			require.Equal(t, broken, p.outcome(nil))
			require.Equal(t, broken, p.outcome(broken))
			require.ErrorIs(t, p.outcome(other), other)
			require.ErrorIs(t, p.outcome(other), broken)
		}
	}
}

// TestStopDuringTheStart is no failure, also when one follows from it.
func TestStopDuringTheStart(t *testing.T) {
	p, signal := startingProcess(t)
	require.NoError(t, p.failure())
	signal()
	<-p.ctx.Done()
	p.fail(errors.New("the spool is closed"))
	require.NoError(t, p.failure())
	require.NoError(t, p.outcome(fmt.Errorf("cannot open the identity: %w", p.ctx.Err())))
	p.started = true
	require.NoError(t, p.outcome(nil))
}

// TestProcessClosesInReverse: parts stop before what was opened sooner, and the first error
// counts.
func TestProcessClosesInReverse(t *testing.T) {
	var order []string
	closer := func(name string) func() error {
		return func() error {
			order = append(order, name)
			return errors.New(name)
		}
	}
	err := new(serverFlags).run("test", func(p *process) error {
		p.atEnd(closer("database"))
		p.parts().run("the loader", func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, "loader")
			return nil
		})
		p.atEnd(closer("node"))
		return nil
	})
	require.EqualError(t, err, "node")
	require.Equal(t, []string{"node", "loader", "database"}, order)
}

// TestDoorHasRoomForSoMany: one connection more waits until another has gone.
func TestDoorHasRoomForSoMany(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	go func() { served <- serve(ctx, netutil.LimitListener(ln, 2), answer) }()
	connect := func() net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: door\r\n\r\n")
		require.NoError(t, err)
		return c
	}
	answered := func(c net.Conn) error {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		return err
	}
	first, second := connect(), connect()
	require.NoError(t, answered(first))
	require.NoError(t, answered(second))
	third := connect()
	waited := make(chan error, 1)
	go func() { waited <- answered(third) }()
	_, err = io.WriteString(second, "GET / HTTP/1.1\r\nHost: door\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, answered(second))
	require.Empty(t, waited, "a request that came later on an open connection was answered first")
	require.NoError(t, first.Close())
	require.NoError(t, <-waited)
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
	stop()
	require.NoError(t, <-served)
}

// TestMakeDataDir makes its own folders and opens them again, and leaves others' alone.
func TestMakeDataDir(t *testing.T) {
	for _, c := range []struct {
		holds   string // a file; "" is nothing
		foreign bool
	}{
		{"", false}, {"LOCK", false}, {"control.db", false}, {"keys/root.vkey", false}, {"admin.json", false}, {"lost+found/x", false}, {".cache", false},
		{"letter", true}, {"keys/id_rsa", true}, {"packs/x", true},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if c.holds != "" {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, c.holds)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.holds), nil, 0o600))
		}
		err := makeDataDir(dir)
		if c.foreign {
			require.ErrorIs(t, err, errForeign, c.holds)
			continue
		}
		require.NoError(t, err, c.holds)
		require.DirExists(t, dir)
	}
}

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
	p := &process{logger: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry(), ctx: ctx}
	var c controlCmd
	c.Database, c.ClickHouse = "postgres://u:p@127.0.0.1:1/muniment?sslmode=disable", "clickhouse://u:p@127.0.0.1:1/muniment"
	waits, opened := newAwaited(errors.New("control starts")), make(chan error, 1)
	go func() {
		_, _, _, err := c.openEngines(p, waits, nil)
		opened <- err
	}()
	waittest.Until(t, func() bool { return strings.Contains(waits.Ready(t.Context()).Error(), "database") })
	require.NoError(t, testutil.GatherAndCompare(p.registry, strings.NewReader(`
# HELP muniment_database_ready 1 if PostgreSQL answers, else 0.
# TYPE muniment_database_ready gauge
muniment_database_ready 0
`), "muniment_database_ready"))
	cancel()
	require.ErrorIs(t, <-opened, context.Canceled)
	for _, release := range p.closers {
		require.NoError(t, release())
	}
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
	p := &process{logger: slog.New(slog.DiscardHandler), ctx: t.Context()}
	c := controlCmd{Data: t.TempDir(), Packs: url}
	waits, opened := newAwaited(errors.New("control starts")), make(chan error, 1)
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
		err := (&controlCmd{Packs: c.packs, Exports: exportFlags{Bundles: c.bundles}}).Validate()
		if c.refused {
			require.ErrorContains(t, err, "--bundles 's3://NAME?region=REGION&prefix=bundles/'", c)
		} else {
			require.NoError(t, err, c)
		}
	}
}

// TestControlInClear lets API keys go to control without TLS on this machine alone.
func TestControlInClear(t *testing.T) {
	p := &process{logger: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry()}
	for control, refused := range map[string]bool{
		"127.0.0.1:8081": false, "[::1]:8081": false, "localhost:8081": false,
		"control:8081": true, "10.0.0.1:8081": true, "127.0.0.1.example.com:8081": true, "": true,
	} {
		c := gatewayCmd{Control: []string{"127.0.0.1:1", control}, Nodes: []string{"https://control:8082"}}
		_, err := c.openHops(p)
		if refused {
			require.ErrorContains(t, err, "--control-ca", control)
		} else {
			require.NoError(t, err, control)
		}
		c.ControlTLS = certs.ClientFlags{TLS: true}
		_, err = c.openHops(p)
		require.NoError(t, err, control)
	}
}

// TestBaseOfEveryAddress: a link leads to localhost where the server listens on every address.
func TestBaseOfEveryAddress(t *testing.T) {
	for url, base := range map[string]string{
		"http://127.0.0.1:9090": "http://127.0.0.1:9090", "http://[::]:9090": "http://localhost:9090", "https://0.0.0.0:9090": "https://localhost:9090", "https://[::1]:1": "https://[::1]:1",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, adminFile), []byte(`{"url":"`+url+`","token":"x"}`), 0o600))
		got, err := (&running{Data: dir}).Base()
		require.NoError(t, err)
		require.Equal(t, base, got)
	}
	_, err := (&running{Data: t.TempDir()}).Base()
	require.ErrorContains(t, err, "no server runs on")
}

// TestEveryProcessTellsItsBuild: all that serve begin with the same registry.
func TestEveryProcessTellsItsBuild(t *testing.T) {
	b := thisBuild()
	require.NoError(t, testutil.GatherAndCompare(newRegistry(), strings.NewReader(`
		# HELP muniment_build_info The program that runs; always 1.
		# TYPE muniment_build_info gauge
		muniment_build_info{goversion="`+b.GoVersion+`",revision="`+b.Revision+`",version="`+b.Version+`"} 1
	`), "muniment_build_info"))
}

// TestTracesFlags: what can't be exported to is refused when the process starts, and without an endpoint nothing is traced.
func TestTracesFlags(t *testing.T) {
	for flags, want := range map[tracesFlags]string{
		{}:                             "",
		{Endpoint: "http://collector"}: "",
		{Endpoint: "collector:4318"}:   "--traces-endpoint must begin with http:// or https://",
		{Endpoint: "http://user:password@collector"}: "--traces-endpoint must begin with",
		{CA: "ca.pem"}: "--traces-ca needs a --traces-endpoint that begins with https://",
		{Endpoint: "http://collector", CA: "ca.pem"}:           "--traces-ca needs a --traces-endpoint",
		{Endpoint: "https://collector", CA: "/no such folder"}: "TLS for traces",
	} {
		var traced bool
		err := (&serverFlags{Traces: flags}).run("test", func(p *process) error {
			traced = p.tracer != nil
			return nil
		})
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, flags.Endpoint != "", traced)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "password")
	}
}

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	rw := httptest.NewRecorder()
	h.ServeHTTP(rw, httptest.NewRequest(http.MethodGet, path, nil))
	body, err := io.ReadAll(rw.Body)
	require.NoError(t, err)
	return rw.Code, string(body)
}

func TestAdmin(t *testing.T) { synctest.Test(t, admin) }

func admin(t *testing.T) {
	var broken error
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}))
	h := Admin{
		Gatherer: reg,
		Checks: []Check{
			{"gateway", func(context.Context) error { return nil }},
			{"log", func(context.Context) error { return broken }},
		},
		Notes: []Note{
			{"loader", func(context.Context) (string, error) { return "12 records behind", nil }},
			{"warehouse", func(context.Context) (string, error) { return "", errors.New("away") }},
		},
		Mount: map[string]http.Handler{"/admin/": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "mounted") })},
	}.Handler()

	status, body := get(t, h, "/readyz")
	require.Equal(t, 200, status)
	const notes = `"notes":[{"name":"loader","note":"12 records behind"},{"name":"warehouse","note":"away"}]}` + "\n"
	require.Equal(t, `{"ready":true,`+notes, body)
	broken = errors.New("disk full")
	status, body = get(t, h, "/readyz")
	require.Equal(t, 503, status)
	require.Equal(t, `{"ready":false,"notReady":[{"name":"log","reason":"disk full"}],`+notes, body)
	status, body = get(t, h, "/livez")
	require.Equal(t, 200, status, "liveness depends on nothing")
	require.Equal(t, "{\"live\":true}\n", body)
	_, body = get(t, h, "/metrics")
	require.Contains(t, body, "x 0")
	_, body = get(t, h, "/admin/tenants")
	require.Equal(t, "mounted", body)
	status, body = get(t, h, "/debug/pprof/goroutine?debug=1")
	require.Equal(t, 401, status, "there is no token")
	require.Contains(t, body, `"error":"AUTH_REQUIRED"`)
	status, _ = get(t, h, "/v1/delivery")
	require.Equal(t, 404, status)
}

// TestReadinessDoesNotHang checks parts that never answer: all that is well is still
// found to be so.
func TestReadinessDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		h := Admin{
			Gatherer: prometheus.NewRegistry(),
			Checks:   []Check{{"log", hang}, {"control", hang}, {"gateway", context.Context.Err}},
			Notes:    []Note{{"warehouse", func(ctx context.Context) (string, error) { return "", hang(ctx) }}},
		}.Handler()
		began := time.Now()
		status, body := get(t, h, "/readyz")
		require.Equal(t, 503, status)
		const late = `"context deadline exceeded"}`
		require.Equal(t, `{"ready":false,"notReady":[{"name":"log","reason":`+late+`,{"name":"control","reason":`+late+`],`+
			`"notes":[{"name":"warehouse","note":`+late+"]}\n", body)
		require.Equal(t, probeTime, time.Since(began))
	})
}

// TestReadinessLeavesWhatHangs checks parts that go on when their time is over.
func TestReadinessLeavesWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		h := Admin{
			Gatherer: prometheus.NewRegistry(),
			Notes:    []Note{{"warehouse", func(context.Context) (string, error) { <-release; return "", nil }}},
		}.Handler()
		began := time.Now()
		status, body := get(t, h, "/readyz")
		require.Equal(t, 200, status)
		require.Equal(t, `{"ready":true,"notes":[{"name":"warehouse","note":"context deadline exceeded"}]}`+"\n", body)
		require.Equal(t, probeTime, time.Since(began))
	})
}

// TestControlReady probes a control that is well, slow, broken, and unreachable.
func TestControlReady(t *testing.T) {
	var status atomic.Int32
	leave := make(chan struct{})
	defer close(leave)
	serve := withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		if status.Load() == 0 {
			<-leave
			return
		}
		rw.WriteHeader(int(status.Load()))
	})
	var away atomic.Bool
	w := newWorld(t, func(c *settings) {
		serve(c)
		dial := c.DialControl[0]
		c.DialControl[0] = func() (net.Conn, error) {
			if away.Load() {
				return nil, errors.New("no route to host")
			}
			return dial()
		}
	})
	do := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return w.gateway.ControlReady(ctx)
	}
	for code, ready := range map[int32]bool{200: true, 404: true, 429: true, 500: false, 503: false} {
		status.Store(code)
		require.Equal(t, ready, do(time.Hour) == nil, code)
	}
	status.Store(0)
	require.ErrorIs(t, do(time.Millisecond), context.DeadlineExceeded)
	away.Store(true)
	require.ErrorContains(t, do(time.Hour), "no route to host")
}

func TestCounters(t *testing.T) {
	w := newWorld(t, nil)
	car := w.putRight(4, "tnt_a", gate.Automotive, "", api.RightActive)
	for range 3 {
		w.post(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":65}}`, car))
	}
	w.post(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, car))
	w.post(w.body(), "Idempotency-Key: k")
	w.post("{")
	m := w.gateway.metrics
	waittest.Until(t, func() bool { return testutil.ToFloat64(m.requests.WithLabelValues("delivery", "400")) == 1 })
	require.Equal(t, 3.0, testutil.ToFloat64(m.requests.WithLabelValues("delivery", "412")))
	require.Equal(t, 2.0, testutil.ToFloat64(m.requests.WithLabelValues("delivery", "200")))
	require.Equal(t, 3.0, w.metric("muniment_gateway_refusals_total", "automotive-speed"))
	require.Equal(t, 1.0, w.metric("muniment_gateway_deliveries_total", "METERED"))
	require.Equal(t, 1.0, w.metric("muniment_gateway_deliveries_total", "SPEED_UNKNOWN"))
	require.Equal(t, 1, w.remembered())
	problems, err := testutil.GatherAndLint(w.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestRefusalsAreWritten stops a gateway: what was refused since the last minute
// stands in one event for each tenant.
func TestRefusalsAreWritten(t *testing.T) {
	w := newWorld(t, nil)
	car := w.putRight(4, "tnt_a", gate.Automotive, "", api.RightActive)
	drone := w.putRight(5, "tnt_b", gate.Drone, "", api.RightActive)
	for range 3 {
		w.post(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":65,"licensedRegionMatch":false}}`, car))
	}
	w.raw(request(w.otherToken, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, drone)))
	require.Empty(t, w.log.All())
	require.NoError(t, w.end())

	events := map[string]string{}
	for _, e := range w.log.All() {
		event, err := sealer.ParseEvent(e.Event)
		require.NoError(t, err)
		require.Equal(t, "gate.refusals", event.Type)
		require.Equal(t, sealer.Ref{Kind: "node", ID: "nod_1"}, event.Actor)
		require.Equal(t, sealer.Ref{Kind: "tenant", ID: event.TenantID}, event.Subject)
		events[event.TenantID] = string(event.Data)
	}
	const window = `"from":"2026-11-21T04:00:00.123Z","to":"2026-11-21T04:00:00.123Z"}`
	require.Equal(t, map[string]string{
		"tnt_a": fmt.Sprintf(`{"counts":[{"count":3,"rightId":%q,"rule":"automotive-speed"},{"count":3,"rightId":%q,"rule":"licensed-region-mismatch"}],`, car, car) + window,
		"tnt_b": fmt.Sprintf(`{"counts":[{"count":1,"rightId":%q,"rule":"drone-remote-id-missing"}],`, drone) + window,
	}, events)
}

func TestConfigNamesTheBadField(t *testing.T) {
	w := newWorld(t, nil)
	for field, spoil := range map[string]func(*Config){
		"Rights":      func(c *Config) { c.Rights = nil },
		"Issuer":      func(c *Config) { c.Issuer = nil },
		"DialControl": func(c *Config) { c.DialControl = nil },
		"MaxConns":    func(c *Config) { c.MaxConns = -1 },
	} {
		cfg := w.gateway.cfg
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, field)
	}
}

// TestLogLevelAtRunTime: who has the token changes what is logged from then on.
func TestLogLevelAtRunTime(t *testing.T) {
	level := new(slog.LevelVar)
	h := Admin{Gatherer: prometheus.NewRegistry(), Token: "secret", LogLevel: level}.Handler()
	send := func(method, token, body string) (int, string) {
		r := httptest.NewRequest(method, "/debug/log-level", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	status, _ := send("PUT", "other", `{"level":"debug"}`)
	require.Equal(t, 401, status)
	for _, body := range []string{"", "{}", `{"level":"loud"}`, `{"level":null}`} {
		status, text := send("PUT", "secret", body)
		require.Equal(t, 422, status, body)
		require.Contains(t, text, "must be debug, info, warn or error", body)
	}
	require.Equal(t, slog.LevelInfo, level.Level())
	status, text := send("PUT", "secret", `{"level":"debug"}`)
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"level":"DEBUG"}`, text)
	require.Equal(t, slog.LevelDebug, level.Level())
	_, text = send("GET", "secret", "")
	require.JSONEq(t, `{"level":"DEBUG"}`, text)
}

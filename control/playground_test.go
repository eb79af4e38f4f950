package control_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

const issued = `{"ok":true,"data":{"receipt":{"receiptId":"rcp_1"},"substrate":"DOOH"},"contractVersion":"v1.0"}`

// deliveries is a node that refuses what has telemetry.
func deliveries(_ context.Context, _, _ string, body []byte) ([]byte, error) {
	if strings.Contains(string(body), "optOut") {
		return nil, &api.Error{Code: api.PreconditionFailed, Message: "refused", Violations: json.RawMessage(`[{"code":"MESSAGING_OPTED_OUT"}]`)}
	}
	return []byte(issued), nil
}

func newDelivering(t *testing.T) *playground {
	return openPlayground(t, newFixture(t), sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}, Deliver: deliveries})
}

// play sends a delivery of the playground.
func (v *visitor) play(body string, headers ...string) answer {
	v.t.Helper()
	return v.call("", "POST", "/api/playground/delivery", body, append(headers, "Cookie", "svc_sandbox_tenant="+v.cookie)...)
}

const observed = `{"rightId":"rgh_1","spatialAnchorId":"wall","dwellMs":1}`

func TestPlaygroundDelivery(t *testing.T) {
	p := newDelivering(t)
	v, _ := p.visit()
	a := v.play(observed)
	require.Equal(t, 200, a.status, a.text)
	require.JSONEq(t, `{"ok":true,"data":{"receipt":{"receiptId":"rcp_1"},"substrate":"DOOH"}}`, a.text)

	a = v.play(`{"rightId":"rgh_1","spatialAnchorId":"wall","dwellMs":1,"telemetry":{"optOut":true}}`)
	require.Equal(t, 412, a.status)
	require.JSONEq(t, `{"ok":false,"error":"HANDLER_ERROR","message":"PRECONDITION_FAILED: refused","violations":[{"code":"MESSAGING_OPTED_OUT"}]}`, a.text)

	require.Equal(t, "missing: dwellMs, spatialAnchorId", refusal(t, v.play(`{"rightId":"x"}`), 422, sandbox.MissingFields))
	refusal(t, v.play(`[]`), 400, sandbox.InvalidBody)
	refusal(t, v.play(``), 400, sandbox.InvalidBody)
	refusal(t, v.play(`{"rightId":"x","spatialAnchorId":"wall","dwellMs":-1}`), 422, sandbox.HandlerError)
	refusal(t, v.play(observed[:len(observed)-1]+`,"more":"`+strings.Repeat("x", 64<<10)+`"}`), 413, sandbox.InvalidBody)
	refusal(t, v.play(observed, "Origin", "https://evil.example"), 403, sandbox.HandlerError)
	refusal(t, v.call("", "GET", "/api/playground/nothing", ""), 404, sandbox.HandlerError)
	refusal(t, v.call("", "GET", "/api/playground/delivery", ""), 405, sandbox.HandlerError)

	refusal(t, (&visitor{playground: p}).play(observed), 404, sandbox.NoTenant)
	forged := &visitor{playground: p, cookie: v.cookie[:len(v.cookie)-1] + "x"}
	refusal(t, forged.play(observed), 404, sandbox.NoTenant)
	v.does("POST", "/reset", "")
	refusal(t, (&visitor{playground: p, cookie: v.cookie}).play(observed), 404, sandbox.NoTenant)
}

// TestPlaygroundIsWithinTheLimits of the sandbox, of address and of space, and so are the requests
// to what is not there.
func TestPlaygroundIsWithinTheLimits(t *testing.T) {
	now := time.Now()
	p := openPlayground(t, newFixture(t), sandbox.Config{Now: func() time.Time { return now }, Deliver: deliveries})
	v, _ := p.visit()
	for range 8 {
		require.Equal(t, 200, v.play(observed).status)
	}
	refusal(t, v.call("", "GET", "/api/playground/nothing", ""), 404, sandbox.HandlerError)
	a := v.play(observed)
	refusal(t, a, 429, sandbox.RateLimited)
	requireRetryAfter(t, 10, a.header.Get("Retry-After"))
	refusal(t, v.call("", "GET", "/api/playground/events", "", "Cookie", "svc_sandbox_tenant="+v.cookie), 429, sandbox.RateLimited)
	require.Equal(t, 200, v.call("", "GET", "/playground", "").status, "the page is no visitor's request")

	p = openPlayground(t, newFixture(t), sandbox.Config{Events: 64 * 20, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}, Deliver: deliveries})
	v, _ = p.visit()
	for v.play(observed).status == 200 {
	}
	require.Contains(t, refusal(t, v.play(observed), 429, sandbox.RateLimited), "all the events")
}

func TestPlaygroundDeliversForALiveKey(t *testing.T) {
	p := openPlayground(t, newFixture(t), sandbox.Config{
		Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
		Deliver: func(context.Context, string, string, []byte) ([]byte, error) {
			return nil, &api.Error{Code: api.AuthInvalid, Message: "revoked meanwhile"}
		},
	})
	v, _ := p.visit()
	refusal(t, v.play(observed), 410, sandbox.TenantEvicted)
}

// watching is a server, as streams need a connection.
func (p *playground) watching() *httptest.Server {
	server := httptest.NewServer(p.control().Handler())
	p.t.Cleanup(server.Close)
	return server
}

// watch begins a stream, which ends with the test.
func (v *visitor) watch(server *httptest.Server) *events {
	v.t.Helper()
	ctx, stop := context.WithCancel(v.t.Context())
	v.t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/playground/events", nil)
	require.NoError(v.t, err)
	r.Header.Set("Cookie", "svc_sandbox_tenant="+v.cookie)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(v.t, err)
	v.t.Cleanup(func() { resp.Body.Close() })
	e := &events{v.t, resp, bufio.NewReader(resp.Body), stop}
	if resp.StatusCode == 200 {
		require.Equal(v.t, "text/event-stream", resp.Header.Get("Content-Type"))
		require.Contains(v.t, []string{"retry: 5000", "retry: 6000"}, e.line())
	}
	return e
}

type events struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Reader
	stop  func()
}

// line is the next one that is not empty.
func (e *events) line() string {
	e.t.Helper()
	for {
		line, err := e.lines.ReadString('\n')
		require.NoError(e.t, err)
		if line != "\n" && line != ":\n" {
			return strings.TrimSuffix(line, "\n")
		}
	}
}

func (e *events) next(name string) (data map[string]any) {
	e.t.Helper()
	require.Equal(e.t, "event: "+name, e.line())
	require.NoError(e.t, json.Unmarshal([]byte(strings.TrimPrefix(e.line(), "data: ")), &data))
	return data
}

func (e *events) ends(reason string) {
	e.t.Helper()
	require.Equal(e.t, map[string]any{"reason": reason}, e.next("end"))
	rest, err := io.ReadAll(e.lines)
	require.NoError(e.t, err, "it ends as it should")
	require.Equal(e.t, "\n", string(rest))
}

func TestPlaygroundEvents(t *testing.T) {
	p := newDelivering(t)
	v, _ := p.visit()
	other, _ := p.visit()
	server := p.watching()
	first, second, foreign := v.watch(server), v.watch(server), other.watch(server)
	v.play(observed)
	v.play(`{"rightId":"rgh_2","spatialAnchorId":"wall","dwellMs":1,"telemetry":{"optOut":true}}`)
	other.play(strings.Replace(observed, "rgh_1", "rgh_3", 1))
	for _, e := range []*events{first, second} {
		seen := e.next("receipt")
		require.Equal(t, "rgh_1", seen["rightId"])
		require.Equal(t, "rcp_1", get[string](t, seen, "data", "receipt", "receiptId"))
		seen = e.next("refusal")
		require.Equal(t, "rgh_2", seen["rightId"])
		require.Equal(t, 412.0, seen["status"])
		require.Equal(t, "PRECONDITION_FAILED", seen["error"])
		require.Len(t, list(t, seen, "violations"), 1)
	}
	require.Equal(t, "rgh_3", foreign.next("receipt")["rightId"], "it sees nothing of another visitor's")

	third := v.watch(server)
	require.Equal(t, 429, third.resp.StatusCode)
	require.NotEmpty(t, third.resp.Header.Get("Retry-After"))
	text, err := io.ReadAll(third.lines)
	require.NoError(t, err)
	require.Contains(t, string(text), `"RATE_LIMITED"`)
	first.stop()
	waittest.Until(t, func() bool { return v.watch(server).resp.StatusCode == 200 }, "its place is free again")

	require.Equal(t, 404, (&visitor{playground: p}).watch(server).resp.StatusCode)
	require.Equal(t, 404, (&visitor{playground: p, cookie: v.cookie[1:]}).watch(server).resp.StatusCode)
	v.does("POST", "/reset", "")
	second.ends("DROPPED")
	other.play(observed)
	foreign.next("receipt")
}

func TestPlaygroundStreamsEndWithTheirTenant(t *testing.T) {
	var at atomic.Int64
	at.Store(time.Now().UnixMilli())
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return time.UnixMilli(at.Load()) }), sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	v, _ := p.visit()
	e := v.watch(p.watching())
	at.Add((25 * time.Hour).Milliseconds())
	require.NoError(t, p.sandbox.Evict(t.Context()))
	e.ends("DROPPED")
}

func TestPlaygroundDrains(t *testing.T) {
	p := newDelivering(t)
	v, _ := p.visit()
	server := p.watching()
	e := v.watch(server)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.feed.Run(ctx) }()
	stop()
	require.NoError(t, <-ended)
	e.ends("DRAINING")
	require.Equal(t, 503, v.watch(server).resp.StatusCode)
	require.NoError(t, server.Config.Shutdown(t.Context()), "no stream delays it")
}

// TestPlaygroundStreamsAreNotInHand: who watches can still do as much as others, and streams keep no
// connection to the database.
func TestPlaygroundStreamsAreNotInHand(t *testing.T) {
	p := newDelivering(t)
	server := p.watching()
	for i := range 32 {
		v, _ := p.visit()
		v.from = fmt.Sprintf("198.51.100.%d", i) // which the cookie does not depend on
		v.watch(server)
		if i >= 4 { // eight streams of this address
			break
		}
		v.watch(server)
	}
	v, _ := p.visit()
	require.Equal(t, 429, v.watch(server).resp.StatusCode, "nine of one address")
	require.Zero(t, p.db.Read().Stats().InUse)
	require.Equal(t, 200, v.play(observed).status)
}

// TestPlaygroundPage: its files run under the strictest policy, and are kept by browsers until they
// change.
func TestPlaygroundPage(t *testing.T) {
	p := newDelivering(t)
	root := p.call("", "GET", "/", "")
	require.Equal(t, 302, root.status)
	require.Equal(t, "/playground", root.header.Get("Location"))
	for name, kind := range map[string]string{
		"": "text/html; charset=utf-8", "/verdict.js": "text/javascript; charset=utf-8", "/base.css": "text/css; charset=utf-8",
	} {
		a := p.call("", "GET", "/playground"+name, "")
		require.Equal(t, 200, a.status, name)
		require.Equal(t, kind, a.header.Get("Content-Type"))
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-cache", a.header.Get("Cache-Control"))
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			a.header.Get("Content-Security-Policy"))
		tag := a.header.Get("ETag")
		for _, known := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			again := p.call("", "GET", "/playground"+name, "", "If-None-Match", known)
			require.Equal(t, 304, again.status, known)
			require.Empty(t, again.text)
			require.Equal(t, tag, again.header.Get("ETag"))
		}
		require.Equal(t, 200, p.call("", "GET", "/playground"+name, "", "If-None-Match", `"other"`).status)
	}
	for _, none := range []string{"/", "/none.js", "/..%2fplayground.go", "/index.htm"} {
		p.call("", "GET", "/playground"+none, "").refused(404, api.ResourceNotFound)
	}
}

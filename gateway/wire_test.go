package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
)

// requireEnvelope requires the contract's error envelope.
func requireEnvelope(t *testing.T, r reply) {
	t.Helper()
	var e struct {
		OK              *bool
		Error           api.Code
		Message         string
		ContractVersion string
		RequestID       string
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &e), r.body)
	require.NotNil(t, e.OK)
	require.False(t, *e.OK)
	require.NotEmpty(t, e.Error)
	require.NotEmpty(t, e.Message)
	require.Equal(t, api.ContractVersion, e.ContractVersion)
	require.Equal(t, r.header.Get(api.HeaderRequestID), e.RequestID)
	require.NotEmpty(t, e.RequestID)
}

// TestHostileFraming sends what a body decoder never sees. Every answer must come at
// once, in the envelope, without reading what is left.
func TestHostileFraming(t *testing.T) { everyTransport(t, hostileFraming) }

func hostileFraming(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	head := func(headers ...string) string {
		return "POST /v1/delivery HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + w.token + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	}
	many := make([]string, 0, 400)
	for i := range 400 {
		many = append(many, fmt.Sprintf("a%d: b", i))
	}
	for _, c := range []struct {
		name, text string
		status     int
		message    string
	}{
		{"identity", head("Transfer-Encoding: identity", "Content-Length: 2") + "{}", 400, "transfer coding"},
		{"two lengths", head("Content-Length: 2", "Content-Length: 2") + "{}", 400, "well-formed"},
		{"two different lengths", head("Content-Length: 2", "Content-Length: 3") + "{}", 400, "well-formed"},
		{"signed length", head("Content-Length: +2") + "{}", 400, "well-formed"},
		{"ten gigabytes announced", head("Content-Length: 10737418240"), 413, "larger"},
		{"ten gigabytes announced, waiting for 100", head("Content-Length: 10737418240", "Expect: 100-continue"), 413, "larger"},
		{"too much, waiting for 100", head("Content-Length: 65537", "Expect: 100-continue"), 413, "larger"},
		{"length and coding, waiting for 100", head("Content-Length: 5", "Transfer-Encoding: chunked", "Expect: 100-continue"), 400, "transfer coding"},
		{"one byte too many", head("Content-Length: 65537") + strings.Repeat(" ", 65537), 413, "larger"},
		{"one byte too many, by another path", strings.Replace(head("Content-Length: 65537"), "/v1/", "/v1//", 1) + strings.Repeat(" ", 65537), 413, "larger"},
		{"400 headers", head(many...), 400, "100 headers"},
		{"400 headers and a body", head(append(many, "Content-Length: 2")...) + "{}", 400, "100 headers"},
		{"header of 16 KiB", head("X: " + strings.Repeat("x", 16<<10)), 431, "8 KiB"},
		{"folded header", head("X: a\r\n b", "Content-Length: 0"), 400, ""},
		{"folded header and a body", head("X: a\r\n\tb", "Content-Length: 2") + "{}", 400, ""},
		{"NUL in a header", head("X: a\x00b"), 400, "well-formed"},
		{"space before the colon", head("X : a"), 400, "well-formed"},
		{"unknown protocol", "POST /v1/delivery HTTP/9.9\r\nHost: m\r\nContent-Length: 0\r\n\r\n", 400, ""},
		{"no host", "POST /v1/delivery HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400, "well-formed"},
		{"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "well-formed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			r := w.raw(c.text)
			require.Equal(t, c.status, r.status, r.body)
			requireEnvelope(t, r)
			require.Contains(t, r.body, c.message)
			require.True(t, r.closes)
		})
	}
	require.Empty(t, w.log.All())
}

// TestUnreadInputIsNoReset sends a body that is not read: the connection must end
// behind the answer, not be reset.
func TestUnreadInputIsNoReset(t *testing.T) { everyTransport(t, unreadInputIsNoReset) }

func unreadInputIsNoReset(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	c := w.dial()
	defer c.Close()
	_, err := io.WriteString(c, request(w.token, strings.Repeat(" ", 4*maxDeliveryBody)))
	require.NoError(t, err)
	r := bufio.NewReader(c)
	require.Equal(t, 413, readReply(t, r).status)
	_, err = r.ReadByte()
	require.Equal(t, io.EOF, err)
}

func TestManySmallHeadersWithinTheBound(t *testing.T) {
	w := newWorld(t, nil)
	many := make([]string, 0, 90)
	for i := range 90 {
		many = append(many, fmt.Sprintf("a%d: b", i))
	}
	require.Equal(t, 200, w.post(w.body(), many...).status)
}

func TestExpectContinue(t *testing.T) { everyTransport(t, expectContinue) }

func expectContinue(t *testing.T, transport func(*settings)) {
	serve := withControl(t, func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) })
	w := newWorld(t, func(c *settings) { transport(c); serve(c) })
	to := func(path, token, body string) string {
		return strings.Replace(request(token, body, "Expect: 100-Continue"), pathDelivery, path, 1)
	}
	batch := inJSON(w.row("a", ""))
	for name, text := range map[string]string{
		"lower case":    strings.Replace(to(pathDelivery, w.token, w.body()), "Continue", "continue", 1),
		"another case":  strings.Replace(to(pathDelivery, w.token, w.body()), "Expect", "eXPECT", 1),
		"large":         to(pathDelivery, w.token, w.large()),
		"chunked":       chunkedHead("POST", pathDelivery, w.token, "Expect: 100-Continue") + inChunks(w.body(), 50),
		"batch":         to(pathBatch, w.token, batch),
		"control":       to("/v1/rights", w.readToken, "{}"),
		"without a key": to("/api/sandbox/tenant", "", "{}"),
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			s := w.session()
			for range 2 {
				head, body, _ := strings.Cut(text, "\r\n\r\n")
				require.Equal(t, 100, s.do(head+"\r\n\r\n").status)
				require.Equal(t, 200, s.do(body).status)
			}
			require.Equal(t, 200, s.do(request(w.token, w.body())).status)
		})
	}
	for name, text := range map[string]string{
		"no body":       "GET /v1/healthz HTTP/1.1\r\nHost: m\r\nExpect: 100-continue\r\n\r\n",
		"empty body":    to("/v1/rights", w.token, ""),
		"HTTP/1.0":      strings.Replace(to(pathDelivery, w.token, w.body()), "HTTP/1.1", "HTTP/1.0", 1),
		"another value": strings.Replace(to(pathDelivery, w.token, w.body()), "100-Continue", "200-ok", 1),
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			require.Equal(t, 200, w.raw(text).status, "and no 100")
		})
	}
}

// TestUnauthorizedIsNotContinued: whose key is not valid gets that answer, without sending the body.
func TestUnauthorizedIsNotContinued(t *testing.T) { everyTransport(t, unauthorizedIsNotContinued) }

func unauthorizedIsNotContinued(t *testing.T, transport func(*settings)) {
	serve := withControl(t, func(http.ResponseWriter, *http.Request) {})
	w := newWorld(t, func(c *settings) { transport(c); serve(c) })
	for _, c := range []struct {
		path, token string
		status      int
		code        api.Code
	}{
		{pathDelivery, "", 401, api.AuthRequired},
		{pathDelivery, "nonsense", 401, api.AuthInvalid},
		{pathDelivery, w.readToken, 403, api.ScopeMissing},
		{pathBatch, "", 401, api.AuthRequired},
		{pathBatch, w.readToken, 403, api.ScopeMissing},
		{"/v1/rights", "", 401, api.AuthRequired},
		{"/v1/rights", "nonsense", 401, api.AuthInvalid},
	} {
		for _, framing := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			head := strings.Replace(request(c.token, "", "Expect: 100-Continue"), pathDelivery, c.path, 1)
			r := w.raw(strings.Replace(head, "Content-Length: 0", framing, 1))
			require.Equal(t, c.status, r.status, "%s: %s", c.path, r.body)
			require.Contains(t, r.body, c.code)
			requireEnvelope(t, r)
			require.True(t, r.closes)
		}
	}
	require.EqualValues(t, 4, w.requests("delivery", 401), "they are counted")
}

// requests is how many were answered.
func (w *world) requests(route string, code int) (n float64) {
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "muniment_gateway_requests_total" && m.GetLabel()[0].GetValue() == fmt.Sprint(code) && m.GetLabel()[1].GetValue() == route {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestEscapedPathHasTheSameLimit(t *testing.T) {
	w := newWorld(t, nil)
	r := w.raw(strings.Replace(request(w.token, strings.Repeat(" ", maxDeliveryBody+1)), "delivery", "%64elivery", 1))
	require.Equal(t, 413, r.status)
	requireEnvelope(t, r)
	require.Equal(t, 200, w.raw(strings.Replace(request(w.token, w.body()), "delivery", "%64elivery", 1)).status)
}

func TestSlowRequestIsEnded(t *testing.T) { everyTransport(t, slowRequestIsEnded) }

func slowRequestIsEnded(t *testing.T, transport func(*settings)) {
	const timeout = 500 * time.Millisecond
	w := newWorld(t, func(c *settings) { transport(c); c.ReadTimeout = timeout })
	r := w.tooSlow(strings.TrimSuffix(request(w.token, w.body()), "}"))
	require.Equal(t, 408, r.status)
	requireEnvelope(t, r)
}

// tooSlow sends the beginning of a request and waits for its answer. There is none where
// the read timeout has passed before there was a beginning: then it comes again.
func (w *world) tooSlow(beginning string) reply {
	w.t.Helper()
	for {
		below, err := net.Dial("tcp", w.addr)
		require.NoError(w.t, err)
		defer below.Close()
		c, err := w.greet(below)
		if err == nil {
			_, err = io.WriteString(c, beginning)
		}
		in := bufio.NewReader(c)
		if err == nil {
			_, err = in.Peek(1)
		}
		if err == nil {
			return readReply(w.t, in)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	w := newWorld(t, nil)
	for sent, want := range map[string]string{
		"abc-1":                  "abc-1",
		strings.Repeat("x", 64):  strings.Repeat("x", 64),
		strings.Repeat("x", 65):  "req_",
		"with space":             "req_",
		"":                       "req_",
		"quote\"and<angle>&more": "quote\"and<angle>&more",
	} {
		r := w.raw("POST /v1/delivery HTTP/1.1\r\nHost: m\r\nX-Request-Id: " + sent + "\r\nContent-Length: 0\r\n\r\n")
		require.True(t, strings.HasPrefix(r.header.Get(api.HeaderRequestID), want), r.header)
		requireEnvelope(t, r)
	}
}

func TestPublicProbes(t *testing.T) {
	w := newWorld(t, nil)
	r := w.raw("GET /v1 HTTP/1.1\r\nHost: m\r\n\r\n")
	require.Equal(t, 200, r.status)
	require.Regexp(t, `^{"ok":true,"data":{"service":"muniment","version":"devel","contractVersion":"v1.0","gateVersion":"gate.v1","ruleset":"[\w-]{43}"},"contractVersion":"v1.0"}$`, r.body)
	r = w.raw("GET /v1/healthz HTTP/1.1\r\nHost: m\r\n\r\n")
	require.Equal(t, `{"ok":true,"data":{"status":"ok"},"contractVersion":"v1.0"}`, r.body)
	require.NotEmpty(t, r.header.Get(api.HeaderRequestID))
	for _, path := range []string{"/v1", "/v1/healthz"} { // balancers and monitors add what they like
		require.Equal(t, 200, w.raw("GET "+path+"?probe=1&%zz HTTP/1.1\r\nHost: m\r\n\r\n").status)
	}
	r = w.raw("DELETE /v1 HTTP/1.1\r\nHost: m\r\n\r\n")
	require.Equal(t, 405, r.status)
	require.Equal(t, "GET", r.header.Get("Allow"))
}

func TestConnectionBounds(t *testing.T) { everyTransport(t, connectionBounds) }

func connectionBounds(t *testing.T, transport func(*settings)) {
	w := newWorld(t, func(c *settings) { transport(c); c.MaxConns = 2 })
	var held []net.Conn
	for range 2 {
		c := w.dial()
		held = append(held, c)
		_, err := io.WriteString(c, request(w.token, w.body()))
		require.NoError(t, err)
		require.Equal(t, 200, readReply(t, bufio.NewReader(c)).status)
	}
	r := w.post(w.body())
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, `"reason":"OVERLOADED"`)
	requireEnvelope(t, r)
	require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
	held[0].Close()
	waittest.Until(t, func() bool { return w.gateway.listener.open() == 1 })
	require.Equal(t, 200, w.post(w.body()).status)
	held[1].Close()
}

// TestOneHostKeepsNobodyOut: a host that has all connections, quiet or with half a request, loses one to each caller from another
// address; what it is being answered it still gets.
func TestOneHostKeepsNobodyOut(t *testing.T) {
	const most = 8
	w := newWorld(t, func(c *settings) { c.MaxConns, c.IdleTimeout, c.ReadTimeout = most, time.Hour, time.Hour })
	from := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		c, err := d.DialContext(t.Context(), "tcp4", w.addr)
		if err != nil {
			t.Skip("this machine has one loopback address: ", err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for n := range most {
		c := from("127.0.0.2")
		if n%2 == 0 {
			_, err := io.WriteString(c, "POST /v1/delivery HTTP/1.1\r\nHo")
			require.NoError(t, err)
		}
	}
	waittest.Until(t, func() bool { return w.gateway.listener.open() == most })
	answered := func(c net.Conn) int {
		_, err := io.WriteString(c, request(w.token, w.body()))
		require.NoError(t, err)
		return readReply(t, bufio.NewReader(c)).status
	}
	for range most/2 - 1 {
		require.Equal(t, 200, answered(from("127.0.0.3")))
		waittest.Until(t, func() bool { return w.gateway.listener.open() == most }, "one is closed for it")
	}
	require.Equal(t, 503, answered(from("127.0.0.2")), "who has most gets no more")
	require.Equal(t, 200, answered(from("127.0.0.4")))
}

func TestSubnets(t *testing.T) {
	require.Equal(t, subnet("10.0.0.1"), subnet("::ffff:10.0.0.1"))
	require.NotEqual(t, subnet("10.0.0.1"), subnet("10.0.0.2"))
	require.Equal(t, subnet("2001:db8::1"), subnet("2001:db8::ffff:1"))
	require.NotEqual(t, subnet("2001:db8::1"), subnet("2001:db8:0:1::1"))
}

// TestNoSecretInTheLog looks for keys and bodies in what is logged at every level.
func TestNoSecretInTheLog(t *testing.T) {
	var out syncBuffer
	w := newWorld(t, func(c *settings) {
		c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	w.raw("POST /v1/delivery HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + w.token + "\x01\r\nX : " + w.token + "\r\n\r\n")
	w.post(`{"rightId":"secret-right`)
	w.post(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"secret-anchor","dwellMs":1,"telemetry":{"beamId":"secret-beam"}}`, w.right))
	w.log.SetFail(fmt.Errorf("no"))
	w.post(w.body())
	w.raw("GET /v1/rights HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + w.token + "\r\n\r\n")
	require.NotEmpty(t, out.String())
	require.NotContains(t, out.String(), "secret-")
	require.NotContains(t, out.String(), w.token[20:40])
}

func TestPanicIsAnswered(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.Issue.Random = new(faulty) })
	r := w.post(w.body(), "Idempotency-Key: k")
	require.Equal(t, 500, r.status)
	require.Equal(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"internal error","contractVersion":"v1.0","requestId":"req-1"}`+"\n", r.body)
	require.Equal(t, 200, w.post(w.body(), "Idempotency-Key: k").status, "a panic must free the key")
	require.Zero(t, w.gateway.inFlight.Load())
}

// faulty is a fault of ours: the first read panics.
type faulty struct{ read bool }

func (f *faulty) Read(b []byte) (int, error) {
	if !f.read {
		f.read = true
		panic("the first")
	}
	return issuetest.Zeros{}.Read(b)
}

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

package gateway

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

// withControl starts a control server.
func withControl(t *testing.T, h http.HandlerFunc) func(*settings) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return func(c *settings) {
		c.DialControl = []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }}
	}
}

func TestForwardedRequestAsControlSeesIt(t *testing.T) {
	var seen *http.Request
	var body []byte
	w := newWorld(t, withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		seen = r
		body, _ = io.ReadAll(r.Body)
		rw.Header().Set("X-Own", "yes")
		rw.Header().Set("Connection", "X-Hop")
		rw.Header().Set("X-Hop", "no")
		rw.Header().Set("X-Request-Id", "control's")
		rw.Header().Add("Set-Cookie", "a=1")
		rw.Header().Add("Set-Cookie", "b=2")
		rw.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(rw, "short")
	}))
	r := w.raw("PUT /v1/a%2Fb//c/../d?x=%20&y HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer k\r\nX-Request-Id: id-1\r\nConnection: X-Drop\r\nX-Drop: 1\r\n" +
		"X-Forwarded-For: 6.6.6.6\r\nx-forwarded-proto: https\r\nX-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nTE: trailers\r\nProxy-Authorization: p\r\nAccept: a\r\nAccept: b\r\n" +
		"Content-Type: text/x\r\nContent-Length: 4\r\n\r\nbody")
	require.Equal(t, http.StatusTeapot, r.status)
	require.Equal(t, "short", r.body)
	require.Equal(t, "yes", r.header.Get("X-Own"))
	require.Empty(t, r.header.Get("X-Hop"))
	require.Equal(t, []string{"id-1"}, r.header.Values("X-Request-Id"))
	require.Equal(t, []string{"a=1", "b=2"}, r.header.Values("Set-Cookie"))
	require.Equal(t, []string{"5"}, r.header.Values("Content-Length"))
	require.Len(t, r.header.Values("Content-Type"), 1)

	require.Equal(t, "PUT", seen.Method)
	require.Equal(t, "/v1/a%2Fb//c/../d?x=%20&y", seen.RequestURI)
	require.Equal(t, "api.example", seen.Host)
	require.Equal(t, "body", string(body))
	require.Equal(t, http.Header{
		"Authorization": {"Bearer k"}, "X-Request-Id": {"id-1"}, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "Accept": {"a", "b"},
		"Content-Type": {"text/x"}, "Content-Length": {"4"},
	}, seen.Header)
}

func TestControlAway(t *testing.T) {
	w := newWorld(t, nil)
	r := w.raw("GET /v1/rights HTTP/1.1\r\nHost: m\r\nX-Request-Id: req-1\r\n\r\n")
	require.Equal(t, 503, r.status)
	require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
	require.Equal(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"the control service can't be reached","contractVersion":"v1.0",`+
		`"reason":"CONTROL_UNAVAILABLE","requestId":"req-1"}`+"\n", r.body)
	require.Equal(t, 200, w.post(w.body()).status, "deliveries go on without control")
}

// TestErrorsUnderTheSandbox: what the gateway answers in the place of the sandbox is in the
// sandbox's envelope.
func TestErrorsUnderTheSandbox(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.RenderError = sandbox.RenderError })
	for _, c := range []struct {
		path, headers string
		status        int
		body          string
	}{
		{"/api/sandbox/tenant?x=1", "", 503, `{"ok":false,"error":"HANDLER_ERROR","message":"INTERNAL_ERROR: the control service can't be reached"}`},
		{"http://m/api/sandbox/tenant?x=1", "", 503, `{"ok":false,"error":"HANDLER_ERROR"`},
		{"/%61pi/sandbox/tenant", "", 503, `{"ok":false,"error":"HANDLER_ERROR"`},
		{"/api/sandbox/tenant", "Content-Length: 10737418240\r\n", 413, `{"ok":false,"error":"INVALID_BODY","message":"the body is larger than this route takes"}`},
		{"/api/sandbox/tenant", "X: " + strings.Repeat("x", 16<<10) + "\r\n", 431, `{"ok":false,"error":"BAD_REQUEST"`}, // nobody has read the path
		{"/api/sandboxes", "", 503, `{"ok":false,"error":"INTERNAL_ERROR","message":"the control service can't be reached","contractVersion":"v1.0"`},
	} {
		r := w.raw("POST " + c.path + " HTTP/1.1\r\nHost: m\r\n" + c.headers + "\r\n")
		require.Equal(t, c.status, r.status, r.body)
		require.True(t, strings.HasPrefix(r.body, c.body), r.body)
		if c.status == 503 {
			require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
		}
	}
}

func TestControlBusy(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	serve := withControl(t, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	})
	w := newWorld(t, func(c *settings) { serve(c); c.MaxForwards = 1 })
	first := make(chan reply, 1)
	go func() { first <- w.raw(of(w.token, "GET", "/a")) }()
	<-entered
	r := w.raw(of(w.otherToken, "GET", "/b"))
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, `"reason":"OVERLOADED"`)
	close(leave)
	require.Equal(t, 200, (<-first).status)
}

func TestSilentControl(t *testing.T) {
	leave := make(chan struct{})
	serve := withControl(t, func(http.ResponseWriter, *http.Request) { <-leave })
	w := newWorld(t, func(c *settings) { serve(c); c.ControlTimeout = 30 * time.Millisecond })
	r := w.raw("POST /a HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\n\r\n")
	close(leave)
	require.Equal(t, 503, r.status)
}

// TestControlThatReadsNothing keeps no request longer than one that is silent.
func TestControlThatReadsNothing(t *testing.T) {
	w := newWorld(t, func(c *settings) {
		c.ControlTimeout = 30 * time.Millisecond
		c.DialControl = []func() (net.Conn, error){func() (net.Conn, error) {
			conn, other := net.Pipe()
			t.Cleanup(func() { other.Close() })
			return conn, nil
		}}
	})
	r := w.raw("POST /a HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\n\r\nx")
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, `"reason":"CONTROL_UNAVAILABLE"`)
}

// TestPlaceOfARequestThatPanics is free again.
func TestPlaceOfARequestThatPanics(t *testing.T) {
	w := newWorld(t, func(c *settings) {
		c.MaxStreams = 1
		c.DialControl = []func() (net.Conn, error){func() (net.Conn, error) { panic("a fault") }}
	})
	for range 3 {
		require.Equal(t, 500, w.raw("POST /a HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\n\r\n").status)
	}
}

func TestForwardedBodyLimit(t *testing.T) {
	w := newWorld(t, withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(rw, n)
	}))
	send := func(n int) reply {
		return w.raw(fmt.Sprintf("POST /v1/bases HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n)))
	}
	require.Equal(t, "1048576", send(maxBody).body)
	r := send(maxBody + 1)
	require.Equal(t, 413, r.status)
	requireEnvelope(t, r)
}

func TestLargeAnswersAreStreamed(t *testing.T) {
	const size = 48 << 20
	w := newWorld(t, withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sized" {
			rw.Header().Set("Content-Length", fmt.Sprint(size))
		}
		block := make([]byte, 64<<10)
		for range size / len(block) {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	}))
	for _, path := range []string{"/sized", "/chunked"} {
		resp, err := http.Get("http://" + w.addr + path)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		require.Equal(t, int64(size), n)
	}
	resp, err := http.Head("http://" + w.addr + "/sized")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, int64(size), resp.ContentLength)
}

func TestEventsArriveAsTheyHappen(t *testing.T) {
	next := make(chan string)
	w := newWorld(t, withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(200)
		rw.(http.Flusher).Flush()
		for {
			select {
			case e := <-next:
				fmt.Fprintf(rw, "data: %s\n\n", e)
				rw.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	resp, err := http.Get("http://" + w.addr + "/api/playground/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, e := range []string{"one", "two"} {
		next <- e
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "data: "+e+"\n", line)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	// A drain ends the stream properly: the client sees its end, not a broken body.
	w.stop()
	_, err = lines.ReadString('\n')
	require.Equal(t, io.EOF, err)
}

func TestControlThatDiesWhileItAnswers(t *testing.T) {
	serve := withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sized" {
			rw.Header().Set("Content-Length", "1000000")
		}
		_, _ = io.WriteString(rw, strings.Repeat("half", 100_000))
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	w := newWorld(t, serve)
	for _, path := range []string{"/sized", "/chunked"} {
		resp, err := http.Get("http://" + w.addr + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, path)
	}
}

func TestForwardedNames(t *testing.T) {
	for _, name := range []string{"Connection", "TRANSFER-ENCODING", "te", "Upgrade"} {
		require.True(t, hopByHop(name), name)
	}
	require.False(t, hopByHop(api.HeaderIdempotencyKey))
	require.True(t, named("close, X-a ,b", "x-A"))
	require.False(t, named("close", ""))
	var _ net.Conn = (*controlConn)(nil)
}

// TestEarlyAnswers: control may answer without reading the body. That is no outage.
func TestEarlyAnswers(t *testing.T) { everyTransport(t, earlyAnswers) }

func earlyAnswers(t *testing.T, transport func(*settings)) {
	var logged syncBuffer
	serve := withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		rw.WriteHeader(status)
	})
	w := newWorld(t, func(c *settings) {
		transport(c)
		serve(c)
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	s := w.session()
	for _, status := range []int{401, 403, 404, 405} {
		for _, length := range []int{0, 1, 255 << 10, 270_000, maxBody} {
			body := strings.Repeat("x", length)
			require.Equal(t, status, s.do(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n%s", status, length, body)).status, "%d bytes", length)
			require.Equal(t, status, s.do(chunkedHead("POST", fmt.Sprint("/", status), "k")+inChunks(body, 64<<10)).status, "%d bytes, chunked", length)
		}
	}
	require.NotContains(t, logged.String(), reachControl)
}

// deaf is a connection whose other end answers and reads no more.
type deaf struct {
	net.Conn
	answer io.Reader
}

func (deaf) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (d deaf) Read(b []byte) (int, error)     { return d.answer.Read(b) }
func (deaf) SetReadDeadline(time.Time) error  { return nil }
func (deaf) SetWriteDeadline(time.Time) error { return nil }
func (deaf) SetDeadline(time.Time) error      { return nil }
func (deaf) RemoteAddr() net.Addr             { return new(net.TCPAddr) }
func (deaf) LocalAddr() net.Addr              { return new(net.TCPAddr) }
func (deaf) Close() error                     { return nil }

// TestAnswerOfAConnectionThatTakesNoMore is relayed. Without one, control can't be reached.
func TestAnswerOfAConnectionThatTakesNoMore(t *testing.T) {
	answer := "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
	w := newWorld(t, func(c *settings) {
		c.DialControl = []func() (net.Conn, error){func() (net.Conn, error) { return deaf{answer: strings.NewReader(answer)}, nil }}
	})
	post := fmt.Sprintf("POST /v1/rights HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n%s", maxBody, strings.Repeat("x", maxBody))
	require.Equal(t, 401, w.raw(post).status)
	answer = ""
	r := w.raw(post)
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, `"reason":"CONTROL_UNAVAILABLE"`)
}

// TestRefusalsReachACallerThatSends a body of up to 1 MiB, read or not.
func TestRefusalsReachACallerThatSends(t *testing.T) {
	everyTransport(t, refusalsReachACallerThatSends)
}

func refusalsReachACallerThatSends(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"POST", pathBatch, "", 401}, {"POST", pathBatch, w.readToken, 403}, {"PUT", pathHealth, "", 405}, {"POST", pathDelivery, w.token, 413},
	} {
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: m\r\n", c.method, c.path)
		if c.token != "" {
			head += "Authorization: Bearer " + c.token + "\r\n"
		}
		body := strings.Repeat(" ", maxBody)
		for framing, text := range map[string]string{fmt.Sprint("Content-Length: ", maxBody): body, "Transfer-Encoding: chunked": inChunks(body, 1000)} {
			conn := w.dial()
			_, err := io.WriteString(conn, head+framing+"\r\n\r\n"+text)
			require.NoError(t, err)
			in := bufio.NewReader(conn)
			require.Equal(t, c.status, readReply(t, in).status, "%s, %s", c.path, framing)
			require.NoError(t, conn.Close())
		}
	}
}

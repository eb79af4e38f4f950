package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
)

// controls are control processes of one database, which count what they carry out.
type controls struct {
	servers []*httptest.Server
	mu      sync.Mutex
	done    map[string][]int // by method and path: which processes
}

// newControls starts n of them. before may answer a request instead, unless it is nil; one with the header Break is
// carried out, and its response is lost.
func newControls(t *testing.T, n int, before func(n int, w http.ResponseWriter) (done bool)) *controls {
	c := &controls{done: map[string][]int{}}
	for i := range n {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if before != nil && before(i, w) {
				return
			}
			c.mu.Lock()
			c.done[r.Method+" "+r.URL.Path] = append(c.done[r.Method+" "+r.URL.Path], i)
			c.mu.Unlock()
			if r.Header.Get("Break") != "" {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintf(w, "%d: %s", i, body)
		}))
		t.Cleanup(s.Close)
		c.servers = append(c.servers, s)
	}
	return c
}

func (c *controls) serve(s *settings) {
	s.DialControl = nil
	for _, server := range c.servers {
		s.DialControl = append(s.DialControl, func() (net.Conn, error) { return net.Dial("tcp", server.Listener.Addr().String()) })
	}
}

// kill ends a process, with its connections.
func (c *controls) kill(n int) {
	c.servers[n].CloseClientConnections()
	c.servers[n].Close()
}

func (c *controls) carriedOut(what string) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[what]
}

// TestControlProcessThatIsKilled: requests go on with another one, and stay there.
func TestControlProcessThatIsKilled(t *testing.T) {
	c := newControls(t, 3, nil)
	w := newWorld(t, c.serve)
	post := func(path string) reply {
		return w.raw("POST " + path + " HTTP/1.1\r\nHost: m\r\nContent-Length: 4\r\n\r\nbody")
	}
	for n := range 3 {
		require.Equal(t, "0: body", post(fmt.Sprint("/a", n)).body)
	}
	c.kill(0)
	w.gateway.control.clients[0].CloseIdleConnections() // a request on one of them may have been sent
	require.Equal(t, "1: body", post("/b").body)
	require.Equal(t, "1: body", post("/c").body)
	c.kill(1)
	require.Equal(t, "2: ", w.raw("GET /d HTTP/1.1\r\nHost: m\r\n\r\n").body)
	require.NoError(t, w.gateway.ControlReady(t.Context()))
	c.kill(2)
	r := post("/e")
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, `"reason":"CONTROL_UNAVAILABLE"`)
	require.Error(t, w.gateway.ControlReady(t.Context()))
	for what, by := range map[string][]int{"POST /a0": {0}, "POST /a2": {0}, "POST /b": {1}, "POST /c": {1}, "GET /d": {2}, "POST /e": nil} {
		require.Equal(t, by, c.carriedOut(what), what)
	}
}

// TestNothingIsCarriedOutTwice: a request that changes something and whose response is lost is answered 503, and the
// next one goes to another process. One that only reads is sent again.
func TestNothingIsCarriedOutTwice(t *testing.T) {
	c := newControls(t, 2, nil)
	w := newWorld(t, c.serve)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		first := w.raw(method + " /first HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\n\r\n").body[0] - '0' // and a connection is open
		r := w.raw(method + " /lost HTTP/1.1\r\nHost: m\r\nBreak: yes\r\nContent-Length: 0\r\n\r\n")
		require.Equal(t, 503, r.status, method)
		require.Contains(t, r.body, `"reason":"CONTROL_UNAVAILABLE"`)
		require.Equal(t, []int{int(first)}, c.carriedOut(method+" /lost"), method)
		require.Equal(t, fmt.Sprint(1-first, ": "), w.raw(method+" /next HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\n\r\n").body)
	}
	var lost atomic.Int32
	c = newControls(t, 2, func(n int, _ http.ResponseWriter) bool {
		if n == 0 {
			lost.Add(1)
			panic(http.ErrAbortHandler)
		}
		return false
	})
	w = newWorld(t, c.serve)
	require.Equal(t, "1: ", w.raw("GET /read HTTP/1.1\r\nHost: m\r\n\r\n").body)
	require.Positive(t, lost.Load())
	require.LessOrEqual(t, lost.Load(), int32(2), "control may have recorded each")
}

// TestControlProcessThatStarts has begun nothing, and says so: whatever the request is, another one takes it.
func TestControlProcessThatStarts(t *testing.T) {
	var starting atomic.Int32 // the process that does; 2 is both
	var status atomic.Int32
	var spelt atomic.Value
	status.Store(http.StatusServiceUnavailable)
	spelt.Store(api.HeaderNotBegun)
	c := newControls(t, 2, func(n int, w http.ResponseWriter) bool {
		if s := int(starting.Load()); s != n && s != 2 {
			return false
		}
		w.Header()[spelt.Load().(string)] = []string{"1"}
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, "starting")
		return true
	})
	w := newWorld(t, c.serve)
	for n := range 3 {
		require.Equal(t, "1: x", w.raw(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\n\r\nx", n)).body)
	}
	starting.Store(2)
	r := w.raw("POST /3 HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\n\r\nx")
	require.Equal(t, 503, r.status)
	require.Equal(t, "starting", r.body)
	require.Empty(t, r.header.Get(api.HeaderNotBegun))
	starting.Store(1)
	require.Equal(t, "0: x", w.raw("POST /4 HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\n\r\nx").body)

	starting.Store(0)
	spelt.Store("x-muniment-not-begun") // as a proxy may send it on
	require.Equal(t, "1: x", w.raw("POST /5 HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\n\r\nx").body)
	starting.Store(1)
	status.Store(http.StatusInternalServerError) // which says that it was begun
	r = w.raw("POST /6 HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\n\r\nx")
	require.Equal(t, 500, r.status)
	require.Empty(t, c.carriedOut("POST /6"))
}

// TestSilentControlProcess: who waited for an answer in vain is not made to wait for another, and the next request
// goes elsewhere.
func TestSilentControlProcess(t *testing.T) {
	leave := make(chan struct{})
	c := newControls(t, 2, func(n int, _ http.ResponseWriter) bool {
		if n == 0 {
			<-leave
		}
		return false
	})
	t.Cleanup(func() { close(leave) }) // before the servers end
	w := newWorld(t, func(s *settings) { c.serve(s); s.ControlTimeout = 100 * time.Millisecond })
	waittest.Until(t, func() bool { return w.gateway.ControlReady(t.Context()) == nil }, "the other one answers")
	silent := w.raw("GET /a HTTP/1.1\r\nHost: m\r\n\r\n")
	require.Equal(t, 503, silent.status)
	waittest.Until(t, func() bool { return w.raw("GET /b HTTP/1.1\r\nHost: m\r\n\r\n").body == "1: " }, "the other one has the time that it needs")
}

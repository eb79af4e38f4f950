package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
)

// longAndShort is a control whose answer is 48 MiB under /long, 5,000 bytes in chunks under all other
// paths, and as long as the path says under /sized and /chunked. reached counts the requests.
func longAndShort(reached *atomic.Int64) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		size := 5000 // more than net/http sends with a length of its own accord
		if strings.HasSuffix(r.URL.Path, "/long") {
			size = 48 << 20 // more than any buffer between control and the client
		}
		_, _ = fmt.Sscanf(r.URL.Path, "/chunked/%d", &size)
		if n, _ := fmt.Sscanf(r.URL.Path, "/sized/%d", &size); n == 1 {
			rw.Header().Set("Content-Length", fmt.Sprint(size))
		}
		for block := make([]byte, 1000); size > 0; size -= len(block) {
			if _, err := rw.Write(block[:min(len(block), size)]); err != nil {
				return
			}
		}
	}
}

// of returns a request with a key; none if it is empty.
func of(key, method, path string) string {
	head := method + " " + path + " HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\n"
	if key != "" {
		head += "Authorization: Bearer " + key + "\r\n"
	}
	return head + "\r\n"
}

// readSlowly gets n long answers and reads nothing of them.
func (w *world) readSlowly(key, path string, n int) (leave func()) {
	w.t.Helper()
	return w.beginSlowly(key, "GET", path, n)
}

func (w *world) beginSlowly(key, method, path string, n int) (leave func()) {
	w.t.Helper()
	var slow []io.Closer
	leave = func() {
		for _, conn := range slow {
			conn.Close()
		}
	}
	w.t.Cleanup(leave) // or a failure would wait for them
	for range n {
		conn := w.dial()
		_, err := io.WriteString(conn, of(key, method, path))
		require.NoError(w.t, err)
		first := make([]byte, len("HTTP/1.1 200"))
		_, err = io.ReadFull(conn, first)
		require.NoError(w.t, err)
		require.Equal(w.t, "HTTP/1.1 200", string(first))
		slow = append(slow, conn)
	}
	return leave
}

// TestSlowReadersTakeOnlyTheirOwn: readers of pages and of bundles, the sandbox and each tenant fill their places with
// long answers that nobody reads. They are refused more, before control hears of it, and nobody else is. Changes of a tenant whose reads are refused are carried out.
func TestSlowReadersTakeOnlyTheirOwn(t *testing.T) {
	var reached atomic.Int64
	serve := withControl(t, longAndShort(&reached))
	w := newWorld(t, func(c *settings) { serve(c); c.MaxForwards, c.MaxStreams = 1, 32 })
	const visited = "/api/sandbox/inspect"
	answered := func(key, method, path string) {
		t.Helper()
		require.Equal(t, 200, w.raw(of(key, method, path)).status, "%s %s", method, path)
	}
	refused := func(key, method, path string) {
		t.Helper()
		before := reached.Load()
		r := w.raw(of(key, method, path))
		require.Equal(t, 429, r.status, "%s %s", method, path)
		require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
		requireEnvelope(t, r)
		require.Equal(t, before, reached.Load(), "a refusal comes before the work")
	}
	var leave []func()
	fill := func(key, path, other string, reads int) {
		leave = append(leave, w.readSlowly(key, path, reads))
		refused(key, "GET", path)
		refused(key, "GET", other)
	}
	fill("", "/openapi.json/long", "/docs", 3) // of an address: an eighth of 32, and a quarter of it is for changes
	refused("no key", "GET", "/openapi.json/long")
	answered("", "GET", "/.well-known/muniment/keys.json")
	answered("", "GET", "/downloads/1")
	fill("", "/downloads/long", "/downloads/1", 3)
	refused(w.token, "GET", "/downloads/1")
	answered("", "GET", "/.well-known/muniment/keys.json")
	answered("", "GET", "/v1/rights")
	fill(w.token, "/v1/events/long", "/v1/rights", 6) // of a tenant: a quarter of 32
	refused(w.readToken, "GET", "/v1/rights")
	answered(w.otherToken, "GET", "/v1/rights")
	answered(w.token, "POST", "/v1/rights/suspend")
	answered(w.token, "PATCH", "/v1/rights/1")
	leave = append(leave, w.beginSlowly(w.token, "POST", "/v1/settlement/rules/dry-run/long", 2))
	refused(w.token, "POST", "/v1/rights/suspend")
	leave = append(leave, w.readSlowly("", visited+"/long", 3))
	require.Equal(t, 429, w.raw(of("", "GET", visited)).status)
	answered(w.otherToken, "GET", "/v1/rights")
	answered(w.otherToken, "DELETE", "/v1/rights/1")

	for _, l := range leave {
		l()
	}
	for _, kind := range w.gateway.control.kinds() {
		c := kind.places
		waittest.Until(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.all == 0 && len(c.held) == 0
		}, "a place comes back when its reader leaves")
	}
	answered("", "GET", "/v1/rights")
	answered(w.token, "GET", "/v1/rights")
}

// TestPlacesOfAll: when all places of a kind are taken, changes get what is left of them.
func TestPlacesOfAll(t *testing.T) {
	s := newPlaces(16, 4)
	for i := range 12 {
		require.Equal(t, admitted, s.take(fmt.Sprint(i/3), false))
	}
	require.Equal(t, ownerTaken, s.take("0", false))
	require.Equal(t, allTaken, s.take("new", false))
	for i := range 4 {
		require.Equal(t, admitted, s.take(fmt.Sprint(i), true))
		require.Equal(t, ownerTaken, s.take(fmt.Sprint(i), true))
	}
	require.Equal(t, allTaken, s.take("new", true))
	s.release("0")
	require.Equal(t, admitted, s.take("new", true))
}

// TestAnswersInMemoryHaveNoPlace: an answer is relayed whatever its length and framing, and
// one of up to 64 KiB has no place once it is in memory.
func TestAnswersInMemoryHaveNoPlace(t *testing.T) {
	var reached atomic.Int64
	serve := withControl(t, longAndShort(&reached))
	w := newWorld(t, func(c *settings) { serve(c); c.MaxForwards, c.MaxStreams = 1, 4 })
	for _, path := range []string{"/sized/0", "/sized/1", "/sized/65536", "/chunked/1", "/chunked/65536"} {
		for range 5 { // a tenant has one place
			r := w.raw(of(w.token, "GET", path))
			require.Equal(t, 200, r.status)
			require.Len(t, r.body, int(sizeOf(path)))
			require.NotEmpty(t, r.header.Get("Content-Length"), path)
			w.readSlowly(w.token, path, 1)
		}
	}
	for _, path := range []string{"/sized/65537", "/chunked/65537", "/chunked/1000000"} {
		for _, method := range []string{"GET", "POST"} {
			r := w.raw(of(w.token, method, path))
			require.Equal(t, 200, r.status)
			require.Len(t, r.body, int(sizeOf(path)))
			waittest.Until(t, func() bool {
				w.gateway.control.tenants.places.mu.Lock()
				defer w.gateway.control.tenants.places.mu.Unlock()
				return w.gateway.control.tenants.places.all == 0
			})
		}
	}
}

func sizeOf(path string) (n int64) {
	_, _ = fmt.Sscan(path[strings.LastIndexByte(path, '/')+1:], &n)
	return n
}

// TestControlThatDiesWithinAShortAnswer: nothing of it was sent, so that the caller gets an error.
func TestControlThatDiesWithinAShortAnswer(t *testing.T) {
	w := newWorld(t, withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sized" {
			rw.Header().Set("Content-Length", "1000")
		}
		_, _ = io.WriteString(rw, strings.Repeat("half", 100))
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	for _, path := range []string{"/sized", "/chunked"} {
		r := w.raw(of("", "GET", path))
		require.Equal(t, 503, r.status, path)
		require.Contains(t, r.body, string(api.ControlUnavailable))
	}
}

// TestSlowReaderIsCutOff: a client that takes a long answer more slowly than the least rate loses it, and its place is
// free. No client is as fast as the rate here.
func TestSlowReaderIsCutOff(t *testing.T) {
	var reached atomic.Int64
	serve := withControl(t, longAndShort(&reached))
	w := newWorld(t, func(c *settings) {
		serve(c)
		c.MaxStreams, c.LeastRate, c.RateWindow = 4, 1<<50, time.Nanosecond
	})
	for range 3 { // a tenant has one place
		conn := w.dial()
		_, err := io.WriteString(conn, of(w.token, "GET", "/v1/events/long"))
		require.NoError(t, err)
		resp, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(resp[:20]), "200")
		require.False(t, strings.HasSuffix(string(resp), "\r\n0\r\n\r\n"), "it must not look complete")
		waittest.Until(t, func() bool {
			w.gateway.control.tenants.places.mu.Lock()
			defer w.gateway.control.tenants.places.mu.Unlock()
			return w.gateway.control.tenants.places.all == 0
		})
	}
}

// TestPace: what counts is the average of a window, without the time in which control is silent.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{least: 1000, window: 10 * time.Second}
		piece := func(bytes int, takes time.Duration) error {
			time.Sleep(time.Hour) // for control
			p.hand(bytes, time.Now())
			time.Sleep(takes)
			return p.taken(time.Now())
		}
		require.NoError(t, p.taken(time.Now()), "nothing was handed on yet")
		for range 10 {
			require.NoError(t, piece(100, 5*time.Second), "slow at first")
			require.NoError(t, piece(9900, 5*time.Second))
		}
		require.NoError(t, piece(1_000_000, 5*time.Second))
		require.NoError(t, piece(1, 5*time.Second))
		require.NoError(t, piece(9_000, 9*time.Second), "an earlier window does not count, and this is not over")
		require.ErrorIs(t, piece(100, time.Second), errSlowReader)
	})
	require.NoError(t, (*pace)(nil).taken(time.Now()))
}

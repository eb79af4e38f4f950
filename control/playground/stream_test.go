package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
)

func never() bool { return false }

// reader is a connection that may stall.
type reader struct {
	mu   sync.Mutex
	text bytes.Buffer
	held chan struct{} // nil: it reads
}

func (r *reader) Write(b []byte) (int, error) {
	if r.held != nil {
		<-r.held
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *reader) read() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func TestHeartbeatsAndTheEndOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed()
		st, err := f.open("tnt_1", "a")
		require.NoError(t, err)
		r := &reader{}
		began := time.Now()
		st.serve(t.Context(), r, never)
		require.Equal(t, longest, time.Since(began))
		require.InDelta(t, int(longest/heartbeat), strings.Count(r.read(), ":\n\n"), 1, "the last beat falls together with the end")
		require.True(t, strings.HasSuffix(r.read(), "event: end\ndata: {\"reason\":\"EXPIRED\"}\n\n"))
	})
}

// TestAnotherProcessDropsTheTenant: it is noticed with the next heartbeat.
func TestAnotherProcessDropsTheTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := NewFeed().open("tnt_1", "a")
		require.NoError(t, err)
		r := &reader{}
		var gone atomic.Bool
		time.AfterFunc(heartbeat+time.Second, func() { gone.Store(true) })
		began := time.Now()
		st.serve(t.Context(), r, gone.Load)
		require.Equal(t, 2*heartbeat, time.Since(began))
		require.Contains(t, r.read(), `"DROPPED"`)
	})
}

// TestSlowReader: its queue is bounded, it is told so if it reads on, and nobody waits for it.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed()
		deliver := f.Watch(func(context.Context, string, string, []byte) ([]byte, error) { return []byte(`{"data":{}}`), nil })
		st, err := f.open("tnt_1", "a")
		require.NoError(t, err)
		slow := &reader{held: make(chan struct{})}
		ended := make(chan struct{})
		go func() { st.serve(t.Context(), slow, never); close(ended) }()
		synctest.Wait()
		began := time.Now()
		for range 10 * queued {
			_, err := deliver(t.Context(), "tnt_1", "key_1", []byte(`{"rightId":"rgh_1"}`))
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		require.Len(t, st.queue, queued)
		close(slow.held)
		<-ended
		require.Regexp(t, "^retry: [56]000\n\nevent: end\ndata: {\"reason\":\"SLOW\"}\n\n$", slow.read())
	})
}

func TestReaderIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := NewFeed().open("tnt_1", "a")
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		began := time.Now()
		st.serve(ctx, &reader{}, never)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// TestReaderWhoStopsReading keeps a connection open and takes nothing from it.
func TestReaderWhoStopsReading(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	ended := make(chan time.Duration, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st, err := f.open("tnt_1", "a")
		if err != nil {
			panic(err)
		}
		defer f.close(st)
		began := time.Now()
		st.serve(r.Context(), w, never)
		ended <- time.Since(began)
	}))
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(1))
	_, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	waittest.Until(t, func() bool { return f.watches("tnt_1") })
	long := event("receipt", strings.Repeat("x", 1<<20))
	for f.watches("tnt_1") { // until what the system buffers is full, and then the queue, or the time to write is up
		f.publish("tnt_1", long)
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func TestPlaces(t *testing.T) {
	f := NewFeed()
	open := func(tenant, address string) *stream {
		st, err := f.open(tenant, address)
		require.NoError(t, err)
		return st
	}
	full := func(tenant, address string) {
		_, err := f.open(tenant, address)
		require.Equal(t, api.RateLimited, api.From(err).Code)
		require.Positive(t, api.From(err).RetryAfter)
	}
	first := open("tnt_0", "a0")
	open("tnt_0", "a0")
	full("tnt_0", "a0")
	full("tnt_0", "a1")
	f.close(first)
	open("tnt_0", "a1")
	for i := 1; f.from["a0"] < mostOfAddress; i++ {
		open(fmt.Sprint("tnt_", i), "a0")
	}
	full("tnt_100", "a0")
	for i := 0; f.all < mostStreams; i++ {
		open(fmt.Sprint("tnt_a", i), fmt.Sprint("b", i))
	}
	full("tnt_101", "c")
	for _, of := range f.watched {
		for _, st := range of {
			f.close(st)
		}
	}
	require.Empty(t, f.watched)
	require.Empty(t, f.from)
	require.Zero(t, f.all)
	open("tnt_101", "c")

	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, f.Run(ctx))
	_, err := f.open("tnt_101", "c")
	require.Equal(t, api.Draining, api.From(err).Reason)
}

func TestEventsAreOneLine(t *testing.T) {
	body := []byte(`{"rightId":"a\nb\r"}`)
	for _, text := range [][]byte{
		seen(body, []byte("{\"data\":{\n\"a\":\r\n1}}"), nil),
		seen(body, nil, &api.Error{Code: api.PreconditionFailed, Message: "a\nb", Violations: []byte("[\n1]")}),
		seen([]byte("no JSON"), nil, &api.Error{Code: api.BadRequest}),
	} {
		lines := strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n")
		require.Len(t, lines, 2)
		require.NotContains(t, lines[1], "\r")
	}
	require.Nil(t, seen(body, nil, errors.New("unknown")), "nothing is known of it")
	require.Nil(t, seen(body, []byte("no JSON"), nil))
}

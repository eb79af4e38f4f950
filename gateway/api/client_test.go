package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientOfSeveralProcesses: it stays with one, goes on with the next, and has nothing carried out twice.
func TestClientOfSeveralProcesses(t *testing.T) {
	var mu sync.Mutex
	var reached []int // by the requests that began
	behave := map[int]func(w http.ResponseWriter){}
	var urls []string
	var servers []*httptest.Server
	for n := range 3 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			mu.Lock()
			defer mu.Unlock()
			reached = append(reached, n)
			if do := behave[n]; do != nil {
				do(w)
				return
			}
			_, _ = io.WriteString(w, `{"ok":true,"data":{}}`)
		}))
		t.Cleanup(s.Close)
		servers, urls = append(servers, s), append(urls, s.URL)
	}
	c, err := NewClient(urls, nil)
	require.NoError(t, err)
	send := func() (by []int, err error) {
		mu.Lock()
		reached = nil
		mu.Unlock()
		err = c.Do(t.Context(), "", http.MethodPost, "/x", map[string]string{"a": "b"}, &struct{}{})
		mu.Lock()
		defer mu.Unlock()
		return reached, err
	}
	set := func(n int, do func(http.ResponseWriter)) {
		mu.Lock()
		defer mu.Unlock()
		behave[n] = do
	}
	sent := func(by []int, ok bool, why string) {
		t.Helper()
		got, err := send()
		require.Equal(t, by, got, why)
		require.Equal(t, ok, err == nil, "%s: %v", why, err)
	}
	status := func(s int, notBegun string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if notBegun != "" {
				w.Header().Set(HeaderNotBegun, notBegun)
			}
			w.WriteHeader(s)
		}
	}
	sent([]int{0}, true, "the first")
	set(0, status(http.StatusConflict, ""))
	sent([]int{0}, false, "a refusal is an answer")
	sent([]int{0}, false, "and it stays there")
	set(0, func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
	sent([]int{0}, false, "it may have been carried out")
	set(0, nil)
	sent([]int{1}, true, "the next request goes to the next")
	set(1, status(http.StatusServiceUnavailable, ""))
	sent([]int{1}, false, "who says 503 may have begun")
	sent([]int{2}, true, "the next")
	set(2, status(http.StatusServiceUnavailable, "1"))
	sent([]int{2, 0}, true, "unless it says that it has not begun")
	set(0, status(http.StatusInternalServerError, "1"))
	sent([]int{0}, false, "with another status it means nothing")
	set(0, nil)
	set(1, nil)
	sent([]int{1}, true, "the next")
	set(1, status(http.StatusServiceUnavailable, ""))
	sent([]int{1}, false, "and on")
	set(2, status(http.StatusServiceUnavailable, "1"))
	sent([]int{2, 0}, true, "back at the first")
	servers[0].CloseClientConnections()
	servers[0].Close()
	c.client.CloseIdleConnections()
	set(1, nil)
	sent([]int{1}, true, "a connection that is refused has sent nothing")
	servers[1].CloseClientConnections()
	servers[1].Close()
	servers[2].Close()
	c.client.CloseIdleConnections()
	sent(nil, false, "all are away")
}

// TestClientThatIsCanceled stays where it is; one whose time is over goes on with the next.
func TestClientThatIsCanceled(t *testing.T) {
	leave := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(leave) })
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) }))
	t.Cleanup(other.Close)
	c, err := NewClient([]string{silent.URL, other.URL}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	require.ErrorIs(t, c.Do(ctx, "", "GET", "/x", nil, nil), context.Canceled)
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Do(ctx, "", "GET", "/x", nil, nil), context.DeadlineExceeded, "it is still the first")
	require.NoError(t, c.Do(t.Context(), "", "GET", "/x", nil, nil))
}

// TestURLsOfControl: each of several has to be one.
func TestURLsOfControl(t *testing.T) {
	for _, bad := range [][]string{nil, {""}, {"https://a", ""}, {"", "https://a"}, {"https://a", "control:8082"}, {"https://a", "http://10.0.0.1:1"}, {"https://a", " https://b"}, {"https://a,https://b"}} {
		_, err := NewClient(bad, nil)
		require.ErrorContains(t, err, "must be https://host:port", bad)
	}
	_, err := NewClient([]string{"https://a:1", "http://127.0.0.1:2"}, nil)
	require.NoError(t, err)
}

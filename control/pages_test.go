package control_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control"
	"muniment.example/control/store"
)

// TestPagesTakeTurns: what pages change for strangers waits in a line of its own, not ahead of operators, nodes and jobs in theirs.
func TestPagesTakeTurns(t *testing.T) {
	h := newFixture(t)
	config := h.config()
	config.Console = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := h.db.Change(r.Context(), func(*store.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	c, err := control.New(config)
	require.NoError(t, err)

	begun, end := make(chan struct{}), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() { _ = h.db.Change(t.Context(), func(*store.Tx) error { close(begun); <-end; return nil }) })
	<-begun
	const strangers = 5
	for n := range strangers {
		ended.Go(func() {
			c.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/console/sign-in", nil))
		})
		waittest.Until(t, func() bool { return h.db.WaitingChanges() == n+1 })
	}
	behind := 0
	ended.Go(func() {
		if err := h.db.Change(t.Context(), func(*store.Tx) error { behind = h.db.WaitingChanges(); return nil }); err != nil {
			t.Error(err)
		}
	})
	waittest.Until(t, func() bool { return h.db.WaitingChanges() == strangers+1 })
	close(end)
	ended.Wait()
	require.Equal(t, strangers-1, behind, "one of theirs is ahead of the system's")
}

// TestEveryRefusalSaysWhenToComeAgain: whatever serves a page, a 429 or 503 has Retry-After.
func TestEveryRefusalSaysWhenToComeAgain(t *testing.T) {
	h := newFixture(t)
	config := h.config()
	var status int
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	config.Console, config.Payees = page, page
	c, err := control.New(config)
	require.NoError(t, err)
	for _, path := range []string{"/console", "/console/sign-in", "/payee/x"} {
		for _, status = range []int{429, 503, 404} {
			w := httptest.NewRecorder()
			c.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, nil))
			require.Equal(t, status, w.Code)
			require.Equal(t, status != 404, w.Header().Get("Retry-After") != "", path)
		}
	}
}

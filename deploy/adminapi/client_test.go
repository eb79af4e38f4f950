package adminapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWarehouseIsWaitedFor: an operation that needs it is sent again until it has caught
// up, and no other refusal is.
func TestWarehouseIsWaitedFor(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		reason := "LOG_UNAVAILABLE"
		switch {
		case requests == 3:
			_, _ = io.WriteString(w, `{"ok":true,"data":{"n":7}}`)
			return
		case requests < 3:
			reason = "WAREHOUSE_BEHIND"
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"ok":false,"reason":"`+reason+`"}`)
	}))
	defer server.Close()
	client := Client{API: server.URL}
	var got struct{ N int }
	require.NoError(t, client.Do(t.Context(), "POST", "/", map[string]any{}, &got))
	require.Equal(t, 7, got.N)
	require.Equal(t, 3, requests)
	require.ErrorContains(t, client.Do(t.Context(), "POST", "/", nil, nil), "LOG_UNAVAILABLE")
	require.Equal(t, 4, requests)
}

// TestWarehouseIsNotAskedInALoop: while it is behind, requests come as seldom as the server asks for, soon, and
// the first of them at once.
func TestWarehouseIsNotAskedInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, requests := time.Now(), 0
		client := Client{API: "http://server.example", HTTP: &http.Client{Transport: transport(func(*http.Request) *http.Response {
			requests++
			answer := httptest.NewRecorder()
			if time.Since(began) < time.Minute {
				answer.Header().Set("Retry-After", "2")
				answer.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(answer, `{"ok":false,"reason":"WAREHOUSE_BEHIND"}`)
			} else {
				_, _ = io.WriteString(answer, `{"ok":true}`)
			}
			return answer.Result()
		})}}
		require.NoError(t, client.Do(t.Context(), "GET", "/", nil, nil))
		require.Less(t, time.Since(began), time.Minute+4*time.Second)
		require.InDelta(t, 32, requests, 8)
	})
}

type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(q *http.Request) (*http.Response, error) { return f(q), nil }

// TestRedirectIsNotFollowed: a command sends its token to the server that it was given, and to no other.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect is followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	require.ErrorContains(t, Client{API: server.URL, Key: "secret"}.Do(t.Context(), "POST", "/", map[string]any{}, nil), "answered 307")
}

package gateway

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALineForEachRequest: at debug each request that is answered here has one line; those
// that control answers have theirs there. Above debug neither a success nor a refusal has.
func TestALineForEachRequest(t *testing.T) {
	var logged syncBuffer
	serve := withControl(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) })
	w := newWorld(t, func(c *settings) {
		serve(c)
		c.Logger = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	type line struct {
		Level, Msg, RequestID, Method, Route, TenantID string
		Status                                         int
		Duration                                       *int64
	}
	for _, c := range []struct {
		name, text string
		want       line
	}{
		{"a delivery", request(w.token, w.body()), line{Method: "POST", Route: "delivery", Status: 200, TenantID: "tnt_a"}},
		{"no key", request("", w.body()), line{Method: "POST", Route: "delivery", Status: 401}},
		{"no right", request(w.otherToken, w.body()), line{Method: "POST", Route: "delivery", Status: 404, TenantID: "tnt_b"}},
		{"no scope", request(w.readToken, w.body()), line{Method: "POST", Route: "delivery", Status: 403, TenantID: "tnt_a"}},
		{"no JSON", request(w.token, "{"), line{Method: "POST", Route: "delivery", Status: 400, TenantID: "tnt_a"}},
		{"too long", request(w.token, strings.Repeat(" ", maxDeliveryBody+1)), line{Method: "POST", Route: "delivery", Status: 413}},
		{"the contract", "GET /v1 HTTP/1.1\r\nHost: m\r\nX-Request-Id: req-1\r\n\r\n", line{Method: "GET", Route: "contract", Status: 200}},
		{"a method of its own", "A-SECRET /v1 HTTP/1.1\r\nHost: m\r\nX-Request-Id: req-1\r\n\r\n", line{Method: "other", Route: "contract", Status: 405}},
		{"a bad path", "GET /v1/%zz HTTP/1.1\r\nHost: m\r\nX-Request-Id: req-1\r\n\r\n", line{Method: "GET", Route: "control", Status: 400}},
		{"what can't be read", "GET /v1 HTTP/1.1\r\nHost: m\r\nX-Request-Id: req-1\r\nContent-Length: +2\r\n\r\n", line{Method: "GET", Route: "control", Status: 400}},
		{"what control answers", "GET /v1/rights HTTP/1.1\r\nHost: m\r\nX-Request-Id: req-1\r\n\r\n", line{Status: http.StatusTeapot}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			before := len(logged.String())
			r := w.raw(c.text)
			require.Equal(t, c.want.Status, r.status, r.body)
			var lines []line
			for text := range strings.Lines(logged.String()[before:]) {
				var l line
				require.NoError(t, json.Unmarshal([]byte(text), &l))
				require.Equal(t, "DEBUG", l.Level, text)
				if l.Msg == "request" {
					require.NotNil(t, l.Duration, text)
					l.Duration = nil
					lines = append(lines, l)
				}
			}
			if c.want.Method == "" {
				require.Empty(t, lines)
				return
			}
			c.want.Level, c.want.Msg, c.want.RequestID = "DEBUG", "request", r.header.Get("X-Request-Id")
			require.Equal(t, []line{c.want}, lines)
		})
	}
	w.t = t
	require.NotContains(t, logged.String(), "SECRET")
	require.NotContains(t, logged.String(), w.token[20:40])
}

package client

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// answer is a row of testdata/answers.json, by which the three clients are tested: what a call and a
// buffer do about an answer of the service, or of something on the way.
type answer struct {
	Name    string
	Status  int
	Headers map[string]string
	Body    string
	// Kind is the sentinel.
	Kind string
	// Again says that a call makes another attempt.
	Again bool
	// RetryAfter is how many seconds the service asks to wait; 0 if it does not.
	RetryAfter float64
	// Buffer says what becomes of the play: it waits, and is sent again; or it is refused; or the upload
	// stops, and the play stays.
	Buffer string
}

func (a *answer) respond(r *http.Request) *http.Response {
	var headers []string
	for name, value := range a.Headers {
		headers = append(headers, name, value)
	}
	return respond(r, a.Status, a.Body, headers...)
}

// requirePause: it is as long as the service says, or else as the first of a policy.
func requirePause(t *testing.T, after float64, pause time.Duration) {
	t.Helper()
	least, most := 0.25, 0.501
	if after > 0 {
		least, most = after, after*1.25+0.002
	}
	require.GreaterOrEqual(t, pause.Seconds(), least)
	require.LessOrEqual(t, pause.Seconds(), most)
}

// TestAnswers holds calls and buffers against the table that the other clients have too.
func TestAnswers(t *testing.T) {
	text, err := os.ReadFile("testdata/answers.json")
	require.NoError(t, err)
	var answers []answer
	require.NoError(t, json.Unmarshal(text, &answers))
	kinds := map[string]error{
		"invalid": ErrInvalid, "auth": ErrAuth, "notFound": ErrNotFound, "conflict": ErrConflict, "precondition": ErrPrecondition,
		"rateLimited": ErrRateLimited, "unavailable": ErrUnavailable, "foreign": ErrForeign,
	}
	for _, a := range answers {
		t.Run(a.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))) // the bubble's clock begins in 2000
				var at []time.Time
				c := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
					at = append(at, time.Now())
					return a.respond(r), nil
				}), func(cfg *Config) { cfg.Retry.Attempts = 2 })
				_, err := c.Deliver(t.Context(), aDelivery)
				require.ErrorIs(t, err, kinds[a.Kind])
				var e *Error
				require.ErrorAs(t, err, &e)
				require.InDelta(t, a.RetryAfter, e.RetryAfter.Seconds(), 0)
				if !a.Again {
					require.Len(t, at, 1)
					return
				}
				require.Len(t, at, 2)
				requirePause(t, a.RetryAfter, at[1].Sub(at[0]))
			})
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
				l := newLedger()
				var at []time.Time
				refused := 0
				b := open(t, t.TempDir(), transport(func(r *http.Request) (*http.Response, error) {
					if at = append(at, time.Now()); len(at) == 1 {
						return a.respond(r), nil
					}
					return l.RoundTrip(r)
				}), func(cfg *BufferConfig) { cfg.Refused = func(Row, *Error) { refused++ } })
				require.NoError(t, b.Add(t.Context(), aDelivery))
				ctx, end := context.WithTimeout(t.Context(), 2*time.Hour)
				defer end()
				err := b.Run(ctx)
				stopped := a.Buffer == "stops"
				require.Equal(t, stopped, ctx.Err() == nil, "%v", err)
				require.Equal(t, stopped, b.Stats().Waiting == 1)
				require.Equal(t, a.Buffer == "refuses", refused == 1)
				require.Equal(t, a.Buffer == "waits", len(l.rows()) == 1)
				if a.Buffer == "waits" {
					requirePause(t, min(a.RetryAfter, 3600), at[1].Sub(at[0]))
				}
			})
		})
	}
	seen := map[int]bool{}
	for _, a := range answers {
		seen[a.Status] = true
	}
	for _, code := range api.Codes() {
		require.True(t, seen[code.Status()], "no answer has the status of %s", code)
	}
}

package remote

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfterIsKeptTo(t *testing.T) {
	for given, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "3": 3 * time.Second, "600": mostAfter, "601": mostAfter,
		"2147483648": mostAfter, "99999999999999999999999": mostAfter,
		"Fri, 01 Jan 2100 00:00:00 GMT": mostAfter, "Thu, 01 Jan 1970 00:00:00 GMT": 0,
	} {
		require.Equal(t, want, ReadRefusal(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {given}}}, nil).After, given)
	}
}

// TestWaitIsNoLongerThanIsLeft: what would be given up afterwards is given up at once.
func TestWaitIsNoLongerThanIsLeft(t *testing.T) {
	began := time.Now()
	require.False(t, Wait(t.Context(), 0, &Refusal{After: time.Minute}, time.Minute-1))
	require.Less(t, time.Since(began), time.Minute)
}

func TestOnlyWhatPassesIsRepeated(t *testing.T) {
	for status, want := range map[int]bool{400: false, 401: false, 408: true, 409: false, 425: true, 429: true, 500: true, 501: false, 502: true, 503: true, 504: true, 505: false} {
		require.Equal(t, want, (&Refusal{Status: status}).Passing(), status)
	}
}

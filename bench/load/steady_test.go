package load

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// TestSteadyTrafficFeelsAStall: requests that are due while the server stalls count
// from when they were due, not from when they could be sent.
func TestSteadyTrafficFeelsAStall(t *testing.T) {
	const stall = 300 * time.Millisecond
	addr := serveHTTP(t, func(ctx *fasthttp.RequestCtx) {
		if ctx.ConnRequestNum() == 1 {
			<-time.After(stall)
		}
	})
	got, err := Steady(t.Context(), addr, Requests("key", [][]byte{[]byte("{}")}), 1, 100, 600*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, got, 60)
	late := 0
	for _, took := range got {
		if took > stall/3 {
			late++
		}
	}
	require.GreaterOrEqual(t, late, 15, "of about 20 that were due in the first two thirds of the stall: %v", got)
}

func TestSteadyTrafficTakesNothingButSuccess(t *testing.T) {
	addr := serveHTTP(t, func(ctx *fasthttp.RequestCtx) {
		if ctx.ConnRequestNum() == 4 {
			ctx.SetStatusCode(http.StatusTooManyRequests)
		}
	})
	_, err := Steady(t.Context(), addr, Requests("key", [][]byte{[]byte("{}")}), 2, 100, 200*time.Millisecond)
	require.ErrorContains(t, err, "answered 429")
}

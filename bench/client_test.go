package bench

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// TestWarehouseIsWaitedFor: an operation that needs it is asked again until it has caught
// up, and no other refusal is.
func TestWarehouseIsWaitedFor(t *testing.T) {
	asked := 0
	client := Client{API: "http://" + serveHTTP(t, func(ctx *fasthttp.RequestCtx) {
		asked++
		reason := "LOG_UNAVAILABLE"
		switch {
		case asked == 3:
			ctx.SetBodyString(`{"ok":true,"data":{"n":7}}`)
			return
		case asked < 3:
			reason = "WAREHOUSE_BEHIND"
		}
		ctx.SetStatusCode(http.StatusServiceUnavailable)
		ctx.SetBodyString(`{"ok":false,"reason":"` + reason + `"}`)
	})}
	var told struct{ N int }
	require.NoError(t, client.Do(t.Context(), "POST", "/", map[string]any{}, &told))
	require.Equal(t, 7, told.N)
	require.Equal(t, 3, asked)
	require.ErrorContains(t, client.Do(t.Context(), "POST", "/", nil, nil), "LOG_UNAVAILABLE")
	require.Equal(t, 4, asked)
}

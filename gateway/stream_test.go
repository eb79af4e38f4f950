package gateway

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/waittest"
	"muniment/gateway/api"
)

// Clients that read a long answer slowly hold none of the places of those who ask
// for short ones, and no more than their share of the long ones.
func TestSlowReadersLeaveControlToOthers(t *testing.T) {
	const size = 48 << 20 // more than any buffer between control and the client
	serve := withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			fmt.Fprint(rw, "short")
			return
		}
		if tenant := r.Header.Get("X-Tenant"); tenant != "" {
			rw.Header().Set(api.HeaderTenant, tenant) // as control says it of a key
		}
		rw.Header().Set("Content-Length", fmt.Sprint(size))
		for block := make([]byte, 64<<10); ; {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	})
	w := newWorld(t, func(c *settings) { serve(c); c.MaxForwards, c.MaxStreams = 1, 32 })
	var slow []io.Closer
	for _, tenant := range []string{"", "tnt_a", "tnt_b"} {
		for range 2 { // a sixteenth of 32
			req, err := http.NewRequest("GET", "http://"+w.addr+"/long", nil)
			require.NoError(t, err)
			req.Header.Set("X-Tenant", tenant)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode, "from one address, but %q is not the others", tenant)
			require.Empty(t, resp.Header.Get(api.HeaderTenant), "it is no caller's business")
			slow = append(slow, resp.Body)
		}
		third := w.raw("GET /long HTTP/1.1\r\nHost: m\r\nX-Tenant: " + tenant + "\r\n\r\n")
		require.Equal(t, 429, third.status)
		require.Contains(t, []string{"1", "2"}, third.header.Get("Retry-After"))
		requireEnvelope(t, third)
	}
	for range 5 {
		require.Equal(t, "short", w.raw("GET /short HTTP/1.1\r\nHost: m\r\n\r\n").body)
	}

	for _, body := range slow {
		body.Close()
	}
	waittest.Until(t, func() bool {
		w.gateway.control.streams.mu.Lock()
		defer w.gateway.control.streams.mu.Unlock()
		return w.gateway.control.streams.all == 0 && len(w.gateway.control.streams.held) == 0
	}, "a place comes back when its reader leaves")
}

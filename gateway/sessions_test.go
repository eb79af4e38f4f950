package gateway

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

// TestMembersHavePlacesOfTheirTenant: strangers who take all places of pages and of the console keep out no session that control has answered;
// cookies that are forged or ended have no place, and control's word about sessions reaches nobody.
func TestMembersHavePlacesOfTheirTenant(t *testing.T) {
	valid := "good"
	reach := withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		said := api.NoSession
		if c, err := r.Cookie("__Host-" + api.CookieSession); err == nil && c.Value == valid {
			said = "tnt_a"
		}
		rw.Header().Set(api.HeaderSession, said)
		fmt.Fprint(rw, "page")
	})
	w := newWorld(t, func(c *settings) { reach(c); c.MaxStreams, c.BusyPause = 8, time.Millisecond })
	page := func(cookie string) int {
		r := w.raw("GET /console/rights HTTP/1.1\r\nHost: node\r\nCookie: a=b; __Host-muniment_session=" + cookie + "; x=" + fmt.Sprint(time.Now().UnixNano()) + "\r\n\r\n")
		require.Empty(t, r.header.Get(api.HeaderSession))
		return r.status
	}
	pages, console := w.gateway.control.pages.places, w.gateway.control.console.places
	for n := range pages.most {
		require.Equal(t, admitted, pages.take(fmt.Sprint(n), true))
	}
	require.Equal(t, 200, page("good"), "the console has places of its own")
	for n := range console.most {
		require.Equal(t, admitted, console.take(fmt.Sprint(n), true))
	}
	require.Equal(t, 200, page("good"))
	require.Equal(t, 429, page("forged"))
	require.Equal(t, 429, page("good; muniment_session_8080=good"), "of two none counts")
	valid = ""
	require.Equal(t, 200, page("good"), "it has ended, and control says so")
	require.Equal(t, 429, page("good"))

	var s sessions
	for n := range mostSessions + 100 {
		var h fasthttp.RequestHeader
		h.SetCookie(api.CookieSession, fmt.Sprint(n))
		s.learn(&h, "tnt_a")
		require.Equal(t, "tnt_a", s.tenant(&h))
	}
	require.Len(t, s.of, mostSessions)
}

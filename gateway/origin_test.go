package gateway

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOrigin: with n trusted proxies a caller can write whatever it likes before what
// they write, and control sees the same.
func TestOrigin(t *testing.T) {
	var seen []string
	control := withControl(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Values("X-Forwarded-For") })
	for _, c := range []struct {
		proxies int
		headers string
		origin  string
	}{
		{0, "", "127.0.0.1"},
		{0, "X-Forwarded-For: 6.6.6.6\r\n", "127.0.0.1"},
		{1, "", "127.0.0.1"},
		{1, "X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"},
		{1, "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\n", "192.0.2.1"},
		{1, "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 192.0.2.1\r\n", "192.0.2.1"},
		{1, "X-Forwarded-For: 192.0.2.1:4711\r\n", "192.0.2.1"},
		{1, "X-Forwarded-For: [2001:db8::1]:4711\r\n", "2001:db8::1"},
		{1, "X-Forwarded-For: ::ffff:192.0.2.1\r\n", "192.0.2.1"},
		{1, "X-Forwarded-For: 6.6.6.6, unknown\r\n", "127.0.0.1"},
		{1, "X-Forwarded-For: 6.6.6.6,\r\n", "127.0.0.1"},
		{1, "X-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n", "127.0.0.1"},
		{2, "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.1\r\n", "192.0.2.1"},
		{2, "X-Forwarded-For: 10.0.0.1\r\n", "10.0.0.1"},
		{2, "X-Forwarded-For: 6.6.6.6, , 10.0.0.1\r\n", "10.0.0.1"},
	} {
		w := newWorld(t, func(cfg *settings) { control(cfg); cfg.TrustedProxies = c.proxies })
		require.Equal(t, 200, w.raw("GET /a HTTP/1.1\r\nHost: m\r\n"+c.headers+"\r\n").status)
		require.Equal(t, []string{c.origin}, seen, "%d proxies, %q", c.proxies, c.headers)
	}
}

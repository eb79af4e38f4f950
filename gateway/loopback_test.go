package gateway

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLoopbackOnly: a listener on another address may be reached by any name.
func TestLoopbackOnly(t *testing.T) {
	answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for listens, checked := range map[string]bool{
		"127.0.0.1:9090": true, "127.1.2.3:9090": true, "[::1]:9090": true,
		"0.0.0.0:9090": false, "[::]:9090": false, "10.0.0.1:9090": false,
	} {
		at, err := net.ResolveTCPAddr("tcp", listens)
		require.NoError(t, err)
		for host, local := range map[string]bool{
			"localhost:1": true, "LocalHost": true, "127.255.0.1": true, "[::1]:9090": true, "[::ffff:127.0.0.1]": true,
			"edge-1:9090": false, "localhost.example": false, "127.0.0.1.example": false, "10.0.0.1:9090": false, "[::2]": false, "": false,
		} {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Host = host
			w := httptest.NewRecorder()
			LoopbackOnly(at, answers).ServeHTTP(w, r)
			want := http.StatusOK
			if checked && !local {
				want = http.StatusForbidden
			}
			require.Equal(t, want, w.Code, "%q at %s", host, listens)
		}
	}
}

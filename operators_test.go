package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
)

// TestRefusedAtStart: who is refused while control starts can name the request.
func TestRefusedAtStart(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/v1/rights", nil)
	r.Header.Set("X-Request-Id", "req-1")
	w := httptest.NewRecorder()
	refuseAtStart(w, r)
	require.Equal(t, 503, w.Code)
	systemtest.RequireEnvelope(t, systemtest.Response{Status: w.Code, Header: w.Header(), Body: w.Body.String()})
}

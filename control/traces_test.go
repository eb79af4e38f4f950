package control_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/pipeline/trace"
	"muniment.example/pipeline/trace/tracetest"
)

// TestRequestsTraced: control follows what the gateway decided, and decides itself where nobody did. What it refuses
// has no span.
func TestRequestsTraced(t *testing.T) {
	const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	h := newFixture(t)
	tenantID, key := h.tenant()
	collector := tracetest.New(t)
	tracer, err := trace.New(trace.Config{Endpoint: collector.URL, Sample: 1, Service: "control"})
	require.NoError(t, err)
	cfg := h.config()
	cfg.Tracer = tracer
	c, err := control.New(cfg)
	require.NoError(t, err)
	get := func(path string, traceparents ...string) int {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		for _, p := range traceparents {
			r.Header.Add(trace.Header, p)
		}
		w := httptest.NewRecorder()
		c.Handler().ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, 200, get("/v1/tenant", sampled))
	require.Equal(t, 200, get("/v1/tenant", strings.TrimSuffix(sampled, "1")+"0"))
	require.Equal(t, 404, get("/v1/rights/rgh_secret", sampled))
	require.Equal(t, 404, get("/secret", sampled))
	require.Equal(t, 200, get("/v1/tenant", "nonsense"))
	require.Equal(t, 200, get("/v1/tenant", sampled, sampled))

	flushed, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, tracer.Run(flushed))
	spans := collector.Spans()
	require.Len(t, spans, 3)
	require.Equal(t, tracetest.Span{
		Service: "control", Trace: sampled[3:35], ID: spans[0].ID, Parent: sampled[36:52], Name: "get-tenant", Kind: 2, Began: spans[0].Began, Ended: spans[0].Ended,
		Attributes: map[string]string{"http.request.method": "GET", "http.response.status_code": "200", "muniment.tenant.id": tenantID},
	}, spans[0])
	require.Empty(t, spans[1].Parent)
	require.Empty(t, spans[2].Parent)
}

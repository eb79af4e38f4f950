package webhook

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/roomtest"
	"muniment.example/pipeline/trace"
	"muniment.example/pipeline/trace/tracetest"
)

// TestAttemptTraced: an attempt that is sampled has a span, and the receiver gets its traceparent.
func TestAttemptTraced(t *testing.T) {
	collector := tracetest.New(t)
	tracer, err := trace.New(trace.Config{Endpoint: collector.URL, Sample: 1, Service: "control"})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tracer.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })

	s := newFixture(t, roomtest.NewClock(noon), func(c *Config) { c.Tracer = tracer })
	r, got := newReceiver(t), make(chan string, 10)
	s.queueing()
	s.run(s.Run)
	w := s.hook(r, "right.*")
	r.answers(func(_ http.ResponseWriter, req *http.Request) { got <- req.Header.Get(trace.Header) })
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	waittest.Until(t, func() bool { return len(collector.Spans()) > 0 })
	span := collector.Spans()[0]
	require.Equal(t, "00-"+span.Trace+"-"+span.ID+"-01", <-got)
	require.Equal(t, []string{"send a webhook", w.ID}, []string{span.Name, span.Attributes["muniment.webhook.id"]})
}

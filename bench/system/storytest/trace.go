package storytest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/pipeline/trace"
	"muniment.example/pipeline/trace/tracetest"
)

// Trace follows a delivery from a caller, who samples it, into the warehouse, and then a seal. The service exports to
// the collector, and samples nothing by itself. The processes are named as services name themselves: the one that
// answers, control, and the loader. It returns the spans of the delivery, the caller's first.
func Trace(t *testing.T, s *systemtest.Service, collector *tracetest.Collector, answers, control, loader string) []tracetest.Span {
	caller, err := trace.New(trace.Config{Endpoint: collector.URL, Sample: 1, Service: "caller"})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- caller.Run(ctx) }()
	call := func(o systemtest.Operation) (spans func(n int) []tracetest.Span, answer systemtest.Response) {
		span := caller.Start(trace.ID{}, trace.Client, "deliver", time.Now())
		answer = systemtest.Call(t, s.Client.API, s.Client.Key, o, trace.Header, span.Traceparent(), "tracestate", "secret=of-the-caller")
		span.End()
		return func(n int) (all []tracetest.Span) {
			waittest.Until(t, func() bool { all = collector.Of(span.TraceID()); return len(all) >= n }, "the spans arrive")
			return all
		}, answer
	}
	spansOf := func(o systemtest.Operation, n int) ([]tracetest.Span, systemtest.Response) {
		spans, answer := call(o)
		require.Equal(t, 200, answer.Status, answer.Body)
		return spans(n), answer
	}
	shape := func(all []tracetest.Span) (lines []string) {
		names := map[string]string{"": ""}
		for _, span := range all {
			names[span.ID] = span.Name
		}
		for _, span := range all {
			lines = append(lines, span.Service+": "+span.Name+" < "+names[span.Parent])
		}
		slices.Sort(lines)
		return lines
	}

	right := s.Rights["DOOH"]
	delivered, answer := spansOf(systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: systemtest.Delivery(right)}, 4)
	require.ElementsMatch(t, []string{
		"caller: deliver < ",
		answers + ": POST /v1/delivery < deliver",
		answers + ": append to the log < POST /v1/delivery",
		loader + ": load into the warehouse < append to the log",
	}, shape(delivered))
	var data struct {
		Data struct{ Receipt struct{ ReceiptID string } }
	}
	require.NoError(t, json.Unmarshal([]byte(answer.Body), &data))
	eventID := "evt_" + data.Data.Receipt.ReceiptID[len("rcp_"):]
	for _, span := range delivered {
		switch span.Name {
		case "POST /v1/delivery":
			require.Equal(t, []string{right, s.Tenant.TenantID, "200"}, []string{span.Attributes["muniment.right.id"], span.Attributes["muniment.tenant.id"], span.Attributes["http.response.status_code"]})
		case "append to the log", "load into the warehouse":
			require.Equal(t, eventID, span.Attributes["muniment.event.id"], span.Name)
		}
	}

	sealed, _ := spansOf(systemtest.Operation{Method: "POST", Path: "/v1/proof-packs/seal"}, 4)
	require.ElementsMatch(t, []string{
		"caller: deliver < ", answers + ": forward to control < deliver", control + ": seal-proof-packs < forward to control", control + ": seal packs < seal-proof-packs",
	}, shape(sealed))

	refused, answer := call(systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: `{"rightId":"rgh_secret"}`})
	require.Equal(t, 422, answer.Status, answer.Body)
	elsewhere, answer := call(systemtest.Operation{Method: "GET", Path: "/v1/rights/rgh_secret"})
	require.Equal(t, 404, answer.Status, answer.Body)
	spansOf(systemtest.Operation{Method: "GET", Path: "/v1/rights"}, 3) // by then these would have arrived
	require.Len(t, refused(1), 1, "what is refused has no span but its caller's")
	require.Len(t, elsewhere(1), 1)

	stop()
	require.NoError(t, <-ended)
	for _, text := range collector.Requests() {
		require.NotContains(t, string(text), "secret")
		require.NotContains(t, string(text), s.Client.Key)
	}
	return delivered
}

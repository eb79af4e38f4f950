package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/trace"
	"muniment.example/pipeline/trace/tracetest"
	"muniment.example/sealer"
)

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	sampled      = "traceparent: 00-" + callersTrace + "-" + callersSpan + "-01"
)

// newTraced is a world that traces a part of the requests. spans are those since the last call.
func newTraced(t *testing.T, part float64, change func(*settings)) (w *world, spans func() []tracetest.Span) {
	collector := tracetest.New(t)
	tracer, err := trace.New(trace.Config{Endpoint: collector.URL, Sample: part, Service: "gateway"})
	require.NoError(t, err)
	w = newWorld(t, func(c *settings) {
		c.Tracer = tracer
		if change != nil {
			change(c)
		}
	})
	seen := 0
	return w, func() []tracetest.Span {
		flushed, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, tracer.Run(flushed))
		all := collector.Spans()
		defer func() { seen = len(all) }()
		return all[seen:]
	}
}

// TestDeliveryTraced: a delivery continues its caller's trace, and its record carries it on. A replay has a span,
// too, and no record.
func TestDeliveryTraced(t *testing.T) {
	w, spans := newTraced(t, 0, nil)
	r := w.post(w.body(), sampled, "Idempotency-Key: k", "tracestate: vendor=secret")
	require.Equal(t, 200, r.status, r.body)
	all, record := spans(), w.log.All()[0]
	require.Len(t, all, 2)
	request, appended := all[0], all[1]
	require.Equal(t, tracetest.Span{
		Service: "gateway", Trace: callersTrace, ID: request.ID, Parent: callersSpan, Name: "POST /v1/delivery", Kind: 2, Began: request.Began, Ended: request.Ended,
		Attributes: map[string]string{
			"muniment.tenant.id": "tnt_a", "muniment.right.id": w.right, "muniment.metering.reason": "METERED", "muniment.replayed": "false",
			"http.request.method": "POST", "http.response.status_code": "200",
		},
	}, request)
	require.Equal(t, tracetest.Span{
		Service: "gateway", Trace: callersTrace, ID: appended.ID, Parent: request.ID, Name: "append to the log", Kind: 4, Began: appended.Began, Ended: appended.Ended,
		Attributes: map[string]string{"muniment.event.id": record.EventID},
	}, appended)
	require.Equal(t, "00-"+callersTrace+"-"+appended.ID+"-01", record.Traceparent)
	require.False(t, appended.Began.Before(request.Began) || appended.Ended.After(request.Ended))

	require.Equal(t, 200, w.post(w.body(), sampled, "Idempotency-Key: k").status)
	all = spans()
	require.Len(t, all, 1)
	require.Equal(t, "true", all[0].Attributes["muniment.replayed"])

	require.Equal(t, 200, w.post(w.body()).status)
	require.Empty(t, spans(), "it is not sampled")
	require.Empty(t, w.log.All()[1].Traceparent, "a record's memory is used again")
}

// TestNoSpanOfRefusedRequests: neither who is refused nor how fast fills a collector, and nothing that they send
// reaches it.
func TestNoSpanOfRefusedRequests(t *testing.T) {
	w, spans := newTraced(t, 1, withControl(t, func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(http.StatusForbidden) }))
	requests := map[string]string{
		"no key":        request("", w.body(), sampled),
		"a wrong key":   request("mk_secret", w.body(), sampled),
		"not JSON":      request(w.token, "secret", sampled),
		"no such right": request(w.token, `{"rightId":"rgh_secret","spatialAnchorId":"a","dwellMs":1}`, sampled),
		"suspended":     request(w.token, strings.Replace(w.body(), w.right, w.suspended, 1), sampled),
		"by control":    "GET /v1/rights HTTP/1.1\r\nHost: m\r\n" + sampled + "\r\n\r\n",
		"a batch":       batchRequest(w.token, "application/json", "secret", sampled),
		"health":        "GET /v1/healthz HTTP/1.1\r\nHost: m\r\n" + sampled + "\r\n\r\n",
		"a beacon":      "GET " + api.PathBeacon + "x HTTP/1.1\r\nHost: m\r\n" + sampled + "\r\n\r\n",
	}
	for name, text := range requests {
		if r := w.raw(text); name != "health" && name != "a beacon" {
			require.GreaterOrEqual(t, r.status, 400, name)
		}
	}
	w.log.SetFail(errors.New("away"))
	require.Equal(t, 503, w.post(w.body(), sampled).status)
	require.Empty(t, spans())
}

// TestStrangersDontSample: callers without a key use up nothing of what is allowed to callers, and their requests are not
// traced at their word.
func TestStrangersDontSample(t *testing.T) {
	var got string
	w, spans := newTraced(t, 0, withControl(t, func(rw http.ResponseWriter, r *http.Request) { got = r.Header.Get(trace.Header) }))
	for range 150 {
		require.Equal(t, 401, w.raw(request("", w.body(), sampled)).status)
		require.Equal(t, 200, w.raw("GET /docs HTTP/1.1\r\nHost: m\r\n"+sampled+"\r\n\r\n").status)
		require.Equal(t, strings.TrimPrefix(strings.TrimSuffix(sampled, "1")+"0", "traceparent: "), got)
	}
	require.Equal(t, 200, w.post(w.body(), sampled).status)
	require.Len(t, spans(), 2)
}

// TestSampledRequestIsAuthenticatedOnce: whose word counts is looked up once, for the trace and for the answer.
func TestSampledRequestIsAuthenticatedOnce(t *testing.T) {
	w, _ := newTraced(t, 0, nil)
	lookups := func(token string, more ...string) (n float64) {
		t.Helper()
		count := func() (all float64) {
			families, err := w.registry.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == "muniment_rights_lookups_total" {
					for _, m := range f.GetMetric() {
						all += m.GetCounter().GetValue()
					}
				}
			}
			return all
		}
		before := count()
		w.raw(request(token, w.body(), more...))
		return count() - before
	}
	for _, token := range []string{w.token, strings.TrimSuffix(w.token, w.token[len(w.token)-1:]) + "_"} {
		lookups(token) // both look-ups are of what is known from here on
		plain := lookups(token)
		require.Equal(t, plain, lookups(token, sampled))
		require.Equal(t, plain, lookups(token), "nothing is left of the request before")
	}
	require.Equal(t, 401, w.raw(request("", w.body(), sampled)).status)
	require.Equal(t, 200, w.post(w.body(), sampled).status)
}

// TestHostileTraceparent: what is none is none, however long it is, and the request is answered.
func TestHostileTraceparent(t *testing.T) {
	w, spans := newTraced(t, 0, nil)
	for name, headers := range map[string][]string{
		"twice":     {sampled, sampled},
		"nonsense":  {"traceparent: ../../../etc/passwd"},
		"long":      {"traceparent: " + strings.Repeat("0", 4000)},
		"too long":  {sampled + "-" + strings.Repeat("x", 4000)},
		"not valid": {strings.ToUpper(sampled)},
		"a state":   {"tracestate: " + strings.Repeat("a=b,", 1000)},
		"unsampled": {strings.TrimSuffix(sampled, "1") + "0"},
	} {
		r := w.post(w.body(), headers...)
		require.Equal(t, 200, r.status, "%s: %s", name, r.body)
	}
	require.Empty(t, spans())

	began := time.Now().Unix()
	for range 300 {
		require.Equal(t, 200, w.post(w.body(), sampled).status)
	}
	seconds := time.Now().Unix() - began + 1
	require.LessOrEqual(t, len(spans()), 2*100*int(seconds), "callers decide of 100 a second")
}

// TestHeadSampling: a part of the requests begins traces of its own, or continues those that callers don't sample.
func TestHeadSampling(t *testing.T) {
	w, spans := newTraced(t, 1, nil)
	require.Equal(t, 200, w.post(w.body()).status)
	all := spans()
	require.Len(t, all, 2)
	require.Empty(t, all[0].Parent)
	require.Equal(t, 200, w.post(w.body(), strings.TrimSuffix(sampled, "1")+"0").status)
	require.Equal(t, callersTrace, spans()[0].Trace)
}

// TestBatchTraced: a batch has one span, each piece of it one, and one record of a piece carries the trace on.
func TestBatchTraced(t *testing.T) {
	w, spans := newTraced(t, 0, nil)
	rows := append(w.rows(70, "r"), `{"rightId":"secret"}`)
	release := w.log.Halt()
	var deliveries sync.WaitGroup
	for range 8 { // whose memory is used again
		deliveries.Go(func() { w.post(w.body(), sampled) })
	}
	waittest.Until(t, func() bool { return w.log.Appending() == 8 })
	release()
	deliveries.Wait()
	spans()
	in := w.ingested(w.send("application/json", inJSON(rows...), sampled))
	require.Equal(t, 70, in.Counts.Accepted)
	all := spans()
	require.Len(t, all, 3)
	require.Equal(t, "POST /v1/delivery/ingest-batch", all[0].Name)
	require.Equal(t, map[string]string{
		"muniment.tenant.id": "tnt_a", "muniment.batch.rows": "71", "muniment.batch.accepted": "70", "http.request.method": "POST", "http.response.status_code": "200",
	}, all[0].Attributes)
	require.Equal(t, []string{"64", "6"}, []string{all[1].Attributes["muniment.batch.records"], all[2].Attributes["muniment.batch.records"]})
	carrying := slices.DeleteFunc(w.log.All()[8:], func(e sealer.Entry) bool { return e.Traceparent == "" })
	require.Len(t, carrying, 2)
	for i, e := range carrying {
		require.Equal(t, all[i+1].ID, trace.Parse(e.Traceparent).String()[36:52])
		require.Equal(t, all[i+1].Attributes["muniment.event.id"], e.EventID)
	}
}

// TestForwardedTrace: control learns what was decided, and not what the caller says. Without a tracer the gateway
// passes on what it gets.
func TestForwardedTrace(t *testing.T) {
	var got []string
	control := withControl(t, func(rw http.ResponseWriter, r *http.Request) { got = r.Header.Values(trace.Header) })
	get := func(w *world, headers ...string) []string {
		got = nil
		headers = append(headers, "Authorization: Bearer "+w.token, "\r\n")
		require.Equal(t, 200, w.raw("GET /v1/rights HTTP/1.1\r\nHost: m\r\n"+strings.Join(headers, "\r\n")).status)
		return got
	}
	unsampled := strings.TrimSuffix(sampled, "1") + "0"

	w, spans := newTraced(t, 0, control)
	named := get(w, sampled)
	span := spans()[0]
	require.Equal(t, []string{"00-" + callersTrace + "-" + span.ID + "-01"}, named)
	require.Equal(t, []string{"forward to control", callersSpan, "GET"}, []string{span.Name, span.Parent, span.Attributes["http.request.method"]})
	require.Equal(t, []string{strings.TrimPrefix(unsampled, "traceparent: ")}, get(w, unsampled))
	named = get(w, sampled, sampled)
	require.Len(t, named, 1)
	require.Regexp(t, "-00$", named[0])
	require.NotContains(t, named[0], callersTrace)
	require.Empty(t, spans())

	w = newWorld(t, control)
	require.Equal(t, []string{strings.TrimPrefix(sampled, "traceparent: ")}, get(w, sampled))
	require.Empty(t, get(w))
}

// TestExemplars: the histogram names a trace, for who reads OpenMetrics.
func TestExemplars(t *testing.T) {
	w, _ := newTraced(t, 0, nil)
	require.Equal(t, 200, w.post(w.body(), sampled).status)
	server := httptest.NewServer(Admin{Gatherer: w.registry}.Handler())
	defer server.Close()
	scrape := func(accept string) string {
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/metrics", nil)
		require.NoError(t, err)
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Regexp(t, `muniment_gateway_request_seconds_bucket\{route="delivery",le="[0-9.+a-zI]+"\} 1 # \{trace_id="`+callersTrace+`"\} [0-9.e-]+ [0-9.e+]+\n`, scrape("application/openmetrics-text; version=1.0.0"))
	require.NotContains(t, scrape(""), callersTrace)
}

// TestTracesCostNothingUnlessSampled: what a delivery allocates is the same without a tracer, and with one that does
// not sample it.
func TestTracesCostNothingUnlessSampled(t *testing.T) {
	if raced {
		return // fasthttp takes buffers from a pool
	}
	tracer, err := trace.New(trace.Config{Endpoint: "http://collector", Service: "gateway"})
	require.NoError(t, err)
	least := func(tracer *trace.Tracer) float64 {
		g, token := newBench(t)
		g.cfg.Tracer = tracer
		ctx := benchRequest(token)
		least := 1e9
		for range 100 {
			least = min(least, testing.AllocsPerRun(1, func() {
				ctx.Response.Reset()
				g.handle(ctx)
			}))
		}
		require.Equal(t, 200, ctx.Response.StatusCode())
		return least
	}
	off := least(nil)
	require.Equal(t, off, least(tracer), fmt.Sprint("without a tracer: ", off))
}

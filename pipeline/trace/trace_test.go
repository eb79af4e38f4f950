package trace_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline/trace"
	"muniment.example/pipeline/trace/tracetest"
)

const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse(t *testing.T) {
	id := trace.Parse(good)
	require.Equal(t, good, id.String())
	require.True(t, id.Sampled)
	for text, want := range map[string]string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03":       good, // a flag of level 2
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       good, // a later version
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": good,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01later":  "",
		"":                          "",
		good[:54]:                   "",
		good + " ":                  "",
		good + "-":                  "",
		good + "-01":                "",
		" " + good:                  "",
		good + "," + good:           "",
		"ff" + good[2:]:             "",
		"0x" + good[2:]:             "",
		"0-" + good:                 "",
		good[:53] + "0g":            "",
		good[:53] + "0A":            "",
		good[:35] + "_" + good[36:]: "",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":  "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":  "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":  "",
		"00-0af7651916cd43dd8448eb211c80319\n-b7ad6b7169203331-01": "",
		strings.Repeat("0", 8<<10):                                 "",
	} {
		require.Equal(t, want, trace.Parse(text).String(), "%q", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		if id := trace.Parse(text); id != (trace.ID{}) {
			require.Equal(t, text[3:52], id.String()[3:52])
			require.Equal(t, id, trace.Parse(id.String()))
		}
	})
}

// run makes a tracer and runs it until stop, or the end of the test.
func run(t *testing.T, cfg trace.Config) (tracer *trace.Tracer, stop func()) {
	cfg.Service = "test"
	tracer, err := trace.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tracer.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return tracer, stop
}

// TestExport: what a span says arrives, as OTLP has it, and what waits when the process ends does too.
func TestExport(t *testing.T) {
	c := tracetest.New(t)
	metrics := prometheus.NewRegistry()
	tracer, stop := run(t, trace.Config{Endpoint: c.URL + "/", Sample: 1, Version: "v1", Host: "host", Registerer: metrics})
	arrived := time.Now().Add(-time.Minute)
	s := tracer.Start(trace.Parse(good), trace.Server, "answer", arrived)
	child := s.Child(trace.Producer, "append")
	child.SetInt("rows", 1<<60)
	child.SetBool("last", true)
	child.End()
	s.Set("text", "a\x80b"+strings.Repeat("x", 1000))
	s.Rename("answered")
	s.End()
	tracer.Start(trace.ID{}, trace.Internal, "not ended", arrived)
	stop()

	all := c.Spans()
	require.Len(t, all, 2)
	require.Equal(t, tracetest.Span{
		Service: "test", Trace: good[3:35], ID: all[0].ID, Parent: good[36:52], Name: "answered", Kind: 2, Began: time.Unix(0, arrived.UnixNano()), Ended: all[0].Ended,
		Attributes: map[string]string{"text": "a�b" + strings.Repeat("x", 253)},
	}, all[0])
	require.False(t, all[0].Ended.Before(arrived.Add(time.Minute).Truncate(0)) || all[0].Ended.After(time.Now()), "it ended when the test said so, and not when it was sent")
	require.Equal(t, []string{good[3:35], all[0].ID, "append"}, []string{all[1].Trace, all[1].Parent, all[1].Name})
	require.Equal(t, map[string]string{"rows": "1152921504606846976", "last": "true"}, all[1].Attributes)
	require.Contains(t, string(c.Requests()[0]), `"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"test"}},{"key":"service.version","value":{"stringValue":"v1"}},{"key":"host.name","value":{"stringValue":"host"}}]}`)
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`# HELP muniment_trace_spans_dropped_total Spans that were dropped, because too many waited for the collector or it did not take them.
# TYPE muniment_trace_spans_dropped_total counter
muniment_trace_spans_dropped_total 0
# HELP muniment_trace_spans_exported_total Spans that the collector has taken.
# TYPE muniment_trace_spans_exported_total counter
muniment_trace_spans_exported_total 2
`)))
}

// TestSampling: the part that is configured, and of callers' traces so many a second.
func TestSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sampled := func(part float64, caller string, n int) (count int) {
			tracer, err := trace.New(trace.Config{Endpoint: "http://collector", Sample: part, Service: "test"})
			require.NoError(t, err)
			for range n {
				if s := tracer.Start(trace.Parse(caller), trace.Server, "x", time.Now()); s != nil {
					count++
					require.NotEqual(t, trace.ID{}, s.ID())
					require.Equal(t, caller != "", strings.Contains(s.Traceparent(), good[3:35]))
				}
			}
			time.Sleep(time.Second)
			for range n {
				if tracer.Start(trace.Parse(caller), trace.Server, "x", time.Now()) != nil {
					count++
				}
			}
			return count
		}
		notSampled := good[:54] + "0"
		require.Equal(t, 0, sampled(0, "", 5000))
		require.Equal(t, 10_000, sampled(1, "", 5000))
		require.Equal(t, 0, sampled(0, notSampled, 5000))
		require.Equal(t, 10_000, sampled(1, notSampled, 5000))
		require.Equal(t, 200, sampled(0, good, 5000), "callers decide of 100 a second")
		require.InDelta(t, 1000, sampled(0.1, "", 5000), 200)
	})
}

// TestLateArrivals: requests that come in another order than they arrived in don't renew what callers may decide of, and
// a clock that was set back does not end it.
func TestLateArrivals(t *testing.T) {
	tracer, err := trace.New(trace.Config{Endpoint: "http://collector", Service: "test"})
	require.NoError(t, err)
	at := time.Unix(2_000_000_000, 0)
	sampled := func(times ...time.Time) (count int) {
		for i := range 1000 {
			if tracer.Start(trace.Parse(good), trace.Server, "x", times[i%len(times)]) != nil {
				count++
			}
		}
		return count
	}
	require.LessOrEqual(t, sampled(at, at.Add(time.Second)), 2*100)
	require.Equal(t, 100, sampled(at.Add(-time.Hour)))
}

// TestCollectorAway: nobody waits for it, what is dropped is counted, and one line says so, and one that it is over.
func TestCollectorAway(t *testing.T) {
	collector := tracetest.New(t)
	var log lines
	metrics := prometheus.NewRegistry()
	tracer, _ := run(t, trace.Config{Endpoint: collector.URL, Sample: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: metrics})
	const atOnce = 512
	for _, c := range []struct {
		answer  int
		counter string
	}{{http.StatusServiceUnavailable, "dropped"}, {http.StatusOK, "exported"}} {
		collector.Answer(c.answer)
		for n := 1; n <= 2; n++ {
			for range atOnce {
				tracer.Start(trace.ID{}, trace.Server, "x", time.Now()).End()
			}
			waittest.Until(t, func() bool {
				return counted(t, metrics, "muniment_trace_spans_"+c.counter+"_total") == float64(n*atOnce)
			})
		}
	}
	require.Equal(t, 1, strings.Count(log.text(), "cannot export traces"), log.text())
	require.Contains(t, log.text(), "the collector answers 503")
	require.Equal(t, 1, strings.Count(log.text(), "exporting traces again"), log.text())
}

// counted is the value of a counter.
func counted(t *testing.T, metrics prometheus.Gatherer, name string) float64 {
	families, err := metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].Counter.GetValue()
		}
	}
	return -1
}

// TestRejectedSpans: what the collector says that it has not taken counts as dropped.
func TestRejectedSpans(t *testing.T) {
	for answer, rejected := range map[string]float64{
		`{}`: 0, ``: 0, `{"partialSuccess":{}}`: 0, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}`: 2,
		`{"partialSuccess":{"rejectedSpans":1}}`: 1, `{"partialSuccess":{"rejectedSpans":"99"}}`: 3, `{"partialSuccess":{"rejectedSpans":"-1"}}`: 0,
		`{"partialSuccess":{"rejectedSpans":null}}`: 0, `nonsense`: 0,
	} {
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		metrics := prometheus.NewRegistry()
		tracer, stop := run(t, trace.Config{Endpoint: collector.URL, Sample: 1, Registerer: metrics})
		for range 3 {
			tracer.Start(trace.ID{}, trace.Server, "x", time.Now()).End()
		}
		stop()
		collector.Close()
		require.Equal(t, rejected, counted(t, metrics, "muniment_trace_spans_dropped_total"), answer)
		require.Equal(t, 3-rejected, counted(t, metrics, "muniment_trace_spans_exported_total"), answer)
	}
}

// TestCollectorRedirects: spans go to the collector that is configured, and nowhere else.
func TestCollectorRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("spans came to another server: %s %s", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		collector := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		metrics := prometheus.NewRegistry()
		tracer, stop := run(t, trace.Config{Endpoint: collector.URL, Sample: 1, Client: collector.Client(), Registerer: metrics})
		tracer.Start(trace.ID{}, trace.Server, "x", time.Now()).End()
		stop()
		collector.Close()
		require.Equal(t, 1.0, counted(t, metrics, "muniment_trace_spans_dropped_total"), status)
	}
}

// TestCollectorHangs: the queue is bounded, and the process ends all the same.
func TestCollectorHangs(t *testing.T) {
	asked, release := make(chan struct{}, 10), make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release }))
	defer hanging.Close()
	defer close(release)
	metrics := prometheus.NewRegistry()
	tracer, stop := run(t, trace.Config{Endpoint: hanging.URL, Sample: 1, Registerer: metrics})
	send := func() { tracer.Start(trace.ID{}, trace.Server, "x", time.Now()).End() }
	send()
	<-asked // Run waits for it
	for range 5000 {
		send()
	}
	require.Equal(t, 5000-4096.0, counted(t, metrics, "muniment_trace_spans_dropped_total"), "nobody has waited")
	stop()
	require.Equal(t, 5001.0, counted(t, metrics, "muniment_trace_spans_dropped_total"))
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  trace.Config
		want string
	}{
		{trace.Config{Service: "s"}, "Endpoint must begin with http:// or https://"},
		{trace.Config{Service: "s", Endpoint: "collector:4318"}, "Endpoint must begin with"},
		{trace.Config{Service: "s", Endpoint: "http://user:secret@collector"}, "no user"},
		{trace.Config{Service: "s", Endpoint: "http://collector", Sample: 1.1}, "Sample 1.1 is not from 0 to 1"},
		{trace.Config{Endpoint: "http://collector"}, "Service is empty"},
	} {
		_, err := trace.New(c.cfg)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret")
	}
}

// TestNilDoesNothing: without a tracer nothing is made, and nothing allocated.
func TestNilDoesNothing(t *testing.T) {
	var tracer *trace.Tracer
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s := tracer.Start(trace.ID{}, trace.Server, "x", time.Time{})
		child := s.Child(trace.Internal, "y")
		child.Set("a", "b")
		child.SetInt("a", 1)
		child.End()
		s.End()
		if trace.From(trace.With(ctx, s)) != nil || s.Traceparent() != "" || tracer.Continue(trace.ID{Sampled: true}, trace.Consumer, "x", time.Time{}) != nil {
			t.Fatal("there is a span")
		}
	}))
}

// lines keeps a log.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

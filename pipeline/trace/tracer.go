package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// mostOfCallers is how many traces a second are continued because callers say that they are sampled.
	mostOfCallers = 100
	// mostQueued is how many spans wait for the exporter, each of 1 KB or less, and mostExported how many are
	// sent at once.
	mostQueued, mostExported = 4096, 512
	// exportEvery is how long a span waits at most while the collector works.
	exportEvery = time.Second
	// exportTime bounds one try to export, and lastTime the one when the process ends.
	exportTime, lastTime = 10 * time.Second, time.Second
)

// Config of a Tracer. Endpoint and Service are required.
type Config struct {
	// Endpoint is the collector's URL, to which /v1/traces is added.
	Endpoint string
	// Sample is the part of requests that are traced, from 0 to 1.
	Sample float64
	// Service names the process to the collector, Version the program, and Host the machine; empty: not said.
	Service, Version, Host string
	// Client sends the spans, and follows no redirect; nil is one without options.
	Client *http.Client
	// Logger logs when exporting begins to fail, and when it works again; nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics; nil registers none.
	Registerer prometheus.Registerer
}

// Tracer samples requests and exports their spans. It is safe for concurrent use. A nil Tracer samples nothing.
type Tracer struct {
	cfg               Config
	url               string
	queue             chan *Span
	exported, dropped prometheus.Counter
	failing           bool // Run's

	mu      sync.Mutex
	second  int64 // of which ofCalls are counted
	ofCalls int
}

// CheckEndpoint is nil for a URL that a collector may have.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must begin with http:// or https://, and have a host, no user, no query and no fragment")
	}
	return nil
}

// New makes a tracer that keeps spans until Run exports them.
func New(cfg Config) (*Tracer, error) {
	if err := CheckEndpoint(cfg.Endpoint); err != nil {
		return nil, fmt.Errorf("trace: Endpoint %w", err)
	}
	switch {
	case !(cfg.Sample >= 0 && cfg.Sample <= 1):
		return nil, fmt.Errorf("trace: Sample %v is not from 0 to 1", cfg.Sample)
	case cfg.Service == "":
		return nil, errors.New("trace: Service is empty")
	}
	if cfg.Client == nil {
		cfg.Client = new(http.Client)
	}
	own := *cfg.Client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.Client = &own
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tracer{
		cfg: cfg, url: strings.TrimRight(cfg.Endpoint, "/") + "/v1/traces", queue: make(chan *Span, mostQueued),
		exported: prometheus.NewCounter(prometheus.CounterOpts{Name: "muniment_trace_spans_exported_total", Help: "Spans that the collector has taken."}),
		dropped:  prometheus.NewCounter(prometheus.CounterOpts{Name: "muniment_trace_spans_dropped_total", Help: "Spans that were dropped, because too many waited for the collector or it did not take them."}),
	}
	if cfg.Registerer != nil {
		if err := errors.Join(cfg.Registerer.Register(t.exported), cfg.Registerer.Register(t.dropped)); err != nil {
			return nil, fmt.Errorf("cannot register metrics of traces: %w", err)
		}
	}
	return t, nil
}

// Start begins the span of a request that arrived at a moment, if the request is sampled; else it returns nil.
// caller is the ID that came with the request: the span continues its trace. If the caller says that it is sampled,
// so is the span, within the limit on these.
func (t *Tracer) Start(caller ID, kind Kind, name string, arrived time.Time) *Span {
	if t == nil || !(caller.Sampled && t.admit(arrived)) && rand.Float64() >= t.cfg.Sample {
		return nil
	}
	return t.begin(caller, kind, name, arrived)
}

// Continue begins a span behind one that was sampled, without a limit; nil if it was not sampled.
func (t *Tracer) Continue(behind ID, kind Kind, name string, began time.Time) *Span {
	if t == nil || !behind.Sampled {
		return nil
	}
	return t.begin(behind, kind, name, began)
}

// admit counts a request of which the caller says that it is sampled.
func (t *Tracer) admit(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A request that arrived in the second before may come late. What is much older is a clock that was set back.
	if since := now.Unix() - t.second; since > 0 || since < -60 {
		t.second, t.ofCalls = now.Unix(), 0
	}
	t.ofCalls++
	return t.ofCalls <= mostOfCallers
}

func (t *Tracer) begin(behind ID, kind Kind, name string, began time.Time) *Span {
	s := &Span{tracer: t, id: ID{Trace: behind.Trace, Sampled: true}, parent: behind.Span, kind: kind, name: name, began: began}
	if behind == (ID{}) {
		fill(s.id.Trace[:])
	}
	fill(s.id.Span[:])
	return s
}

func (t *Tracer) enqueue(s *Span) {
	select {
	case t.queue <- s:
	default:
		t.dropped.Inc()
	}
}

// Run exports spans until ctx is done, and then those that wait, for lastTime at most.
func (t *Tracer) Run(ctx context.Context) error {
	tick := time.NewTicker(exportEvery)
	defer tick.Stop()
	var some []*Span
	for {
		select {
		case s := <-t.queue:
			if some = append(some, s); len(some) < mostExported {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for len(t.queue) > 0 {
				some = append(some, <-t.queue)
			}
			t.export(context.WithoutCancel(ctx), some, lastTime)
			return nil
		}
		t.export(ctx, some, exportTime)
		some = some[:0]
	}
}

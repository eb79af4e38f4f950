package trace

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The request of OTLP in JSON: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. IDs are
// hexadecimal, and whole numbers of 64 bits are texts.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope      `json:"scope"`
		Spans []spanJSON `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	spanJSON struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       Kind        `json:"kind"`
		Began      string      `json:"startTimeUnixNano"`
		Ended      string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
	}
)

// export sends spans once. What the collector does not take is dropped.
func (t *Tracer) export(ctx context.Context, spans []*Span, atMost time.Duration) {
	if len(spans) == 0 {
		return
	}
	err := t.post(ctx, spans, atMost)
	if err != nil {
		t.dropped.Add(float64(len(spans)))
		if !t.failing {
			t.cfg.Logger.Warn("cannot export traces, dropping them until the collector takes some", "url", t.url, "err", err)
		}
	} else {
		t.exported.Add(float64(len(spans)))
		if t.failing {
			t.cfg.Logger.Info("exporting traces again", "url", t.url)
		}
	}
	t.failing = err != nil
}

func (t *Tracer) post(ctx context.Context, spans []*Span, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	body, err := json.Marshal(t.request(spans))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.cfg.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection is used again
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the collector answers %d", resp.StatusCode)
	}
	return nil
}

func (t *Tracer) request(spans []*Span) exportRequest {
	var of Span // the process
	for _, a := range [...]struct{ key, text string }{{"service.name", t.cfg.Service}, {"service.version", t.cfg.Version}, {"host.name", t.cfg.Host}} {
		if a.text != "" {
			of.Set(a.key, a.text)
		}
	}
	all := make([]spanJSON, len(spans))
	for i, s := range spans {
		all[i] = spanJSON{
			TraceID: hex.EncodeToString(s.id.Trace[:]), SpanID: hex.EncodeToString(s.id.Span[:]), Name: s.name, Kind: s.kind,
			Began: nanoseconds(s.began), Ended: nanoseconds(s.ended), Attributes: s.attributes,
		}
		if s.parent != [8]byte{} {
			all[i].Parent = hex.EncodeToString(s.parent[:])
		}
	}
	return exportRequest{[]resourceSpans{{resource{of.attributes}, []scopeSpans{{scope{"muniment", t.cfg.Version}, all}}}}}
}

func nanoseconds(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

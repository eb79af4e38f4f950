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
	"strings"
	"time"
)

// The request of OTLP in JSON: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. IDs are
// hexadecimal, and whole numbers of 64 bits are texts.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	exportResponse struct {
		PartialSuccess struct {
			RejectedSpans wholeNumber `json:"rejectedSpans"`
		} `json:"partialSuccess"`
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

// wholeNumber is a number of 64 bits, which collectors write as a text or as a number.
type wholeNumber int64

func (n *wholeNumber) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = wholeNumber(v)
	return err
}

// export sends spans once. What the collector does not take is dropped.
func (t *Tracer) export(ctx context.Context, spans []*Span, atMost time.Duration) {
	if len(spans) == 0 {
		return
	}
	rejected, err := t.post(ctx, spans, atMost)
	t.dropped.Add(float64(rejected))
	if err != nil {
		if !t.failing {
			t.cfg.Logger.Warn("cannot export traces, dropping them until the collector takes some", "url", t.url, "err", err)
		}
	} else {
		t.exported.Add(float64(len(spans) - rejected))
		if t.failing {
			t.cfg.Logger.Info("exporting traces again", "url", t.url)
		}
	}
	t.failing = err != nil
}

// post sends spans, and returns how many of them the collector did not take: all, after an error.
func (t *Tracer) post(ctx context.Context, spans []*Span, atMost time.Duration) (rejected int, err error) {
	all := len(spans)
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	body, err := json.Marshal(t.request(spans))
	if err != nil {
		return all, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return all, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.cfg.Client.Do(req)
	if err != nil {
		return all, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // to its end, so that the connection is used again
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return all, fmt.Errorf("the collector answers %d", resp.StatusCode)
	}
	var answer exportResponse
	_ = json.Unmarshal(text, &answer) // a collector that says nothing has taken all
	return int(min(max(0, int64(answer.PartialSuccess.RejectedSpans)), int64(all))), nil
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

// Package tracetest is a collector for tests: it takes what OTLP allows in JSON, and nothing else.
package tracetest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	collected "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// Span is one that was collected. IDs are hexadecimal; Parent is empty if there is none.
type Span struct {
	Service, Trace, ID, Parent, Name string
	Kind                             int
	Began, Ended                     time.Time
	// Attributes are the values as text.
	Attributes map[string]string
}

// Collector is safe for concurrent use.
type Collector struct {
	URL string

	mu       sync.Mutex
	spans    []Span
	requests [][]byte
	status   int
}

// New starts a collector that ends with the test. The test fails if a request is not one of OTLP.
func New(t testing.TB) *Collector {
	c := &Collector{status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && (r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json") {
			err = fmt.Errorf("%s %s with %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
		}
		if err == nil {
			err = c.take(w, body)
		}
		if err != nil {
			t.Errorf("not a request of OTLP: %v\n%s", err, body)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer sets the status of the answers from now on. What is not answered 200 is not collected.
func (c *Collector) Answer(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// Spans are those that were collected so far, the earliest first.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(c.spans), func(a, b Span) int { return a.Began.Compare(b.Began) })
}

// Of are the spans of one trace.
func (c *Collector) Of(trace string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.Trace != trace })
}

// Requests are the bodies so far.
func (c *Collector) Requests() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

func (c *Collector) take(w http.ResponseWriter, body []byte) error {
	spans, err := Read(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, body)
	if err == nil && c.status == http.StatusOK {
		c.spans = append(c.spans, spans...)
	}
	w.WriteHeader(c.status)
	return err
}

// Read reads a request strictly. OTLP's JSON is that of Protocol Buffers, except that ids are hexadecimal.
func Read(body []byte) (spans []Span, err error) {
	var tree any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if err := toBase64(tree); err != nil {
		return nil, err
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var data collected.TracesData
	if err := protojson.Unmarshal(text, &data); err != nil { // unknown fields are errors
		return nil, err
	}
	for _, process := range data.ResourceSpans {
		service := attributes(process.Resource.Attributes)["service.name"]
		for _, scope := range process.ScopeSpans {
			for _, s := range scope.Spans {
				if len(s.TraceId) != 16 || len(s.SpanId) != 8 || len(s.ParentSpanId) != 0 && len(s.ParentSpanId) != 8 || s.Name == "" || s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano {
					return nil, fmt.Errorf("no span: %v", s)
				}
				spans = append(spans, Span{
					Service: service, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId), Name: s.Name,
					Kind: int(s.Kind), Began: time.Unix(0, int64(s.StartTimeUnixNano)), Ended: time.Unix(0, int64(s.EndTimeUnixNano)), Attributes: attributes(s.Attributes),
				})
			}
		}
	}
	return spans, nil
}

func toBase64(tree any) error {
	switch node := tree.(type) {
	case []any:
		for _, v := range node {
			if err := toBase64(v); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, v := range node {
			if text, isText := v.(string); isText && (name == "traceId" || name == "spanId" || name == "parentSpanId") {
				b, err := hex.DecodeString(text)
				if err != nil {
					return err
				}
				node[name] = base64.StdEncoding.EncodeToString(b)
			} else if err := toBase64(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func attributes(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			texts[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			texts[a.Key] = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_BoolValue:
			texts[a.Key] = strconv.FormatBool(v.BoolValue)
		}
	}
	return texts
}

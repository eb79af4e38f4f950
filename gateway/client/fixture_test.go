package client

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// transport answers requests without a network, so that tests can run in a bubble of synctest.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return f(r)
}

func newTestClient(t testing.TB, send http.RoundTripper, change ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{URL: "https://service.example/base/", Key: "mun_test_key", HTTP: &http.Client{Transport: send}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	return c
}

// respond makes an answer. headers are names and values.
func respond(r *http.Request, status int, body string, headers ...string) *http.Response {
	h := http.Header{"X-Request-Id": {"req-1"}, "Content-Type": {"application/json"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

// success is data in its envelope.
func success(data any) string {
	text, err := json.Marshal(api.OK(data))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// failure is an error's envelope.
func failure(e *api.Error) string {
	text, err := e.Body()
	if err != nil {
		panic(err)
	}
	return string(text)
}

const delivered = `{"ok":true,"data":{"receipt":{"version":"1","receiptId":"rcp_1","correlationId":null,"spatialAnchorId":"a","spatialPlacementId":null,` +
	`"issuedAt":"2026-05-01T12:00:00.100Z","renderedAt":"2026-05-01T12:00:00.000Z","dwellMs":8200,"nonce":"n","witness":null},"substrate":"DOOH",` +
	`"signature":{"keyId":"k","algorithm":"ed25519","value":"v"},"metering":{"metered":true,"reason":"METERED","reasons":[],"basis":"gross","quantityMs":8200,` +
	`"impressions":"1","completion":"none"}},"contractVersion":"v1.0"}`

// ledger is a service as a buffer meets it: it knows each row by its rowId, and counts it once.
type ledger struct {
	mu sync.Mutex
	// counted are the receipts of each row; sent how often it came in.
	counted, sent map[string]int
	batches       []int
	// decide may refuse a row, or be nil.
	decide func(api.Row) *api.RowError
	// refuse may answer a whole batch, or be nil.
	refuse func([]api.Row) *api.Error
}

func newLedger() *ledger { return &ledger{counted: map[string]int{}, sent: map[string]int{}} }

func (l *ledger) RoundTrip(r *http.Request) (*http.Response, error) {
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row api.Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return respond(r, 400, failure(&api.Error{Code: api.BadRequest, Message: err.Error()})), nil
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		if e := l.refuse(rows); e != nil {
			return respond(r, e.GetStatus(), failure(e)), nil
		}
	}
	l.batches = append(l.batches, len(rows))
	answer := api.Ingested{Results: []api.RowResult{}}
	for i, row := range rows {
		l.sent[row.RowID]++
		result := api.RowResult{Index: i, Status: Accepted}
		switch {
		case l.decide != nil && l.counted[row.RowID] == 0:
			if result.Error = l.decide(row); result.Error != nil {
				result.Status = Rejected
				break
			}
			fallthrough
		default:
			if l.counted[row.RowID] > 0 {
				result.Status = Duplicate
			} else {
				l.counted[row.RowID]++
			}
		}
		answer.Results = append(answer.Results, result)
	}
	return respond(r, 200, success(answer)), nil
}

// rows are the ids that were counted.
func (l *ledger) rows() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.counted {
		ids = append(ids, id)
	}
	return ids
}

// bytesOf are the lines of a request's body.
func bytesOf(t *testing.T, r *http.Request) []byte {
	t.Helper()
	in := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		require.NoError(t, err)
		in = unpacked
	}
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	return bytes.TrimSpace(text)
}

// serve has a function answer real requests, and returns its URL.
func serve(t *testing.T, answer transport) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := answer(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

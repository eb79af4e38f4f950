package upload

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// service stands in for the service: it takes batches, and knows rows by their text.
type service struct {
	t *testing.T
	// before, if there is one, answers in place of the service where it returns an answer.
	before func(n int, req *http.Request) (*http.Response, error)
	// of is what becomes of a row; nil takes it.
	of func(row string) map[string]any

	mu       sync.Mutex
	requests []request
	taken    map[string]string // receipts by rows
}

// request is one that was answered with 200.
type request struct {
	query     url.Values
	mediaType string
	body      string
	rows      []string
	vendor    string
}

func newService(t *testing.T) *service { return &service{t: t, taken: map[string]string{}} }

// RoundTrip implements http.RoundTripper.
func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	defer req.Body.Close()
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(s.t, "Bearer mun_test_x", req.Header.Get("Authorization"))
	require.Equal(s.t, "/v1/delivery/ingest-batch", req.URL.Path)
	unpacked, err := gzip.NewReader(req.Body)
	require.NoError(s.t, err)
	body, err := io.ReadAll(unpacked)
	require.NoError(s.t, err)
	require.LessOrEqual(s.t, len(body), maxBody)
	if string(body) == `{"rows":[]}` { // whether the key is good
		return reply(s.t, 200, map[string]any{"ok": true, "data": map[string]any{"results": []any{}}}), nil
	}
	if s.before != nil {
		if resp, err := s.before(len(s.requests), req); resp != nil || err != nil {
			return resp, err
		}
	}
	r := request{query: req.URL.Query(), mediaType: req.Header.Get("Content-Type"), body: string(body)}
	switch {
	case !r.query.Has("format"):
		var batch struct {
			Vendor string
			Rows   []json.RawMessage
		}
		require.NoError(s.t, json.Unmarshal(body, &batch))
		r.vendor = batch.Vendor
		for _, row := range batch.Rows {
			r.rows = append(r.rows, string(row))
		}
	case r.query.Get("format") == "csv":
		records, err := csv.NewReader(strings.NewReader(r.body)).ReadAll()
		require.NoError(s.t, err)
		for _, record := range records[1:] {
			r.rows = append(r.rows, strings.Join(record, "|"))
		}
	case r.query.Get("format") == "xibo":
		r.rows = regexp.MustCompile(`<stat\b[^>]*>`).FindAllString(r.body, -1)
	case r.mediaType == "text/uri-list": // sessions by their ids
		for line := range strings.Lines(r.body) {
			_, id, _ := strings.Cut(line, "adservingid=")
			id, _, _ = strings.Cut(id, "&")
			if at := slices.IndexFunc(r.rows, func(row string) bool { return strings.HasPrefix(row, id+" ") }); at >= 0 {
				r.rows[at] += line
			} else {
				r.rows = append(r.rows, id+" "+line)
			}
		}
	default:
		var values []json.RawMessage
		require.NoError(s.t, json.Unmarshal(body, &values))
		for _, value := range values {
			var object struct{ Pop []json.RawMessage }
			if json.Unmarshal(value, &object) != nil || object.Pop == nil {
				r.rows = append(r.rows, string(value))
			}
			for _, play := range object.Pop {
				r.rows = append(r.rows, string(play))
			}
		}
	}
	require.LessOrEqual(s.t, len(r.rows), maxRows)
	s.requests = append(s.requests, r)
	var results []map[string]any
	for i, row := range r.rows {
		result := map[string]any{"status": "accepted"}
		if s.of != nil {
			if said := s.of(row); said != nil {
				result = maps.Clone(said)
			}
		}
		if result["status"] == "accepted" {
			if s.taken[row] != "" {
				result["status"] = "duplicate"
			} else {
				s.taken[row] = fmt.Sprintf("rcp_%d", len(s.taken))
			}
			result["receipt"] = map[string]any{"receiptId": s.taken[row]}
		}
		result["index"] = i
		results = append(results, result)
	}
	return reply(s.t, 200, map[string]any{"ok": true, "data": map[string]any{"results": results}}), nil
}

// sent is how often each row was.
func (s *service) sent() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := map[string]int{}
	for _, r := range s.requests {
		for _, row := range r.rows {
			times[row]++
		}
	}
	return times
}

// reply is an answer; its headers are pairs.
func reply(t *testing.T, status int, body any, headers ...string) *http.Response {
	text, err := json.Marshal(body)
	require.NoError(t, err)
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}
	for pair := range slices.Chunk(headers, 2) {
		resp.Header.Set(pair[0], pair[1])
	}
	return resp
}

func refuse(t *testing.T, status int, code string, headers ...string) *http.Response {
	return reply(t, status, map[string]any{"ok": false, "error": code, "message": "no"}, headers...)
}

// run uploads paths, and returns what was counted.
func (s *service) run(cfg Config, paths ...string) (*Progress, error) {
	s.t.Helper()
	cfg.URL, cfg.Key, cfg.HTTP, cfg.Progress = "https://muniment.example", "mun_test_x", s, new(Progress)
	u, err := New(cfg)
	require.NoError(s.t, err)
	return cfg.Progress, u.Run(s.t.Context(), paths)
}

// put writes a file and returns its path.
func put(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o644))
	return path
}

// rowsOf are that many rows.
func rowsOf(n int) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf(`{"rowId":"r%d","dwellMs":%d}`, i, 1000+i))
	}
	return rows
}

func gzipped(t *testing.T, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func zstandard(t *testing.T, text string) []byte {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll([]byte(text), nil)
}

// results reads a results file, the last line of each row, by index.
func resultsOf(t *testing.T, path string) map[int64]result {
	t.Helper()
	text, err := os.ReadFile(path + resultsSuffix)
	require.NoError(t, err)
	all := map[int64]result{}
	for line := range strings.Lines(string(text)) {
		var r result
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		all[r.Index] = r
	}
	return all
}

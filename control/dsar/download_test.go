package dsar

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
)

// serve answers the service's requests, as those of a key of the tenant.
func (h *fixture) serve() http.Handler { return h.serveTo(api.Scopes(api.Wildcard)) }

// serveTo is serve to a key with these scopes.
func (h *fixture) serveTo(held api.Scopes) http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("test", "v1")
	config.CreateHooks = nil
	a := humago.New(mux, config)
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		ctx := auth.WithPrincipal(c.Context(), auth.Principal{Key: &api.Key{ID: h.caller, TenantID: tenantID, Scopes: held}, Unconfirmed: h.unconfirmed})
		if own, ok := route.Of(c.Operation()).Access.(route.Own); ok {
			var err error
			if ctx, err = own.Let(c); err != nil {
				c.SetStatus(http.StatusNotFound)
				return
			}
		}
		next(huma.WithContext(c, ctx))
	})
	h.Routes(a)
	return mux
}

// newLink requests a link to a job's bundle.
func newLink(t *testing.T, server http.Handler, v View) (path string) {
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, httptest.NewRequest("GET", "/v1/compliance/dsar/"+v.ID+"/bundle", nil))
	require.Equal(t, 200, answer.Code)
	var body struct{ Data BundleLink }
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body))
	return strings.TrimPrefix(body.Data.BundleURL, "http://example.com")
}

// events are the types of a job's events so far, with who made them happen.
func (h *fixture) events(v View) (types []string) {
	asOf, err := h.catchUp(h.t.Context(), tenantID, silent)
	require.NoError(h.t, err)
	require.NoError(h.t, h.scan(h.t.Context(), pipeline.EventQuery{TenantID: tenantID}, asOf, true, silent, func(row *pipeline.Row) error {
		if row.SubjectID == v.ID {
			types = append(types, row.Type+" by "+row.ActorID)
		}
		return nil
	}))
	return types
}

// short is a caller who leaves before the last byte.
type short struct {
	*httptest.ResponseRecorder
	left int64
}

func (s *short) Write(b []byte) (int, error) {
	if s.left -= int64(len(b)); s.left <= 0 {
		return 0, io.ErrClosedPipe
	}
	return s.ResponseRecorder.Write(b)
}

// gone is a caller who has left, which the server notices when it sends what it has buffered.
type gone struct{ *httptest.ResponseRecorder }

func (gone) FlushError() error { return io.ErrClosedPipe }

// TestDownloads: there is an event before the first byte that a link gives, one for however many attempts and parts, and another
// after the last one of a whole download, which ends all links. HEAD reads nothing and ends no link, nor does a download that breaks off,
// or of a part.
func TestDownloads(t *testing.T) {
	h := newFixture(t, nil)
	v := h.export(full())
	before := h.events(v)
	server := h.serve()
	path := newLink(t, server, v)
	get := func(method, path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
		return answer
	}
	size := v.Delivery.BundleSizeBytes

	head := get("HEAD", path)
	require.Equal(t, 200, head.Code)
	require.EqualValues(t, size, head.Result().ContentLength)
	require.Empty(t, head.Body.Bytes())
	require.Equal(t, before, h.events(v), "nothing was read")

	const begun, whole = "dsar.download_started by key_a", "dsar.downloaded by key_a"
	server.ServeHTTP(&short{httptest.NewRecorder(), size}, httptest.NewRequest("GET", path, nil))
	require.Equal(t, append(before, begun), h.events(v))
	server.ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequest("GET", path, nil))
	require.Equal(t, append(before, begun), h.events(v))

	text := string(readFile(t, h.bundle(v)))
	for header, want := range map[string]string{
		"bytes=0-9": text[:10], "bytes=10-": text[10:], "bytes=-7": text[size-7:], "bytes=5-5": text[5:6], "bytes=3-999999999": text[3:],
	} {
		request := httptest.NewRequest("GET", path, nil)
		request.Header.Set("Range", header)
		part := httptest.NewRecorder()
		server.ServeHTTP(part, request)
		require.Equal(t, 206, part.Code, header)
		require.Equal(t, want, part.Body.String(), header)
		require.EqualValues(t, len(want), part.Result().ContentLength)
		from := len(text) - len(want)
		if strings.HasPrefix(text, want) {
			from = 0
		} else if len(want) == 1 {
			from = 5
		}
		require.Equal(t, fmt.Sprintf("bytes %d-%d/%d", from, from+len(want)-1, size), part.Header().Get("Content-Range"))
	}
	require.Equal(t, append(before, begun), h.events(v))
	got := get("GET", path)
	require.Equal(t, text, got.Body.String())
	require.Equal(t, append(before, begun, whole), h.events(v))
	path, other := newLink(t, server, v), newLink(t, server, v)
	for header, status := range map[string]int{"bytes=9-3": 200, "bytes=-0": 200, "bytes=-": 200, "lines=0-1": 200, "bytes=0-1,3-4": 200, "bytes=999999999-": 200, "bytes=0-": 206, "bytes=-999999999": 206} { // all is sent
		request := httptest.NewRequest("GET", path, nil)
		request.Header.Set("Range", header)
		all := httptest.NewRecorder()
		before := h.events(v)
		server.ServeHTTP(all, request)
		require.Equal(t, status, all.Code, header)
		require.Equal(t, text, all.Body.String(), header)
		require.Equal(t, append(before, begun, whole), h.events(v), header)
		require.Equal(t, 404, get("GET", path).Code, header)
		path, other = newLink(t, server, v), newLink(t, server, v)
	}
	before = h.events(v)

	got = get("GET", path)
	require.Equal(t, 200, got.Code)
	require.EqualValues(t, size, got.Body.Len())
	require.Equal(t, "bytes", got.Header().Get("Accept-Ranges"))
	require.Equal(t, append(before, begun, whole), h.events(v))
	for _, used := range []string{path, other} {
		require.Equal(t, 404, get("HEAD", used).Code)
		require.Equal(t, 404, get("GET", used).Code)
	}
	require.Equal(t, 200, get("GET", newLink(t, server, v)).Code)

	path = newLink(t, server, v)
	require.NoError(t, h.Void(t.Context(), tenantID, func(string) bool { return true }, nil))
	require.Equal(t, 404, get("GET", path).Code)
}

// TestLinksEndWithTheirMaker: a link works as long as the key or the member that made it may read the bundle, and what
// is downloaded by it was downloaded by that maker.
func TestLinksEndWithTheirMaker(t *testing.T) {
	h := newFixture(t, nil)
	v := h.export(full())
	server := h.serve()
	get := func(path string) int {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		return answer.Code
	}
	for _, maker := range []string{"key_01ARZ3NDEKTSV4RRFFQ69G5FAV", "mbr_01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		h.caller, h.scopes = maker, api.Scopes(api.Wildcard)
		path := newLink(t, server, v)
		for _, less := range []api.Scopes{0, api.Scopes(api.SettlementRead), api.Scopes(api.AuditRead)} { // revoked or removed; another role; not all that is in it
			h.scopes = less
			require.Equal(t, 404, get(path), "%s with %v", maker, less.Names())
		}
		h.scopes = api.Scopes(api.Wildcard)
		require.Equal(t, 200, get(path))
		require.Contains(t, h.events(v), "dsar.downloaded by "+maker)
	}
}

// TestDownloadIsRecorded: a link is used up by its download although the database takes no changes
// when that ends, and the download is recorded as soon as it does.
func TestDownloadIsRecorded(t *testing.T) {
	h := newFixture(t, nil)
	v := h.export(full())
	server := h.serve()
	path := newLink(t, server, v)
	change := func(statement string) {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		}))
	}
	get := func(path string) int {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		return answer.Code
	}
	writing, end := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.ServeHTTP(&stopping{httptest.NewRecorder(), writing, end}, httptest.NewRequest("GET", path, nil))
	}()
	<-writing
	change(`ALTER TABLE dsar_jobs RENAME COLUMN downloaded_at TO away`)
	close(end)
	select {
	case <-ended:
		require.Fail(t, "it was not recorded")
	case <-time.After(200 * time.Millisecond):
	}
	change(`ALTER TABLE dsar_jobs RENAME COLUMN away TO downloaded_at`)
	<-ended
	require.Equal(t, 404, get(path))
	require.Contains(t, h.events(v), "dsar.downloaded by key_a")
	require.Equal(t, 200, get(newLink(t, server, v)))
}

// TestDownloadOfAVoidBundle breaks off before its next chunk.
func TestDownloadOfAVoidBundle(t *testing.T) {
	h := newFixture(t, nil)
	v := h.export(full())
	l := link{Job: &Job{ID: v.ID, TenantID: tenantID, Bundle: Bundle{Bytes: 3 * chunk}}}
	in := &counting{at: chunk + 1, then: func() {
		require.NoError(t, h.Void(t.Context(), tenantID, func(string) bool { return true }, nil))
	}}
	require.ErrorContains(t, (&downloads{db: h.db}).send(t.Context(), l, io.Discard, in, 3*chunk), "was deleted meanwhile")
	require.Equal(t, 2*chunk, in.read)
}

// counting is an endless bundle that calls then behind a byte.
type counting struct {
	read, at int
	then     func()
}

func (c *counting) Read(p []byte) (int, error) {
	if c.read < c.at && c.read+len(p) >= c.at {
		c.then()
	}
	c.read += len(p)
	return len(p), nil
}

// stopping is a receiver that stops at the first byte.
type stopping struct {
	*httptest.ResponseRecorder
	writing, end chan struct{}
}

func (s *stopping) Write(b []byte) (int, error) {
	select {
	case <-s.end:
	default:
		close(s.writing)
		<-s.end
	}
	return s.ResponseRecorder.Write(b)
}

// TestAnyFormat: whatever string names no format is JSON, also one that is longer than any name.
func TestAnyFormat(t *testing.T) {
	h := newFixture(t, nil)
	body := `{"scope":{"kind":"TENANT_FULL"},"format":"` + strings.Repeat("x", 65) + `"}`
	request := httptest.NewRequest("POST", "/v1/compliance/dsar", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	h.serve().ServeHTTP(answer, request)
	require.Equal(t, 200, answer.Code, answer.Body)
	require.Contains(t, answer.Body.String(), `"format":"JSON"`)
}

func readFile(t *testing.T, name string) []byte {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return text
}

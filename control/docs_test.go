package control_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
)

func TestDocsPages(t *testing.T) {
	h, _, _ := openService(t)
	for _, path := range []string{"/docs", "/docs/gate"} {
		page := h.call("", "GET", path, "")
		require.Equal(t, 200, page.status, "without a key")
		require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
		policy := page.header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.NotContains(t, policy, "unsafe")
		// What is inline is allowed by its hash, and there is nothing else.
		for _, tag := range []string{"style", "script"} {
			inline := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page.text, -1)
			require.Len(t, inline, 1, tag)
			sum := sha256.Sum256([]byte(inline[0][1]))
			require.Contains(t, policy, tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
		}
		require.NotRegexp(t, `(?i)<[^>]+\s(on\w+|style|src)=`, page.text[:strings.Index(page.text, "<script>")], "the policy would block it")
		for _, address := range regexp.MustCompile(`(https?:)?//[a-z][^\s'"]*\.[a-z]+[^\s'"]*`).FindAllString(page.text, -1) {
			require.Equal(t, "http://www.w3.org/2000/svg", address, "the page loads nothing from elsewhere")
		}
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(`, page.text, "text stays text")
	}
}

// TestGatePage: the page has a place for everything in the catalogue, and all its links lead
// to one.
func TestGatePage(t *testing.T) {
	h, _, _ := openService(t)
	served := h.call("", "GET", "/gate.json", "")
	require.Equal(t, 200, served.status, "without a key")
	require.Equal(t, "application/json", served.header.Get("Content-Type"))
	var catalogue struct {
		gate.Catalogue
		Examples []struct {
			Right    struct{ Substrate gate.Substrate }
			Metering struct{ Metered bool }
			Refused  []struct {
				Code       string
				Violations []string
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(served.text), &catalogue))
	require.Equal(t, gate.NewCatalogue(), catalogue.Catalogue, "the catalogue is complete")
	require.Len(t, catalogue.Examples, gate.Substrates)

	page := html.UnescapeString(h.call("", "GET", "/docs/gate", "").text)
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		require.False(t, ids[m[1]], "two places are called %s", m[1])
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		require.True(t, ids[m[1]], "a link leads to %s, which is nowhere", m[1])
	}
	for i, e := range catalogue.Examples {
		require.True(t, ids[e.Right.Substrate.String()], e.Right.Substrate)
		require.True(t, e.Metering.Metered, e.Right.Substrate)
		var codes []string
		for _, r := range e.Refused {
			codes = append(codes, r.Code)
			require.Contains(t, r.Violations, r.Code, e.Right.Substrate)
		}
		require.Equal(t, catalogue.Substrates[i].Refusals, codes, e.Right.Substrate)
	}
	for _, r := range catalogue.Refusals {
		require.True(t, ids[r.Code], r.Code)
		require.Contains(t, page, r.Reference)
		for _, c := range r.Conditions {
			require.Contains(t, page, c.Message)
			for _, words := range slices.Concat(c.When, c.Unless) {
				require.Contains(t, page, words, r.Code)
			}
		}
	}
	for _, s := range catalogue.Suppressions {
		require.True(t, ids[s.Reason], s.Reason)
		require.Contains(t, page, s.Reference)
	}
	for _, f := range catalogue.Fields {
		require.Contains(t, page, f.Meaning)
	}
	for _, l := range catalogue.Limits {
		require.Contains(t, page, l.Meaning)
	}
}

// TestDocumentsAreKept: a caller who has a document is told so, and gets it compressed where it reads
// that.
func TestDocumentsAreKept(t *testing.T) {
	h := newFixture(t)
	for _, path := range []string{"/openapi.json", "/openapi-3.0.json", "/docs", "/gate.json", "/docs/gate"} {
		whole := h.call("", "GET", path, "")
		require.Equal(t, 200, whole.status)
		require.Equal(t, "nosniff", whole.header.Get("X-Content-Type-Options"))
		require.Equal(t, "Accept-Encoding", whole.header.Get("Vary"))
		require.Empty(t, whole.header.Get("Content-Encoding"))
		for _, none := range []string{"identity", "br, gzip;q=0", "gzip;q=x", "gzipped"} {
			require.Equal(t, whole.text, h.call("", "GET", path, "", "Accept-Encoding", none).text, none)
		}
		var tags []string
		for _, accepted := range []string{"", "br;q=1.0, GZIP; q=0.5"} {
			a := h.call("", "GET", path, "", "Accept-Encoding", accepted)
			tag := a.header.Get("ETag")
			require.NotContains(t, tags, tag, "each form has a tag of its own")
			tags = append(tags, tag)
			for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
				again := h.call("", "GET", path, "", "Accept-Encoding", accepted, "If-None-Match", known)
				require.Equal(t, 304, again.status, known)
				require.Empty(t, again.text)
				require.Equal(t, tag, again.header.Get("ETag"))
			}
			require.Equal(t, 200, h.call("", "GET", path, "", "Accept-Encoding", accepted, "If-None-Match", `"other"`).status)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		h.control().Handler().ServeHTTP(w, r)
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		require.Less(t, w.Body.Len(), len(whole.text)/2)
		from, err := gzip.NewReader(w.Body)
		require.NoError(t, err)
		text, err := io.ReadAll(from)
		require.NoError(t, err)
		require.Equal(t, whole.text, strings.TrimSpace(string(text)))
	}
	require.Equal(t, "nosniff", h.call("", "GET", "/v1/tenant", "").header.Get("X-Content-Type-Options"))
}

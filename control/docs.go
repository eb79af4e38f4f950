package control

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/assets"
	"muniment.example/control/route"
)

//go:embed page
var page embed.FS

// docs serves the OpenAPI document, in both versions, the gate's catalogue, and the pages that
// show them.
//
// The pages are our own, since no renderer was found that is below 1 MB and works under their policy,
// which forbids inline styles (24 November 2026, minified): Scalar 1.72.1 has 4.4 MB, Redoc 3.0.1
// 2.3 MB, Elements 9.0.25 2.1 MB, Swagger UI 5.35.0 1.7 MB; RapiDoc 9.3.8 has 0.86 MB, and sets
// hundreds of inline styles.
//
// Routes has the first request for a text make it, and keeps it: a start doesn't wait for pages that nobody may read.
type docs struct {
	document, older, catalogue func() ([]byte, error)
	page, gatePage             func() (html, error)
}

// html is a page with its Content-Security-Policy.
type html struct {
	text   []byte
	policy string
}

// docsCall is what a caller has kept, and the codings that it reads.
type docsCall struct {
	assets.Condition
	AcceptEncoding string `header:"Accept-Encoding" hidden:"true"`
}

// docsAnswer is a text, or 304 without one.
type docsAnswer struct {
	Status       int
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Policy       string `header:"Content-Security-Policy"`
	ETag         string `header:"ETag"`
	Coding       string `header:"Content-Encoding"`
	Vary         string `header:"Vary"`
	Body         []byte
}

// servedText is a text in the forms in which it is served, each with its ETag.
type servedText struct {
	kind, policy       string
	text, packed       []byte
	textTag, packedTag string
}

func newServed(kind, policy string, text []byte) (servedText, error) {
	var packed bytes.Buffer
	to, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return servedText{}, err
	}
	if _, err := to.Write(text); err != nil {
		return servedText{}, err
	}
	if err := to.Close(); err != nil {
		return servedText{}, err
	}
	sum := sha256.Sum256(text)
	tag := base64.RawURLEncoding.EncodeToString(sum[:])
	return servedText{kind: kind, policy: policy, text: text, packed: packed.Bytes(), textTag: `"` + tag + `"`, packedTag: `"` + tag + `-gzip"`}, nil
}

func (s *servedText) answer(in *docsCall) *docsAnswer {
	a := &docsAnswer{
		Status: http.StatusOK, ContentType: s.kind, CacheControl: "no-cache", Policy: s.policy, Vary: "Accept-Encoding", ETag: s.textTag, Body: s.text,
	}
	if readsGzip(in.AcceptEncoding) {
		a.Coding, a.ETag, a.Body = "gzip", s.packedTag, s.packed
	}
	if in.Has(a.ETag) {
		a.Status, a.Coding, a.Body = http.StatusNotModified, "", nil
	}
	return a
}

// readsGzip says whether an Accept-Encoding names gzip and does not exclude it. Names of codings are
// read in any case, and * is left out: who means gzip says so.
func readsGzip(accepted string) bool {
	for choice := range strings.SplitSeq(strings.ToLower(accepted), ",") {
		coding, weight, _ := strings.Cut(choice, ";")
		if coding = strings.TrimSpace(coding); coding != "gzip" && coding != "x-gzip" {
			continue
		}
		_, value, given := strings.Cut(weight, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return !given || err == nil && q > 0
	}
	return false
}

// newDocs returns the documents and pages of an API. What the API declares must not change from the
// first request on.
func newDocs(declared *huma.OpenAPI) *docs {
	catalogue := sync.OnceValue(newGateCatalogue)
	d := &docs{
		document:  sync.OnceValues(func() ([]byte, error) { return document(declared) }),
		catalogue: func() ([]byte, error) { return catalogue().json() },
		page: func() (html, error) {
			text, style, script, err := readPage("docs")
			page := strings.NewReplacer("/*style*/", style, "/*script*/", script).Replace(text)
			return html{[]byte(page), pagePolicy(style, script)}, err
		},
		gatePage: func() (html, error) {
			text, style, script, err := readPage("gate")
			if err != nil {
				return html{}, err
			}
			page, err := catalogue().page(text, style, script)
			return html{page, pagePolicy(style, script)}, err
		},
	}
	d.older = func() ([]byte, error) {
		newest, err := d.document()
		if err != nil {
			return nil, err
		}
		return downgrade(newest)
	}
	return d
}

// readPage returns a page, with the style and the script that belong to it.
func readPage(name string) (text, style, script string, err error) {
	var files [4]string
	for i, file := range []string{name + ".html", "docs.css", "shell.js", name + ".js"} {
		content, err := page.ReadFile("page/" + file)
		if err != nil {
			return "", "", "", err
		}
		files[i] = string(content)
	}
	return files[0], files[1], files[2] + files[3], nil
}

// Routes adds the pages to the API.
func (d *docs) Routes(a route.API) {
	add := func(op route.Operation, render func() (servedText, error)) {
		op.Method, op.Tag, op.Access, op.Kept = http.MethodGet, tagService, route.Public{}, true
		render = sync.OnceValues(render)
		route.AddRaw(a, op, func(_ context.Context, in *docsCall) (*docsAnswer, error) {
			file, err := render()
			if err != nil {
				return nil, err
			}
			return file.answer(in), nil
		})
	}
	addJSON := func(op route.Operation, text func() ([]byte, error)) {
		op.Content = route.Content{Type: jsonType}
		add(op, func() (servedText, error) {
			body, err := text()
			if err != nil {
				return servedText{}, err
			}
			return newServed(jsonType, "", body)
		})
	}
	addPage := func(op route.Operation, render func() (html, error)) {
		op.Content = route.Content{Type: "text/html"}
		add(op, func() (servedText, error) {
			page, err := render()
			if err != nil {
				return servedText{}, err
			}
			return newServed("text/html; charset=utf-8", page.policy, page.text)
		})
	}
	addJSON(route.Operation{ID: "get-openapi", Path: "/openapi.json", Summary: "Get this document"}, d.document)
	addJSON(route.Operation{ID: "get-openapi-3-0", Path: "/openapi-3.0.json", Summary: "Get this document in OpenAPI 3.0"}, d.older)
	addPage(route.Operation{ID: "get-docs", Path: "/docs", Summary: "Read this document as a page"}, d.page)
	addJSON(route.Operation{ID: "get-gate", Path: "/gate.json", Summary: "Get the constraint gate's rules",
		Description: "The catalogue of the gate, without an envelope: substrates, rules that refuse, reasons for which nothing is billed, limits, telemetry fields and sources, " +
			"generated from the gate's own tables. For each substrate it has a delivery that is billed, and one that is refused for each rule. `/docs/gate` shows it as a page.",
	}, d.catalogue)
	addPage(route.Operation{ID: "get-gate-page", Path: "/docs/gate", Summary: "Read the constraint gate's rules as a page"}, d.gatePage)
}

// pagePolicy allows a page to connect to this service alone, and to run only its own script.
func pagePolicy(style, script string) string {
	return "default-src 'none'; connect-src 'self'; img-src data:; style-src " + hashSource(style) + "; script-src " + hashSource(script) +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// hashSource allows an inline element by its content (CSP level 2).
func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

package control

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/route"
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
type docs struct {
	document, catalogue []byte
	page, gatePage      html
	// older returns the document in OpenAPI 3.0, which the first request makes.
	older func() ([]byte, error)
}

// html is a page with its Content-Security-Policy.
type html struct {
	text   []byte
	policy string
}

type docsAnswer struct {
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Policy       string `header:"Content-Security-Policy"`
	Sniffing     string `header:"X-Content-Type-Options"`
	Body         []byte
}

// Routes adds the pages to the API. Call write before the first request.
func (d *docs) Routes(a route.API) {
	add := func(op route.Operation, answer func() (docsAnswer, error)) {
		op.Method, op.Tag, op.Access = http.MethodGet, tagService, route.Public{}
		route.AddRaw(a, op, func(context.Context, *struct{}) (*docsAnswer, error) {
			file, err := answer()
			file.CacheControl, file.Sniffing = "no-cache", "nosniff"
			return &file, err
		})
	}
	addJSON := func(op route.Operation, text func() ([]byte, error)) {
		op.Content = route.Content{Type: jsonType}
		add(op, func() (docsAnswer, error) {
			body, err := text()
			return docsAnswer{ContentType: jsonType, Body: body}, err
		})
	}
	addPage := func(op route.Operation, page *html) {
		op.Content = route.Content{Type: "text/html"}
		add(op, func() (docsAnswer, error) {
			return docsAnswer{ContentType: "text/html; charset=utf-8", Policy: page.policy, Body: page.text}, nil
		})
	}
	addJSON(route.Operation{ID: "get-openapi", Path: "/openapi.json", Summary: "Get this document"}, func() ([]byte, error) { return d.document, nil })
	addJSON(route.Operation{ID: "get-openapi-3-0", Path: "/openapi-3.0.json", Summary: "Get this document in OpenAPI 3.0"}, func() ([]byte, error) { return d.older() })
	addPage(route.Operation{ID: "get-docs", Path: "/docs", Summary: "Read this document as a page"}, &d.page)
	addJSON(route.Operation{ID: "get-gate", Path: "/gate.json", Summary: "Get the constraint gate's rules",
		Description: "The catalogue of the gate, without an envelope: substrates, rules that refuse, reasons for which nothing is billed, limits, telemetry fields and sources, " +
			"generated from the gate's own tables. For each substrate it has a delivery that is billed, and one that is refused for each rule. `/docs/gate` shows it as a page.",
	}, func() ([]byte, error) { return d.catalogue, nil })
	addPage(route.Operation{ID: "get-gate-page", Path: "/docs/gate", Summary: "Read the constraint gate's rules as a page"}, &d.gatePage)
}

// write makes documents and pages from what the API has declared and from the gate's tables.
func (d *docs) write(declared *huma.OpenAPI) (err error) {
	if d.document, err = document(declared); err != nil {
		return err
	}
	d.older = sync.OnceValues(func() ([]byte, error) { return downgrade(d.document) })
	catalogue := newGateCatalogue()
	if d.catalogue, err = catalogue.json(); err != nil {
		return err
	}
	text := map[string]string{}
	for _, name := range []string{"docs.html", "docs.css", "shell.js", "docs.js", "gate.html", "gate.js"} {
		file, err := page.ReadFile("page/" + name)
		if err != nil {
			return err
		}
		text[name] = string(file)
	}
	style, script := text["docs.css"], text["shell.js"]+text["docs.js"]
	d.page = html{[]byte(strings.NewReplacer("/*style*/", style, "/*script*/", script).Replace(text["docs.html"])), pagePolicy(style, script)}
	script = text["shell.js"] + text["gate.js"]
	d.gatePage.policy = pagePolicy(style, script)
	d.gatePage.text, err = catalogue.page(text["gate.html"], style, script)
	return err
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

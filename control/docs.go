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

// docs serves the OpenAPI document, in both versions, and the page that shows it.
type docs struct {
	document, page []byte
	policy         string
	// older makes the document in OpenAPI 3.0, when it is asked for first.
	older func() ([]byte, error)
}

type docsAnswer struct {
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Policy       string `header:"Content-Security-Policy"`
	Sniffing     string `header:"X-Content-Type-Options"`
	Body         []byte
}

// Routes adds them to the API. write has to come before the first request.
func (d *docs) Routes(a route.API) {
	add := func(id, path, summary string, content route.Content, answer func() (docsAnswer, error)) {
		route.AddRaw(a, route.Operation{ID: id, Method: http.MethodGet, Path: path, Summary: summary, Tag: tagService, Access: route.Public{}, Content: content},
			func(context.Context, *struct{}) (*docsAnswer, error) {
				file, err := answer()
				file.CacheControl, file.Sniffing = "no-cache", "nosniff"
				return &file, err
			})
	}
	add("get-openapi", "/openapi.json", "Get this document", route.Content{Type: jsonType}, func() (docsAnswer, error) {
		return docsAnswer{ContentType: jsonType, Body: d.document}, nil
	})
	add("get-openapi-3-0", "/openapi-3.0.json", "Get this document in OpenAPI 3.0", route.Content{Type: jsonType}, func() (docsAnswer, error) {
		text, err := d.older()
		return docsAnswer{ContentType: jsonType, Body: text}, err
	})
	add("get-docs", "/docs", "Read this document as a page", route.Content{Type: "text/html"}, func() (docsAnswer, error) {
		return docsAnswer{ContentType: "text/html; charset=utf-8", Policy: d.policy, Body: d.page}, nil
	})
}

// write makes document and page of what the API has declared.
func (d *docs) write(declared *huma.OpenAPI) (err error) {
	if d.document, err = document(declared); err != nil {
		return err
	}
	d.older = sync.OnceValues(func() ([]byte, error) { return downgrade(d.document) })
	var parts [3]string
	for i, name := range []string{"docs.html", "docs.css", "docs.js"} {
		text, err := page.ReadFile("page/" + name)
		if err != nil {
			return err
		}
		parts[i] = string(text)
	}
	html, style, script := parts[0], parts[1], parts[2]
	d.page = []byte(strings.NewReplacer("/*style*/", style, "/*script*/", script).Replace(html))
	// The page loads nothing but the document, and runs nothing but what is in it.
	d.policy = "default-src 'none'; connect-src 'self'; img-src data:; style-src " + hashSource(style) + "; script-src " + hashSource(script) +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return nil
}

// hashSource allows an inline element by its content (CSP level 2).
func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

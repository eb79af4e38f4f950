package control

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed page
var page embed.FS

// docs serves the OpenAPI document and the page that shows it.
type docs struct {
	document, page []byte
	policy         string
}

type docsAnswer struct {
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Policy       string `header:"Content-Security-Policy"`
	Sniffing     string `header:"X-Content-Type-Options"`
	Body         []byte
}

// Routes adds both to the API. write has to come before the first request.
func (d *docs) Routes(a huma.API) {
	operation := func(id, path, summary, kind, holds string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary,
			Tags: []string{tagService}, Metadata: map[string]any{"public": true},
			Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{kind: {Schema: &huma.Schema{Type: holds}}}}},
		}
	}
	huma.Register(a, operation("get-openapi", "/openapi.json", "Get this document", jsonType, huma.TypeObject),
		func(context.Context, *struct{}) (*docsAnswer, error) {
			return &docsAnswer{ContentType: jsonType, CacheControl: "no-cache", Sniffing: "nosniff", Body: d.document}, nil
		})
	huma.Register(a, operation("get-docs", "/docs", "Read this document as a page", "text/html", huma.TypeString),
		func(context.Context, *struct{}) (*docsAnswer, error) {
			return &docsAnswer{
				ContentType: "text/html; charset=utf-8", CacheControl: "no-cache", Policy: d.policy, Sniffing: "nosniff", Body: d.page,
			}, nil
		})
}

// write makes document and page of what the API has declared.
func (d *docs) write(declared *huma.OpenAPI) (err error) {
	if d.document, err = document(declared); err != nil {
		return err
	}
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

// Package assets serves the pages that are made of small files: the playground's, the operators' and the tenants'.
//
// A page is a folder of files that its package embeds. They have no build step and load nothing from
// elsewhere: Policy lets a browser run and call nothing but them and this service. What pages have in
// common is in the folder shared: colours and type (base.css), parts (parts.css), the making of
// elements (dom.js), charts (charts.js) and the icon. Each page has these files under its own path, so
// that its address alone shows what it is made of.
package assets

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"muniment.example/gateway/api"
)

//go:embed shared
var shared embed.FS

// Policy is the content security policy of every file: a page loads and calls nothing but its own
// origin, and runs nothing but files.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page is the files of a page. It is safe for concurrent use.
type Page struct {
	files  map[string]file
	policy string
}

type file struct {
	kind, tag string
	text      []byte
}

// kinds are the media types of files, by how their names end.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".gz":   "application/gzip",
}

// Open reads the folder page of the embedded files, and what pages share. policy is the content security policy of each:
// Policy, unless a page needs more.
func Open(embedded embed.FS, policy string) (*Page, error) {
	p := &Page{map[string]file{}, policy}
	for _, from := range []struct {
		files  embed.FS
		folder string
	}{{shared, "shared"}, {embedded, "page"}} {
		names, err := fs.Glob(from.files, from.folder+"/*")
		for _, name := range names {
			if err == nil {
				err = p.read(from.files, name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read a page: %w", err)
		}
	}
	return p, nil
}

func (p *Page) read(from embed.FS, name string) error {
	text, err := from.ReadFile(name)
	if err != nil {
		return err
	}
	return p.Add(name, text)
}

// Add adds a file that no folder has, before the page is served.
func (p *Page) Add(name string, text []byte) error {
	kind, served := kinds[path.Ext(name)]
	if !served {
		return fmt.Errorf("%s is of no kind that is served", name)
	}
	if _, twice := p.files[path.Base(name)]; twice {
		return fmt.Errorf("%s has the name of a file that is there already", name)
	}
	sum := sha256.Sum256(text)
	p.files[path.Base(name)] = file{kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`, text}
	return nil
}

// Names lists the files.
func (p *Page) Names() []string { return slices.Sorted(maps.Keys(p.files)) }

// Text returns the text of a file; nil if there is no such file.
func (p *Page) Text(name string) []byte { return p.files[name].text }

// Condition is what a caller has kept.
type Condition struct {
	IfNoneMatch string `header:"If-None-Match" hidden:"true"`
}

// Answer is a file, or 304 without one.
type Answer struct {
	Status       int
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	ETag         string `header:"ETag"`
	Policy       string `header:"Content-Security-Policy"`
	Referrer     string `header:"Referrer-Policy"`
	Opener       string `header:"Cross-Origin-Opener-Policy"`
	Body         []byte
}

// Answer answers with a file. A browser keeps it, and requests whether it has changed.
func (p *Page) Answer(name string, in *Condition) (*Answer, error) {
	f, there := p.files[name]
	if !there {
		return nil, &api.Error{Code: api.ResourceNotFound, Message: "there is no such file"}
	}
	a := &Answer{
		Status: http.StatusOK, ContentType: f.kind, CacheControl: "no-cache", ETag: f.tag, Policy: p.policy, Referrer: "no-referrer", Opener: "same-origin", Body: f.text,
	}
	if in.Has(f.tag) {
		a.Status, a.Body = http.StatusNotModified, nil
	}
	return a, nil
}

// Has says whether the caller has kept what has the tag.
func (c *Condition) Has(tag string) bool {
	for known := range strings.SplitSeq(c.IfNoneMatch, ",") {
		if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
			return true
		}
	}
	return false
}

package route

import (
	"encoding/base64"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Page is embedded by the input of every list operation.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most records in the response."`
	Cursor string `query:"cursor" maxLength:"256" doc:"The nextCursor of the previous response."`

	list  string // the path of the request: a cursor is of one list
	given bool
}

// Resolve implements huma.Resolver.
func (p *Page) Resolve(c huma.Context) []error {
	u := c.URL()
	p.list, p.given = u.Path, c.Query("limit") != "" || c.Query("cursor") != ""
	return nil
}

// PageGiven says whether the request has a limit or a cursor, which the default of Limit hides.
func (p *Page) PageGiven() bool { return p.given }

// PageOf is the page of a list that begins at a cursor, for code that has no request for it. The list
// is named by its path.
func PageOf(list, cursor string) Page { return Page{list: list, Cursor: cursor} }

var cursorCoding = base64.RawURLEncoding.Strict()

// Slice returns the slice of the page. A cursor that this list did not make is VALIDATION_FAILED.
func (p Page) Slice() (store.Slice, error) {
	if p.Cursor == "" {
		return store.Slice{Limit: p.Limit}, nil
	}
	text, err := cursorCoding.DecodeString(p.Cursor)
	key, ok := strings.CutPrefix(string(text), p.list+":")
	if err != nil || !ok || key == "" || !store.Storable(key) {
		return store.Slice{}, BadCursor()
	}
	return store.Slice{Behind: key, Limit: p.Limit}, nil
}

// BadCursor refuses a cursor of another list.
func BadCursor() error { return api.InvalidField("cursor", "is no cursor of this list") }

// Next is the nextCursor of a page whose list continues after a key; nil if that is empty.
func (p Page) Next(key string) *string {
	if key == "" {
		return nil
	}
	return new(cursorCoding.EncodeToString([]byte(p.list + ":" + key)))
}

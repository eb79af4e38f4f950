package route

import (
	"encoding/base64"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/store"
	"muniment/gateway/api"
)

// Page is embedded by the input of every list operation.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most records in the response."`
	Cursor string `query:"cursor" maxLength:"256" doc:"The nextCursor of the previous response."`
}

// GivenPage is embedded by the input of an operation that does not always have pages. It knows
// whether the request has a page, which the default of Page.Limit hides.
type GivenPage struct{ given bool }

// PageGiven says whether the request has a limit or a cursor.
func (g *GivenPage) PageGiven() bool { return g.given }

// Resolve implements huma.Resolver.
func (g *GivenPage) Resolve(c huma.Context) []error {
	g.given = c.Query("limit") != "" || c.Query("cursor") != ""
	return nil
}

// cursorVersion begins a cursor's text, so that the form can change later.
const cursorVersion = "1:"

var cursorCoding = base64.RawURLEncoding.Strict()

// Slice returns the slice of the page. A cursor that this service did not make is
// VALIDATION_FAILED.
func (p Page) Slice() (store.Slice, error) {
	if p.Cursor == "" {
		return store.Slice{Limit: p.Limit}, nil
	}
	text, err := cursorCoding.DecodeString(p.Cursor)
	key, ok := strings.CutPrefix(string(text), cursorVersion)
	if err != nil || !ok || key == "" || !store.Storable(key) {
		return store.Slice{}, BadCursor()
	}
	return store.Slice{Behind: key, Limit: p.Limit}, nil
}

// BadCursor refuses a cursor of another list.
func BadCursor() error { return api.InvalidField("cursor", "is no cursor of this list") }

// Cursor is the nextCursor of a page whose list continues after a key; nil if that is empty.
func Cursor(next string) *string {
	if next == "" {
		return nil
	}
	return new(cursorCoding.EncodeToString([]byte(cursorVersion + next)))
}

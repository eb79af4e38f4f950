package route

import (
	"encoding/base64"
	"strings"

	"muniment/control/store"
	"muniment/gateway/api"
)

// Page is what every list operation takes; an operation's input embeds it.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most records to answer with."`
	Cursor string `query:"cursor" maxLength:"256" doc:"The nextCursor of the answer before."`
}

// cursorVersion begins a cursor's text, so that another form can follow later.
const cursorVersion = "1:"

var cursorCoding = base64.RawURLEncoding.Strict()

// Slice is what the page asks for. A cursor that this service did not make is
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

// Cursor is the nextCursor of a page behind which the list goes on after a key; nil where
// that is empty, and the list ends.
func Cursor(next string) *string {
	if next == "" {
		return nil
	}
	return new(cursorCoding.EncodeToString([]byte(cursorVersion + next)))
}

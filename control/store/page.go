package store

import (
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"muniment/gateway/api"
)

// Storable says whether a text can be kept and looked for: PostgreSQL takes UTF-8 without
// U+0000, so SQLite is not given anything else either.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// Answer is what an operation answers with.
type Answer[T any] struct{ Body api.Body[T] }

// Tell answers with data, unless there is an error.
func Tell[T any](data T, err error) (*Answer[T], error) {
	if err != nil {
		return nil, err
	}
	return &Answer[T]{api.OK(data)}, nil
}

// Page is what every list operation takes; an operation's input embeds it.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most records to answer with."`
	Cursor string `query:"cursor" maxLength:"256" doc:"The nextCursor of the answer before."`
}

// cursorVersion begins a cursor's text, so that another form can follow later.
const cursorVersion = "1:"

var cursorCoding = base64.RawURLEncoding.Strict()

// Key is the key of the last record that the caller has seen; empty on the first
// page. A cursor that this service did not make is refused with 422.
func (p Page) Key() (string, error) {
	if p.Cursor == "" {
		return "", nil
	}
	text, err := cursorCoding.DecodeString(p.Cursor)
	key, ok := strings.CutPrefix(string(text), cursorVersion)
	if err != nil || !ok || key == "" || !Storable(key) {
		return "", api.InvalidField("cursor", "is no cursor of this list")
	}
	return key, nil
}

// Cut makes a page of rows that were read with one more than limit. next is the
// cursor of the page behind it, nil when this is the last one.
func Cut[T any](rows []T, limit int, key func(T) string) (page []T, next *string) {
	if len(rows) <= limit {
		return rows, nil
	}
	page = rows[:limit]
	cursor := CursorBehind(key(page[limit-1]))
	return page, &cursor
}

// ListPage is List for a page, and the cursor of the next one. The query has as $1 the key
// that the page begins behind, empty for the first page, and as $2 how many rows to read.
func ListPage[T any](ctx context.Context, q Querier, p Page, what string, key func(T) string, scan func(Row) (T, error), query string, args ...any) (page []T, next *string, err error) {
	behind, err := p.Key()
	if err != nil {
		return nil, nil, err
	}
	rows, err := List(ctx, q, what, scan, query, append([]any{behind, p.Limit + 1}, args...)...)
	page, next = Cut(rows, p.Limit, key)
	return page, next, err
}

// CursorBehind is the cursor of what comes behind a record.
func CursorBehind(key string) string {
	return cursorCoding.EncodeToString([]byte(cursorVersion + key))
}

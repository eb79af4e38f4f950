package store

import (
	"strings"
	"unicode/utf8"
)

// Storable says whether a text can be kept and looked for: PostgreSQL takes UTF-8 without
// U+0000, so SQLite is not given anything else either.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

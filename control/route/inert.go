package route

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Inert returns the text in a form in which no spreadsheet finds a formula, even one that splits
// cells at semicolons, tabs or line breaks, and which no terminal obeys. It puts an apostrophe before each
// character that begins a formula, and before each apostrophe, at the beginning of the text and after each of
// these separators; and it escapes the text as Visible does. Removing one apostrophe at these places, and then
// reading each \u with four hexadecimal digits as the character, restores the text.
func Inert(text string) string {
	return InertJSON(escaped.ReplaceAllString(text, `\u005c$1`))
}

// InertJSON is Inert of a JSON text, whose own escapes stay: removing the apostrophes leaves JSON of the same meaning.
func InertJSON(text string) string {
	text = Visible(text)
	var b strings.Builder
	done, begins := 0, true
	for i, c := range text {
		if begins && strings.ContainsRune("=+-@＝＋－＠'", c) || i == 0 && strings.ContainsRune("\t\r\n", c) {
			b.WriteString(text[done:i])
			b.WriteByte('\'')
			done = i
		}
		begins = strings.ContainsRune(";\t\r\n", c)
	}
	if b.Len() == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// escaped finds what would be read as an escape.
var escaped = regexp.MustCompile(`\\(u[0-9a-fA-F]{4})`)

// Visible returns the text with each character that a terminal would obey, or that would turn the direction of
// writing around, as JSON escapes it, as \u001b: control characters but tabs and line breaks, U+2028 and U+2029,
// and those that embed, override or isolate a direction. It leaves marks and joiners, which names have. JSON means
// the same afterwards.
func Visible(text string) string {
	if strings.IndexFunc(text, active) < 0 {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if active(c) {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func active(c rune) bool {
	return unicode.IsControl(c) && !strings.ContainsRune("\t\n\r", c) || c >= '\u2028' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069'
}

package route

import "strings"

// Inert returns the text in a form in which no spreadsheet finds a formula, even one that splits
// cells at semicolons, tabs or line breaks. It puts an apostrophe before each character that begins
// a formula, and before each apostrophe, at the beginning of the text and after each of these
// separators. Removing one apostrophe at these places restores the text.
func Inert(text string) string {
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

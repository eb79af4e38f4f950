package route

import (
	"strings"
	"unicode"
)

// ControlCharacter returns the first control character of a text that people write, other than a tab or a line
// break. On a screen, in a log or in a mail it would do something.
func ControlCharacter(text string) (c rune, found bool) {
	for _, c := range text {
		if unicode.IsControl(c) && !strings.ContainsRune("\t\n\r", c) {
			return c, true
		}
	}
	return 0, false
}

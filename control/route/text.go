package route

// ControlCharacter returns the first character of a text that people write which would do something on a screen, in a
// log or in a mail, as Visible escapes it: a control character other than a tab or a line break, or one that ends a line
// or turns the direction of writing around unseen.
func ControlCharacter(text string) (c rune, found bool) {
	for _, c := range text {
		if active(c) {
			return c, true
		}
	}
	return 0, false
}

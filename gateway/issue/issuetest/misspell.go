package issuetest

import (
	"iter"
	"math/rand/v2"
	"strings"
)

// Cases are the ways to write a name, of ASCII letters, in upper and lower case, itself included.
func Cases(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for upper := range 1 << len(name) {
			text := []byte(strings.ToLower(name))
			for i := range text {
				if upper>>i&1 == 1 {
					text[i] -= 'a' - 'A'
				}
			}
			if !yield(string(text)) {
				return
			}
		}
	}
}

// Misspellings are names that stand for a name, of ASCII letters in camel case: each that is one
// edit away from it, with a few characters, and each that divides its words with "_" or "-". Some
// are there twice; the name itself is not.
func Misspellings(name string) iter.Seq[string] {
	const characters = "aIz_-0 .\u00e9\u0406\U0001F600"
	return func(yield func(string) bool) {
		to := func(text string) bool { return text == name || yield(text) }
		for i := range len(name) + 1 {
			for _, c := range characters {
				if !to(name[:i]+string(c)+name[i:]) || i < len(name) && !to(name[:i]+string(c)+name[i+1:]) {
					return
				}
			}
			if i < len(name) && !to(name[:i]+name[i+1:]) {
				return
			}
			if i+1 < len(name) && !to(name[:i]+name[i+1:i+2]+name[i:i+1]+name[i+2:]) {
				return
			}
		}
		for _, divider := range []string{"_", "-", "__"} {
			var words strings.Builder
			for _, c := range name {
				if c >= 'A' && c <= 'Z' {
					words.WriteString(divider)
				}
				words.WriteString(strings.ToLower(string(c)))
			}
			for _, text := range []string{words.String(), strings.ToUpper(words.String()), words.String() + divider} {
				if !to(text) {
					return
				}
			}
		}
	}
}

// Misspell draws a name that stands for another: in any case, with dividers, and with an edit or
// without.
func Misspell(r *rand.Rand, name string) string {
	for {
		var text []byte
		for _, c := range []byte(name) {
			if r.IntN(4) == 0 {
				c ^= 'a' - 'A'
			}
			if r.IntN(8) == 0 {
				text = append(text, "_-"[r.IntN(2)])
			}
			text = append(text, c)
		}
		at, c := r.IntN(len(text)), byte('a'+r.IntN(26))
		switch r.IntN(6) {
		case 0:
			text[at] = c
		case 1:
			text = append(text[:at], append([]byte{c}, text[at:]...)...)
		case 2:
			text = append(text[:at], text[at+1:]...)
		case 3:
			at = max(at, 1)
			text[at-1], text[at] = text[at], text[at-1]
		case 4:
			text = []byte(name)
			text[r.IntN(len(text))] ^= 'a' - 'A'
		}
		if string(text) != name {
			return string(text)
		}
	}
}

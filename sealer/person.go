package sealer

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Person is a reference to a person, as deliveries and requests name one. Two references name the
// same person if they are the same text in NFC; one with an @ is compared without regard to case, as
// e-mail addresses are. The zero Person is nobody.
type Person struct {
	text string // the normal form
	fold bool
}

// NewPerson returns the person that a reference names.
func NewPerson(reference string) Person {
	p := Person{fold: strings.Contains(reference, "@")}
	p.text = p.normal(reference)
	return p
}

func (p Person) normal(text string) string {
	if p.fold { // before a letter and its marks become one: another case of the letter may have no such one
		text = strings.Map(foldRune, norm.NFD.String(text))
	}
	return norm.NFC.String(text)
}

// foldRune returns the same rune for all cases of a letter.
func foldRune(r rune) rune {
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}

// String returns the normal form, which is the same for all references to the person.
func (p Person) String() string { return p.text }

// Is reports whether a reference names the person.
func (p Person) Is(reference string) bool { return p.text != "" && NewPerson(reference) == p }

// In reports whether a text contains the reference as a whole: what stands before and behind it is no
// letter, digit, -, _, @ or +, and no dot inside a word. So a text about a@example.org is not about
// example.org, nor about b+a@example.org. A text with JSON escapes, as JSON in JSON has them, is also
// read without them.
func (p Person) In(text string) bool {
	return p.text != "" && (p.in(p.normal(text)) || strings.Contains(text, `\`) && p.in(p.normal(unescaped(text))))
}

func (p Person) in(text string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], p.text)
		if i < 0 {
			return false
		}
		from := at + i
		if p.bounded(text[:from], text[from+len(p.text):]) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[from:])
		at = from + size
	}
}

// bounded reports whether the texts before and behind the reference don't continue it.
func (p Person) bounded(before, behind string) bool {
	first, _ := utf8.DecodeRuneInString(p.text)
	last, _ := utf8.DecodeLastRuneInString(p.text)
	prev, size := utf8.DecodeLastRuneInString(before)
	if prev == '.' && inWord(first) {
		prev, _ = utf8.DecodeLastRuneInString(before[:len(before)-size])
	}
	next, size := utf8.DecodeRuneInString(behind)
	if next == '.' && inWord(last) {
		next, _ = utf8.DecodeRuneInString(behind[size:])
	}
	return !inWord(prev) && !inWord(next)
}

// References calls take for each reference that In finds in a text, until take returns false: so who
// knows only the hash of a person finds the texts that name the person. The references are in their
// normal form, of at most 512 bytes; one may come again. Of a text that is made to have very many, such as
// one of punctuation alone, it lists the first 100,000: then it returns false, unless take ended it before.
func References(text string, take func(reference string) bool) (all bool) {
	left, wanted := maxReferences, true
	some := func(reference string) bool {
		if left--; left < 0 {
			return false
		}
		wanted = take(reference)
		return wanted
	}
	texts := []string{text}
	if strings.Contains(text, `\`) {
		texts = append(texts, unescaped(text))
	}
	for _, text := range texts {
		for _, fold := range []bool{false, true} {
			if fold && !strings.Contains(text, "@") {
				continue
			}
			if !(Person{fold: fold}).references(text, some) {
				return !wanted
			}
		}
	}
	return true
}

// maxReference is more bytes than the normal form of a reference has, maxReferences more than a text of a
// few pages has.
const (
	maxReference  = 512
	maxReferences = 100_000
)

// references is References for references that are normalised as p; false: take wants no more.
func (p Person) references(text string, take func(reference string) bool) bool {
	text = p.normal(text)
	for from := range text {
		for to := from; to < len(text); {
			_, size := utf8.DecodeRuneInString(text[to:])
			if to += size; to-from > maxReference {
				break
			}
			p.text = text[from:to]
			if p.fold == strings.Contains(p.text, "@") && p.bounded(text[:from], text[to:]) && !take(p.text) {
				return false
			}
		}
	}
	return true
}

// inWord reports whether a rune continues the word or the symbol that it stands beside. Marks, joiners
// and the tones of emoji belong to what is before them.
func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune("-_@+", r) || r == '\u200d' || r >= 0x1f3fb && r <= 0x1f3ff
}

// Fragment returns a text that every text with the reference contains, whatever its normal form and
// case, or else a backslash; empty if there is none. A database finds candidates for In by it.
func (p Person) Fragment() (longest string) {
	breaks := func(r rune) bool {
		return r >= utf8.RuneSelf || notOnlyASCII(r) || p.fold && unicode.IsLetter(r)
	}
	for _, run := range strings.FieldsFunc(p.text, breaks) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	return longest
}

// Pattern returns an RE2 pattern that every text matches in which In finds the reference, but for texts
// with a backslash; few others match it. It is empty for references that have characters outside of
// ASCII, or that normalising makes from those.
func (p Person) Pattern() string {
	if p.text == "" || strings.ContainsFunc(p.text, func(r rune) bool { return r >= utf8.RuneSelf || notOnlyASCII(r) && !(p.fold && r == 'K') }) {
		return ""
	}
	const outside = `[^0-9A-Za-z_@+-]`
	pattern := `(^|` + outside + `)` + regexp.QuoteMeta(p.text) + `(` + outside + `|$)`
	if p.fold {
		return `(?i)` + pattern
	}
	return pattern
}

// notOnlyASCII reports whether NFC makes a character of ASCII also from others.
func notOnlyASCII(r rune) bool { return r == 'K' || r == ';' || r == '`' }

// escapes matches the escapes of JSON, those of one character together.
var escapes = regexp.MustCompile(`(\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]`)

func unescaped(text string) string {
	return escapes.ReplaceAllStringFunc(text, func(escaped string) (decoded string) {
		_ = json.Unmarshal([]byte(`"`+escaped+`"`), &decoded) // the pattern matches nothing else
		return decoded
	})
}

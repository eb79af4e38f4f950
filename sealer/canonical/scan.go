package canonical

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Scanner reads a canonical text of known shape from left to right. A canonical object has
// one encoding: a row of literals with values between them. To read it strictly is to match
// that row. After the first fault every read returns zero and Fault stays set.
type Scanner struct {
	Text  string
	At    int // the next byte
	Fault error
}

// Fail says what was expected here, unless there was a fault before.
func (s *Scanner) Fail(what string) {
	if s.Fault == nil {
		s.Fault = fmt.Errorf("%w: want %s at byte %d", ErrNotCanonical, what, s.At)
	}
}

// Lit consumes exactly l.
func (s *Scanner) Lit(l string) {
	if !s.Has(l) {
		s.Fail(l)
	}
}

// Has consumes l if it comes next.
func (s *Scanner) Has(l string) bool {
	if s.Fault != nil || !strings.HasPrefix(s.Text[s.At:], l) {
		return false
	}
	s.At += len(l)
	return true
}

// End checks that nothing follows, and returns the first fault.
func (s *Scanner) End() error {
	if s.At != len(s.Text) {
		s.Fail("the end")
	}
	return s.Fault
}

// Str consumes a string and returns its value.
func (s *Scanner) Str() string {
	s.Lit(`"`)
	if s.Fault != nil {
		return ""
	}
	start, escaped := s.At, false
	for ; s.At < len(s.Text); s.At++ {
		switch c := s.Text[s.At]; {
		case c == '"':
			raw := s.Text[start:s.At]
			s.At++
			return s.unescape(raw, escaped)
		case c == '\\':
			escaped = true
			s.At++
		case c < ' ':
			s.Fail("an escaped control character")
			return ""
		}
	}
	s.At = len(s.Text)
	s.Fail("the end of a string")
	return ""
}

// unescape checks that a string, raw without its quotes, has the shortest escapes, and returns its value.
func (s *Scanner) unescape(raw string, escaped bool) string {
	if !utf8.ValidString(raw) {
		s.Fail("UTF-8")
		return ""
	}
	if !escaped {
		return raw
	}
	quoted := `"` + raw + `"`
	meant, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil || string(AppendString(nil, string(meant))) != quoted {
		s.Fail("the shortest escapes")
		return ""
	}
	return string(meant)
}

// NullStr consumes a string or null.
func (s *Scanner) NullStr() *string {
	if s.Has("null") {
		return nil
	}
	v := s.Str()
	return &v
}

// Name consumes a string that must not be empty.
func (s *Scanner) Name() string {
	v := s.Str()
	if v == "" {
		s.Fail("a non-empty string")
	}
	return v
}

// Bool consumes true or false.
func (s *Scanner) Bool() bool {
	if s.Has("true") {
		return true
	}
	s.Lit("false")
	return false
}

// Number consumes a number in ECMAScript's form.
func (s *Scanner) Number() float64 {
	if s.Fault != nil {
		return 0
	}
	rest := s.Text[s.At:]
	raw := rest[:len(rest)-len(strings.TrimLeft(rest, "+-.0123456789e"))]
	f, err := strconv.ParseFloat(raw, 64)
	var again [32]byte
	if err != nil || string(AppendNumber(again[:0], f)) != raw {
		s.Fail("a number")
		return 0
	}
	s.At += len(raw)
	return f
}

// maxInteger is the largest integer that every JSON reader represents exactly.
const maxInteger = 1 << 53

// Integer consumes a whole number of 0 to 2^53.
func (s *Scanner) Integer() int64 {
	f := s.Number()
	if s.Fault == nil && (f < 0 || f > maxInteger || f != math.Trunc(f)) {
		s.Fail("a whole number")
		return 0
	}
	return int64(f)
}

// Time consumes a quoted time.
func (s *Scanner) Time() time.Time {
	t, err := ParseTime(s.Str())
	if err != nil {
		s.Fail("a time")
	}
	return t
}

// NullTime consumes a quoted time or null.
func (s *Scanner) NullTime() *time.Time {
	if s.Has("null") {
		return nil
	}
	t := s.Time()
	return &t
}

// Bytes consumes a base64url string of n bytes and returns them.
func (s *Scanner) Bytes(n int) []byte {
	b, err := DecodeBase64(s.Str(), n)
	if err != nil {
		s.Fail(fmt.Sprintf("base64url of %d bytes", n))
		return make([]byte, n)
	}
	return b
}

// List consumes an array, calling each once for every element.
func (s *Scanner) List(each func()) {
	s.Lit("[")
	if s.Has("]") {
		return
	}
	for {
		each()
		if s.Fault != nil || s.Has("]") {
			return
		}
		s.Lit(",")
	}
}

// Object consumes an object of any shape and returns its text, of which only
// the extent is checked.
func (s *Scanner) Object() string {
	start, depth := s.At, 0
	if s.Fault != nil || !strings.HasPrefix(s.Text[s.At:], "{") {
		s.Fail("an object")
		return ""
	}
	for ; s.At < len(s.Text); s.At++ {
		switch s.Text[s.At] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.At++
				return s.Text[start:s.At]
			}
		case '"':
			s.At = endOfString(s.Text, s.At+1)
		}
	}
	s.At = len(s.Text)
	s.Fail("the end of an object")
	return ""
}

// endOfString is the index of the quotation mark that ends the string whose contents begin at
// from; without one, the length of the text or more.
func endOfString(text string, from int) int {
	for from < len(text) {
		n := strings.IndexByte(text[from:], '"')
		if n < 0 {
			return len(text)
		}
		quote := from + n
		escape := strings.IndexByte(text[from:quote], '\\')
		if escape < 0 {
			return quote
		}
		from += escape + 2 // the escaped character may be a quotation mark
	}
	return from
}

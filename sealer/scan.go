package sealer

import (
	"crypto/ed25519"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer/merkle"
)

// scanner reads a canonical text of known shape from left to right. A canonical object has
// one encoding: a row of literals with values between them. To read it strictly is to match
// that row. After the first fault every read returns zero and fault stays set.
type scanner struct {
	text  string
	at    int
	fault error
}

func (s *scanner) fail(what string) {
	if s.fault == nil {
		s.fault = fmt.Errorf("%w: want %s at byte %d", ErrNotCanonical, what, s.at)
	}
}

// lit consumes exactly l.
func (s *scanner) lit(l string) {
	if !s.has(l) {
		s.fail(l)
	}
}

// has consumes l if it comes next.
func (s *scanner) has(l string) bool {
	if s.fault != nil || !strings.HasPrefix(s.text[s.at:], l) {
		return false
	}
	s.at += len(l)
	return true
}

// end checks that nothing follows, and returns the first fault.
func (s *scanner) end() error {
	if s.at != len(s.text) {
		s.fail("the end")
	}
	return s.fault
}

// str consumes a string and returns its value.
func (s *scanner) str() string {
	s.lit(`"`)
	if s.fault != nil {
		return ""
	}
	start, escaped := s.at, false
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			raw := s.text[start:s.at]
			s.at++
			return s.unescape(raw, escaped)
		case c == '\\':
			escaped = true
			s.at++
		case c < ' ':
			s.fail("an escaped control character")
			return ""
		}
	}
	s.at = len(s.text)
	s.fail("the end of a string")
	return ""
}

// unescape checks that a string, raw without its quotes, has the shortest escapes, and returns its value.
func (s *scanner) unescape(raw string, escaped bool) string {
	if !utf8.ValidString(raw) {
		s.fail("UTF-8")
		return ""
	}
	if !escaped {
		return raw
	}
	quoted := `"` + raw + `"`
	meant, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil || string(AppendString(nil, string(meant))) != quoted {
		s.fail("the shortest escapes")
		return ""
	}
	return string(meant)
}

// nullStr consumes a string or null.
func (s *scanner) nullStr() *string {
	if s.has("null") {
		return nil
	}
	v := s.str()
	return &v
}

// name consumes a string that must not be empty.
func (s *scanner) name() string {
	v := s.str()
	if v == "" {
		s.fail("a non-empty string")
	}
	return v
}

// packID consumes the id of a pack.
func (s *scanner) packID() string {
	id := s.str()
	if _, err := ParseID(PackPrefix, id); err != nil {
		s.fail("the id of a pack")
	}
	return id
}

// tenantID consumes the id of a tenant.
func (s *scanner) tenantID() string {
	id := s.str()
	if checkTenant(id) != nil {
		s.fail("the id of a tenant")
	}
	return id
}

// bool consumes true or false.
func (s *scanner) bool() bool {
	if s.has("true") {
		return true
	}
	s.lit("false")
	return false
}

// number consumes a number in ECMAScript's form.
func (s *scanner) number() float64 {
	if s.fault != nil {
		return 0
	}
	rest := s.text[s.at:]
	raw := rest[:len(rest)-len(strings.TrimLeft(rest, "+-.0123456789e"))]
	f, err := strconv.ParseFloat(raw, 64)
	var again [32]byte
	if err != nil || string(AppendNumber(again[:0], f)) != raw {
		s.fail("a number")
		return 0
	}
	s.at += len(raw)
	return f
}

// maxInteger is the largest integer that every JSON reader represents exactly.
const maxInteger = 1 << 53

// integer consumes a whole number of 0 to 2^53.
func (s *scanner) integer() int64 {
	f := s.number()
	if s.fault == nil && (f < 0 || f > maxInteger || f != math.Trunc(f)) {
		s.fail("a whole number")
		return 0
	}
	return int64(f)
}

// time consumes a quoted time.
func (s *scanner) time() time.Time {
	t, err := ParseTime(s.str())
	if err != nil {
		s.fail("a time")
	}
	return t
}

// nullTime consumes a quoted time or null.
func (s *scanner) nullTime() *time.Time {
	if s.has("null") {
		return nil
	}
	t := s.time()
	return &t
}

// bytes consumes a base64url string of n bytes and returns them.
func (s *scanner) bytes(n int) []byte {
	b, err := DecodeBase64(s.str(), n)
	if err != nil {
		s.fail(fmt.Sprintf("base64url of %d bytes", n))
		return make([]byte, n)
	}
	return b
}

// hash consumes a base64url SHA-256.
func (s *scanner) hash() merkle.Hash { return merkle.Hash(s.bytes(len(merkle.Hash{}))) }

// signature consumes what appendSignature writes.
func (s *scanner) signature() (keyID string, value []byte) {
	s.lit(`{"algorithm":"` + Algorithm + `","keyId":`)
	keyID = s.name()
	s.lit(`,"value":`)
	value = s.bytes(ed25519.SignatureSize)
	s.lit(`}`)
	return keyID, value
}

// list consumes an array, calling each once for every element.
func (s *scanner) list(each func()) {
	s.lit("[")
	if s.has("]") {
		return
	}
	for {
		each()
		if s.fault != nil || s.has("]") {
			return
		}
		s.lit(",")
	}
}

// object consumes an object of any shape and returns its text, of which only
// the extent is checked.
func (s *scanner) object() string {
	start, depth := s.at, 0
	if s.fault != nil || !strings.HasPrefix(s.text[s.at:], "{") {
		s.fail("an object")
		return ""
	}
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return s.text[start:s.at]
			}
		case '"':
			s.at = endOfString(s.text, s.at+1)
		}
	}
	s.at = len(s.text)
	s.fail("the end of an object")
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

// Package canonical is the one form of each text that is signed or hashed: JSON as of RFC 8785, times with
// three decimals, bytes as base64url. It writes the form, and its Scanner reads nothing else. Package
// sealer specifies which texts there are.
package canonical

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotCanonical says that a text is not in the one form that is accepted in its
// place: another order, spacing or encoding, a member too many or too few, or
// invalid JSON.
var ErrNotCanonical = errors.New("not canonical")

// JSON returns the RFC 8785 text of v. A []byte or jsontext.Value is taken
// as JSON text, anything else is marshalled first.
//
// It refuses duplicate names, invalid UTF-8, lone surrogates, and numbers outside
// the range of float64, such as 1e400: a canonicaliser that rounded them to the
// largest float64 would give two different texts one hash.
func JSON(v any) ([]byte, error) {
	var text jsontext.Value
	switch v := v.(type) {
	case []byte:
		text = bytes.Clone(v)
	case jsontext.Value:
		text = v.Clone()
	default:
		b, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("cannot write canonical JSON: %w", err)
		}
		text = b
	}
	if err := checkNumbers(text); err != nil {
		return nil, fmt.Errorf("cannot write canonical JSON: %w", err)
	}
	if err := text.Canonicalize(); err != nil {
		return nil, fmt.Errorf("cannot write canonical JSON: %w", err)
	}
	return text, nil
}

// checkNumbers refuses numbers outside the range of float64.
func checkNumbers(text jsontext.Value) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		v, err := d.ReadToken()
		if err != nil {
			return nil // Canonicalize returns what is wrong with the syntax
		}
		if v.Kind() != '0' {
			continue
		}
		if _, err := strconv.ParseFloat(v.String(), 64); err != nil {
			return fmt.Errorf("number %s at %s: %w", v, d.StackPointer(), strconv.ErrRange)
		}
	}
}

// IsJSON reports whether text is one JSON value in RFC 8785 form.
func IsJSON(text []byte) bool {
	v := jsontext.Value(bytes.Clone(text))
	// A number beyond float64 is rewritten, so the comparison refuses it.
	return v.Canonicalize() == nil && bytes.Equal(v, text)
}

// AppendNumber appends a finite f as RFC 8785 requires: by ECMAScript's
// Number::toString, the shortest digits that read back as f.
func AppendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // minus zero has no sign in ECMAScript
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of exponent, ECMAScript as few as it needs.
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendString appends s, which must be valid UTF-8, as RFC 8785 requires: quotation
// mark, backslash and control characters with their shortest escape, all else unescaped.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[plain:i]...)
		plain = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"')
}

// AppendComma appends the comma before the member i of a list, unless it is the first.
func AppendComma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// AppendNullString appends s, or null.
func AppendNullString(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return AppendString(dst, *s)
}

// AppendQuotedTime appends t as a JSON string.
func AppendQuotedTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = AppendTime(dst, t)
	return append(dst, '"')
}

// Base64 is the one encoding of bytes in our JSON: URL alphabet, no padding,
// and unused bits zero, so that no two texts mean the same bytes.
var Base64 = base64.RawURLEncoding.Strict()

// DecodeBase64 decodes n bytes, and accepts only what Base64 encodes them to.
func DecodeBase64(s string, n int) ([]byte, error) {
	// The decoder skips line breaks; the length leaves no room for them.
	if b, err := Base64.DecodeString(s); err == nil && len(b) == n && len(s) == Base64.EncodedLen(n) {
		return b, nil
	}
	return nil, fmt.Errorf("%q is not %d bytes in base64url: %w", s, n, ErrNotCanonical)
}

// IsBase64 reports whether DecodeBase64 accepts s, without an allocation. n is
// at most 48.
func IsBase64(s string, n int) bool {
	var text, raw [64]byte
	if len(s) > len(text) || len(s) != Base64.EncodedLen(n) {
		return false
	}
	decoded, err := Base64.Decode(raw[:], text[:copy(text[:], s)])
	return err == nil && decoded == n
}

const timeLayout = "2006-01-02T15:04:05.000Z"

// AppendTime appends t as RFC 3339 in UTC with exactly three decimals, truncated to
// the millisecond. The year must be 1 to 9999.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	millis := t.Nanosecond() / int(time.Millisecond)
	dst = appendTwo(dst, year/100)
	dst = append(appendTwo(dst, year%100), '-')
	dst = append(appendTwo(dst, int(month)), '-')
	dst = append(appendTwo(dst, day), 'T')
	dst = append(appendTwo(dst, hour), ':')
	dst = append(appendTwo(dst, minute), ':')
	dst = append(appendTwo(dst, second), '.')
	return append(appendTwo(dst, millis/10), byte('0'+millis%10), 'Z')
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// FormatTime returns what AppendTime appends.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads exactly the form that AppendTime writes, of the years 1 to 9999.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeLayout, s)
	// time.Parse also accepts a comma before the decimals, a sign among them, and more of them.
	var again [len(timeLayout)]byte
	if err != nil || t.Year() == 0 || string(AppendTime(again[:0], t)) != s {
		return time.Time{}, fmt.Errorf("%q is not a time of the form %s", s, timeLayout)
	}
	return t, nil
}

// Moment is a time whose JSON form is that of FormatTime.
type Moment struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) { return AppendQuotedTime(nil, m.Time), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(text []byte) (err error) {
	s := Scanner{Text: string(text)}
	m.Time = s.Time()
	return s.End()
}

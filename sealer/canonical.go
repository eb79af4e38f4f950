package sealer

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

// ErrNotCanonical says that a text is not the RFC 8785 form that its place asks
// for: another order, spacing or spelling, a member too many or too few, or no
// JSON at all.
var ErrNotCanonical = errors.New("not canonical")

// Canonical returns the RFC 8785 text of v. A []byte or jsontext.Value is taken
// as JSON text, anything else is marshalled first.
//
// Refused are duplicate names, invalid UTF-8, lone surrogates, and numbers that
// no float64 holds, such as 1e400: a canonicaliser that rounded them to the
// largest float64 would let two different texts share one hash.
func Canonical(v any) ([]byte, error) {
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

// isCanonical reports whether text is one JSON value in RFC 8785 form.
func isCanonical(text []byte) bool {
	v := jsontext.Value(bytes.Clone(text))
	// A number beyond float64 is rewritten, so the comparison refuses it.
	return v.Canonicalize() == nil && bytes.Equal(v, text)
}

// AppendNumber appends a finite f as RFC 8785 asks: ECMAScript's
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

// AppendString appends s, which must be valid UTF-8, as RFC 8785 asks: the two
// characters and the controls that JSON must escape in their shortest form, all
// else as it is.
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

// appendNullString appends s, or null.
func appendNullString(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return AppendString(dst, *s)
}

// appendQuotedTime appends t as a JSON string.
func appendQuotedTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = AppendTime(dst, t)
	return append(dst, '"')
}

// base64url is the one spelling of bytes in our JSON: URL alphabet, no padding,
// and unused bits zero, so that no two texts mean the same bytes.
var base64url = base64.RawURLEncoding.Strict()

// DecodeBase64 decodes n bytes from their one spelling.
func DecodeBase64(s string, n int) ([]byte, error) {
	// The decoder skips line breaks; the length leaves no room for them.
	if b, err := base64url.DecodeString(s); err == nil && len(b) == n && len(s) == base64url.EncodedLen(n) {
		return b, nil
	}
	return nil, fmt.Errorf("%q is not %d bytes in base64url: %w", s, n, ErrNotCanonical)
}

// isBase64 reports whether decodeBase64 would take s, without an allocation. n is
// at most 48.
func isBase64(s string, n int) bool {
	var text, raw [64]byte
	if len(s) > len(text) || len(s) != base64url.EncodedLen(n) {
		return false
	}
	decoded, err := base64url.Decode(raw[:], text[:copy(text[:], s)])
	return err == nil && decoded == n
}

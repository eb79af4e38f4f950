package sealer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
)

// ErrNotCanonical says that a text is not in the one form that is accepted in its
// place: another order, spacing or encoding, a member too many or too few, or
// invalid JSON.
var ErrNotCanonical = errors.New("not canonical")

// Canonical returns the RFC 8785 text of v. A []byte or jsontext.Value is taken
// as JSON text, anything else is marshalled first.
//
// It refuses duplicate names, invalid UTF-8, lone surrogates, and numbers outside
// the range of float64, such as 1e400: a canonicaliser that rounded them to the
// largest float64 would give two different texts one hash.
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

// base64url is the one encoding of bytes in our JSON: URL alphabet, no padding,
// and unused bits zero, so that no two texts mean the same bytes.
var base64url = base64.RawURLEncoding.Strict()

// DecodeBase64 decodes n bytes, and accepts only what base64url encodes them to.
func DecodeBase64(s string, n int) ([]byte, error) {
	// The decoder skips line breaks; the length leaves no room for them.
	if b, err := base64url.DecodeString(s); err == nil && len(b) == n && len(s) == base64url.EncodedLen(n) {
		return b, nil
	}
	return nil, fmt.Errorf("%q is not %d bytes in base64url: %w", s, n, ErrNotCanonical)
}

// isBase64 reports whether DecodeBase64 accepts s, without an allocation. n is
// at most 48.
func isBase64(s string, n int) bool {
	var text, raw [64]byte
	if len(s) > len(text) || len(s) != base64url.EncodedLen(n) {
		return false
	}
	decoded, err := base64url.Decode(raw[:], text[:copy(text[:], s)])
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
func (m Moment) MarshalJSON() ([]byte, error) { return appendQuotedTime(nil, m.Time), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(text []byte) (err error) {
	s := scanner{text: string(text)}
	m.Time = s.time()
	return s.end()
}

// Prefixes of ids.
const (
	eventPrefix   = "evt_"
	ReceiptPrefix = "rcp_"
	PackPrefix    = "ppk_"
	tenantPrefix  = "tnt_"
)

// originPrefix begins the name of every log of ours.
const originPrefix = "muniment/"

// systemTenant owns the events of nodes and operators. Only its id has no ULID.
const systemTenant = "tnt_system"

// ParseID reads prefix + ULID, the ULID in upper case.
func ParseID(prefix, id string) (ulid.ULID, error) {
	text, ok := strings.CutPrefix(id, prefix)
	u, err := ulid.ParseStrict(text)
	if !ok || err != nil || u.String() != text {
		return ulid.ULID{}, fmt.Errorf("%q is not an id of the form %s + ULID", id, prefix)
	}
	return u, nil
}

// checkTenant checks that id is the id of a tenant.
func checkTenant(id string) error {
	if id == systemTenant {
		return nil
	}
	_, err := ParseID(tenantPrefix, id)
	return err
}

// CheckOrigin checks that origin names the log of a tenant.
func CheckOrigin(origin string) error {
	tenantID, ok := strings.CutPrefix(origin, originPrefix)
	if !ok {
		return fmt.Errorf("%q is not an origin of the form %s + tenant", origin, originPrefix)
	}
	return checkTenant(tenantID)
}

// checkID checks that id is prefix + a ULID of the moment at, to the millisecond.
func checkID(prefix, id string, at time.Time) error {
	u, err := ParseID(prefix, id)
	if err != nil {
		return err
	}
	if int64(u.Time()) != at.UnixMilli() {
		return fmt.Errorf("id %s is of %s, not of %s", id, FormatTime(u.Timestamp()), FormatTime(at))
	}
	return nil
}

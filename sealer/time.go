package sealer

import (
	"fmt"
	"time"
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// AppendTime appends t as RFC 3339 in UTC with exactly three decimals; what is
// finer than a millisecond is cut off. The year must be 1 to 9999.
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
	// time.Parse also takes a comma before the decimals, a sign among them, and more of them.
	var spelling [len(timeLayout)]byte
	if err != nil || t.Year() == 0 || string(AppendTime(spelling[:0], t)) != s {
		return time.Time{}, fmt.Errorf("%q is no time of the form %s", s, timeLayout)
	}
	return t, nil
}

// Moment is a time as JSON has it here, in the one spelling of FormatTime.
type Moment struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) { return appendQuotedTime(nil, m.Time), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(text []byte) (err error) {
	s := scanner{text: string(text)}
	m.Time = s.time()
	return s.end()
}

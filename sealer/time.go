package sealer

import (
	"fmt"
	"time"
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// AppendTime appends t as RFC 3339 in UTC with exactly three decimals; what is
// finer than a millisecond is cut off. The year must be 0 to 9999.
func AppendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, timeLayout)
}

// FormatTime returns what AppendTime appends.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads exactly the form that AppendTime writes.
func ParseTime(s string) (time.Time, error) {
	// time.Parse also takes a comma before the decimals; the layout, whose length
	// is fixed, leaves no other freedom.
	t, err := time.Parse(timeLayout, s)
	if err != nil || len(s) != len(timeLayout) || s[19] != '.' {
		return time.Time{}, fmt.Errorf("%q is no time of the form %s", s, timeLayout)
	}
	return t, nil
}

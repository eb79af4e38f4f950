package sealer

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// Impression is one impression. Multipliers and impressions are counted in
	// ten-thousandths, so that sums are exact.
	Impression = 10_000
	// MaxMultiplier is the most impressions of one delivery.
	MaxMultiplier = 10_000 * Impression
)

// CountImpressions is what a delivery makes: its multiplier, or one impression where none was
// given; nothing if it is not metered.
func CountImpressions(metered bool, multiplier int64) int64 {
	switch {
	case !metered:
		return 0
	case multiplier == 0:
		return Impression
	}
	return multiplier
}

// AppendImpressions appends n ten-thousandths, which must not be negative, as a decimal in
// its one spelling: 0, 0.5, 12.
func AppendImpressions(dst []byte, n int64) []byte {
	dst = strconv.AppendInt(dst, n/Impression, 10)
	part := n % Impression
	if part == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int64(Impression / 10); part > 0; unit /= 10 {
		dst = append(dst, byte('0'+part/unit))
		part %= unit
	}
	return dst
}

// FormatImpressions returns what AppendImpressions appends.
func FormatImpressions(n int64) string { return string(AppendImpressions(nil, n)) }

// ParseImpressions reads exactly what AppendImpressions writes.
func ParseImpressions(s string) (int64, error) {
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+(part + "0000")[:max(4, len(part))], 10, 64)
	var spelling [24]byte
	if err != nil || n < 0 || string(AppendImpressions(spelling[:0], n)) != s {
		return 0, fmt.Errorf("%q is no decimal of at most four digits behind the point, without needless zeros", s)
	}
	return n, nil
}

// impressions consumes a quoted decimal.
func (s *scanner) impressions() int64 {
	n, err := ParseImpressions(s.str())
	if err != nil {
		s.fail("impressions")
	}
	return n
}

package statement

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"muniment.example/sealer/settlement"
)

// micro is a unit of money in millionths. Amounts are added up in millionths.
const micro = 1_000_000

// parseMicros reads exactly what formatMicros writes.
func parseMicros(s string) (int64, error) {
	digits, minus := strings.CutPrefix(s, "-")
	whole, part, _ := strings.Cut(digits, ".")
	n, err := strconv.ParseUint(whole+(part + "000000")[:max(6, len(part))], 10, 63)
	v := int64(n)
	if minus {
		v = -v
	}
	if err != nil || formatMicros(v) != s {
		return 0, fmt.Errorf("%q is not an amount: a decimal of at most six digits after the point, without needless zeros", s)
	}
	return v, nil
}

// formatMicros returns an amount as the shortest decimal.
func formatMicros(n int64) string {
	sign := ""
	if n < 0 {
		sign = "-"
	}
	u := uint64(max(n, -n))
	s := sign + strconv.FormatUint(u/micro, 10)
	if part := u % micro; part > 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%06d", part), "0")
	}
	return s
}

// addMicros returns a + b, or ErrAmount.
func addMicros(a, b int64) (int64, error) {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < -math.MaxInt64-b {
		return 0, settlement.ErrAmount
	}
	return a + b, nil
}

// sums are amounts by counterparty.
type sums map[string]int64

func (s sums) add(id, amount string) error { return s.plus(id, amount, 1) }

func (s sums) subtract(id, amount string) error { return s.plus(id, amount, -1) }

func (s sums) plus(id, amount string, sign int64) error {
	n, err := parseMicros(amount)
	if err == nil {
		s[id], err = addMicros(s[id], sign*n)
	}
	return err
}

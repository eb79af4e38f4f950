package rate

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Money is an amount in millionths of a unit of its currency: 12.5 is 12,500,000. It is
// never negative. Its text is a decimal in its one spelling, see Price.
type Money int64

func (m Money) String() string { return decimal(int64(m), 6) }

// Price is a price in billionths of a unit of its currency, for one EVENT, MS or SECOND.
// Its text is a decimal in its one spelling: digits, and behind a point up to nine more
// of which the last is not 0; no sign, no exponent, no zero in front but that of 0.5.
type Price int64

const priceDigits = 9

func (p Price) String() string { return decimal(int64(p), priceDigits) }

// decimal spells n, which counts units of 10^-digits.
func decimal(n int64, digits int) string {
	s := fmt.Sprintf("%0*d", digits+1, n)
	point := len(s) - digits
	return strings.TrimSuffix(s[:point]+"."+strings.TrimRight(s[point:], "0"), ".")
}

// ParsePrice reads a decimal with up to nine digits behind the point. It takes zeros that
// the one spelling leaves out, as people write them: 0.50 is 0.5.
func ParsePrice(text string) (Price, error) {
	whole, part, point := strings.Cut(text, ".")
	if whole == "" || point && part == "" || len(part) > priceDigits || strings.Trim(whole+part, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no decimal of at most %d digits behind the point", text, priceDigits)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", priceDigits-len(part)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", text, ErrOverflow)
	}
	return Price(n), nil
}

// Amount is what the rule makes of receipts with a quantity together: the price times
// what the rule counts, rounded to the micro-unit, half to even; ErrOverflow if Money
// does not hold that. Neither number is negative.
func (r *Rule) Amount(receipts, quantityMs int64) (Money, error) {
	n, divisor := quantityMs, uint64(1000) // billionths to millionths
	switch r.Unit {
	case Event:
		n = receipts
	case Second:
		divisor *= 1000
	}
	high, low := bits.Mul64(uint64(r.Price), uint64(n))
	if high >= divisor {
		return 0, ErrOverflow
	}
	amount, rest := bits.Div64(high, low, divisor)
	if 2*rest > divisor || 2*rest == divisor && amount%2 == 1 {
		amount++ // it is below 2^64: rest is not 0, so amount was not the largest
	}
	if amount > math.MaxInt64 {
		return 0, ErrOverflow
	}
	return Money(amount), nil
}

// split parts an amount into the rule's shares.
func (r *Rule) split(amount Money) []Money {
	shares := make([]Money, len(r.Shares))
	rests := make([]int64, len(r.Shares))
	left := amount
	for i, s := range r.Shares {
		// amount × bps / whole without a product that is too large.
		rest := int64(amount) % whole * s.Bps
		shares[i] = amount/whole*Money(s.Bps) + Money(rest/whole)
		rests[i] = rest % whole
		left -= shares[i]
	}
	for ; left > 0; left-- { // fewer than there are shares
		next := 0
		for i := range rests {
			if rests[i] > rests[next] || rests[i] == rests[next] && r.Shares[i].CounterpartyID < r.Shares[next].CounterpartyID {
				next = i
			}
		}
		shares[next]++
		rests[next] = -1
	}
	return shares
}

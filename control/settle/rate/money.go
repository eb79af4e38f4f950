package rate

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Money is an amount in millionths of a unit of its currency: 12.5 is 12,500,000. Only an
// adjustment may be negative. Its text is a canonical decimal, see Price, with a minus sign if it
// is negative.
type Money int64

const moneyDigits = 6

func (m Money) String() string {
	if m < 0 {
		return "-" + decimal(-uint64(m), moneyDigits)
	}
	return decimal(uint64(m), moneyDigits)
}

// Price is the price of one Unit, in billionths of a unit of its currency. Its text is a canonical
// decimal: digits, then optionally a point and up to nine digits of which the last is not 0; no
// sign, no exponent, and no leading zero except before a point.
type Price int64

const priceDigits = 9

func (p Price) String() string { return decimal(uint64(p), priceDigits) }

// decimal formats n, which counts units of 10^-digits.
func decimal(n uint64, digits int) string {
	s := fmt.Sprintf("%0*d", digits+1, n)
	point := len(s) - digits
	return strings.TrimSuffix(s[:point]+"."+strings.TrimRight(s[point:], "0"), ".")
}

// ParsePrice parses a decimal with up to nine fractional digits. It also accepts redundant zeros,
// as people write them: 0.50 is 0.5.
func ParsePrice(text string) (Price, error) {
	n, err := parseDecimal(text, priceDigits)
	return Price(n), err
}

// ParseMoney parses a non-negative amount as ParsePrice parses a price, with up to six fractional
// digits.
func ParseMoney(text string) (Money, error) {
	n, err := parseDecimal(text, moneyDigits)
	return Money(n), err
}

func parseDecimal(text string, digits int) (int64, error) {
	whole, part, point := strings.Cut(text, ".")
	if whole == "" || point && part == "" || len(part) > digits || strings.Trim(whole+part, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a decimal with at most %d fractional digits", text, digits)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", digits-len(part)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", text, ErrOverflow)
	}
	return n, nil
}

// Sums are the quantities of receipts that a price may apply to. None is negative.
type Sums struct {
	Receipts, QuantityMs int64
	// Impressions are in ten-thousandths.
	Impressions int64
}

// add adds more. It returns false on overflow.
func (s *Sums) add(more Sums) bool {
	s.Receipts += more.Receipts
	s.QuantityMs += more.QuantityMs
	s.Impressions += more.Impressions
	return s.Receipts >= 0 && s.QuantityMs >= 0 && s.Impressions >= 0
}

// Amount is the price times the sum that the rule's Unit selects, rounded to the micro-unit, half
// to even. The error is ErrOverflow if the amount doesn't fit in Money.
func (r *Rule) Amount(s Sums) (Money, error) {
	n, divisor := s.Receipts, uint64(1000) // billionths to millionths
	switch r.Unit {
	case MS:
		n = s.QuantityMs
	case Second:
		n, divisor = s.QuantityMs, divisor*1000
	case Impression:
		n, divisor = s.Impressions, divisor*10_000
	case CPM:
		n, divisor = s.Impressions, divisor*10_000*1000
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

// Adjust returns how the rule's Minimum and Cap change the non-negative sum of its lines: the
// amount that is missing to the minimum, or, as a negative amount, the excess over the cap. shares
// divides the adjustment in the order of the rule's Shares; for a negative adjustment they are the
// negated shares of its absolute value.
//
// Call it once for all lines of a rule; Rate applies neither bound. Since the shares are rounded
// once more, a counterparty's lines and adjustments may sum to some micro-units below zero.
func (r *Rule) Adjust(sum Money) (adjustment Money, shares []Money) {
	switch {
	case r.Minimum != nil && sum < *r.Minimum:
		adjustment = *r.Minimum - sum
		return adjustment, r.split(adjustment)
	case r.Cap != nil && sum > *r.Cap:
		shares = r.split(sum - *r.Cap)
		for i := range shares {
			shares[i] = -shares[i]
		}
		return *r.Cap - sum, shares
	}
	return 0, make([]Money, len(r.Shares))
}

// split divides a non-negative amount into the rule's shares.
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

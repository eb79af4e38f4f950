package rate

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Money is an amount in millionths of a unit of its currency: 12.5 is 12,500,000. Only an
// adjustment may be negative. Its text is a decimal in its one spelling, see Price, behind a
// minus if it is negative.
type Money int64

const moneyDigits = 6

func (m Money) String() string {
	if m < 0 {
		return "-" + decimal(-uint64(m), moneyDigits)
	}
	return decimal(uint64(m), moneyDigits)
}

// Price is a price in billionths of a unit of its currency, for one of what the rule's Unit
// names. Its text is a decimal in its one spelling: digits, and behind a point up to nine more
// of which the last is not 0; no sign, no exponent, no zero in front but that of 0.5.
type Price int64

const priceDigits = 9

func (p Price) String() string { return decimal(uint64(p), priceDigits) }

// decimal spells n, which counts units of 10^-digits.
func decimal(n uint64, digits int) string {
	s := fmt.Sprintf("%0*d", digits+1, n)
	point := len(s) - digits
	return strings.TrimSuffix(s[:point]+"."+strings.TrimRight(s[point:], "0"), ".")
}

// ParsePrice reads a decimal with up to nine digits behind the point. It takes zeros that
// the one spelling leaves out, as people write them: 0.50 is 0.5.
func ParsePrice(text string) (Price, error) {
	n, err := parseDecimal(text, priceDigits)
	return Price(n), err
}

// ParseMoney reads an amount that is not negative as ParsePrice reads a price, with up to
// six digits behind the point.
func ParseMoney(text string) (Money, error) {
	n, err := parseDecimal(text, moneyDigits)
	return Money(n), err
}

func parseDecimal(text string, digits int) (int64, error) {
	whole, part, point := strings.Cut(text, ".")
	if whole == "" || point && part == "" || len(part) > digits || strings.Trim(whole+part, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no decimal of at most %d digits behind the point", text, digits)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", digits-len(part)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", text, ErrOverflow)
	}
	return n, nil
}

// Sums are what a rule may count of receipts. None is negative.
type Sums struct {
	Receipts, QuantityMs int64
	// Impressions are in ten-thousandths.
	Impressions int64
}

// add adds more; false if the sums hold no more.
func (s *Sums) add(more Sums) bool {
	s.Receipts += more.Receipts
	s.QuantityMs += more.QuantityMs
	s.Impressions += more.Impressions
	return s.Receipts >= 0 && s.QuantityMs >= 0 && s.Impressions >= 0
}

// Amount is what the rule makes of receipts with these sums: the price times what the rule
// counts, rounded to the micro-unit, half to even; ErrOverflow if Money does not hold that.
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

// Adjust is what the rule's Minimum and Cap change about the sum of its lines, which is not
// negative: what is missing to the minimum, or, below zero, what is above the cap. The shares
// are those of the rule's Shares, in their order, and add up to the adjustment: they are those
// of the same amount above zero, negated.
//
// It is for adding up lines, once; Rate applies neither. Shares of a sum are rounded
// again, so that the sum of a counterparty's lines and adjustments may be some micro-units less than
// nothing.
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

// split parts an amount that is not negative into the rule's shares.
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

package rate

import (
	"fmt"
	"math"
	"math/big"
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

// ParseAmount is ParseMoney for amounts that may be negative.
func ParseAmount(text string) (Money, error) {
	positive, negative := strings.CutPrefix(text, "-")
	m, err := ParseMoney(positive)
	if negative {
		m = -m
	}
	return m, err
}

// Plus adds. The error is ErrOverflow if the sum doesn't fit.
func (m Money) Plus(n Money) (Money, error) {
	sum := m + n
	if (sum > m) != (n > 0) && n != 0 {
		return 0, ErrOverflow
	}
	return sum, nil
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

// of returns the sum to which the rule's price applies, and how many of these make a unit.
func (r *Rule) of(s Sums) (n int64, unit uint64) {
	switch r.Unit {
	case MS:
		return s.QuantityMs, 1
	case Second:
		return s.QuantityMs, 1000
	case Impression:
		return s.Impressions, 10_000
	case CPM:
		return s.Impressions, 10_000 * 1000
	}
	return s.Receipts, 1
}

// Amount is the price times the sum that the rule's Unit selects, rounded to the micro-unit, half
// to even. The error is ErrOverflow if the amount doesn't fit in Money.
func (r *Rule) Amount(s Sums) (Money, error) {
	n, unit := r.of(s)
	divisor := 1000 * unit // billionths to millionths
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

// Adjustment changes the sum of a rule's lines in a month. Shares divides the amount in the order of the
// rule's Shares; for a negative amount they are the negated shares of its absolute value.
type Adjustment struct {
	Reason string
	Amount Money
	Shares []Money
}

// The reasons of adjustments.
const (
	// ByTier: the prices of tiers less the first price, times the volumes that have them.
	ByTier = "TIER"
	// ByMinimum: what is missing to the minimum.
	ByMinimum = "MINIMUM"
	// ByCap: the excess over the cap, which is negative.
	ByCap = "CAP"
)

// Adjust returns how the rule's Tiers, and then its Minimum and Cap, change the sum of its lines in a
// month; none of 0. own is what the lines at the rule's Unit and Price count, older what those at another
// price count, by an earlier text of the rule: these units come first, and keep their price. The tiers'
// adjustment is rounded to the micro-unit, half to even. The error is ErrOverflow if an amount doesn't fit
// in Money.
//
// Call it once for all lines of a rule; Rate applies none of them. Since the shares are rounded
// once more, a counterparty's lines and adjustments may sum to some micro-units below zero.
func (r *Rule) Adjust(sum Money, own, older Sums) (made []Adjustment, err error) {
	add := func(reason string, amount Money) error {
		if amount == math.MinInt64 {
			return ErrOverflow
		}
		if amount != 0 {
			made = append(made, Adjustment{reason, amount, r.splitSigned(amount)})
		}
		return nil
	}
	tiered, err := r.tiered(own, older)
	if err == nil {
		err = add(ByTier, tiered)
	}
	if err != nil {
		return nil, err
	}
	if tiered > 0 && sum > math.MaxInt64-tiered || tiered < 0 && sum < math.MinInt64-tiered {
		return nil, ErrOverflow
	}
	switch sum += tiered; {
	case r.Minimum != nil && sum < *r.Minimum:
		if sum < 0 && *r.Minimum > math.MaxInt64+sum {
			return nil, ErrOverflow
		}
		err = add(ByMinimum, *r.Minimum-sum)
	case r.Cap != nil && sum > *r.Cap:
		err = add(ByCap, *r.Cap-sum)
	}
	return made, err
}

// tiered is the adjustment by tiers.
func (r *Rule) tiered(own, older Sums) (Money, error) {
	n, unit := r.of(own)
	before, _ := r.of(older)
	first := big.NewInt(before) // what follows has the rule's price
	all := new(big.Int).Add(first, big.NewInt(n))
	total := new(big.Int)
	for i, t := range r.Tiers {
		// from and next are where the tier begins and ends, counted as n is.
		from, next := scaled(t.Above, unit), all
		if from.Cmp(all) >= 0 {
			break
		}
		if i+1 < len(r.Tiers) {
			if end := scaled(r.Tiers[i+1].Above, unit); end.Cmp(all) < 0 {
				next = end
			}
		}
		difference := big.NewInt(int64(t.Price) - int64(r.Price)) // neither is negative
		switch {
		case r.TiersMode == Volume:
			total.Mul(big.NewInt(n), difference)
		case next.Cmp(first) > 0:
			if from.Cmp(first) < 0 {
				from = first
			}
			total.Add(total, difference.Mul(difference, new(big.Int).Sub(next, from)))
		}
	}
	divisor := scaled(1000, unit)
	amount, rest := new(big.Int).QuoRem(total, divisor, new(big.Int)) // towards zero
	if half := new(big.Int).Abs(rest); half.Lsh(half, 1).Cmp(divisor) > 0 || half.Cmp(divisor) == 0 && amount.Bit(0) == 1 {
		amount.Add(amount, big.NewInt(int64(total.Sign())))
	}
	if !amount.IsInt64() {
		return 0, ErrOverflow
	}
	return Money(amount.Int64()), nil
}

func scaled(n int64, unit uint64) *big.Int {
	return new(big.Int).Mul(big.NewInt(n), new(big.Int).SetUint64(unit))
}

// splitSigned is Split of an amount that may be negative.
func (r *Rule) splitSigned(amount Money) []Money {
	if amount >= 0 {
		return r.Split(amount)
	}
	shares := r.Split(-amount)
	for i := range shares {
		shares[i] = -shares[i]
	}
	return shares
}

// Split divides a non-negative amount into the rule's shares.
func (r *Rule) Split(amount Money) []Money {
	shares := make([]Money, len(r.Shares))
	rests := make([]int64, len(r.Shares))
	left := amount
	for i, s := range r.Shares {
		// amount × bps / Whole without a product that is too large.
		rest := int64(amount) % Whole * s.Bps
		shares[i] = amount/Whole*Money(s.Bps) + Money(rest/Whole)
		rests[i] = rest % Whole
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

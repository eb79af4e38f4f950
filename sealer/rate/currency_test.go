package rate

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPayable: amounts are paid in the minor unit, halves up.
func TestPayable(t *testing.T) {
	for _, c := range []struct{ amount, currency, payable string }{
		{"4.105", "EUR", "4.11"}, {"-4.105", "EUR", "-4.10"}, {"-4.105001", "EUR", "-4.11"}, {"4.104999", "EUR", "4.10"}, {"0.004999", "EUR", "0.00"}, {"-0.005", "EUR", "0.00"}, {"12", "EUR", "12.00"},
		{"2.5", "JPY", "3"}, {"2.499999", "JPY", "2"}, {"-2.5", "JPY", "-2"}, {"-2.500001", "JPY", "-3"}, {"-3", "JPY", "-3"}, {"0.0005", "KWD", "0.001"}, {"7.1", "KWD", "7.100"}, {"0.00005", "CLF", "0.0001"},
	} {
		m, err := ParseAmount(c.amount)
		require.NoError(t, err)
		rounded, err := m.Payable(c.currency)
		require.NoError(t, err)
		require.Equal(t, c.payable, rounded.Fixed(c.currency), c)
	}
	_, err := Money(math.MaxInt64).Payable("JPY")
	require.ErrorIs(t, err, ErrOverflow)
	_, err = Money(math.MinInt64).Payable("JPY")
	require.ErrorIs(t, err, ErrOverflow)
	_, err = Money(math.MaxInt64).Plus(1)
	require.ErrorIs(t, err, ErrOverflow)
	_, err = Money(math.MinInt64).Plus(-1)
	require.ErrorIs(t, err, ErrOverflow)
	require.Equal(t, "1.234567", Money(1_234_567).Fixed("EUR"), "finer digits are not hidden")
}

// TestPercent: a tax is on the rounded net, and rounded itself.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		net      Money
		bps      int64
		currency string
		tax      string
	}{
		{10_000_000, 1_900, "EUR", "1.90"}, {10_130_000, 1_900, "EUR", "1.92"}, {-10_130_000, 1_900, "EUR", "-1.92"}, {50_000, 1_000, "EUR", "0.01"}, {40_000, 1_000, "EUR", "0.00"},
		{125_000_000, 800, "JPY", "10"}, {math.MaxInt64 / 1_000_000 * 1_000_000, 10_000, "JPY", "9223372036854"}, {7, 0, "EUR", "0.00"},
	} {
		tax, err := c.net.Percent(c.bps, c.currency)
		require.NoError(t, err)
		require.Equal(t, c.tax, tax.Fixed(c.currency), c)
	}
}

// TestMinorUnits: each currency that is no exception has two digits, and each exception is a currency.
func TestMinorUnits(t *testing.T) {
	for code := range minorDigits {
		require.True(t, IsCurrency(code), code)
	}
	for _, code := range strings.Fields(currencies) {
		require.LessOrEqual(t, Minor(code), 4)
	}
}

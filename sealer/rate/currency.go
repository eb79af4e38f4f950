package rate

import (
	"math"
	"math/big"
	"strings"
)

// currencies are the codes of ISO 4217, as they are in force in 2026.
const currencies = "" +
	"AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD " +
	"CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP " +
	"GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR " +
	"KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN " +
	"MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD " +
	"SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX " +
	"USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF " +
	"XPT XSU XTS XUA XXX YER ZAR ZMW ZWG"

// NoCurrency is the fault of a currency that IsCurrency refuses.
const NoCurrency = "must be a code of ISO 4217: three capital letters"

// IsCurrency reports whether s is a currency's code of ISO 4217, in capitals.
func IsCurrency(s string) bool {
	return len(s) == 3 && strings.Contains(" "+currencies+" ", " "+s+" ")
}

// minorDigits are the digits after the point of a currency's minor unit, where they are not two (ISO 4217).
var minorDigits = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0, "UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
	"CLF": 4, "UYW": 4,
}

// Minor returns how many digits the amounts that are paid in a currency have after the point.
func Minor(currency string) int {
	if n, other := minorDigits[currency]; other {
		return n
	}
	return 2
}

// Shown is a decimal in a currency as people read it: with the digits of the minor unit at least, and none behind these that
// say nothing.
func Shown(decimal, currency string) string {
	whole, fraction, _ := strings.Cut(decimal, ".")
	digits := Minor(currency)
	for len(fraction) > digits && strings.HasSuffix(fraction, "0") { // a difference has the digits of both sides
		fraction = fraction[:len(fraction)-1]
	}
	if fraction += strings.Repeat("0", max(0, digits-len(fraction))); fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// minorUnit is a currency's minor unit.
func minorUnit(currency string) Money { return Money(math.Pow10(moneyDigits - Minor(currency))) }

// Payable rounds an amount to the currency's minor unit, halves up. So what remains of an amount after whole
// units rounds as the amount did: rounded away from zero, half a unit would be payable again and again. The
// error is ErrOverflow if the result doesn't fit.
func (m Money) Payable(currency string) (Money, error) {
	unit := minorUnit(currency)
	over := m % unit
	if over < 0 {
		over += unit
	}
	if 2*over >= unit {
		return m.Plus(unit - over)
	}
	return m.Plus(-over)
}

// Percent returns bps ten-thousandths of an amount, rounded to the currency's minor unit, halves away from zero,
// as invoices do. The error is ErrOverflow if the result doesn't fit.
func (m Money) Percent(bps int64, currency string) (Money, error) {
	unit := big.NewInt(int64(minorUnit(currency)))
	product := new(big.Int).Mul(big.NewInt(int64(m)), big.NewInt(bps))
	divisor := new(big.Int).Mul(unit, big.NewInt(Whole))
	half := new(big.Int).Rsh(divisor, 1)
	if product.Sign() < 0 {
		half.Neg(half)
	}
	rounded := product.Mul(product.Quo(product.Add(product, half), divisor), unit)
	if !rounded.IsInt64() {
		return 0, ErrOverflow
	}
	return Money(rounded.Int64()), nil
}

// Fixed is the text of an amount with all digits of the currency's minor unit, such as 12.50. Finer
// ones are shown too.
func (m Money) Fixed(currency string) string {
	text, digits := m.String(), Minor(currency)
	before, after, point := strings.Cut(text, ".")
	if missing := digits - len(after); missing > 0 {
		after, point = after+strings.Repeat("0", missing), true
	}
	if !point {
		return before
	}
	return before + "." + after
}

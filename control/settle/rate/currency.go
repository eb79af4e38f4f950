package rate

import "strings"

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

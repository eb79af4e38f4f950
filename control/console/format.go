package console

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
)

// stamp is a time for programs; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return canonical.FormatTime(t)
}

// short is an id that keeps what tells it apart.
func short(id string) string {
	if len(id) < 16 {
		return id
	}
	return id[:4] + "…" + id[len(id)-6:]
}

// count is a number with its thousands apart.
func count(n int64) string { return figure(strconv.FormatInt(n, 10)) }

// money is an amount as people read it in its currency, as papers have it, too.
func money(decimal, currency string) string {
	if decimal == "" {
		return ""
	}
	return figure(rate.Shown(decimal, currency))
}

// figure is a decimal with its thousands apart.
func figure(decimal string) string {
	if positive, negative := strings.CutPrefix(decimal, "-"); negative {
		return "-" + figure(positive)
	}
	text, fraction, exact := strings.Cut(decimal, ".")
	var parts []string
	for len(text) > 3 {
		parts = append([]string{text[len(text)-3:]}, parts...)
		text = text[:len(text)-3]
	}
	text = strings.Join(append([]string{text}, parts...), " ")
	if exact {
		text += "." + fraction
	}
	return text
}

// counted is how many there are of something.
func counted(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}

// plus and minus compute with decimals of the API, exactly. What is none counts as zero.
func plus(a, b string) string  { return exactly(a, b, (*big.Rat).Add) }
func minus(a, b string) string { return exactly(a, b, (*big.Rat).Sub) }

// difference is minus; "0" if there is none.
func difference(a, b string) string {
	if n := minus(a, b); !isZero(n) {
		return n
	}
	return "0"
}

func exactly(a, b string, by func(z, x, y *big.Rat) *big.Rat) string {
	digits := 0
	read := func(text string) *big.Rat {
		n, ok := new(big.Rat).SetString(text)
		if !ok {
			return new(big.Rat)
		}
		_, fraction, _ := strings.Cut(text, ".")
		digits = max(digits, len(fraction))
		return n
	}
	x, y := read(a), read(b)
	return by(new(big.Rat), x, y).FloatString(digits)
}

// isZero reports whether a decimal is zero or absent.
func isZero(decimal string) bool { return strings.Trim(decimal, "-0.") == "" }

// seconds are milliseconds as seconds, exactly.
func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) }

// hexed is a hash, which the API has as base64url, as /verify and sha256sum show it.
func hexed(hash string) string {
	if bytes, err := base64.RawURLEncoding.DecodeString(hash); err == nil {
		return hex.EncodeToString(bytes)
	}
	return hash
}

// date is a day of the API, such as 2026-12-31, for people.
func date(text string) string {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.Format("2 Jan 2006")
	}
	return text
}

// long is a number of milliseconds for people. No page shows a time that something takes in another way, but for the columns
// of seconds that amounts are computed from.
func long(ms int64) string {
	if ms < 0 { // a difference
		return "-" + long(-ms)
	}
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%s h %02d min", count(int64(d.Hours())), int(d.Minutes())%60)
}

// mood is the colour of a state.
func mood(state string) string {
	switch state {
	case "ACTIVE", "ACCEPTED", "READY", "DELIVERED", "SETTLED", "PAID", "METERED", "COMPLETED", "OVERTURNED":
		return "good"
	case "SUSPENDED", "PROPOSED", "OPEN", "HELD", "INVESTIGATING", "RESPONDED", "PAUSED", "PENDING", "INVITED", "NOT_BEGUN", "DRAFT", "DUE":
		return "warn"
	case "REVOKED", "REMOVED", "FAILED", "DISABLED", "UPHELD", "OVERDUE", "STALE":
		return "bad"
	case "ISSUED", "COUNTERED", "REQUESTED", "COLLECTING", "PACKAGING":
		return "info"
	}
	return ""
}

// spoken are names of the contract that people say otherwise than in small letters.
var spoken = map[string]string{
	"DOOH": "DOOH", "CTV": "CTV", "HUD": "HUD", "AR_CONTACTS": "AR contacts", "JSON": "JSON", "CSV": "CSV", "NDJSON": "NDJSON", "PARQUET": "Parquet",
	"DATA_SUBJECT": "one person’s data", "TENANT_FULL": "all data of the tenant", "TENANT_SLICE": "the tenant’s data of a time",
}

// words is a name of the contract for people: NOT_AUDIBLE is "not audible".
func words(name string) string {
	if said, other := spoken[name]; other {
		return said
	}
	return strings.ToLower(strings.ReplaceAll(name, "_", " "))
}

// coded is a name of the contract.
var coded = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)

// plain is a text for people that may be a name of the contract, as the note about a job that failed.
func plain(text string) string {
	if coded.MatchString(text) {
		return words(text)
	}
	return text
}

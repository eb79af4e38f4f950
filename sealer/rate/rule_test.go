package rate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const text = `{"cap":"250","createdAt":"2026-05-01T00:00:00.000Z","currency":"EUR","effectiveFrom":"2026-05-01T00:00:00.000Z","effectiveUntil":"2026-06-01T00:00:00.000Z",` +
	`"id":"rule_1","match":{"basisId":"bas_1","campaign":"cmp_1","completion":"complete","label":{"name":"venue","value":"north"},"meteringBasis":"viewable","rightId":"rgh_1","substrate":"CTV"},"minimum":"10.5","price":"0.0125","priority":3,"revision":7,` +
	`"shares":[{"bps":7000,"counterpartyId":"cp_b"},{"bps":3000,"counterpartyId":"cp_a"}],"state":"ACTIVE","tiers":[{"above":1000,"price":"0.01"},{"above":5000,"price":"0"}],"tiersMode":"GRADUATED","timeZone":"Europe/Berlin","unit":"SECOND","updatedAt":"2026-05-01T00:00:00.000Z"}`

func TestParseRule(t *testing.T) {
	r, err := ParseRule([]byte(text))
	require.NoError(t, err)
	require.Equal(t, Rule{
		ID: "rule_1", Match: Match{"rgh_1", "bas_1", "cmp_1", Label{"venue", "north"}, "CTV", "viewable", "complete"}, Unit: Second, Price: 12_500_000, Currency: "EUR",
		Shares: []Share{{"cp_b", 7000}, {"cp_a", 3000}}, EffectiveFrom: day, EffectiveUntil: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), Priority: 3,
		TimeZone: "Europe/Berlin", Tiers: []Tier{{1000, 10_000_000}, {5000, 0}}, TiersMode: Graduated, Minimum: new(Money(10_500_000)), Cap: new(Money(250_000_000)),
	}, r)

	open, err := ParseRule([]byte(strings.NewReplacer(`"2026-06-01T00:00:00.000Z"`, "null", `"bas_1"`, "null", `"cmp_1"`, "null", `{"name":"venue","value":"north"}`, "null", `"viewable"`, "null", `"rgh_1"`, "null", `"CTV"`, "null", `"complete"`, "null", `"250"`, "null", `"10.5"`, "null").Replace(text)))
	require.NoError(t, err)
	require.Equal(t, Match{}, open.Match)
	require.Zero(t, open.EffectiveUntil)
	require.Nil(t, open.Minimum)
	require.Nil(t, open.Cap)
}

// TestEmptyWindow: a rule that was retired before it began is never in force.
func TestEmptyWindow(t *testing.T) {
	empty := strings.Replace(text, `"2026-06-01T00:00:00.000Z"`, `"2026-05-01T00:00:00.000Z"`, 1)
	_, err := ParseRule([]byte(empty))
	require.ErrorContains(t, err, "effectiveUntil must be after effectiveFrom", "it is ACTIVE")
	r, err := ParseRule([]byte(strings.Replace(empty, `"ACTIVE"`, `"RETIRED"`, 1)))
	require.NoError(t, err)
	require.NoError(t, r.Check())
	require.False(t, r.in(day))
	before, after := day.Add(-time.Hour), day.Add(time.Hour)
	for _, period := range [][2]time.Time{{before, after}, {day, after}, {before, day}, {before, day.Add(1)}} {
		require.False(t, r.InForce(period[0], period[1]), "%v", period)
	}
	r.EffectiveUntil = day.Add(time.Millisecond)
	require.True(t, r.InForce(before, after))
	r.EffectiveUntil = before
	require.ErrorContains(t, r.Check(), "effectiveUntil must be after effectiveFrom")
}

// TestParseRuleIsStrict changes the text of a rule: ambiguous texts are refused.
func TestParseRuleIsStrict(t *testing.T) {
	for _, c := range [][2]string{
		{`{"cap"`, `{ "cap"`},
		{`"currency":"EUR",`, ``},
		{`"currency":"EUR"`, `"currency":"eur"`},
		{`"currency":"EUR"`, `"currency":"EURO"`},
		{`"currency":"EUR"`, `"currency":"EUR","more":1`},
		{`"effectiveFrom":"2026-05-01T00:00:00.000Z"`, `"effectiveFrom":null`},
		{`"effectiveFrom":"2026-05-01T00:00:00.000Z"`, `"effectiveFrom":"2026-05-01T00:00:00Z"`},
		{`"effectiveFrom":"2026-05-01T00:00:00.000Z"`, `"effectiveFrom":"2026-05-01T02:00:00.000+02:00"`},
		{`"effectiveFrom":"2026-05-01T00:00:00.000Z"`, `"effectiveFrom":"2026-06-01T00:00:00.000Z"`},
		{`"effectiveUntil":"2026-06-01T00:00:00.000Z"`, `"effectiveUntil":"0001-01-01T00:00:00.000Z"`},
		{`"createdAt":"2026-05-01T00:00:00.000Z"`, `"createdAt":""`},
		{`"id":"rule_1"`, `"id":""`},
		{`"rightId":"rgh_1"`, `"rightId":""`},
		{`"completion":"complete",`, ``},
		{`"completion":"complete"`, `"completion":""`},
		{`"cap":"250",`, ``},
		{`"cap":"250"`, `"cap":250`},
		{`"cap":"250"`, `"cap":"250.0"`},
		{`"cap":"250"`, `"cap":"-250"`},
		{`"cap":"250"`, `"cap":"250.0000001"`},
		{`"cap":"250"`, `"cap":"9223372036854.775808"`},
		{`"cap":"250"`, `"cap":"10.499999"`},
		{`"minimum":"10.5",`, ``},
		{`"tiersMode":"GRADUATED"`, `"tiersMode":null`},
		{`"tiersMode":"GRADUATED"`, `"tiersMode":""`},
		{`"tiersMode":"GRADUATED"`, `"tiersMode":"FLAT"`},
		{`[{"above":1000,"price":"0.01"},{"above":5000,"price":"0"}]`, `[]`},
		{`"above":1000`, `"above":5000`},
		{`"above":1000`, `"above":0`},
		{`"above":5000`, `"above":9007199254740993`},
		{`"price":"0.01"`, `"price":"0.010"`},
		{`"price":"0.01"`, `"price":"-1"`},
		{`"timeZone":"Europe/Berlin"`, `"timeZone":""`},
		{`,"timeZone":"Europe/Berlin"`, ``},
		{`"minimum":"10.5"`, `"minimum":"010.5"`},
		{`"minimum":"10.5"`, `"minimum":"250.000001"`},
		{`"price":"0.0125"`, `"price":"0.01250"`},
		{`"price":"0.0125"`, `"price":"-0.0125"`},
		{`"price":"0.0125"`, `"price":"1e-2"`},
		{`"price":"0.0125"`, `"price":0.0125`},
		{`"price":"0.0125"`, `"price":"00.0125"`},
		{`"price":"0.0125"`, `"price":".0125"`},
		{`"price":"0.0125"`, `"price":"0.0000000001"`},
		{`"price":"0.0125"`, `"price":"9223372036.854775808"`},
		{`"priority":3`, `"priority":3.5`},
		{`"priority":3`, `"priority":-1`},
		{`"priority":3`, `"priority":1000001`},
		{`"revision":7`, `"revision":-7`},
		{`"revision":7`, `"revision":1152921504606847000`},
		{`"bps":7000`, `"bps":7001`},
		{`"bps":7000,"counterpartyId":"cp_b"`, `"bps":10000,"counterpartyId":"cp_b"`},
		{`"bps":7000,"counterpartyId":"cp_b"},{"bps":3000`, `"bps":0,"counterpartyId":"cp_b"},{"bps":10000`},
		{`"counterpartyId":"cp_b"`, `"counterpartyId":"cp_a"`},
		{`"counterpartyId":"cp_b"`, `"counterpartyId":""`},
		{`[{"bps":7000,"counterpartyId":"cp_b"},{"bps":3000,"counterpartyId":"cp_a"}]`, `[]`},
		{`"state":"ACTIVE"`, `"state":"OPEN"`},
		{`"unit":"SECOND"`, `"unit":"HOUR"`},
		{`"unit":"SECOND"`, `"unit":"SECOND","unit":"SECOND"`},
	} {
		changed := strings.Replace(text, c[0], c[1], 1)
		require.NotEqual(t, text, changed, c[0])
		_, err := ParseRule([]byte(changed))
		require.Error(t, err, c[1])
	}
	require.NotPanics(t, func() { _, _ = ParseRule(nil) })
}

func TestSharesAreBounded(t *testing.T) {
	r := rule("1", func(r *Rule) {
		r.Shares = nil
		for i := range MaxShares + 1 {
			r.Shares = append(r.Shares, Share{string(rune('a' + i)), 1})
		}
		r.Shares[0].Bps = Whole - MaxShares
	})
	require.ErrorContains(t, r.Check(), "shares must be 1 to 10")
}

// TestAllFaults: the error of a rule lists all of its faults.
func TestAllFaults(t *testing.T) {
	_, err := ParseRule([]byte(strings.NewReplacer(
		`"0.0125"`, `"-1"`, `"10.5"`, `"x"`, `"250"`, `"1.0"`, `"SECOND"`, `"HOUR"`, `"EUR"`, `"eur"`, `"cp_b"`, `"cp_a"`, `:7000`, `:0`, `"rgh_1"`, `""`,
		`"priority":3`, `"priority":-3`, `"ACTIVE"`, `"OPEN"`, `"2026-06-01T00:00:00.000Z"`, `"2026-04-01T00:00:00.000Z"`,
	).Replace(text)))
	var faults Faults
	require.ErrorAs(t, err, &faults)
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	require.Equal(t, []string{
		"match.rightId", "price", "minimum", "cap", "state", "unit", "currency", "effectiveUntil", "priority", "shares[0].bps", "shares[1].counterpartyId",
	}, fields)
	require.ErrorContains(t, err, "state must be ACTIVE or RETIRED; unit must be")

	low := Rule{Minimum: new(Money(-1)), Cap: new(Money(-2)), Price: -1}
	require.ErrorContains(t, low.Check(), "price must not be negative; currency must be three capital letters; effectiveFrom is missing; minimum must not be negative; cap must not be negative; timeZone must be 1 to 64 bytes; shares must be 1 to 10")
}

func TestParsePrice(t *testing.T) {
	for text, want := range map[string]Price{
		"0": 0, "0.50": 500_000_000, "007": 7_000_000_000, "1.000000001": 1_000_000_001, "9223372036.854775807": math.MaxInt64,
	} {
		p, err := ParsePrice(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p)
	}
	for _, text := range []string{"", ".", "1.", ".5", "+1", "1.0000000000", "1,5", "1 ", "0x1", "1_0", "9223372036.854775808", "99999999999999999999"} {
		_, err := ParsePrice(text)
		require.Error(t, err, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := Price(rapid.Int64Range(0, math.MaxInt64).Draw(t, "price"))
		again, err := ParsePrice(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

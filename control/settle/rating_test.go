package settle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// TestAdjustInForce: a minimum applies to a period if its rule is in force at any time of it, and
// otherwise not.
func TestAdjustInForce(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 10, n, 0, 0, 0, 0, time.UTC) }
	rule := Rule{
		ID: "rule_a", Unit: rate.Event, Price: "1", Currency: "EUR", Shares: []Share{{"cp_a", 6_000}, {"cp_b", 4_000}}, State: Active, Minimum: new("10"), Tiers: []Tier{}, TimeZone: "UTC",
		EffectiveFrom: store.At(day(10)), EffectiveUntil: store.At(day(20)), CreatedAt: store.At(day(1)), UpdatedAt: store.At(day(1)),
	}
	records, err := Records([]Rule{rule})
	require.NoError(t, err)
	for _, c := range []struct {
		from, to int
		counts   bool
	}{{1, 10, false}, {1, 11, true}, {12, 13, true}, {19, 30, true}, {20, 30, false}, {1, 30, true}} {
		made, err := Rating.Adjust(records[0], []settlement.Line{{Amount: "2.5"}}, []settlement.Line{{Amount: "1"}}, day(c.from), day(c.to))
		require.NoError(t, err)
		var want []settlement.Adjustment
		if c.counts {
			want = []settlement.Adjustment{{Reason: rate.ByMinimum, Amount: "6.5", Shares: []string{"3.9", "2.6"}}}
		}
		require.Equal(t, want, made, "%+v", c)
	}
	_, err = Rating.Adjust(records[0], []settlement.Line{{Amount: "9223372036854"}, {Amount: "9223372036854"}}, nil, day(1), day(30))
	require.ErrorIs(t, err, settlement.ErrAmount)
}

// TestMonths: a rule adjusts the months of its zone that end in a period, if it is in force at any time of
// them.
func TestMonths(t *testing.T) {
	at := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return at
	}
	const ever = "2020-01-01T00:00:00Z"
	for name, c := range map[string]struct {
		zone, effective, until, from, to string
		months                           []string
	}{
		"a month":                         {"UTC", ever, "", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", []string{"2026-11"}},
		"without its last millisecond":    {"UTC", ever, "", "2026-11-01T00:00:00Z", "2026-11-30T23:59:59.999Z", nil},
		"its last millisecond alone":      {"UTC", ever, "", "2026-11-30T23:59:59.999Z", "2026-12-01T00:00:00Z", []string{"2026-11"}},
		"a month of UTC, in Berlin":       {"Europe/Berlin", ever, "", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", []string{"2026-11"}},
		"a month of Berlin, in New York":  {"America/New_York", ever, "", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z", []string{"2026-10"}},
		"several":                         {"Europe/Berlin", ever, "", "2026-02-10T00:00:00Z", "2026-05-31T22:00:00Z", []string{"2026-02", "2026-03", "2026-04", "2026-05"}},
		"ended before, in the month":      {"UTC", ever, "2026-11-10T00:00:00Z", "2026-11-16T00:00:00Z", "2026-12-01T00:00:00Z", []string{"2026-11"}},
		"ended with the month before":     {"UTC", ever, "2026-11-01T00:00:00Z", "2026-11-16T00:00:00Z", "2026-12-01T00:00:00Z", nil},
		"begins on the last day":          {"UTC", "2026-11-30T23:59:59.999Z", "", "2026-11-01T00:00:00Z", "2027-01-01T00:00:00Z", []string{"2026-11", "2026-12"}},
		"begins and ends within":          {"UTC", "2026-11-30T23:00:00Z", "2026-12-01T00:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", []string{"2026-11"}},
		"begins afterwards":               {"UTC", "2026-12-01T00:00:00Z", "", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", nil},
		"a day, which ends no month":      {"UTC", ever, "", "2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z", nil},
		"the first month that has a name": {"America/New_York", "1970-01-01T00:00:00Z", "", "1970-01-01T00:00:00Z", "1970-02-01T05:00:00Z", []string{"1970-01"}},
	} {
		rule := Rule{ID: "rule_a", Unit: rate.Event, Price: "1", Currency: "EUR", Tiers: []Tier{}, Shares: []Share{{"cp_a", 10_000}}, State: Active, Cap: new("10"), TimeZone: c.zone, EffectiveFrom: store.At(at(c.effective)), CreatedAt: store.At(at(ever)), UpdatedAt: store.At(at(ever))}
		if c.until != "" {
			rule.EffectiveUntil = store.At(at(c.until))
		}
		records, err := Records([]Rule{rule})
		require.NoError(t, err)
		months, err := Rating.Months(records[0], at(c.from), at(c.to))
		require.NoError(t, err, name)
		var got []string
		for i, m := range months {
			got = append(got, m.Month)
			require.Equal(t, c.zone, m.TimeZone)
			require.True(t, i == 0 || months[i-1].To.Equal(m.From.Time), name)
		}
		require.Equal(t, c.months, got, name)

		rule.Cap = nil
		records, err = Records([]Rule{rule})
		require.NoError(t, err)
		months, err = Rating.Months(records[0], at(c.from), at(c.to))
		require.NoError(t, err)
		require.Empty(t, months, "it has nothing to adjust")
	}
}

package rate

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var day = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// rule is one that fits everything.
func rule(id string, change ...func(*Rule)) Rule {
	r := Rule{ID: id, Unit: Event, Price: 1_000_000_000, Currency: "EUR", Shares: []Share{{"cp_a", 10_000}}, EffectiveFrom: day, TimeZone: "UTC"}
	for _, c := range change {
		c(&r)
	}
	return r
}

func receipt(change ...func(*Metered)) Metered {
	r := Metered{"rgh_1", "bas_1", "CTV", "viewable", "complete", []string{"spring", "winter"}, map[string]string{"venue": "north", "team": ""}, day, 1, 1000, 25_000}
	for _, c := range change {
		c(&r)
	}
	return r
}

func TestPrecedence(t *testing.T) {
	named := func(right, basis, substrate, metering, completion string) func(*Rule) {
		return func(r *Rule) {
			r.Match = Match{RightID: right, BasisID: basis, Substrate: substrate, MeteringBasis: metering, Completion: completion}
		}
	}
	of := func(m Match) func(*Rule) { return func(r *Rule) { r.Match = m } }
	first := func(p int64) func(*Rule) { return func(r *Rule) { r.Priority = p } }
	from := func(at time.Time) func(*Rule) { return func(r *Rule) { r.EffectiveFrom = at } }
	until := func(at time.Time) func(*Rule) { return func(r *Rule) { r.EffectiveUntil = at } }
	for name, c := range map[string]struct {
		rules []Rule
		want  string // the id of the rule that rates; empty for none
	}{
		"none":                           {nil, ""},
		"one that names nothing":         {[]Rule{rule("1")}, "1"},
		"the lowest id":                  {[]Rule{rule("2"), rule("1"), rule("3")}, "1"},
		"the highest priority":           {[]Rule{rule("1", named("rgh_1", "bas_1", "CTV", "viewable", "")), rule("2", first(1))}, "2"},
		"the right before all others":    {[]Rule{rule("1", named("", "bas_1", "CTV", "viewable", "")), rule("2", named("rgh_1", "", "", "", ""))}, "2"},
		"the basis before the rest":      {[]Rule{rule("1", named("", "", "CTV", "viewable", "")), rule("2", named("", "bas_1", "", "", ""))}, "2"},
		"the basis before the campaign":  {[]Rule{rule("1", of(Match{Campaign: "spring"})), rule("2", named("", "bas_1", "", "", ""))}, "2"},
		"the campaign before the label":  {[]Rule{rule("1", of(Match{Label: Label{"venue", "north"}})), rule("2", of(Match{Campaign: "winter"}))}, "2"},
		"the label before the substrate": {[]Rule{rule("1", named("", "", "CTV", "viewable", "complete")), rule("2", of(Match{Label: Label{"venue", "north"}}))}, "2"},
		"a label without a value":        {[]Rule{rule("1", of(Match{Label: Label{"team", ""}}))}, "1"},
		"no such campaign":               {[]Rule{rule("1", of(Match{Campaign: "sprin"}))}, ""},
		"another value of the label":     {[]Rule{rule("1", of(Match{Label: Label{"venue", "south"}}))}, ""},
		"no such label":                  {[]Rule{rule("1", of(Match{Label: Label{"place", ""}}))}, ""},
		"one of both":                    {[]Rule{rule("1", of(Match{Campaign: "spring", Label: Label{"venue", "south"}}))}, ""},
		"the substrate before the tier":  {[]Rule{rule("1", named("", "", "", "viewable", "")), rule("2", named("", "", "CTV", "", ""))}, "2"},
		"the more names the better":      {[]Rule{rule("1", named("rgh_1", "", "", "", "")), rule("2", named("rgh_1", "", "", "viewable", ""))}, "2"},
		"the tier before the completion": {[]Rule{rule("1", named("", "", "", "", "complete")), rule("2", named("", "", "", "viewable", ""))}, "2"},
		"a completion before nothing":    {[]Rule{rule("1"), rule("2", named("", "", "", "", "complete"))}, "2"},
		"another right":                  {[]Rule{rule("1", named("rgh_2", "", "", "", ""))}, ""},
		"another basis":                  {[]Rule{rule("1", named("", "bas_2", "", "", ""))}, ""},
		"another substrate":              {[]Rule{rule("1", named("", "", "DOOH", "", ""))}, ""},
		"another tier":                   {[]Rule{rule("1", named("", "", "", "gross", ""))}, ""},
		"another completion":             {[]Rule{rule("1", named("", "", "", "", "started"))}, ""},
		"from the very moment":           {[]Rule{rule("1", from(day))}, "1"},
		"not a millisecond before":       {[]Rule{rule("1", from(day.Add(time.Millisecond)))}, ""},
		"until before the end":           {[]Rule{rule("1", from(day.Add(-time.Hour)), until(day.Add(time.Millisecond)))}, "1"},
		"not at the end":                 {[]Rule{rule("1", from(day.Add(-time.Hour)), until(day))}, ""},
		"the next when one is over":      {[]Rule{rule("1", first(9), from(day.Add(-time.Hour)), until(day)), rule("2")}, "2"},
	} {
		s, err := Rate(c.rules, slices.Values([]Metered{receipt()}))
		require.NoError(t, err, name)
		if c.want == "" {
			require.Equal(t, Settlement{Unrated: []Unrated{{"rgh_1", "viewable", NoRule, 1, 1000, 25_000}}}, s, name)
			continue
		}
		require.Equal(t, Settlement{Lines: []Line{{c.want, "rgh_1", "viewable", 1, 1000, 25_000, 1_000_000, []Money{1_000_000}}}}, s, name)
	}
}

func TestLines(t *testing.T) {
	on := func(right, metering string, ms int64) Metered {
		return receipt(func(r *Metered) { r.RightID, r.MeteringBasis, r.QuantityMs = right, metering, ms })
	}
	perSecond := rule("1", func(r *Rule) {
		r.Unit, r.Price, r.Match.RightID, r.Shares = Second, 1_500, "rgh_1", []Share{{"cp_b", 3333}, {"cp_a", 3333}, {"cp_c", 3334}}
	})
	s, err := Rate([]Rule{perSecond, rule("2", func(r *Rule) { r.Match.RightID = "rgh_2" })}, slices.Values([]Metered{
		on("rgh_2", "gross", 7), on("rgh_1", "viewable", 1500), on("rgh_3", "gross", 5), on("rgh_1", "gross", 700),
		on("rgh_1", "viewable", 0), on("rgh_3", "gross", 6),
	}))
	require.NoError(t, err)
	require.Equal(t, Settlement{
		Lines: []Line{
			// 0.7 s and 1.5 s of 1.5 micro-units: 1.05 and 2.25.
			{"1", "rgh_1", "gross", 1, 700, 25_000, 1, []Money{0, 0, 1}},
			{"1", "rgh_1", "viewable", 2, 1500, 50_000, 2, []Money{0, 1, 1}},
			{"2", "rgh_2", "gross", 1, 7, 25_000, 1_000_000, []Money{1_000_000}},
		},
		Unrated: []Unrated{{"rgh_3", "gross", NoRule, 2, 11, 50_000}},
	}, s)
}

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		unit     Unit
		price    string
		receipts int64
		n        int64 // milliseconds, or ten-thousandths of impressions
		want     string
	}{
		{Event, "0.5", 3, 9999, "1.5"},
		{Event, "0", 3, 9999, "0"},
		{Event, "0.000000001", 499, 0, "0"},
		{Event, "0.000000001", 500, 0, "0"}, // a half goes to the even one
		{Event, "0.000000001", 501, 0, "0.000001"},
		{Event, "0.000000001", 1500, 0, "0.000002"},
		{Event, "0.000000001", 2500, 0, "0.000002"},
		{MS, "0.000001", 3, 1_234_567, "1.234567"},
		{Second, "2", 3, 1500, "3"},
		{Second, "0.001", 3, 1, "0.000001"},
		{Second, "0.0005", 3, 1, "0"},
		{Second, "0.0015", 3, 1, "0.000002"},
		{Event, "9223372036.854775807", 1000, 0, "9223372036854.775807"},
		{Event, "9223372036.854775807", 1001, 0, ""},
		{MS, "9223372036.854775807", 1, math.MaxInt64, ""},
		{Second, "9223372036.854775807", 1, math.MaxInt64, ""},
		{Impression, "0.5", 7, 12_500, "0.625"},
		{Impression, "0.000001", 7, 5_000, "0"}, // a half goes to the even one
		{Impression, "0.000001", 7, 5_001, "0.000001"},
		{Impression, "0.000001", 7, 15_000, "0.000002"},
		{Impression, "1", 7, math.MaxInt64, ""},
		{Impression, "0.01", 7, math.MaxInt64, "9223372036854.775807"},
		{CPM, "12.5", 7, 10_000, "0.0125"},
		{CPM, "0.001", 7, 5_000, "0"},
		{CPM, "0.001", 7, 15_000, "0.000002"},
		{CPM, "10", 7, math.MaxInt64, "9223372036854.775807"},
		{CPM, "9223372036.854775807", 7, 1_000_000_000, "922337203685.477581"},
	} {
		price, err := ParsePrice(c.price)
		require.NoError(t, err)
		require.Equal(t, c.price, price.String())
		r := rule("1", func(r *Rule) { r.Unit, r.Price = c.unit, price })
		amount, err := r.Amount(Sums{c.receipts, c.n, c.n})
		if c.want == "" {
			require.ErrorIs(t, err, ErrOverflow, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.want, amount.String(), "%+v", c)
	}
}

func TestTooLargeIsUnrated(t *testing.T) {
	dear := rule("1", func(r *Rule) { r.Unit, r.Price = MS, math.MaxInt64 })
	s, err := Rate([]Rule{dear}, slices.Values([]Metered{receipt(), receipt(), receipt(func(r *Metered) { r.RightID = "rgh_2"; r.QuantityMs = 1 })}))
	require.NoError(t, err)
	require.Equal(t, []Unrated{{"rgh_1", "viewable", TooLarge, 2, 2000, 50_000}}, s.Unrated)
	require.Len(t, s.Lines, 1)

	many := func(r *Metered) { r.QuantityMs = math.MaxInt64 }
	_, err = Rate([]Rule{dear}, slices.Values([]Metered{receipt(many), receipt()}))
	require.ErrorIs(t, err, ErrOverflow)
	other := rule("2", func(r *Rule) { r.Unit, r.Price, r.Match.Substrate = MS, math.MaxInt64, "DOOH" })
	_, err = Rate([]Rule{dear, other}, slices.Values([]Metered{receipt(many), receipt(func(r *Metered) { r.Substrate, r.QuantityMs = "DOOH", 2000 })}))
	require.ErrorIs(t, err, ErrOverflow, "two lines of one right, neither of which can be rated")
}

func TestRateRefuses(t *testing.T) {
	_, err := Rate(nil, slices.Values([]Metered{receipt(func(r *Metered) { r.QuantityMs = -1 })}))
	require.ErrorContains(t, err, "1 receipts of -1 ms")
	_, err = Rate(nil, slices.Values([]Metered{receipt(func(r *Metered) { r.Receipts = 0 })}))
	require.ErrorContains(t, err, "0 receipts")
	_, err = Rate(nil, slices.Values([]Metered{receipt(func(r *Metered) { r.Impressions = -1 })}))
	require.ErrorContains(t, err, "-1 ten-thousandths")
	_, err = Rate([]Rule{rule("1"), rule("1")}, slices.Values([]Metered(nil)))
	require.ErrorContains(t, err, "two rules")
	_, err = Rate([]Rule{rule("1", func(r *Rule) { r.Unit = "HOUR" })}, slices.Values([]Metered(nil)))
	require.ErrorContains(t, err, "unit")
}

// world draws rules and receipts such that rules often fit receipts.
func world(t *rapid.T) ([]Rule, []Metered) {
	name := func(label string, names ...string) string { return rapid.SampledFrom(names).Draw(t, label) }
	moment := func(label string) time.Time {
		return day.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, label)) * time.Millisecond)
	}
	rules := make([]Rule, rapid.IntRange(0, 6).Draw(t, "rules"))
	for i := range rules {
		r := rule(fmt.Sprintf("rule_%d", i))
		r.Match = Match{name("right", "", "", "rgh_1", "rgh_2"), name("basis", "", "", "bas_1", "bas_2"), name("campaign", "", "", "spring", "winter"), Label{}, name("substrate", "", "", "CTV", "DOOH"), name("tier", "", "", "gross", "viewable"), name("completion", "", "", "none", "complete")}
		if rapid.Bool().Draw(t, "labelled") {
			r.Match.Label = Label{name("label", "venue", "team"), name("value", "", "north")}
		}
		r.Unit = Unit(name("unit", "EVENT", "MS", "SECOND", "IMPRESSION", "CPM"))
		r.Price = Price(rapid.OneOf(rapid.Int64Range(0, 10_000), rapid.Int64Range(math.MaxInt64/10_000, math.MaxInt64)).Draw(t, "price"))
		r.Priority = rapid.Int64Range(0, 2).Draw(t, "priority")
		r.EffectiveFrom = moment("from")
		if rapid.Bool().Draw(t, "ends") {
			r.EffectiveUntil = moment("until").Add(10 * time.Millisecond)
		}
		r.Shares = drawShares(t, i)
		rules[i] = r
	}
	campaigns, labels := map[string][]string{}, map[string]map[string]string{} // by right
	for _, right := range []string{"rgh_1", "rgh_2", "rgh_3"} {
		campaigns[right] = [][]string{nil, {"spring"}, {"spring", "winter"}}[rapid.IntRange(0, 2).Draw(t, "campaigns")]
		labels[right] = []map[string]string{nil, {"venue": "north"}, {"venue": "south", "team": ""}}[rapid.IntRange(0, 2).Draw(t, "labels")]
	}
	receipts := make([]Metered, rapid.IntRange(0, 30).Draw(t, "receipts"))
	for i := range receipts {
		n := rapid.Int64Range(1, 3).Draw(t, "of receipts")
		right := name("of right", "rgh_1", "rgh_2", "rgh_3")
		receipts[i] = Metered{
			right, name("of basis", "bas_1", "bas_2"), name("of substrate", "CTV", "DOOH"), name("of tier", "gross", "viewable"), name("of completion", "none", "complete", "started"), campaigns[right], labels[right],
			moment("at").Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "later")) * time.Millisecond),
			n, rapid.OneOf(rapid.Int64Range(0, 5000), rapid.Int64Range(0, 1<<36)).Draw(t, "ms"), n * rapid.Int64Range(1, 10_000*10_000).Draw(t, "impressions"),
		}
	}
	return rules, receipts
}

// drawShares draws up to MaxShares shares; n makes their order another.
func drawShares(t *rapid.T, n int) (shares []Share) {
	left := int64(Whole)
	for more := rapid.IntRange(0, MaxShares-1).Draw(t, "shares"); more > 0 && left > 1; more-- {
		bps := rapid.Int64Range(1, left-1).Draw(t, "bps")
		shares = append(shares, Share{fmt.Sprintf("cp_%d", (n+7*more)%11), bps})
		left -= bps
	}
	return append(shares, Share{"cp_last", left})
}

// better reports whether rule a precedes b.
func better(a, b *Rule) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	for _, names := range [][2]string{
		{a.Match.RightID, b.Match.RightID}, {a.Match.BasisID, b.Match.BasisID}, {a.Match.Campaign, b.Match.Campaign}, {a.Match.Label.Name, b.Match.Label.Name}, {a.Match.Substrate, b.Match.Substrate}, {a.Match.MeteringBasis, b.Match.MeteringBasis},
		{a.Match.Completion, b.Match.Completion},
	} {
		if (names[0] == "") != (names[1] == "") {
			return names[0] != ""
		}
	}
	return a.ID < b.ID
}

// TestRate compares rating with a plain model of it, with numbers of any size.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, receipts := world(t)
		s, err := Rate(rules, slices.Values(receipts))
		require.NoError(t, err)

		// Which rule rates a receipt, one by one.
		of := map[string]Sums{}
		for _, r := range receipts {
			var best *Rule
			for i := range rules {
				m := &rules[i]
				fits := (m.Match.RightID == "" || m.Match.RightID == r.RightID) && (m.Match.BasisID == "" || m.Match.BasisID == r.BasisID) &&
					(m.Match.Substrate == "" || m.Match.Substrate == r.Substrate) && (m.Match.MeteringBasis == "" || m.Match.MeteringBasis == r.MeteringBasis) &&
					(m.Match.Completion == "" || m.Match.Completion == r.Completion) && (m.Match.Campaign == "" || slices.Contains(r.Campaigns, m.Match.Campaign))
				if value, has := r.Labels[m.Match.Label.Name]; m.Match.Label.Name != "" {
					fits = fits && has && value == m.Match.Label.Value
				}
				fits = fits &&
					!r.RenderedAt.Before(m.EffectiveFrom) && (m.EffectiveUntil.IsZero() || r.RenderedAt.Before(m.EffectiveUntil))
				if fits && (best == nil || better(m, best)) {
					best = m
				}
			}
			key := r.RightID + " " + r.MeteringBasis
			if best != nil {
				key += " " + best.ID
			}
			sums := of[key]
			sums.add(r.sums())
			of[key] = sums
		}

		// Each line is what the model says, and its shares add up to it.
		large := map[string]int64{}
		for key, n := range of {
			var right, tier, id string
			if words, _ := fmt.Sscan(key, &right, &tier, &id); words == 2 {
				require.Contains(t, s.Unrated, Unrated{right, tier, NoRule, n.Receipts, n.QuantityMs, n.Impressions})
				continue
			}
			r := rules[slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })]
			want := amountOf(&r, n)
			if !want.IsInt64() {
				large[right+" "+tier] += n.Receipts
				continue
			}
			i := slices.IndexFunc(s.Lines, func(l Line) bool { return l.RuleID == id && l.RightID == right && l.MeteringBasis == tier })
			require.GreaterOrEqual(t, i, 0, key)
			line := s.Lines[i]
			require.Equal(t, n, Sums{line.Receipts, line.QuantityMs, line.Impressions}, key)
			require.Equal(t, want.Int64(), int64(line.Amount), key)
			requireShares(t, &r, line)
		}
		for key, n := range large {
			i := slices.IndexFunc(s.Unrated, func(u Unrated) bool { return u.RightID+" "+u.MeteringBasis == key && u.Reason == TooLarge })
			require.Equal(t, n, s.Unrated[i].Receipts)
		}

		// Lines and unrated hold every receipt, once.
		var held, given Sums
		for _, l := range s.Lines {
			require.True(t, held.add(Sums{l.Receipts, l.QuantityMs, l.Impressions}))
		}
		for _, u := range s.Unrated {
			require.True(t, held.add(Sums{u.Receipts, u.QuantityMs, u.Impressions}))
		}
		for _, r := range receipts {
			require.True(t, given.add(r.sums()))
		}
		require.Equal(t, given, held)

		// The order of rules and of receipts doesn't matter.
		again, err := Rate(rapid.Permutation(rules).Draw(t, "rules"), slices.Values(rapid.Permutation(receipts).Draw(t, "receipts")))
		require.NoError(t, err)
		require.Equal(t, s, again)

		// Nor does it matter whether receipts come one by one, or as sums.
		again, err = Rate(rules, slices.Values(summed(receipts)))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

// summed adds up receipts that are alike.
func summed(receipts []Metered) (list []Metered) {
	for _, r := range receipts {
		i := slices.IndexFunc(list, func(m Metered) bool {
			m.Receipts, m.QuantityMs, m.Impressions = r.Receipts, r.QuantityMs, r.Impressions
			return reflect.DeepEqual(m, r)
		})
		if i < 0 {
			list = append(list, r)
			continue
		}
		m := &list[i]
		m.Receipts, m.QuantityMs, m.Impressions = m.Receipts+r.Receipts, m.QuantityMs+r.QuantityMs, m.Impressions+r.Impressions
	}
	return list
}

// amountOf computes the amount of a line with fractions, rounded half to even.
func amountOf(r *Rule, s Sums) *big.Int {
	n := map[Unit]*big.Rat{
		Event: big.NewRat(s.Receipts, 1), MS: big.NewRat(s.QuantityMs, 1), Second: big.NewRat(s.QuantityMs, 1000),
		Impression: big.NewRat(s.Impressions, 10_000), CPM: big.NewRat(s.Impressions, 10_000_000),
	}[r.Unit]
	exact := new(big.Rat).Mul(big.NewRat(int64(r.Price), 1000), n) // micro-units
	amount := new(big.Int).Quo(exact.Num(), exact.Denom())
	rest := new(big.Rat).Sub(exact, new(big.Rat).SetInt(amount))
	if c := rest.Cmp(big.NewRat(1, 2)); c > 0 || c == 0 && amount.Bit(0) == 1 {
		amount.Add(amount, big.NewInt(1))
	}
	return amount
}

// TestAdjust: the adjusted sum is within minimum and cap, and is the sum itself if that is.
func TestAdjust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		money := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64))
		bound := func(label string) *Money {
			if !rapid.Bool().Draw(t, "has "+label) {
				return nil
			}
			return new(Money(money.Draw(t, label)))
		}
		r := rule("1", func(r *Rule) { r.Minimum, r.Cap, r.Shares = bound("minimum"), bound("cap"), drawShares(t, 3) })
		if r.Check() != nil {
			r.Minimum, r.Cap = r.Cap, r.Minimum
		}
		require.NoError(t, r.Check())
		sum := Money(money.Draw(t, "sum"))

		want := sum
		if r.Minimum != nil {
			want = max(want, *r.Minimum)
		}
		if r.Cap != nil {
			want = min(want, *r.Cap)
		}
		made, err := r.Adjust(sum, Sums{}, Sums{})
		require.NoError(t, err)
		if want == sum {
			require.Empty(t, made)
			return
		}
		require.Len(t, made, 1)
		require.Equal(t, want, sum+made[0].Amount)
		require.Equal(t, map[bool]string{true: ByMinimum, false: ByCap}[want > sum], made[0].Reason)
		requireSignedShares(t, &r, made[0])
	})
}

func requireSignedShares(t require.TestingT, r *Rule, a Adjustment) {
	size, amount := slices.Clone(a.Shares), a.Amount
	if amount < 0 {
		amount = -amount
		for i := range size {
			size[i] = -size[i]
		}
	}
	requireShares(t, r, Line{Amount: amount, Shares: size})
}

// TestTiers: a month costs what its units cost one by one, and the bounds act on that sum.
func TestTiers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rule("1", func(r *Rule) {
			r.Unit = rapid.SampledFrom(units).Draw(t, "unit")
			r.Price = Price(rapid.Int64Range(0, 9).Draw(t, "price")) * 1_000_000_000
			r.TiersMode = rapid.SampledFrom([]Mode{Graduated, Volume}).Draw(t, "mode")
			above := int64(0)
			for range rapid.IntRange(1, 4).Draw(t, "tiers") {
				above += rapid.Int64Range(1, 5).Draw(t, "above")
				r.Tiers = append(r.Tiers, Tier{above, Price(rapid.Int64Range(0, 9).Draw(t, "tier's price")) * 1_000_000_000})
			}
			if rapid.Bool().Draw(t, "capped") {
				r.Cap = new(Money(rapid.Int64Range(0, 100).Draw(t, "cap")) * 1_000_000)
			}
			if rapid.Bool().Draw(t, "has a minimum") {
				r.Minimum = new(Money(rapid.Int64Range(0, 100).Draw(t, "minimum")) * 1_000_000)
			}
			r.Shares = drawShares(t, 3)
		})
		if r.Check() != nil {
			r.Minimum = nil
		}
		require.NoError(t, r.Check())
		older, own := rapid.Int64Range(0, 12).Draw(t, "older"), rapid.Int64Range(0, 25).Draw(t, "own")
		volume := older + own
		_, per := r.of(Sums{})
		scale := func(n int64) Sums { return Sums{n * int64(per), n * int64(per), n * int64(per)} }
		priceOf := func(unit int64) Price { // the unit's number, from 1
			price := r.Price
			for _, tier := range r.Tiers {
				if unit > tier.Above {
					price = tier.Price
				}
			}
			return price
		}
		want := Money(0)
		for unit := older + 1; unit <= volume; unit++ { // those before keep their price, which is 0
			if r.TiersMode == Volume {
				want += Money(priceOf(volume) / 1000)
			} else {
				want += Money(priceOf(unit) / 1000)
			}
		}
		lines, err := r.Amount(scale(own))
		require.NoError(t, err)
		made, err := r.Adjust(lines, scale(own), scale(older))
		require.NoError(t, err)
		sum, reasons := lines, []string{}
		for _, a := range made {
			reasons = append(reasons, a.Reason)
			requireSignedShares(t, &r, a)
			if sum += a.Amount; a.Reason == ByTier {
				require.Equal(t, want, sum)
			}
		}
		require.Equal(t, want != lines, slices.Contains(reasons, ByTier))
		if r.Minimum != nil {
			want = max(want, *r.Minimum)
		}
		if r.Cap != nil {
			want = min(want, *r.Cap)
		}
		require.Equal(t, want, sum)
	})
}

func TestTiersAreRoundedOnce(t *testing.T) {
	r := rule("1", func(r *Rule) { r.Unit, r.Price, r.Tiers, r.TiersMode = Second, 3, []Tier{{1, 1}, {2, 0}}, Graduated })
	require.NoError(t, r.Check())
	for _, c := range []struct{ ms, amount int64 }{{1000, 0}, {167_000, 0}, {168_000, 0}, {169_000, -1}, {1_000_000, -3}} {
		made, err := r.Adjust(1000, Sums{QuantityMs: c.ms}, Sums{})
		require.NoError(t, err)
		got := Money(0)
		for _, a := range made {
			got += a.Amount
		}
		require.Equal(t, Money(c.amount), got, "%d ms", c.ms)
	}
	large := rule("1", func(r *Rule) { r.Price, r.Tiers, r.TiersMode = 0, []Tier{{1, math.MaxInt64}}, Volume })
	_, err := large.Adjust(0, Sums{Receipts: math.MaxInt64}, Sums{})
	require.ErrorIs(t, err, ErrOverflow)
	large.Tiers[0].Price = 1000
	_, err = large.Adjust(math.MaxInt64, Sums{Receipts: 2}, Sums{})
	require.ErrorIs(t, err, ErrOverflow)
}

func TestAdjustBelowZero(t *testing.T) {
	r := rule("1", func(r *Rule) {
		r.Cap, r.Shares = new(Money(1_000_000)), []Share{{"cp_b", 3333}, {"cp_a", 3333}, {"cp_c", 3334}}
	})
	made, err := r.Adjust(1_000_002, Sums{}, Sums{})
	require.NoError(t, err)
	require.Equal(t, "-0.000002", made[0].Amount.String())
	require.Equal(t, []Money{0, -1, -1}, made[0].Shares, "the same as of 0.000002: the largest remainder, then the lowest id")
	require.Equal(t, "-9223372036854.775808", Money(math.MinInt64).String())
}

// requireShares requires that shares sum to the line, that none differs by a whole unit from its
// exact part, and that the remaining units went to the largest remainders.
func requireShares(t require.TestingT, r *Rule, l Line) {
	var sum Money
	rests := make([]int64, len(r.Shares))
	extra := make([]bool, len(r.Shares))
	for i, s := range l.Shares {
		sum += s
		exact := new(big.Int).Mul(big.NewInt(int64(l.Amount)), big.NewInt(r.Shares[i].Bps))
		floor, rest := new(big.Int).QuoRem(exact, big.NewInt(Whole), new(big.Int))
		over := new(big.Int).Sub(big.NewInt(int64(s)), floor)
		require.True(t, over.IsInt64() && (over.Int64() == 0 || over.Int64() == 1), "share %d of %+v", i, l)
		rests[i], extra[i] = rest.Int64(), over.Int64() == 1
	}
	require.Equal(t, l.Amount, sum)
	for i := range rests {
		for k := range rests {
			if extra[i] && !extra[k] {
				require.True(t, rests[i] > rests[k] || rests[i] == rests[k] && r.Shares[i].CounterpartyID < r.Shares[k].CounterpartyID, "%+v of %+v", l, r)
			}
		}
	}
}

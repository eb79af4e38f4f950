package statement

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// fixedSums are the sums of a warehouse.
type fixedSums []pipeline.MeterRow

// Metering implements Sums.
func (s fixedSums) Metering(context.Context, pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	return s, nil
}

// TestScopesAreReadOnce: of all rights that were delivered under, once for all terms, and of each only what a rule names.
func TestScopesAreReadOnce(t *testing.T) {
	rule := func(id string, match settle.Match) []settlement.Rule {
		records, err := settle.Records([]settle.Rule{{
			ID: id, Match: match, Unit: rate.Event, Price: "1", Currency: "EUR", EffectiveFrom: store.At(month), CreatedAt: store.At(month), UpdatedAt: store.At(month),
			State: settle.Active, Tiers: []settle.Tier{}, TimeZone: "UTC", Shares: []settle.Share{{CounterpartyID: "cp_a", Bps: 10_000}},
		}})
		require.NoError(t, err)
		return records
	}
	spring, north := rule("rule_spring", settle.Match{Campaign: new("spring")}), rule("rule_north", settle.Match{Label: &settle.Label{Name: "venue", Value: "north"}})
	whole := map[string]string{"rgh_a": `{"campaigns":["spring","winter"],"labels":{"team":"east"}}`, "rgh_b": `{"campaigns":["winter"],"labels":{"venue":"north"}}`}
	var asked [][]string
	read := func(_ context.Context, tenantID string, names *settlement.ScopeNames, ids []string) (list []settlement.Right, err error) {
		require.Equal(t, "tnt_a", tenantID)
		asked = append(asked, ids)
		for _, id := range ids {
			r, err := settlement.ScopeOf(id, []byte(whole[id]))
			require.NoError(t, err)
			list = append(list, r)
		}
		return names.Of(list), nil
	}
	var sums fixedSums
	for _, id := range []string{"rgh_b", "rgh_a", "rgh_b"} {
		sums = append(sums, pipeline.MeterRow{Bucket: month, RightID: id, Substrate: "CTV", BasisID: "bas_a", MeteringBasis: []string{"gross", "viewable"}[len(sums)%2], Reason: sealer.ReasonMetered, Receipts: 1})
	}
	var by []*terms
	for _, rules := range [][]settlement.Rule{spring, north, nil} {
		own, err := statement.NewTerms(settle.Rating, nil, rules)
		require.NoError(t, err)
		by = append(by, &terms{Terms: own, scopes: read})
	}
	q := question{tenantID: "tnt_a", from: month, to: month.AddDate(0, 1, 0), terms: by}
	c, err := count(t.Context(), sums, q)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"rgh_a", "rgh_b"}}, asked)
	require.Len(t, c.free, 2)
	for _, m := range c.free {
		want := map[string]settlement.Right{
			"rgh_a": {RightID: "rgh_a", Campaigns: []string{"spring"}, Labels: map[string]string{}}, "rgh_b": {RightID: "rgh_b", Campaigns: []string{}, Labels: map[string]string{"venue": "north"}},
		}
		require.Equal(t, want[m.RightID], *m.Right)
	}
	q.terms = by[2:]
	_, err = count(t.Context(), sums, q)
	require.NoError(t, err)
	require.Len(t, asked, 1, "no rule names anything")

	s := statement.Statement{TenantID: "tnt_a", Currency: "EUR", From: canonical.Moment{Time: month}, To: canonical.Moment{Time: month.AddDate(0, 1, 0)}, Payees: []statement.Payee{{CounterpartyID: "cp_a", Name: "A"}}}
	require.NoError(t, s.Local(time.UTC))
	require.NoError(t, Compute(t.Context(), sums, sealer.Position{}, spring, func(names *settlement.ScopeNames, ids []string) ([]settlement.Right, error) {
		return read(t.Context(), "tnt_a", names, ids)
	}, &s))
	require.Len(t, s.Lines, 1)
	require.Equal(t, "rgh_a", s.Lines[0].RightID)
	require.Len(t, s.Rights, 1)
}

// countedScopes are packs that count what is asked.
type countedScopes struct {
	Packs
	asked []string
}

func (c *countedScopes) Scopes(_ context.Context, _ string, names *settlement.ScopeNames, ids []string) ([]settlement.Right, error) {
	c.asked = append(c.asked, ids...)
	return names.Of([]settlement.Right{{RightID: "rgh_a", Campaigns: []string{"spring", "winter"}}}), nil
}

// TestScopesAreRemembered: a right is read once, also if nothing is known of it, and again for other names.
func TestScopesAreRemembered(t *testing.T) {
	packs := &countedScopes{}
	s := &rememberedScopes{Packs: packs}
	read := func(names string, ids ...string) int {
		list, err := settle.Records([]settle.Rule{{ID: "rule_a", Match: settle.Match{Campaign: &names}, EffectiveFrom: store.At(month), CreatedAt: store.At(month), UpdatedAt: store.At(month), Shares: []settle.Share{}, Tiers: []settle.Tier{}}})
		require.NoError(t, err)
		of, err := settlement.ScopeNamesOf(list)
		require.NoError(t, err)
		rights, err := s.Scopes(t.Context(), "tnt_a", &of, ids)
		require.NoError(t, err)
		return len(of.Of(rights))
	}
	require.Equal(t, 1, read("spring", "rgh_a"))
	require.Equal(t, 1, read("spring", "rgh_a", "rgh_b"))
	require.Equal(t, 0, read("spring", "rgh_b"))
	require.Equal(t, []string{"rgh_a", "rgh_b"}, packs.asked)
	require.Equal(t, 1, read("winter", "rgh_a"), "which was not read")
	require.Equal(t, 1, read("spring", "rgh_a"))
	require.Equal(t, []string{"rgh_a", "rgh_b", "rgh_a"}, packs.asked)
}

package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
)

// TestMismatchIsReadable: a message has the values that differ, not a Go struct.
func TestMismatchIsReadable(t *testing.T) {
	row := pack.MeterRow{RightID: "rgh_1", Substrate: "CTV", BasisID: "bas_1", MeteringBasis: "viewable", Reason: "METERED", Receipts: 1200, QuantityMs: 4500, Impressions: 12_345_000}
	other := row
	other.QuantityMs++
	const said = "right rgh_1, substrate CTV, basis bas_1, metering basis viewable, reason METERED: 1,200 receipts, 4,500 ms, impressions: 1234.5"
	require.Equal(t, "the entries make the row "+said+"; the header states right rgh_1, substrate CTV, basis bas_1, metering basis viewable, reason METERED: 1,200 receipts, 4,501 ms, impressions: 1234.5",
		differingRow([]pack.MeterRow{row}, []pack.MeterRow{other}))
	require.Equal(t, "the header lacks the row "+said, differingRow([]pack.MeterRow{row}, nil))
	require.Equal(t, "the header states a row that no entry makes: "+said, differingRow(nil, []pack.MeterRow{row}))

	line := settlement.Line{Amount: "0.75", MeteringBasis: "viewable", QuantityMs: 4500, Impressions: 25_000, Receipts: 3, RightID: "rgh_1", RuleID: "rule_1", Shares: []string{"0.5", "0.25"}}
	unrated := settlement.Unrated{MeteringBasis: "viewable", QuantityMs: 9, Reason: "NO_RULE", Receipts: 1, RightID: "rgh_2"}
	require.Equal(t, "the header lacks the line right rgh_1, metering basis viewable, rule rule_1: 3 receipts, 4,500 ms, impressions: 2.5, amount 0.75, shares 0.5 and 0.25",
		differs(&settlement.Settlement{Lines: []settlement.Line{line}}, &settlement.Settlement{}))
	require.Equal(t, "the header states a count of unrated receipts that nothing makes: right rgh_2, metering basis viewable, reason NO_RULE: 1 receipt, 9 ms, impressions: 0",
		differs(&settlement.Settlement{}, &settlement.Settlement{Unrated: []settlement.Unrated{unrated}}))
}

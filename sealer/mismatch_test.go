package sealer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMismatchIsReadable: what differs is told by its values, not as Go writes a struct.
func TestMismatchIsReadable(t *testing.T) {
	row := MeterRow{"rgh_1", "CTV", "bas_1", "viewable", "METERED", 1200, 4500, 12_345_000}
	other := row
	other.QuantityMs++
	const said = "right rgh_1, substrate CTV, basis bas_1, metering basis viewable, reason METERED: 1,200 receipts, 4,500 ms, impressions: 1234.5"
	require.Equal(t, "the entries make the row "+said+"; the header states right rgh_1, substrate CTV, basis bas_1, metering basis viewable, reason METERED: 1,200 receipts, 4,501 ms, impressions: 1234.5",
		differingRow([]MeterRow{row}, []MeterRow{other}))
	require.Equal(t, "the header lacks the row "+said, differingRow([]MeterRow{row}, nil))
	require.Equal(t, "the header states a row that no entry makes: "+said, differingRow(nil, []MeterRow{row}))

	line := SettlementLine{Amount: "0.75", MeteringBasis: "viewable", QuantityMs: 4500, Receipts: 3, RightID: "rgh_1", RuleID: "rule_1", Shares: []string{"0.5", "0.25"}}
	unrated := Unrated{MeteringBasis: "viewable", QuantityMs: 9, Reason: "NO_RULE", Receipts: 1, RightID: "rgh_2"}
	require.Equal(t, "the header lacks the line right rgh_1, metering basis viewable, rule rule_1: 3 receipts, 4,500 ms, amount 0.75, shares 0.5 and 0.25",
		differs(&Settlement{Lines: []SettlementLine{line}}, &Settlement{}))
	require.Equal(t, "the header states a count of unrated receipts that nothing makes: right rgh_2, metering basis viewable, reason NO_RULE: 1 receipt, 9 ms",
		differs(&Settlement{}, &Settlement{Unrated: []Unrated{unrated}}))
}

package settle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/sealer"
)

// TestAdjustInForce: a minimum applies to a period if its rule is in force at any time of it, and
// otherwise not.
func TestAdjustInForce(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 10, n, 0, 0, 0, 0, time.UTC) }
	rule := Rule{
		ID: "rule_a", Unit: rate.Event, Price: "1", Currency: "EUR", Shares: []Share{{"cp_a", 6_000}, {"cp_b", 4_000}}, State: Active, Minimum: new("10"),
		EffectiveFrom: store.At(day(10)), EffectiveUntil: store.At(day(20)), CreatedAt: store.At(day(1)), UpdatedAt: store.At(day(1)),
	}
	records, err := Records([]Rule{rule})
	require.NoError(t, err)
	for _, c := range []struct {
		from, to int
		counts   bool
	}{{1, 10, false}, {1, 11, true}, {12, 13, true}, {19, 30, true}, {20, 30, false}, {1, 30, true}} {
		amount, shares, err := Rating.Adjust(records[0], []sealer.SettlementLine{{Amount: "2.5"}, {Amount: "1"}}, day(c.from), day(c.to))
		require.NoError(t, err)
		if c.counts {
			require.Equal(t, "6.5", amount, "%+v", c)
			require.Equal(t, []string{"3.9", "2.6"}, shares)
		} else {
			require.Empty(t, amount, "%+v", c)
		}
	}
	_, _, err = Rating.Adjust(records[0], []sealer.SettlementLine{{Amount: "9223372036854"}, {Amount: "9223372036854"}}, day(1), day(30))
	require.ErrorIs(t, err, sealer.ErrAmount)
}

package warehouse

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/measure"
)

// TestRowCosts holds figures against their bounds.
func TestRowCosts(t *testing.T) {
	costs := func(large, small, plain, disk float64) *RowCosts {
		r := &RowCosts{Rounds: 3, RowBytes: 1400, Reading: []float64{10}, Checking: []float64{7, 8, 9}}
		for round := 1; round <= 3; round++ {
			slow := float64(round) // a machine that gets slower; pairs of a round don't
			add := func(warehouse string, group int, way string, here, server float64) {
				r.Costs = append(r.Costs, Cost{warehouse, group, way, round, slow * here, slow * server})
			}
			add("ClickHouse", largeGroup, product, 10, 40*large-10)
			add("ClickHouse", largeGroup, bareInsert, 10, 30)
			add("ClickHouse", smallGroup, product, 20, 60*small-20)
			add("ClickHouse", smallGroup, bareInsert, 20, 40)
			add("SQLite", largeGroup, product, plain+3, 0)
			add("SQLite", largeGroup, bareInsert, 5, 0)
			add("SQLite", largeGroup, unsearched, plain, 0)
		}
		r.Sizes = []OnDisk{
			{"ClickHouse", largeGroup, "events", 365 * disk}, {"ClickHouse", largeGroup, bareCopy, 365}, {"ClickHouse", largeGroup, droppedKeys, 96},
			{"ClickHouse", largeGroup, "duplicates", 5}, {"SQLite", largeGroup, "events", 800 * disk},
		}
		r.judge()
		return r
	}
	good := costs(1.6, 2.2, 10, 1)
	require.NoError(t, measure.Failed(good.Verdicts))
	require.Len(t, good.Verdicts, 5)
	var text strings.Builder
	require.NoError(t, good.WriteText(&text))
	require.Contains(t, text.String(), "| ClickHouse, groups of 20,000: product to bare insert | 1.60 × (1.60 × to 1.60 × in 3 rounds)")
	require.Contains(t, text.String(), "checking is 8.0 µs (7.0 to 9.0)")
	require.Contains(t, text.String(), "| ClickHouse | 20,000 | together, without idempotency_keys | 370.0", "without the copy")

	bad := costs(1.7, 2.3, 10.5, 1.3)
	require.ErrorContains(t, measure.Failed(bad.Verdicts), "SQLite, groups of 20,000: a row, no search indexes is 21.0 µs (10.5 µs to 31.5 µs in 3 rounds), must be ≤ 20 µs: missed")
	for _, v := range bad.Verdicts {
		require.Equal(t, measure.Missed, v.State, v.What)
	}
	alone := &RowCosts{Costs: good.Costs[:2]}
	alone.judge()
	require.Len(t, alone.Verdicts, 1, "nothing is said of what was not measured")
}

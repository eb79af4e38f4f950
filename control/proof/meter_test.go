package proof

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment/control/rapidtest"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
)

// TestDuplicateOfAnEarlierPack seals a delivery and its repetition apart.
func TestDuplicateOfAnEarlierPack(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(3)...)
	h.deliver(delivery{dwellMs: 100, key: "a"}, delivery{dwellMs: 100, key: "b"}, delivery{dwellMs: 100, key: "a"})
	first := h.seal()[0]
	require.Equal(t, []sealer.Duplicate{{Leaf: 5, First: 3}}, first.Duplicates)

	h.deliver(delivery{dwellMs: 100, key: "b"}, delivery{dwellMs: 100, key: "a"}, delivery{dwellMs: 100, key: "c"})
	second := h.seal()[0]
	require.Equal(t, []sealer.Duplicate{{Leaf: 7, First: 4}, {Leaf: 8, First: 3}}, second.Duplicates)

	h.advance(24*time.Hour + time.Millisecond)
	h.deliver(delivery{dwellMs: 100, key: "a"})
	require.Empty(t, h.seal()[0].Duplicates, "more than 24 hours later it counts again")
	h.check()
}

// TestMeteringOfPacksIsTheWarehouses delivers and seals at random and compares
// three sums of the same deliveries: a model's, the warehouse's, and that of all
// pack headers.
func TestMeteringOfPacksIsTheWarehouses(t *testing.T) {
	h := build(t)
	rapidtest.Check(t, 25, 500, func(rt *rapid.T) {
		h.t, h.tenant = rt, api.NewID(api.PrefixTenant, h.Now()) // a new one each time
		defer func() { h.t = t }()
		h.room.cfg.MaxEntries = rapid.IntRange(2, 12).Draw(rt, "maxEntries")
		model := map[pipeline.MeterRow]pipeline.MeterRow{}
		seen := map[string][]time.Time{}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"deliver", "deliver", "deliver", "seal", "wait"}).Draw(rt, "step") {
			case "deliver":
				d := delivery{
					right:     rapid.SampledFrom([]string{"rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV", "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAW"}).Draw(rt, "right"),
					substrate: rapid.SampledFrom([]gate.Substrate{gate.DOOH, gate.CTV, gate.Mobile}).Draw(rt, "substrate"),
					telemetry: rapid.SampledFrom([]string{`{}`, `{"viewable":true}`, `{"visibilityState":"hidden"}`, `{"linkState":"lost"}`}).Draw(rt, "telemetry"),
					dwellMs:   float64(rapid.IntRange(0, 5000).Draw(rt, "dwell")),
					key:       rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "key"),

					multiplier: rapid.SampledFrom([]int64{0, 1, 25_000}).Draw(rt, "multiplier"),
				}
				if rapid.IntRange(0, 2).Draw(rt, "row") == 0 {
					d.row, d.key = d.key, ""
					d.day = rapid.SampledFrom([]string{"", "2026-10-24"}).Draw(rt, "day")
				}
				record := h.event(d)
				h.append(record)
				recorded, err := sealer.ReadDelivery(record.Event)
				require.NoError(rt, err)
				key := pipeline.MeterRow{
					RightID: d.right, Substrate: recorded.Substrate, BasisID: recorded.BasisID,
					MeteringBasis: recorded.Basis, Reason: recorded.Reason,
				}
				key.Receipts, key.QuantityMs, key.Impressions = 1, recorded.QuantityMs, recorded.Impressions()
				now := h.Now()
				again := d.key != "" && slices.ContainsFunc(seen[d.key], func(at time.Time) bool { return now.Sub(at) <= 24*time.Hour })
				row := "row " + d.row + " " + d.day // which has no window
				if again || d.row != "" && len(seen[row]) > 0 {
					key.MeteringBasis, key.Reason, key.QuantityMs, key.Impressions = "none", pipeline.ReasonDuplicate, 0, 0
				}
				seen[d.key], seen[row] = append(seen[d.key], now), append(seen[row], now)
				count(model, key)
			case "seal":
				h.seal()
			case "wait":
				h.advance(time.Duration(rapid.IntRange(1, 30).Draw(rt, "hours")) * time.Hour)
			}
		}
		packs := h.seal()
		h.check()

		loaded, err := h.warehouse.Metering(rt.Context(), pipeline.MeterQuery{TenantID: h.tenant})
		require.NoError(rt, err)
		warehouse, sealed := map[pipeline.MeterRow]pipeline.MeterRow{}, map[pipeline.MeterRow]pipeline.MeterRow{}
		for _, row := range loaded {
			count(warehouse, row)
		}
		for _, p := range h.packs() {
			header, err := sealer.ParsePackHeader(p.Header)
			require.NoError(rt, err)
			for _, row := range header.Metering {
				count(sealed, pipeline.MeterRow{
					RightID: row.RightID, Substrate: row.Substrate, BasisID: row.BasisID, MeteringBasis: row.MeteringBasis, Reason: row.Reason,
					Receipts: row.Receipts, QuantityMs: row.QuantityMs, Impressions: row.Impressions,
				})
			}
		}
		require.Equal(rt, lines(model), lines(warehouse), "the warehouse, after %d packs", len(packs))
		require.Equal(rt, lines(model), lines(sealed), "the packs")
	})
}

// count adds to the row of the same kind.
func count(rows map[pipeline.MeterRow]pipeline.MeterRow, one pipeline.MeterRow) {
	key := one
	key.Receipts, key.QuantityMs, key.Impressions = 0, 0, 0
	row, ok := rows[key]
	if !ok {
		row = key
	}
	row.Receipts += one.Receipts
	row.QuantityMs += one.QuantityMs
	row.Impressions += one.Impressions
	rows[key] = row
}

func lines(rows map[pipeline.MeterRow]pipeline.MeterRow) []string {
	list := []string{}
	for _, row := range rows {
		list = append(list, fmt.Sprintf("%+v", row))
	}
	slices.SortFunc(list, cmp.Compare)
	return list
}

package proof

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// TestDuplicateOfAnEarlierPack seals a delivery and its repetition in two packs.
func TestDuplicateOfAnEarlierPack(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(3)...)
	h.Deliver(delivery{DwellMs: 100, Key: "a"}, delivery{DwellMs: 100, Key: "b"}, delivery{DwellMs: 100, Key: "a"})
	first := h.seal()[0]
	require.Equal(t, []pack.Duplicate{{Leaf: 5, First: 3}}, first.Duplicates)

	h.Deliver(delivery{DwellMs: 100, Key: "b"}, delivery{DwellMs: 100, Key: "a"}, delivery{DwellMs: 100, Key: "c"})
	second := h.seal()[0]
	require.Equal(t, []pack.Duplicate{{Leaf: 7, First: 4}, {Leaf: 8, First: 3}}, second.Duplicates)

	h.Advance(24*time.Hour + time.Millisecond)
	h.Deliver(delivery{DwellMs: 100, Key: "a"})
	require.Empty(t, h.seal()[0].Duplicates, "more than 24 hours later it counts again")
	h.check()
}

// TestMeteringOfPacksIsTheWarehouses delivers and seals at random and compares
// three sums of the same deliveries: a model's, the warehouse's, and that of all
// pack headers.
func TestMeteringOfPacksIsTheWarehouses(t *testing.T) {
	h := build(t)
	rapidtest.Check(t, 25, 500, func(rt *rapid.T) {
		h.T, h.Tenant = rt, api.NewID(api.PrefixTenant, h.Now()) // a new one each time
		defer func() { h.T = t }()
		h.service.cfg.MaxEntries = rapid.IntRange(2, 12).Draw(rt, "maxEntries")
		model := map[pipeline.MeterRow]pipeline.MeterRow{}
		seen := map[string][]time.Time{}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"deliver", "deliver", "deliver", "seal", "wait"}).Draw(rt, "step") {
			case "deliver":
				d := delivery{
					Right:     rapid.SampledFrom([]string{"rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV", "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAW"}).Draw(rt, "right"),
					Substrate: rapid.SampledFrom([]gate.Substrate{gate.DOOH, gate.CTV, gate.Mobile}).Draw(rt, "substrate"),
					Telemetry: rapid.SampledFrom([]string{`{}`, `{"viewable":true}`, `{"visibilityState":"hidden"}`, `{"linkState":"lost"}`}).Draw(rt, "telemetry"),
					DwellMs:   float64(rapid.IntRange(0, 5000).Draw(rt, "dwell")),
					Key:       rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "key"),

					Multiplier: rapid.SampledFrom([]int64{0, 1, 25_000}).Draw(rt, "multiplier"),
				}
				if rapid.IntRange(0, 2).Draw(rt, "row") == 0 {
					d.Row, d.Key = d.Key, ""
					d.Day = rapid.SampledFrom([]string{"", "2026-10-24"}).Draw(rt, "day")
				}
				record := h.Event(d)
				h.Append(record)
				recorded, err := sealer.ReadDelivery(record.Event)
				require.NoError(rt, err)
				key := pipeline.MeterRow{
					RightID: d.Right, Substrate: recorded.Substrate, BasisID: recorded.BasisID,
					MeteringBasis: recorded.Basis, Reason: recorded.Reason,
				}
				key.Receipts, key.QuantityMs, key.Impressions = 1, recorded.QuantityMs, recorded.Impressions
				now := h.Now()
				again := d.Key != "" && slices.ContainsFunc(seen[d.Key], func(at time.Time) bool { return now.Sub(at) <= 24*time.Hour })
				row := "row " + d.Row + " " + d.Day // which has no window
				if again || d.Row != "" && len(seen[row]) > 0 {
					key.MeteringBasis, key.Reason, key.QuantityMs, key.Impressions = "none", pipeline.ReasonDuplicate, 0, 0
				}
				seen[d.Key], seen[row] = append(seen[d.Key], now), append(seen[row], now)
				count(model, key)
			case "seal":
				h.seal()
			case "wait":
				h.Advance(time.Duration(rapid.IntRange(1, 30).Draw(rt, "hours")) * time.Hour)
			}
		}
		packs := h.seal()
		h.check()

		loaded, err := h.Warehouse.Metering(rt.Context(), pipeline.MeterQuery{TenantID: h.Tenant})
		require.NoError(rt, err)
		warehouse, sealed := map[pipeline.MeterRow]pipeline.MeterRow{}, map[pipeline.MeterRow]pipeline.MeterRow{}
		for _, row := range loaded {
			count(warehouse, row)
		}
		for _, p := range h.packs() {
			header, err := pack.ParseHeader(p.Header)
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

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
				}
				record := h.event(d)
				h.append(record)
				recorded, err := sealer.ReadDelivery(record.Event)
				require.NoError(rt, err)
				key := pipeline.MeterRow{
					RightID: d.right, Substrate: recorded.Substrate, BasisID: recorded.BasisID,
					MeteringBasis: recorded.Basis, Reason: recorded.Reason,
				}
				quantity := recorded.QuantityMs
				now := h.Now()
				if slices.ContainsFunc(seen[d.key], func(at time.Time) bool { return now.Sub(at) <= 24*time.Hour }) && d.key != "" {
					key.MeteringBasis, key.Reason, quantity = "none", pipeline.ReasonDuplicate, 0
				}
				seen[d.key] = append(seen[d.key], now)
				count(model, key, 1, quantity)
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
			key := row
			key.Receipts, key.QuantityMs = 0, 0
			count(warehouse, key, row.Receipts, row.QuantityMs)
		}
		for _, p := range h.packs() {
			header, err := sealer.ParsePackHeader(p.Header)
			require.NoError(rt, err)
			for _, row := range header.Metering {
				key := pipeline.MeterRow{
					RightID: row.RightID, Substrate: row.Substrate, BasisID: row.BasisID, MeteringBasis: row.MeteringBasis, Reason: row.Reason,
				}
				count(sealed, key, row.Receipts, row.QuantityMs)
			}
		}
		require.Equal(rt, lines(model), lines(warehouse), "the warehouse, after %d packs", len(packs))
		require.Equal(rt, lines(model), lines(sealed), "the packs")
	})
}

// count adds to the row of a key, which is a row without its sums.
func count(rows map[pipeline.MeterRow]pipeline.MeterRow, key pipeline.MeterRow, receipts, quantity int64) {
	row, ok := rows[key]
	if !ok {
		row = key
	}
	row.Receipts += receipts
	row.QuantityMs += quantity
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

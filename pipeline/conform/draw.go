package conform

import (
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// tenants numbers the tenants of random tests, so that each draw has its own.
var tenants atomic.Int64

// drawRows draws the events of one tenant around the edges of a day, with few keys, rights
// and reasons, some of them copied to later positions, from a position on.
func drawRows(t *rapid.T, tenant string, p sealer.Position) []pipeline.Row {
	var rows []pipeline.Row
	for range rapid.IntRange(1, 25).Draw(t, "rows") {
		p.Offset += rapid.Int64Range(0, 2).Draw(t, "step")
		if rapid.IntRange(0, 19).Draw(t, "generation") == 0 {
			p.Generation++
		}
		rows = append(rows, drawRow(t, tenant, p, rows))
		p.Offset++
	}
	return rows
}

func drawRow(t *rapid.T, tenant string, p sealer.Position, before []pipeline.Row) pipeline.Row {
	if len(before) > 0 && rapid.IntRange(0, 4).Draw(t, "copy") == 0 {
		return again(before[rapid.IntRange(0, len(before)-1).Draw(t, "of")], p)
	}
	if rapid.IntRange(0, 5).Draw(t, "audit") == 0 {
		return audit(tenant, p)
	}
	issued := noon.Add(time.Duration(rapid.SampledFrom([]int64{
		-86_400_001, -86_400_000, -86_399_999, -1, 0, 1, 86_399_999, 86_400_000, 86_400_001, 29 * 86_400_000,
	}).Draw(t, "issued")) * time.Millisecond)
	key := rapid.SampledFrom([]string{"", "", "k1", "k1", "k2", "row 1", "row 1", "row 2", "play 1", "play 1", "play 2"}).Draw(t, "key")
	like := rapid.IntRange(0, 19).Draw(t, "like another")
	return delivery(tenant, p, issued, key, func(d *sealer.Delivery, r *sealer.Receipt) {
		switch hash := hashOf(tenant, "k1"); like { // one hash in three meanings
		case 0:
			d.Idempotency, d.Identity = "", sealer.RowIdentity{Hash: hash}
		case 1:
			d.Idempotency, d.Identity = "", sealer.RowIdentity{Hash: hash, Day: "2026-11-20"}
		case 2:
			d.Idempotency, d.Identity = "", sealer.RowIdentity{Hash: hash, Day: "2026-11-21"}
		}
		d.Multiplier = rapid.SampledFrom([]int64{0, 0, 1, sealer.Impression, 25_000, sealer.MaxMultiplier}).Draw(t, "multiplier")
		d.RightID = rapid.SampledFrom([]string{"rgh_1", "rgh_2"}).Draw(t, "right")
		d.BasisID = rapid.SampledFrom([]string{"bas_1", "bas_2"}).Draw(t, "basis")
		d.Substrate = rapid.SampledFrom([]gate.Substrate{gate.CTV, gate.DOOH}).Draw(t, "substrate")
		// In the order of their bytes, which is not that of letters.
		r.SpatialAnchorID = rapid.SampledFrom([]string{"screen 1", "screen 1", "Screen 1", "it's \"3\"", "é"}).Draw(t, "anchor")
		if placement := rapid.SampledFrom([]string{"none", "", "slot", "slot", "Slot", "slot "}).Draw(t, "placement"); placement != "none" {
			r.SpatialPlacementID = &placement
		}
		r.RenderedAt = issued.Add(-time.Duration(rapid.Int64Range(0, 3_600_000).Draw(t, "late")) * time.Millisecond)
		r.DwellMs = float64(rapid.Int64Range(0, sealer.MaxDwellMs).Draw(t, "quantity"))
		if rapid.Bool().Draw(t, "suppressed") {
			unseen(d, r)
		}
		d.Metering.Completion = rapid.SampledFrom([]gate.Completion{gate.CompletionNone, gate.CompletionNone, gate.CompletionMidpoint, gate.CompletionComplete}).Draw(t, "completion")
	})
}

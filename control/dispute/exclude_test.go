package dispute

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/deploy/stack/stacktest"
)

// TestParts: deliveries that several disputes cover appear once.
func TestParts(t *testing.T) {
	all := Excluded{
		{ID: "dsp_1", ReceiptIDs: []string{"rcp_b", "rcp_a"}},
		{ID: "dsp_2", ReceiptIDs: []string{"rcp_b", "rcp_c"}, State: Resolved, Outcome: Upheld},
		{ID: "dsp_3", RightID: "rgh_a", Window: Window{From: at(4), To: at(6)}},
		{ID: "dsp_4", RightID: "rgh_a", Window: Window{From: at(1), To: at(3)}},
		{ID: "dsp_5", RightID: "rgh_a", Window: Window{From: at(3), To: at(4)}},
		{ID: "dsp_6", RightID: "rgh_a", Window: Window{From: at(8), To: at(9)}},
		{ID: "dsp_7", RightID: "rgh_b", Window: Window{From: at(2), To: at(5)}},
		{ID: "dsp_8", RightID: "rgh_b", Window: Window{From: at(3), To: at(4)}},
	}
	require.Equal(t, Parts{
		Windows: map[string][]Window{
			"rgh_a": {{From: at(1), To: at(6)}, {From: at(8), To: at(9)}},
			"rgh_b": {{From: at(2), To: at(5)}},
		},
		ReceiptIDs: []string{"rcp_a", "rcp_b", "rcp_c"},
	}, all.Parts())
	require.Equal(t, Window{From: at(4), To: at(6)}, all[2].Window, "what is merged stays as it was")
	require.True(t, all[0].Held())
	require.False(t, all[1].Held())
	none := Excluded{}.Parts()
	require.False(t, none.Has("rcp_a", "rgh_a", at(1).Time))
}

// TestPartsAgainstAModel: a delivery is excluded if any dispute covers it, and there are as few parts
// as possible.
func TestPartsAgainstAModel(t *testing.T) {
	stacktest.Both(t)
	receipts, rights := []string{"rcp_a", "rcp_b", "rcp_c", "rcp_d"}, []string{"rgh_a", "rgh_b"}
	const days = 12
	rapidtest.Check(t, 2_000, 100_000, func(t *rapid.T) {
		var all Excluded
		for range rapid.IntRange(0, 12).Draw(t, "disputes") {
			if rapid.Bool().Draw(t, "of receipts") {
				all = append(all, Exclusion{ReceiptIDs: rapid.SliceOfNDistinct(rapid.SampledFrom(receipts[1:]), 1, 3, rapid.ID).Draw(t, "receipts")})
				continue
			}
			from := rapid.IntRange(0, days-1).Draw(t, "from")
			to := rapid.IntRange(from+1, days).Draw(t, "to")
			all = append(all, Exclusion{RightID: rapid.SampledFrom(rights).Draw(t, "right"), Window: Window{From: at(from), To: at(to)}})
		}
		p := all.Parts()
		for _, receiptID := range receipts {
			for _, rightID := range append(rights, "rgh_none") {
				for day := -1; day <= days; day++ {
					for _, renderedAt := range []time.Time{at(day).Time, at(day + 1).Add(-time.Millisecond)} {
						want := slices.ContainsFunc(all, func(x Exclusion) bool {
							return slices.Contains(x.ReceiptIDs, receiptID) || x.RightID == rightID && !renderedAt.Before(x.Window.From.Time) && renderedAt.Before(x.Window.To.Time)
						})
						require.Equal(t, want, p.Has(receiptID, rightID, renderedAt), "%s of %s at %s in %v", receiptID, rightID, renderedAt, p)
					}
				}
			}
		}
		require.True(t, slices.IsSorted(p.ReceiptIDs))
		require.Len(t, slices.Compact(slices.Clone(p.ReceiptIDs)), len(p.ReceiptIDs))
		for _, windows := range p.Windows {
			for i := range windows[1:] {
				require.True(t, windows[i].To.Before(windows[i+1].From.Time), "%v", windows)
			}
		}
	})
}

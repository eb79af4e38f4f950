package pack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
)

// TestFirstIsTheLowest holds the search of what a delivery repeats against a walk over all
// that stands before, in leaves that were joined and in those that were not.
func TestFirstIsTheLowest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, joined := newHistory(newHistory(nil)), uint64(0)
		var before []sealer.RecordedDelivery
		keys := []sealer.RecordedDelivery{
			{Idempotency: merkle.Hash{}.String()}, {Idempotency: merkle.Hash{1}.String()}, {Identity: sealer.RowIdentity{Hash: merkle.Hash{}.String()}},
			{Identity: sealer.RowIdentity{Hash: merkle.Hash{}.String(), Day: "2026-10-24"}}, {Identity: sealer.RowIdentity{Hash: merkle.Hash{}.String(), Day: "2026-10-25"}}, {},
		}
		for leaf := range uint64(rapid.IntRange(1, 60).Draw(t, "deliveries")) {
			if rapid.IntRange(0, 9).Draw(t, "pack ends") == 0 && leaf > joined {
				below, tree := h.below, merkle.NewTree()
				for range leaf {
					tree.Append(merkle.Hash{})
				}
				below.Join(&Ledger{history: h, first: joined, Tree: tree})
				h, joined = newHistory(below), leaf
			}
			d := keys[rapid.IntRange(0, len(keys)-1).Draw(t, "key")]
			d.Event.At = epoch.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "hour")) * time.Hour)
			want, repeats := uint64(0), false
			for l, b := range before {
				sameKey := d.Idempotency != "" && d.Idempotency == b.Idempotency && d.Event.At.Sub(b.Event.At) <= sealer.DuplicateWindow
				if sameKey || d.Identity.Hash != "" && d.Identity == b.Identity {
					want, repeats = uint64(l), true
					break
				}
			}
			first, ok := h.first(leaf, &d)
			require.Equal(t, repeats, ok)
			require.Equal(t, want, first)
			before = append(before, d)
		}
	})
}

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

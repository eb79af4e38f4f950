package pack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
)

// FuzzContradiction: a list of duplicates contradicts itself exactly if the leaves that are
// not at hand can't be so, tried one by one.
func FuzzContradiction(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 1, 1, 1, 2, 0})
	f.Add([]byte{0, 5, 1, 0, 5, 0, 0, 9, 2})
	f.Add([]byte{3, 0, 1, 4, 50, 1, 3, 59, 1})
	f.Fuzz(func(t *testing.T, said []byte) {
		const first = 3
		l := &Ledger{first: first, history: newHistory(nil)}
		type delivery struct {
			sealer.RecordedDelivery
			at    time.Time
			first uint64
		}
		var all []delivery
		for leaf := uint64(first); len(said) >= 3 && leaf < 40; leaf, said = leaf+1, said[3:] {
			d := delivery{at: epoch.Add(time.Duration(said[1]%60) * time.Hour), first: uint64(said[2]) % (leaf + 1)}
			d.Event.At = d.at
			if hash := (merkle.Hash{said[0] % 3}).String(); said[0]%6 < 3 {
				d.Idempotency = hash
			} else {
				d.Identity.Hash = hash
			}
			s, _ := l.history.occurrence(leaf, &d.RecordedDelivery)
			l.history.add(s)
			if d.first >= first { // what is in the pack is no matter of this
				d.first = leaf
			} else {
				l.Duplicates = append(l.Duplicates, Duplicate{Leaf: leaf, First: d.first})
			}
			all = append(all, d)
		}
		possible := true
		for leaf := range uint64(first) {
			var held *delivery // that leaf holds the key of, as old as can be
			for i := range all {
				if d := &all[i]; d.first == leaf && (held == nil || d.at.After(held.at)) {
					held = d
				}
			}
			for _, d := range all {
				if held == nil {
					continue
				}
				same := d.Idempotency == held.Idempotency && d.Identity == held.Identity
				repeats := same && (d.Idempotency == "" || d.at.Sub(held.at.Add(-sealer.DuplicateWindow)) <= sealer.DuplicateWindow)
				possible = possible && !(repeats && d.first > leaf) && !(d.first == leaf && !same)
			}
		}
		require.Equal(t, possible, l.Contradiction() == "", "%+v: %s", all, l.Contradiction())
	})
}

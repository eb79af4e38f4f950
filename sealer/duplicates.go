package sealer

import (
	"cmp"
	"fmt"
	"slices"
)

// keyedDelivery is a delivery of the pack with a key.
type keyedDelivery struct {
	sighting
	first uint64 // that it repeats; its own leaf if it repeats none
}

// Contradiction says where the duplicates of leaves that are not at hand contradict each
// other; empty if they don't. A leaf holds one event, with one key. And an earlier leaf
// that a delivery repeats is at most DuplicateWindow older: so every delivery of that key
// which is not younger repeats it as well, or one before it. Of one identity all are of one
// moment, and none is younger.
func (l *Ledger) Contradiction() (fault string) {
	note := func(f string) {
		if fault == "" || f < fault { // the same one at every time
			fault = f
		}
	}
	firsts := make(map[uint64]uint64, len(l.Duplicates)) // by leaf
	for _, d := range l.Duplicates {
		firsts[d.Leaf] = d.First
	}
	keys := make(map[uint64]digest) // of leaves that are not at hand
	all, same := l.history.sightings(), []keyedDelivery(nil)
	for i := range all {
		s := all[i]
		first, duplicate := firsts[s.leaf]
		if !duplicate {
			first = s.leaf
		}
		if other, listed := keys[first]; listed && other != s.key {
			note(fmt.Sprintf("leaf %d is listed as what deliveries of two idempotency keys or rows repeat", first))
		}
		if l.Unknown(first) {
			keys[first] = s.key
		}
		same = append(same, keyedDelivery{s, first})
		if i+1 < len(all) && all[i+1].key == s.key {
			continue
		}
		if f := l.missed(same); f != "" {
			note(f)
		}
		same = same[:0]
	}
	return fault
}

// missed finds, among deliveries of one key, one that does not repeat a leaf that it has to.
func (l *Ledger) missed(same []keyedDelivery) string {
	slices.SortFunc(same, func(a, b keyedDelivery) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.first, b.first)) })
	var lowest *keyedDelivery // of those from the youngest on, that repeats a leaf that is not at hand
	for i := range same {
		d := &same[i]
		if lowest != nil && d.first > lowest.first {
			return fmt.Sprintf("leaf %d is listed as what leaf %d repeats, but not as what leaf %d does, which has the same idempotency key and is not younger, or is the same row",
				lowest.first, lowest.leaf, d.leaf)
		}
		if l.Unknown(d.first) {
			lowest = d
		}
	}
	return ""
}

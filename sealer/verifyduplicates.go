package sealer

import (
	"cmp"
	"fmt"
	"slices"
)

// duplicates holds the header's list against the entries of this and of the packs at hand,
// the rows, and itself. What it says of leaves that no pack at hand holds is its word, but
// it can't say of them what contradicts itself. What contradicts the word of another pack
// is not seen.
func (c *packCheck) duplicates() {
	h, l := c.header, c.ledger
	stated, made := repetitions(h.Metering), repetitions(l.meter.Rows())
	switch fault := l.contradiction(); {
	case !slices.Equal(l.duplicates, h.Duplicates):
		c.fail(DuplicatesMismatch, "%s", differingDuplicate(l.duplicates, h.Duplicates))
	case fault != "":
		c.fail(DuplicatesMismatch, "%s", fault)
	case stated != made:
		c.fail(DuplicatesMismatch, "by the header's list its rows count %s as %s, they state %s", grouped(made), ReasonDuplicate, grouped(stated))
	}
}

// differingDuplicate describes the lowest leaf that is not the same in both; there is one.
func differingDuplicate(computed, stated []Duplicate) string {
	for len(computed) > 0 && len(stated) > 0 && computed[0] == stated[0] {
		computed, stated = computed[1:], stated[1:]
	}
	switch {
	case len(stated) == 0 || len(computed) > 0 && computed[0].Leaf < stated[0].Leaf:
		return fmt.Sprintf("leaf %d repeats leaf %d, and is not listed", computed[0].Leaf, computed[0].First)
	case len(computed) == 0 || stated[0].Leaf < computed[0].Leaf:
		return fmt.Sprintf("leaf %d is listed as repeating leaf %d, and repeats none", stated[0].Leaf, stated[0].First)
	}
	return fmt.Sprintf("leaf %d is listed as repeating leaf %d, it repeats leaf %d", stated[0].Leaf, stated[0].First, computed[0].First)
}

// unproven remarks that the packs at hand don't tell all duplicates.
func (c *packCheck) unproven() {
	h, l := c.header, c.ledger
	keyed, unproven := l.history.seen.count+len(l.history.late), 0
	for _, d := range h.Duplicates {
		if l.unknown(d.First) {
			unproven++
		}
	}
	if keyed > 0 && !l.history.below.complete(l.first) {
		c.pass(DuplicatesUnproven, "that of %s with an idempotency key or of a row %s repeated one in leaves that no pack at hand holds, and no others, is the header's word: give those packs as well to have it checked",
			count(keyed, "receipt"), grouped(int64(unproven)))
	}
}

// repetitions are how many receipts rows count as duplicates: of more than a pack may hold
// any number, for rows may count whatever they like.
func repetitions(rows []MeterRow) (n int64) {
	for i := range rows {
		if r := &rows[i]; r.Reason == ReasonDuplicate && r.MeteringBasis == BasisNone {
			n = min(n+r.Receipts, MaxPackEntries+1)
		}
	}
	return n
}

// keyedDelivery is a delivery of the pack with a key.
type keyedDelivery struct {
	sighting
	first uint64 // that it repeats; its own leaf if it repeats none
}

// contradiction says where the duplicates of leaves that are not at hand contradict each
// other; empty if they don't. A leaf holds one event, with one key. And an earlier leaf
// that a delivery repeats is at most DuplicateWindow older: so every delivery of that key
// which is not younger repeats it as well, or one before it. Of one identity all are of one
// moment, and none is younger.
func (l *ledger) contradiction() (fault string) {
	tell := func(f string) {
		if fault == "" || f < fault { // the same one at every time
			fault = f
		}
	}
	firsts := make(map[uint64]uint64, len(l.duplicates)) // by leaf
	for _, d := range l.duplicates {
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
		if other, told := keys[first]; told && other != s.key {
			tell(fmt.Sprintf("leaf %d is listed as what deliveries of two idempotency keys or rows repeat", first))
		}
		if l.unknown(first) {
			keys[first] = s.key
		}
		same = append(same, keyedDelivery{s, first})
		if i+1 < len(all) && all[i+1].key == s.key {
			continue
		}
		if f := l.missed(same); f != "" {
			tell(f)
		}
		same = same[:0]
	}
	return fault
}

// missed finds, among deliveries of one key, one that does not repeat a leaf that it has to.
func (l *ledger) missed(same []keyedDelivery) string {
	slices.SortFunc(same, func(a, b keyedDelivery) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.first, b.first)) })
	var lowest *keyedDelivery // of those from the youngest on, that repeats a leaf that is not at hand
	for i := range same {
		d := &same[i]
		if lowest != nil && d.first > lowest.first {
			return fmt.Sprintf("leaf %d is listed as what leaf %d repeats, but not as what leaf %d does, which has the same idempotency key and is not younger, or is the same row",
				lowest.first, lowest.leaf, d.leaf)
		}
		if l.unknown(d.first) {
			lowest = d
		}
	}
	return ""
}

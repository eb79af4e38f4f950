package verify

import (
	"fmt"
	"slices"

	"muniment/sealer"
)

// duplicates holds the header's list against the entries of this and of the packs at hand,
// the rows, and itself. What it says of leaves that no pack at hand holds is its word, but
// it can't say of them what contradicts itself. What contradicts the word of another pack
// is not seen.
func (c *packCheck) duplicates() {
	h, l := c.header, c.ledger
	stated, made := repetitions(h.Metering), repetitions(l.Meter.Rows())
	switch fault := l.Contradiction(); {
	case !slices.Equal(l.Duplicates, h.Duplicates):
		c.fail(DuplicatesMismatch, "%s", differingDuplicate(l.Duplicates, h.Duplicates))
	case fault != "":
		c.fail(DuplicatesMismatch, "%s", fault)
	case stated != made:
		c.fail(DuplicatesMismatch, "by the header's list its rows count %s as %s, they state %s", grouped(made), sealer.ReasonDuplicate, grouped(stated))
	}
}

// differingDuplicate describes the lowest leaf that is not the same in both; there is one.
func differingDuplicate(computed, stated []sealer.Duplicate) string {
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

// unproven remarks that earlier leaves, which duplicates may repeat, are not at hand.
func (c *packCheck) unproven() {
	h, l := c.header, c.ledger
	keyed, unproven := l.Keyed(), 0
	for _, d := range h.Duplicates {
		if l.Unknown(d.First) {
			unproven++
		}
	}
	if keyed > 0 && !l.Complete() {
		c.pass(DuplicatesUnproven, "that of %s with an idempotency key or of a row %s repeated one in leaves that no pack at hand holds, and no others, is the header's word: give those packs as well to have it checked",
			count(keyed, "receipt"), grouped(int64(unproven)))
	}
}

// repetitions are how many receipts rows count as duplicates: of more than a pack may hold
// any number, for rows may count whatever they like.
func repetitions(rows []sealer.MeterRow) (n int64) {
	for i := range rows {
		if r := &rows[i]; r.Reason == sealer.ReasonDuplicate && r.MeteringBasis == sealer.BasisNone {
			n = min(n+r.Receipts, sealer.MaxPackEntries+1)
		}
	}
	return n
}

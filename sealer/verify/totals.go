package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
)

// duplicates compares the header's list with the entries of this and of the other given packs,
// with the rows, and with itself. For leaves that no given pack holds only the header vouches,
// but what it states about them must be consistent. It is not compared with other headers.
func (c *packCheck) duplicates() {
	h, l := c.header, c.ledger
	stated, made := repetitions(h.Metering), repetitions(l.Meter.Rows())
	switch fault := l.Contradiction(); {
	case !slices.Equal(l.Duplicates, h.Duplicates):
		c.say(DuplicatesMismatch, "%s", differingDuplicate(l.Duplicates, h.Duplicates))
	case fault != "":
		c.say(DuplicatesMismatch, "%s", fault)
	case stated != made:
		c.say(DuplicatesMismatch, "by the header's list its rows count %s as %s, they state %s", grouped(made), sealer.ReasonDuplicate, grouped(stated))
	}
}

// differingDuplicate describes the lowest leaf that is not the same in both; there is one.
func differingDuplicate(computed, stated []pack.Duplicate) string {
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
		c.say(DuplicatesUnproven, "that of %s with an idempotency key or of a row %s repeated one in leaves that no pack at hand holds, and no others, is the header's word: give those packs as well to have it checked",
			count(keyed, "receipt"), grouped(int64(unproven)))
	}
}

// repetitions are how many receipts rows count as duplicates: of more than a pack may hold
// any number, for rows may count whatever they like.
func repetitions(rows []pack.MeterRow) (n int64) {
	for i := range rows {
		if r := &rows[i]; r.Reason == sealer.ReasonDuplicate && r.MeteringBasis == sealer.BasisNone {
			n = min(n+r.Receipts, pack.MaxEntries+1)
		}
	}
	return n
}

// settlement compares the header's with what rules and entries make, unless entries are at
// fault, or the header is not signed: a service has few rules, a forger may write so many that
// rating takes hours.
func (c *packCheck) settlement() {
	h, l := c.header, c.ledger
	if !c.signed || len(l.Faults) > 0 || l.Entries != h.Count {
		return
	}
	computed, err := l.Settlement(c.rate, func(*settlement.ScopeNames, []string) ([]settlement.Right, error) {
		if h.Settlement == nil {
			return nil, nil
		}
		return h.Settlement.Rights()
	})
	if err != nil {
		c.say(SettlementMismatch, "%v", err)
		return
	}
	if computed != nil || h.Settlement != nil {
		if fault := differs(computed, h.Settlement); fault != "" {
			c.say(SettlementMismatch, "%s", fault)
			return
		}
		lines := h.Settlement.Lines
		rated, unrated := settledReceipts(h.Settlement)
		c.say(SettlementOK, "%s recomputed by %s: %s rated, %s not", count(len(lines), "line"), count(len(computed.Rules), "rule"),
			count(int(rated), "receipt"), grouped(unrated))
	}
	if !l.Complete() {
		c.say(SettlementUnproven, "that there are %s in leaves that no pack at hand holds, and no others, is the header's word: give those packs as well to have it checked",
			count(l.UnprovenRules(), "rule"))
	}
}

// differs describes the first thing that a header states otherwise; one of them may be nil.
func differs(computed, stated *settlement.Settlement) string {
	leaves := func(rules []settlement.Rule) (list []uint64) {
		for _, r := range rules {
			list = append(list, r.Leaf)
		}
		return list
	}
	var made, listed []settlement.Rule
	if computed != nil {
		made = computed.Rules
	}
	if stated != nil {
		listed = stated.Rules
	}
	for i := range min(len(made), len(listed)) {
		if made[i].Leaf == listed[i].Leaf && !bytes.Equal(made[i].Record, listed[i].Record) {
			return fmt.Sprintf("the event of leaf %d holds another rule than the header", made[i].Leaf)
		}
	}
	if a, b := leaves(made), leaves(listed); !slices.Equal(a, b) {
		return fmt.Sprintf("the log holds rules at leaves %v, the header states %v", a, b)
	}
	if i := unequal(computed.Lines, stated.Lines, sameLine); i >= 0 {
		return differing("line", i, computed.Lines, stated.Lines, describeLine)
	}
	if i := unequal(computed.Unrated, stated.Unrated, func(a, b settlement.Unrated) bool { return a == b }); i >= 0 {
		return differing("count of unrated receipts", i, computed.Unrated, stated.Unrated, describeUnrated)
	}
	return ""
}

// unequal is the place of the first difference, −1 if there is none.
func unequal[T any](a, b []T, same func(a, b T) bool) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !same(a[i], b[i]) {
			return i
		}
	}
	return -1
}

// differing describes the difference in place i.
func differing[T any](what string, i int, computed, stated []T, describe func(*T) string) string {
	switch {
	case i >= len(computed):
		return fmt.Sprintf("the header states a %s that nothing makes: %s", what, describe(&stated[i]))
	case i >= len(stated):
		return fmt.Sprintf("the header lacks the %s %s", what, describe(&computed[i]))
	}
	return fmt.Sprintf("the entries make the %s %s; the header states %s", what, describe(&computed[i]), describe(&stated[i]))
}

// describeLine describes the line for people.
func describeLine(l *settlement.Line) string {
	return fmt.Sprintf("right %s, metering basis %s, rule %s: %s, %s ms, impressions: %s, amount %s, shares %s",
		l.RightID, l.MeteringBasis, l.RuleID, count(int(l.Receipts), "receipt"), grouped(l.QuantityMs), sealer.FormatImpressions(l.Impressions), l.Amount, strings.Join(l.Shares, " and "))
}

// describeUnrated describes the count for people.
func describeUnrated(u *settlement.Unrated) string {
	return fmt.Sprintf("right %s, metering basis %s, reason %s: %s, %s ms, impressions: %s",
		u.RightID, u.MeteringBasis, u.Reason, count(int(u.Receipts), "receipt"), grouped(u.QuantityMs), sealer.FormatImpressions(u.Impressions))
}

func sameLine(a, b settlement.Line) bool {
	return a.RuleID == b.RuleID && a.RightID == b.RightID && a.MeteringBasis == b.MeteringBasis && a.Receipts == b.Receipts &&
		a.QuantityMs == b.QuantityMs && a.Impressions == b.Impressions && a.Amount == b.Amount && slices.Equal(a.Shares, b.Shares)
}

// settledReceipts counts the receipts in lines, and the others.
func settledReceipts(s *settlement.Settlement) (rated, unrated int64) {
	for i := range s.Lines {
		rated += s.Lines[i].Receipts
	}
	for i := range s.Unrated {
		unrated += s.Unrated[i].Receipts
	}
	return rated, unrated
}

package sealer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// ruleEvents begins the types of the events whose data is the record of a settlement rule.
const ruleEvents = "settlement_rule."

// isRule reports whether an event tells of a settlement rule.
func isRule(e *Event) bool { return strings.HasPrefix(e.Type, ruleEvents) }

// ruleID is the id in the record of a rule.
func ruleID(record []byte) (string, error) {
	var r struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return "", err
	}
	if r.ID == "" {
		return "", errors.New("it has no id")
	}
	return r.ID, nil
}

// rated is what a ledger keeps of a metered receipt: a pack may have 100,000.
type rated struct {
	row        *MeterRow
	renderedAt int64 // in milliseconds
	quantityMs int64
}

// settlement is what rate makes of what was folded; nil without rules.
func (l *ledger) settlement(rate Rate) (*Settlement, error) {
	switch {
	case l.ruleFault != nil:
		return nil, l.ruleFault
	case len(l.history.rules) == 0:
		return nil, nil
	case rate == nil:
		return nil, errors.New("there are settlement rules, and nothing to rate with")
	}
	s := &Settlement{Rules: l.history.byLeaf()}
	var err error
	s.Lines, s.Unrated, err = rate(s.Rules, func(yield func(Metered) bool) {
		for _, r := range l.rated {
			m := Metered{r.row.RightID, r.row.BasisID, r.row.Substrate, r.row.MeteringBasis, time.UnixMilli(r.renderedAt).UTC(), r.quantityMs}
			if !yield(m) {
				return
			}
		}
	})
	if held := s.receipts(); err == nil && held != int64(len(l.rated)) {
		err = fmt.Errorf("%d receipts were rated or counted, of %d", held, len(l.rated))
	}
	return s, err
}

// receipts counts those in lines and the unrated.
func (s *Settlement) receipts() (n int64) {
	for i := range s.Lines {
		n += s.Lines[i].Receipts
	}
	return n + s.unrated()
}

func (s *Settlement) unrated() (n int64) {
	for i := range s.Unrated {
		n += s.Unrated[i].Receipts
	}
	return n
}

// settlement compares the header's with what rules and entries make, unless entries are at
// fault themselves, or anybody could have written the header: the rules that a service has
// are few, those that a stranger makes up would take hours.
func (c *packCheck) settlement() {
	h, l := c.header, c.ledger
	if !c.signed || len(l.faults) > 0 || l.entries != h.Count {
		return
	}
	computed, err := l.settlement(c.rate)
	if err != nil {
		c.fail(SettlementMismatch, "%v", err)
		return
	}
	if computed != nil || h.Settlement != nil {
		if fault := differs(computed, h.Settlement); fault != "" {
			c.fail(SettlementMismatch, "%s", fault)
			return
		}
		lines, unrated := h.Settlement.Lines, h.Settlement.unrated()
		c.pass(SettlementOK, "%s recomputed by %s: %s rated, %s not", count(len(lines), "line"), count(len(computed.Rules), "rule"),
			count(int(computed.receipts()-unrated), "receipt"), grouped(unrated))
	}
	if !l.history.below.complete(l.first) {
		c.pass(SettlementUnproven, "that there are %s in leaves that no pack at hand holds, and no others, is the header's word: give those packs as well to have it checked",
			count(l.unprovenRules(), "rule"))
	}
}

// adopt takes a header's word for the rules of leaves that lie between the packs at hand
// and this one: all others are known.
func (l *ledger) adopt(rules []SettlementRule) {
	for _, r := range rules {
		if l.history.settled <= r.Leaf && r.Leaf < l.first {
			l.amend(r.Leaf, r.Record)
		}
	}
}

// amend notes a rule, or that it can't be read.
func (l *ledger) amend(leaf uint64, record []byte) {
	if l.ruleFault == nil {
		l.ruleFault = l.history.amend(leaf, record)
	}
}

// unprovenRules counts the rules whose events are in no pack at hand.
func (l *ledger) unprovenRules() (n int) {
	for _, r := range l.history.rules {
		if l.unknown(r.Leaf) {
			n++
		}
	}
	return n
}

// differs describes the first thing that a header states otherwise; one of them may be nil.
func differs(computed, stated *Settlement) string {
	leaves := func(rules []SettlementRule) (list []uint64) {
		for _, r := range rules {
			list = append(list, r.Leaf)
		}
		return list
	}
	made, told := computed.rules(), stated.rules()
	for i := range min(len(made), len(told)) {
		if made[i].Leaf == told[i].Leaf && !bytes.Equal(made[i].Record, told[i].Record) {
			return fmt.Sprintf("the event of leaf %d holds another rule than the header", made[i].Leaf)
		}
	}
	if a, b := leaves(made), leaves(told); !slices.Equal(a, b) {
		return fmt.Sprintf("the log holds rules at leaves %v, the header states %v", a, b)
	}
	if i := unequal(computed.Lines, stated.Lines, func(l *SettlementLine) []byte { return l.append(nil) }); i >= 0 {
		return differing("line", i, computed.Lines, stated.Lines, (*SettlementLine).describe)
	}
	if i := unequal(computed.Unrated, stated.Unrated, func(u *Unrated) []byte { return u.append(nil) }); i >= 0 {
		return differing("count of unrated receipts", i, computed.Unrated, stated.Unrated, (*Unrated).describe)
	}
	return ""
}

// unequal is the place of the first difference, −1 if there is none.
func unequal[T any](a, b []T, text func(*T) []byte) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !bytes.Equal(text(&a[i]), text(&b[i])) {
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

// describe is the line as people read it.
func (l *SettlementLine) describe() string {
	return fmt.Sprintf("right %s, metering basis %s, rule %s: %s, %s ms, amount %s, shares %s",
		l.RightID, l.MeteringBasis, l.RuleID, count(int(l.Receipts), "receipt"), grouped(l.QuantityMs), l.Amount, strings.Join(l.Shares, " and "))
}

// describe is the count as people read it.
func (u *Unrated) describe() string {
	return fmt.Sprintf("right %s, metering basis %s, reason %s: %s, %s ms",
		u.RightID, u.MeteringBasis, u.Reason, count(int(u.Receipts), "receipt"), grouped(u.QuantityMs))
}

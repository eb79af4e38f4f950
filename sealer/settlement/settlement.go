// Package settlement has what settlement is made of: metered receipts, the rules as the log holds them, what rules may
// match of the scopes of rights, and the lines that come of it in a pack. How receipts are rated is a
// parameter, a Rating, because prices are no part of the formats; package rate implements it. Package
// sealer specifies the texts. All of it is pure.
package settlement

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// Settlement is the result of rating a pack's metered receipts by the settlement rules.
// Amounts are decimals without needless zeros, in the currency of the line's rule.
type Settlement struct {
	// Lines are sorted by right, metering basis and rule, byte by byte.
	Lines []Line
	// Rules are all rules that the log holds at the end of the pack, by rising leaf.
	Rules []Rule
	// Unrated counts the receipts that are in no line; sorted by right, metering basis and
	// reason.
	Unrated []Unrated
}

// Line rates the receipts of one right and metering basis by one rule.
type Line struct {
	RuleID, RightID, MeteringBasis string
	Receipts, QuantityMs           int64
	Impressions                    int64 // in ten-thousandths
	Amount                         string
	// Shares are the parts of the rule's shares, in their order; they add up to Amount.
	Shares []string
}

// Rule is a rule as the log holds it.
type Rule struct {
	// Leaf is the leaf of the rule's last event.
	Leaf uint64
	// Record is the data of that event, verbatim.
	Record []byte
}

// Unrated counts metered receipts that no rule rates.
type Unrated struct {
	RightID, MeteringBasis, Reason string
	Receipts, QuantityMs           int64
	Impressions                    int64 // in ten-thousandths
}

// Metered is what is rated: a metered receipt, or the sums of several with the same names.
type Metered struct {
	RightID, BasisID, Substrate, MeteringBasis, Completion string
	// Right is what rules may match of its scope; nil is nothing. It is the same for all receipts of a right.
	Right *Right
	// RenderedAt is when the receipt was rendered; of several receipts, any moment of a period
	// that covers all of them and in which no rule begins or ends.
	RenderedAt time.Time
	// Leaf is that of the receipt; of several, any that is at or above the ends of Terms that are not
	// above theirs, and below the others. Packs are rated without it.
	Leaf uint64
	// Receipts are at least 1, Impressions in ten-thousandths.
	Receipts, QuantityMs, Impressions int64
}

// Rate computes lines and counts, sorted as in Settlement, from rules and metered receipts, as
// package sealer defines. It is a parameter because prices are not part of the format;
// package rate implements it. It must be pure. It fails if a rule can't be read.
type Rate func(rules []Rule, receipts iter.Seq[Metered]) ([]Line, []Unrated, error)

// Rights is what the lines say of the scopes of rights: a right that a rule rates has the rule's campaign and
// label. Rated by no more than that, the same receipts make the same lines. It fails if a rule can't be read.
func (s *Settlement) Rights() ([]Right, error) {
	matches, err := matchesOf(s.Rules)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*match, len(matches))
	for i := range matches {
		byID[s.Rules[i].ID()] = &matches[i]
	}
	rights := make(map[string]*Right)
	for _, l := range s.Lines {
		m := byID[l.RuleID]
		if m == nil || m.Campaign == nil && m.Label == nil {
			continue
		}
		r := rights[l.RightID]
		if r == nil {
			r = &Right{RightID: l.RightID, Labels: make(map[string]string)}
			rights[l.RightID] = r
		}
		if m.Campaign != nil {
			r.Campaigns = append(r.Campaigns, *m.Campaign)
		}
		if m.Label != nil {
			r.Labels[m.Label.Name] = m.Label.Value
		}
	}
	list := make([]Right, 0, len(rights))
	for _, r := range rights {
		slices.Sort(r.Campaigns)
		r.Campaigns = slices.Compact(r.Campaigns)
		list = append(list, *r)
	}
	return list, nil
}

// Append appends the canonical text, a list of one or, without rules, of none.
func (s *Settlement) Append(dst []byte) []byte {
	if s == nil {
		return append(dst, "[]"...)
	}
	dst = append(dst, `[{"lines":[`...)
	for i := range s.Lines {
		dst = s.Lines[i].append(canonical.AppendComma(dst, i))
	}
	dst = append(dst, `],"rules":[`...)
	for i, r := range s.Rules {
		dst = append(canonical.AppendComma(dst, i), `{"leaf":`...)
		dst = strconv.AppendUint(dst, r.Leaf, 10)
		dst = append(dst, `,"rule":`...)
		dst = append(dst, r.Record...)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"unrated":[`...)
	for i := range s.Unrated {
		dst = s.Unrated[i].append(canonical.AppendComma(dst, i))
	}
	return append(dst, `]}]`...)
}

func (l *Line) append(dst []byte) []byte {
	dst = append(dst, `{"amount":`...)
	dst = canonical.AppendString(dst, l.Amount)
	dst = append(dst, `,"impressions":"`...)
	dst = sealer.AppendImpressions(dst, l.Impressions)
	dst = append(dst, `","meteringBasis":`...)
	dst = canonical.AppendString(dst, l.MeteringBasis)
	dst = append(dst, `,"quantityMs":`...)
	dst = strconv.AppendInt(dst, l.QuantityMs, 10)
	dst = append(dst, `,"receipts":`...)
	dst = strconv.AppendInt(dst, l.Receipts, 10)
	dst = append(dst, `,"rightId":`...)
	dst = canonical.AppendString(dst, l.RightID)
	dst = append(dst, `,"ruleId":`...)
	dst = canonical.AppendString(dst, l.RuleID)
	dst = append(dst, `,"shares":[`...)
	for i, s := range l.Shares {
		dst = canonical.AppendString(canonical.AppendComma(dst, i), s)
	}
	return append(dst, `]}`...)
}

func (u *Unrated) append(dst []byte) []byte {
	dst = append(dst, `{"impressions":"`...)
	dst = sealer.AppendImpressions(dst, u.Impressions)
	dst = append(dst, `","meteringBasis":`...)
	dst = canonical.AppendString(dst, u.MeteringBasis)
	dst = append(dst, `,"quantityMs":`...)
	dst = strconv.AppendInt(dst, u.QuantityMs, 10)
	dst = append(dst, `,"reason":`...)
	dst = canonical.AppendString(dst, u.Reason)
	dst = append(dst, `,"receipts":`...)
	dst = strconv.AppendInt(dst, u.Receipts, 10)
	dst = append(dst, `,"rightId":`...)
	dst = canonical.AppendString(dst, u.RightID)
	return append(dst, '}')
}

// Read reads what Append writes.
func Read(s *sealer.Scanner) *Settlement {
	if s.Has("[]") {
		return nil
	}
	t := new(Settlement)
	s.Lit(`[{"lines":`)
	s.List(func() { t.Lines = append(t.Lines, readLine(s)) })
	s.Lit(`,"rules":`)
	s.List(func() {
		var r Rule
		s.Lit(`{"leaf":`)
		r.Leaf = uint64(s.Integer())
		s.Lit(`,"rule":`)
		if r.Record = []byte(s.Object()); !canonical.IsJSON(r.Record) {
			s.Fail("an object in RFC 8785 form")
		}
		s.Lit(`}`)
		t.Rules = append(t.Rules, r)
	})
	s.Lit(`,"unrated":`)
	s.List(func() { t.Unrated = append(t.Unrated, readUnrated(s)) })
	s.Lit(`}]`)
	return t
}

func readLine(s *sealer.Scanner) (l Line) {
	s.Lit(`{"amount":`)
	l.Amount = s.Name()
	s.Lit(`,"impressions":`)
	l.Impressions = s.Impressions()
	s.Lit(`,"meteringBasis":`)
	l.MeteringBasis = s.Name()
	s.Lit(`,"quantityMs":`)
	l.QuantityMs = s.Integer()
	s.Lit(`,"receipts":`)
	l.Receipts = s.Integer()
	s.Lit(`,"rightId":`)
	l.RightID = s.Name()
	s.Lit(`,"ruleId":`)
	l.RuleID = s.Name()
	s.Lit(`,"shares":`)
	s.List(func() { l.Shares = append(l.Shares, s.Name()) })
	s.Lit(`}`)
	return l
}

func readUnrated(s *sealer.Scanner) (u Unrated) {
	s.Lit(`{"impressions":`)
	u.Impressions = s.Impressions()
	s.Lit(`,"meteringBasis":`)
	u.MeteringBasis = s.Name()
	s.Lit(`,"quantityMs":`)
	u.QuantityMs = s.Integer()
	s.Lit(`,"reason":`)
	u.Reason = s.Name()
	s.Lit(`,"receipts":`)
	u.Receipts = s.Integer()
	s.Lit(`,"rightId":`)
	u.RightID = s.Name()
	s.Lit(`}`)
	return u
}

// Check checks that there are rules, in the order of their leaves, in a log of the given size.
func (s *Settlement) Check(size uint64) error {
	if s == nil {
		return nil
	}
	if len(s.Rules) == 0 {
		return errors.New("a settlement without rules")
	}
	for i, r := range s.Rules {
		if r.Leaf >= size || i > 0 && r.Leaf <= s.Rules[i-1].Leaf {
			return fmt.Errorf("the settlement rule of leaf %d is out of range or order", r.Leaf)
		}
	}
	return nil
}

// ID is the id in the record, empty if it can't be read.
func (r *Rule) ID() string {
	id, _ := RuleID(r.Record)
	return id
}

// ErrAmount says that a sum is above the largest amount.
var ErrAmount = errors.New("the sum of amounts is above the largest amount")

// RuleIn returns the rule in the event of a leaf; nil if the event is not about a rule.
func RuleIn(e *sealer.Event, leaf uint64) *Rule {
	if !isRule(e) {
		return nil
	}
	return &Rule{leaf, bytes.Clone(e.Data)}
}

// RulesAt returns the rules that a log holds at a size, from those at an earlier size and the events
// of rules from there on, in the order of their leaves.
func RulesAt(size uint64, before, events []Rule) []Rule {
	rules := make(map[string]Rule)
	for _, list := range [][]Rule{before, events} {
		for _, r := range list {
			if r.Leaf < size {
				rules[r.ID()] = r
			}
		}
	}
	return slices.SortedFunc(maps.Values(rules), func(a, b Rule) int { return cmp.Compare(a.Leaf, b.Leaf) })
}

// Rights returns what the rules name of the scopes of rights. It may leave out those of which that is nothing.
type Rights func(names *ScopeNames, rightIDs []string) ([]Right, error)

// ruleEvents is the prefix of the types of events whose data is the record of a settlement rule.
const ruleEvents = "settlement_rule."

// isRule reports whether the data of an event is the record of a settlement rule.
func isRule(e *sealer.Event) bool { return strings.HasPrefix(e.Type, ruleEvents) }

// RuleID returns the id in the record of a rule.
func RuleID(record []byte) (string, error) {
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

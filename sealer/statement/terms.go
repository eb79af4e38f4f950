package statement

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muniment.example/sealer/settlement"
)

// Issue is what the log says of a statement that was issued, or that a chain of statements was voided.
type Issue struct {
	// Of is the first statement of the chain.
	Of string
	// Voids says that it ends the chain: the statements of it state nothing from here on.
	Voids bool
	// Period, currency and counterparty are those of the statement.
	From, To       time.Time
	Currency       string
	CounterpartyID *string
	// TreeSize is the end of the log that the statement states, and Rules are the rules there.
	TreeSize uint64
	Rules    []settlement.Rule
}

// Terms finds the rule that rates a receipt. A receipt that a live statement states is rated by the
// rule, in the text, by which it was stated first. Any other is rated by rules of the caller. It
// belongs to one goroutine.
//
// All follows from the names of a receipt, its leaf and renderedAt. So receipts with equal names may
// be summed, if no edge and no end is between them.
type Terms struct {
	issues []issueRules
	own    *ruleTexts
	texts  map[string]*ruleText  // by record
	names  settlement.ScopeNames // of all texts
	edges  []time.Time
	ends   []uint64
}

// issueRules is an issue with its rules.
type issueRules struct {
	Issue
	rules *ruleTexts
}

// ruleTexts are the rules at one end of the log.
type ruleTexts struct {
	list  []*ruleText
	rates func(*settlement.Metered) int
}

// ruleText are the members of a rule on which statements depend.
type ruleText struct {
	ID             string     `json:"id"`
	Currency       string     `json:"currency"`
	Price          string     `json:"price"`
	TimeZone       string     `json:"timeZone"`
	Minimum        *string    `json:"minimum"`
	Cap            *string    `json:"cap"`
	Tiers          []struct{} `json:"tiers"`
	Unit           string     `json:"unit"`
	EffectiveFrom  time.Time  `json:"effectiveFrom"`
	EffectiveUntil *time.Time `json:"effectiveUntil"`
	Shares         []struct {
		Bps            int64  `json:"bps"`
		CounterpartyID string `json:"counterpartyId"`
	} `json:"shares"`
	rule settlement.Rule
}

// bounds reports whether the rule has something to adjust.
func (r *ruleText) bounds() bool { return r.Minimum != nil || r.Cap != nil || len(r.Tiers) > 0 }

// pays reports whether the rule is in a currency, and gives a share to a counterparty; nil is any.
func (r *ruleText) pays(currency string, counterpartyID *string) bool {
	if r.Currency != currency || counterpartyID == nil {
		return r.Currency == currency
	}
	for _, s := range r.Shares {
		if s.CounterpartyID == *counterpartyID {
			return true
		}
	}
	return false
}

// NewTerms returns the terms after issues, in the order of the leaves of their events. own are the
// rules of receipts that no statement states. It fails if a rule can't be read.
func NewTerms(by settlement.Rating, issues []Issue, own []settlement.Rule) (*Terms, error) {
	t := &Terms{texts: make(map[string]*ruleText)}
	sets := make(map[string]*ruleTexts) // by leaves: most ends have the same rules
	for _, s := range issues {
		var set *ruleTexts
		if !s.Voids {
			t.edges, t.ends = append(t.edges, s.From, s.To), append(t.ends, s.TreeSize)
			leaves := leavesOf(s.Rules)
			if set = sets[leaves]; set == nil {
				var err error
				if set, err = t.read(by, s.Rules); err != nil {
					return nil, err
				}
				sets[leaves] = set
			}
		}
		s.Rules = nil
		t.issues = append(t.issues, issueRules{s, set})
	}
	var err error
	if t.own, err = t.read(by, own); err != nil {
		return nil, err
	}
	var texts []settlement.Rule
	for _, r := range t.texts {
		texts = append(texts, r.rule)
		if t.edges = append(t.edges, r.EffectiveFrom); r.EffectiveUntil != nil {
			t.edges = append(t.edges, *r.EffectiveUntil)
		}
	}
	if t.names, err = settlement.ScopeNamesOf(texts); err != nil {
		return nil, err
	}
	slices.SortFunc(t.edges, time.Time.Compare)
	t.edges = slices.CompactFunc(t.edges, time.Time.Equal)
	slices.Sort(t.ends)
	t.ends = slices.Compact(t.ends)
	return t, nil
}

// leavesOf names the rules of a log, by their leaves.
func leavesOf(rules []settlement.Rule) string {
	var leaves []byte
	for _, r := range rules {
		leaves = binary.AppendUvarint(leaves, r.Leaf)
	}
	return string(leaves)
}

func (t *Terms) read(by settlement.Rating, rules []settlement.Rule) (*ruleTexts, error) {
	rates, err := by.Precedence(rules)
	if err != nil {
		return nil, err
	}
	set := &ruleTexts{rates: rates}
	for _, r := range rules {
		text := t.texts[string(r.Record)]
		if text == nil {
			text = &ruleText{rule: r}
			if err := json.Unmarshal(r.Record, text); err != nil {
				return nil, fmt.Errorf("cannot read the settlement rule of leaf %d: %w", r.Leaf, err)
			}
			t.texts[string(r.Record)] = text
		}
		set.list = append(set.list, text)
	}
	return set, nil
}

// of returns the rule that rates a receipt; nil if none does.
func (r *ruleTexts) of(m *settlement.Metered) *ruleText {
	if i := r.rates(m); i >= 0 {
		return r.list[i]
	}
	return nil
}

// Edges are the moments of renderedAt at which the rule of receipts may change, in their order.
func (t *Terms) Edges() []time.Time { return t.edges }

// Ends are the leaves at which it may change, in their order: receipts below one may be stated,
// others not.
func (t *Terms) Ends() []uint64 { return t.ends }

// Names are the campaigns and labels that its rules name: what else is known of a right changes no rule.
func (t *Terms) Names() *settlement.ScopeNames { return &t.names }

// Rule returns the rule that rates receipts, nil if none does, and whether a statement states them.
func (t *Terms) Rule(m *settlement.Metered) (rule *settlement.Rule, stated bool) {
	text, stated := t.rule(m)
	if text == nil {
		return nil, stated
	}
	return &text.rule, stated
}

func (t *Terms) rule(m *settlement.Metered) (rule *ruleText, stated bool) {
	if kept, _ := t.stated(m); kept != nil {
		return kept, true
	}
	return t.own.of(m), false
}

// stated returns the rule by which live statements state receipts, and the chains of these; nil if none
// does. All of them state by one rule: each keeps that of those before it.
func (t *Terms) stated(m *settlement.Metered) (kept *ruleText, by []string) {
	var over []string // chains that were voided
	for i := range t.issues {
		s := &t.issues[i]
		switch {
		case s.Voids:
			over, by = append(over, s.Of), slices.DeleteFunc(by, func(of string) bool { return of == s.Of })
			if len(by) == 0 {
				kept = nil
			}
		case m.Leaf >= s.TreeSize || !s.covers(m) || slices.Contains(by, s.Of) || slices.Contains(over, s.Of):
		default:
			rule := kept
			if rule == nil {
				rule = s.rules.of(m)
			}
			if rule != nil && rule.pays(s.Currency, s.CounterpartyID) {
				kept, by = rule, append(by, s.Of)
			}
		}
	}
	return kept, by
}

func (s *issueRules) covers(m *settlement.Metered) bool {
	return !m.RenderedAt.Before(s.From) && m.RenderedAt.Before(s.To)
}

// Missing reports whether a live statement does not state receipts, although it covers their time, in the
// currency of the rule that rates them, and for somebody whom that pays: whom others pay has what is due, and
// this one lacks it.
func (t *Terms) Missing(m *settlement.Metered) bool {
	rule, by := t.stated(m)
	if rule == nil {
		rule = t.own.of(m)
	}
	if rule == nil {
		return false
	}
	lacking := make(map[string]bool) // chains
	for i := range t.issues {
		s := &t.issues[i]
		switch {
		case s.Voids:
			delete(lacking, s.Of)
		case s.covers(m) && rule.pays(s.Currency, s.CounterpartyID) && !slices.Contains(by, s.Of):
			lacking[s.Of] = true
		}
	}
	return len(lacking) > 0
}

// ownByID returns the caller's rules, by their ids.
func (t *Terms) ownByID() []*ruleText {
	return slices.SortedFunc(slices.Values(t.own.list), func(a, b *ruleText) int { return strings.Compare(a.ID, b.ID) })
}

// Currencies are those of all rules of the terms, in their order.
func (t *Terms) Currencies() []string {
	all := make(map[string]bool)
	for _, r := range t.texts {
		all[r.Currency] = true
	}
	return slices.Sorted(maps.Keys(all))
}

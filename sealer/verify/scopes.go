package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/go-json-experiment/json"

	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// keepSums keeps the sums of the rated receipts, if it matters what the scopes of their rights are: the events that
// issued these may be in other files.
func (c *packCheck) keepSums() {
	rules := c.header.Rules()
	var err error
	if c.named, err = settlement.ScopeNamesOf(rules); err != nil || c.named.Empty() || c.failed() {
		return
	}
	edges, err := edgesOf(rules)
	if err != nil {
		return // the rules can't be read, as a verdict says
	}
	type key struct {
		row        *pack.MeterRow
		completion string
		edge       int
	}
	sums := make(map[key]*settlement.Metered)
	for i := range c.ledger.Rated {
		r := &c.ledger.Rated[i]
		edge, at := slices.BinarySearch(edges, r.RenderedAt)
		if at {
			edge++
		}
		k := key{r.Row, r.Completion, edge}
		sum := sums[k]
		if sum == nil {
			sum = &settlement.Metered{
				RightID: r.Row.RightID, BasisID: r.Row.BasisID, Substrate: r.Row.Substrate, MeteringBasis: r.Row.MeteringBasis, Completion: r.Completion,
				RenderedAt: time.UnixMilli(r.RenderedAt).UTC(),
			}
			sums[k] = sum
		}
		sum.Receipts, sum.QuantityMs, sum.Impressions = sum.Receipts+1, sum.QuantityMs+r.QuantityMs, sum.Impressions+r.Impressions
	}
	for _, sum := range sums {
		c.sums = append(c.sums, *sum)
	}
	slices.SortFunc(c.sums, func(a, b settlement.Metered) int { return strings.Compare(a.RightID, b.RightID) })
}

// edgesOf are the moments at which rules begin or end, in milliseconds.
func edgesOf(rules []settlement.Rule) (edges []int64, err error) {
	for _, r := range rules {
		var rule struct {
			EffectiveFrom  time.Time  `json:"effectiveFrom"`
			EffectiveUntil *time.Time `json:"effectiveUntil"`
		}
		if err := json.Unmarshal(r.Record, &rule); err != nil {
			return nil, err
		}
		if edges = append(edges, rule.EffectiveFrom.UnixMilli()); rule.EffectiveUntil != nil {
			edges = append(edges, rule.EffectiveUntil.UnixMilli())
		}
	}
	slices.Sort(edges)
	return slices.Compact(edges), nil
}

// packScopes compares the lines of packs with what the events that issued their rights make of them. It is called
// once all files with events are judged.
func (v *verification) packScopes() {
	v.issued = make(map[string]map[keptID][]settlement.Right)
	for i := range v.files {
		if f := &v.files[i]; f.conduct != nil && f.ok() {
			if v.issued[f.conduct.tenantID] == nil {
				v.issued[f.conduct.tenantID] = make(map[keptID][]settlement.Right)
			}
			for id, scopes := range f.conduct.scopes {
				v.issued[f.conduct.tenantID][id] = append(v.issued[f.conduct.tenantID][id], scopes...)
			}
		}
	}
	for tenantID, packs := range v.packs {
		for _, p := range packs {
			if c := p.report.pack; c != nil && len(c.sums) > 0 && p.report.ok() {
				v.rescope(tenantID, p.report, c)
			}
		}
	}
}

// scope returns what names has of a right, by the events that issued it; not known if none is at hand. twice says
// that there are several, and that they differ.
func (v *verification) scope(tenantID, rightID string, names *settlement.ScopeNames) (named settlement.Right, known, twice bool) {
	for i, scope := range v.issued[tenantID][unique.Make(rightID)] {
		other := names.Only(scope)
		twice = twice || i > 0 && !settlement.SameRight(named, other)
		named, known = other, true
	}
	return named, known, twice
}

const issuedTwice = "the log issues the right %s twice, with different scopes"

const unprovenScopes = "no given file holds the events that issued %s: for what rules name of these there is no proof"

// rescope rates the sums of a pack again, by the events of its rights: where one is not at hand, by what the lines
// say of the right.
func (v *verification) rescope(tenantID string, f *FileReport, c *packCheck) {
	stated := c.header.Settlement
	said, err := stated.Rights()
	if err != nil {
		f.say(SettlementMismatch, "%v", err)
		return
	}
	scopes, unproven := make(map[string]*settlement.Right), make(map[string]bool)
	for i := range said {
		scopes[said[i].RightID] = &said[i]
	}
	for _, sum := range c.sums {
		scope, known, twice := v.scope(tenantID, sum.RightID, &c.named)
		switch {
		case twice:
			f.say(SettlementMismatch, issuedTwice, sum.RightID)
			return
		case known:
			scopes[sum.RightID] = &scope
		default:
			unproven[sum.RightID] = true
		}
	}
	computed := settlement.Settlement{Rules: stated.Rules}
	computed.Lines, computed.Unrated, err = v.rating.Rate(stated.Rules, func(yield func(settlement.Metered) bool) {
		for _, sum := range c.sums {
			if sum.Right = scopes[sum.RightID]; !yield(sum) {
				return
			}
		}
	})
	switch {
	case err != nil:
		f.say(SettlementMismatch, "%v", err)
	case differs(&computed, stated) != "":
		f.say(SettlementMismatch, "by the events that issued the rights, %s", differs(&computed, stated))
	case len(unproven) > 0:
		f.say(SettlementUnproven, unprovenScopes, count(len(unproven), "right"))
	}
}

// scopes reports whether what the statement states of the scopes of rights, and of those of the receipts at hand,
// does not contradict the events that issued these.
func (s *statementFile) scopes(v *verification, t *statement.Terms, receipts statedReceipts) bool {
	if t.Names().Empty() {
		return true
	}
	said, rights := make(map[string]settlement.Right), make(map[string]bool)
	for _, r := range s.said.Rights {
		said[r.RightID], rights[r.RightID] = r, true
	}
	for _, list := range [][]settlement.Metered{receipts.free, receipts.held} {
		for i := range list {
			rights[list[i].RightID] = true
		}
	}
	unproven := 0
	for _, id := range slices.Sorted(maps.Keys(rights)) {
		is, known, twice := v.scope(s.said.TenantID, id, t.Names())
		if twice {
			s.say(StatementRule, issuedTwice, id)
			return false
		}
		if !known || !v.names.Has(t.Names()) { // a rule that no header has: what it names was not kept
			unproven++
			continue
		}
		said := said[id]
		said.RightID = id
		if !settlement.SameRight(is, said) {
			s.say(StatementRule, "rules name of the right %s, as its event says; what is stated is %s", describeRight(&is), describeRight(&said))
			return false
		}
	}
	if unproven > 0 {
		s.say(SettlementUnproven, unprovenScopes, count(unproven, "right"))
	}
	return true
}

// describeRight describes for people what rules name of the right.
func describeRight(r *settlement.Right) string {
	return fmt.Sprintf("%s, campaigns %q, labels %q", r.RightID, r.Campaigns, r.Labels)
}

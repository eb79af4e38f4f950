package statement

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// terms find the rules that rate the receipts of a period.
type terms struct {
	*statement.Terms
	// ends are those of Terms that are in the log of the warehouse, in their order.
	ends   []end
	scopes scopeSource
}

// scopeSource returns what names has of the scopes of rights. It may leave out those of which that is nothing.
type scopeSource func(ctx context.Context, tenantID string, names *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error)

// rightsOf returns what rules of terms name of rights, by right. All terms are of one tenant.
func rightsOf(ctx context.Context, tenantID string, by []*terms, rights iter.Seq[string]) (map[string]*settlement.Right, error) {
	var names settlement.ScopeNames
	var scopes scopeSource
	for _, t := range by {
		names.Merge(t.Names())
		scopes = t.scopes
	}
	if names.Empty() {
		return nil, nil
	}
	ids := map[string]bool{}
	for id := range rights {
		ids[id] = true
	}
	list, err := scopes(ctx, tenantID, &names, slices.Sorted(maps.Keys(ids)))
	known := make(map[string]*settlement.Right, len(list))
	for i := range list {
		known[list[i].RightID] = &list[i]
	}
	return known, err
}

// rememberedScopes reads the scope of a right once for all statements of one request.
type rememberedScopes struct {
	Packs
	names settlement.ScopeNames
	known map[string]*settlement.Right // what names has, of rights that were read; nil is nothing
}

// Scopes implements Packs.
func (s *rememberedScopes) Scopes(ctx context.Context, tenantID string, names *settlement.ScopeNames, rightIDs []string) (list []settlement.Right, err error) {
	if s.known == nil || !s.names.Has(names) {
		s.names.Merge(names)
		s.known = map[string]*settlement.Right{}
	}
	unknown := slices.DeleteFunc(slices.Clone(rightIDs), func(id string) bool {
		_, known := s.known[id]
		return known
	})
	if len(unknown) > 0 {
		found, err := s.Packs.Scopes(ctx, tenantID, &s.names, unknown)
		if err != nil {
			return nil, err
		}
		for _, id := range unknown {
			s.known[id] = nil
		}
		for i := range found {
			s.known[found[i].RightID] = &found[i]
		}
	}
	for _, id := range rightIDs {
		if r := s.known[id]; r != nil {
			list = append(list, *r)
		}
	}
	return list, nil
}

// end is an end of the log that a statement states: a size, and the position of the rows behind it.
type end struct {
	size     uint64
	position sealer.Position
}

// leafOf returns a leaf for a row, as in settlement.Metered.
func (t *terms) leafOf(at sealer.Position) uint64 {
	behind, _ := slices.BinarySearchFunc(t.ends, at, func(e end, at sealer.Position) int {
		if e.position.Compare(at) <= 0 {
			return -1
		}
		return 1
	})
	if behind == 0 {
		return 0
	}
	return t.ends[behind-1].size
}

// terms returns those after the given statements, which were issued in that order. own are the rules
// of receipts that none of them states.
func (c *core) terms(ctx context.Context, tenantID string, issued []Statement, own []settlement.Rule) (*terms, error) {
	t := &terms{scopes: c.cfg.Packs.Scopes}
	var issues []statement.Issue
	rules := map[uint64][]settlement.Rule{}
	texts := map[uint64]settlement.Rule{} // by leaf: most ends have the same ones
	for i := range issued {
		s := &issued[i]
		size := uint64(s.TreeSize)
		if !slices.ContainsFunc(t.ends, func(e end) bool { return e.size == size }) {
			position, err := sealer.ParsePosition(s.AsOf)
			if err != nil {
				return nil, api.Conflict("the record of the statement " + s.ID + " in the database was edited, so its receipts can't be rated: " + err.Error())
			}
			list, err := c.cfg.Packs.RulesAt(ctx, tenantID, size)
			if err != nil {
				return nil, err
			}
			for _, r := range list {
				if _, known := texts[r.Leaf]; !known {
					texts[r.Leaf] = r
				}
				rules[size] = append(rules[size], texts[r.Leaf])
			}
			t.ends = append(t.ends, end{size, position})
		}
		issues = append(issues, statement.Issue{
			Of: s.first(), Voids: s.VoidReason != nil, From: s.From.Time, To: s.To.Time, Currency: s.Currency, CounterpartyID: s.CounterpartyID,
			TreeSize: size, Rules: rules[size],
		})
	}
	slices.SortFunc(t.ends, func(a, b end) int { return cmp.Compare(a.size, b.size) })
	var err error
	t.Terms, err = statement.NewTerms(ratingOf, issues, own)
	return t, err
}

// mostOverlaps bounds the statements with which the period of a first statement may overlap: each states
// another part of the log, perhaps by other rules. A correction may overlap with more: its period can't be
// another one.
const mostOverlaps = 400

// tooMany refuses a first statement that overlaps with too many. Those of the time before it, on which the
// months that end in it depend, don't count: no other period would have fewer.
func tooMany(issued []Statement, s *Statement) error {
	n := 0
	for _, other := range issued {
		if other.period().Overlaps(s.period()) {
			n++
		}
	}
	if n > mostOverlaps {
		return api.InvalidField("from", fmt.Sprintf("more than %d statements that were issued or voided overlap with the period: choose a shorter one, or state it for all counterparties at once", mostOverlaps))
	}
	return nil
}

// overlaps returns statements in the form of a document.
func overlaps(issued []Statement) []statement.Overlap {
	list := []statement.Overlap{}
	for _, s := range issued {
		list = append(list, statement.Overlap{SHA256: *s.SHA256, StatementID: s.ID})
	}
	slices.SortFunc(list, func(a, b statement.Overlap) int { return strings.Compare(a.StatementID, b.StatementID) })
	return list
}

// refuseOverlap returns STATE_CONFLICT if one of the statements overlaps with s, and bills some of the
// same receipts to the same counterparties.
func refuseOverlap(issued []Statement, s *Statement) error {
	for _, other := range issued {
		switch {
		case other.State == Voided || !other.period().Overlaps(s.period()) || other.Currency != s.Currency,
			s.CounterpartyID != nil && other.CounterpartyID != nil && *s.CounterpartyID != *other.CounterpartyID:
		default:
			return api.Conflict(fmt.Sprintf("the period overlaps with that of %s, which is issued: %s to %s. Correct that statement for what came late; or void it, and draft another one", other.first(), other.From, other.To))
		}
	}
	return nil
}

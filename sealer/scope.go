package sealer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SettlementRight is what settlement rules may match of a right's scope, besides its id. A scope never
// changes.
type SettlementRight struct {
	// Campaigns has each once, byte by byte.
	Campaigns []string          `json:"campaigns"`
	Labels    map[string]string `json:"labels"`
	RightID   string            `json:"rightId"`
}

// ScopeOf returns what rules may match of a right with a scope, a JSON object.
func ScopeOf(rightID string, scope []byte) (r SettlementRight, err error) {
	if err = json.Unmarshal(scope, &r, json.RejectUnknownMembers(false)); err != nil {
		return r, fmt.Errorf("cannot read the scope of the right %s: %w", rightID, err)
	}
	slices.Sort(r.Campaigns)
	r.Campaigns, r.RightID = slices.Compact(r.Campaigns), rightID
	return r, nil
}

// RightIn returns what rules may match of the right that an event has issued; nil if the event issues none.
func RightIn(e *Event) *SettlementRight {
	var data struct {
		Scope jsontext.Value `json:"scope"`
	}
	if e.Type != TypeRightIssued || e.Subject.Kind != SubjectRight || json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	r, err := ScopeOf(e.Subject.ID, data.Scope)
	if err != nil {
		return nil
	}
	return &r
}

// TypeRightIssued is the type of the event of a new right, whose data has its scope.
const TypeRightIssued = "right.issued"

// ScopeNames are the campaigns and labels that rules name.
type ScopeNames struct {
	campaigns map[string]bool
	labels    map[label]bool
}

type label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ScopeNamesOf returns those of rules. It fails if a rule can't be read.
func ScopeNamesOf(rules []SettlementRule) (n ScopeNames, err error) {
	n = ScopeNames{make(map[string]bool), make(map[label]bool)}
	for _, r := range rules {
		var text struct {
			Match struct {
				Campaign *string `json:"campaign"`
				Label    *label  `json:"label"`
			} `json:"match"`
		}
		if err := json.Unmarshal(r.Record, &text); err != nil {
			return n, fmt.Errorf("cannot read the settlement rule of leaf %d: %w", r.Leaf, err)
		}
		if text.Match.Campaign != nil {
			n.campaigns[*text.Match.Campaign] = true
		}
		if text.Match.Label != nil {
			n.labels[*text.Match.Label] = true
		}
	}
	return n, nil
}

// Empty reports whether the rules name none.
func (n *ScopeNames) Empty() bool { return len(n.campaigns)+len(n.labels) == 0 }

// Of returns what the rules name of rights, by their ids; rights of which they name nothing are left out. A nil n
// names everything.
func (n *ScopeNames) Of(rights []SettlementRight) []SettlementRight {
	if n == nil {
		return rights
	}
	list := []SettlementRight{}
	for _, r := range rights {
		named := SettlementRight{[]string{}, make(map[string]string), r.RightID}
		for _, campaign := range r.Campaigns {
			if n.campaigns[campaign] {
				named.Campaigns = append(named.Campaigns, campaign)
			}
		}
		for name, value := range r.Labels {
			if n.labels[label{name, value}] {
				named.Labels[name] = value
			}
		}
		if len(named.Campaigns)+len(named.Labels) > 0 {
			list = append(list, named)
		}
	}
	slices.SortFunc(list, func(a, b SettlementRight) int { return strings.Compare(a.RightID, b.RightID) })
	return list
}

// SameRight reports whether both are the same.
func SameRight(a, b SettlementRight) bool {
	return a.RightID == b.RightID && slices.Equal(a.Campaigns, b.Campaigns) && maps.Equal(a.Labels, b.Labels)
}

// byID returns rights by their ids.
func byID(rights []SettlementRight) map[string]*SettlementRight {
	all := make(map[string]*SettlementRight, len(rights))
	for i := range rights {
		all[rights[i].RightID] = &rights[i]
	}
	return all
}

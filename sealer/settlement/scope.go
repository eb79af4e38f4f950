package settlement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer"
)

// Right is what settlement rules may match of a right's scope, besides its id. A scope never
// changes.
type Right struct {
	// Campaigns has each once, byte by byte.
	Campaigns []string          `json:"campaigns"`
	Labels    map[string]string `json:"labels"`
	RightID   string            `json:"rightId"`
}

// ScopeOf returns what rules may match of a right with a scope: campaigns and labels are each absent, or a list
// or an object of strings. It fails if the scope is not of this form.
func ScopeOf(rightID string, scope []byte) (Right, error) {
	var members struct {
		Campaigns jsontext.Value `json:"campaigns"`
		Labels    jsontext.Value `json:"labels"`
	}
	r := Right{RightID: rightID, Campaigns: []string{}, Labels: make(map[string]string)}
	var campaigns []*string
	var labels map[string]*string
	err := readKind(scope, '{', &members)
	if err == nil && members.Campaigns != nil {
		err = readKind(members.Campaigns, '[', &campaigns)
	}
	if err == nil && members.Labels != nil {
		err = readKind(members.Labels, '{', &labels)
	}
	for _, c := range campaigns {
		if err == nil && c == nil {
			err = errors.New("a campaign is null")
		}
		if err == nil {
			r.Campaigns = append(r.Campaigns, *c)
		}
	}
	for name, value := range labels {
		if err == nil && value == nil {
			err = errors.New("a label is null")
		}
		if err == nil {
			r.Labels[name] = *value
		}
	}
	if err != nil {
		return Right{}, fmt.Errorf("cannot read the scope of the right %s: %w", rightID, err)
	}
	slices.Sort(r.Campaigns)
	r.Campaigns = slices.Compact(r.Campaigns)
	return r, nil
}

// readKind reads a JSON value, which must be of a kind.
func readKind(text jsontext.Value, kind jsontext.Kind, into any) error {
	if text.Kind() != kind {
		return errors.New("a member is not of its type")
	}
	return json.Unmarshal(text, into)
}

// RightIn returns what rules may match of the right that an event has issued: nothing if its scope is not of the
// form that ScopeOf reads. It is nil if the event issues none.
func RightIn(e *sealer.Event) *Right {
	if e.Type != sealer.TypeRightIssued || e.Subject.Kind != sealer.SubjectRight {
		return nil
	}
	var data struct {
		Scope jsontext.Value `json:"scope"`
	}
	_ = json.Unmarshal(e.Data, &data)
	r, err := ScopeOf(e.Subject.ID, data.Scope)
	if err != nil {
		r = Right{RightID: e.Subject.ID}
	}
	return &r
}

// ScopeNames are the campaigns and labels that rules name. Its zero value has none.
type ScopeNames struct {
	campaigns map[string]string // of themselves, so that a text of rules is kept, and none of rights
	labels    map[label]label
}

type label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// match is what a rule's match names of scopes.
type match struct {
	Campaign *string `json:"campaign"`
	Label    *label  `json:"label"`
}

// matchesOf returns the matches of rules.
func matchesOf(rules []Rule) ([]match, error) {
	list := make([]match, len(rules))
	for i, r := range rules {
		text := struct {
			Match *match `json:"match"`
		}{&list[i]}
		if err := json.Unmarshal(r.Record, &text); err != nil {
			return nil, fmt.Errorf("cannot read the settlement rule of leaf %d: %w", r.Leaf, err)
		}
	}
	return list, nil
}

// ScopeNamesOf returns those of rules. It fails if a rule can't be read.
func ScopeNamesOf(rules []Rule) (n ScopeNames, err error) {
	return n, n.Add(rules)
}

// Empty reports whether the rules name none.
func (n *ScopeNames) Empty() bool { return len(n.campaigns)+len(n.labels) == 0 }

// Of returns what the rules name of rights, by their ids; rights of which they name nothing are left out. A nil n
// names everything.
func (n *ScopeNames) Of(rights []Right) []Right {
	if n == nil {
		return rights
	}
	list := []Right{}
	for _, r := range rights {
		if named := n.Only(r); len(named.Campaigns)+len(named.Labels) > 0 {
			list = append(list, named)
		}
	}
	slices.SortFunc(list, func(a, b Right) int { return strings.Compare(a.RightID, b.RightID) })
	return list
}

// Only returns what the rules name of a right. It keeps no more of the right's text in memory.
func (n *ScopeNames) Only(r Right) Right {
	named := Right{[]string{}, make(map[string]string), r.RightID}
	for _, campaign := range r.Campaigns {
		if own, ok := n.campaigns[campaign]; ok {
			named.Campaigns = append(named.Campaigns, own)
		}
	}
	for name, value := range r.Labels {
		if own, ok := n.labels[label{name, value}]; ok {
			named.Labels[own.Name] = own.Value
		}
	}
	return named
}

// Add adds the names of other rules. It fails if one can't be read.
func (n *ScopeNames) Add(rules []Rule) error {
	n.Merge(new(ScopeNames))
	matches, err := matchesOf(rules)
	for _, m := range matches {
		if m.Campaign != nil {
			n.campaigns[*m.Campaign] = *m.Campaign
		}
		if m.Label != nil {
			n.labels[*m.Label] = *m.Label
		}
	}
	return err
}

// Merge adds the names of another.
func (n *ScopeNames) Merge(other *ScopeNames) {
	if n.campaigns == nil {
		n.campaigns, n.labels = make(map[string]string), make(map[label]label)
	}
	maps.Copy(n.campaigns, other.campaigns)
	maps.Copy(n.labels, other.labels)
}

// Has reports whether n has all names of another.
func (n *ScopeNames) Has(other *ScopeNames) bool {
	for c := range other.campaigns {
		if _, ok := n.campaigns[c]; !ok {
			return false
		}
	}
	for l := range other.labels {
		if _, ok := n.labels[l]; !ok {
			return false
		}
	}
	return true
}

// CheckRights checks that rights, and the campaigns of each, are in order and not listed twice, and that none of
// them is empty.
func CheckRights(rights []Right) error {
	last := ""
	for _, r := range rights {
		if r.RightID <= last {
			return errors.New("its rights are out of order, listed twice or without an id")
		}
		last = r.RightID
		campaign := ""
		for _, c := range r.Campaigns {
			if c <= campaign {
				return fmt.Errorf("the campaigns of the right %s are out of order, listed twice or empty", r.RightID)
			}
			campaign = c
		}
		if _, ok := r.Labels[""]; ok {
			return fmt.Errorf("a label of the right %s has no name", r.RightID)
		}
	}
	return nil
}

// SameRight reports whether both are the same.
func SameRight(a, b Right) bool {
	return a.RightID == b.RightID && slices.Equal(a.Campaigns, b.Campaigns) && maps.Equal(a.Labels, b.Labels)
}

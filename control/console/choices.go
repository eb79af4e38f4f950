package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"muniment.example/gateway/client"
)

// mostChoices is how many records a choice lists; of more an id can be typed, too.
const mostChoices = 200

// option is a record as people choose it.
type option struct{ ID, Name string }

// records are what the id of a field or a filter is of. A person chooses one by its name, which the id follows.
type records struct {
	several string // what they are called
	op      string // lists them: who may not call it types an id
	newest  func(p *page) (found []option, more bool, err error)
	// name is that of one which the newest lack; empty if it can't be found out. Optional.
	name func(p *page, id string) (string, error)
	// free: any other text may be written, and those that are known are only proposed.
	free bool
}

// choice is what a page has for an id.
type choice struct {
	Options []string // ids
	Names   map[string]string
	Beside  string   // that there are more than these, so an id can be written in a field beside; empty if there are not
	Known   []option // of a free text: what is proposed
	Empty   bool     // there is none to choose
}

// choice is that of a field with a value. It is empty where the session may not list the records, or the tenant has too many requests
// in flight: an id is typed then.
func (p *page) choice(of *records, value string) (c choice, err error) {
	if of.op != "" && !p.can(of.op) {
		return c, nil
	}
	found, more, err := of.newest(p)
	if isBusy(err) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if len(found) > mostChoices {
		found, more = found[:mostChoices], true
	}
	if of.free {
		c.Known = found
		return c, nil
	}
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b option) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	if value != "" && !slices.ContainsFunc(found, func(n option) bool { return n.ID == value }) {
		other := option{value, value}
		if of.name != nil {
			name, err := of.name(p, value)
			if err != nil {
				return c, err
			}
			other.Name = cmp.Or(name, value)
		}
		found = slices.Insert(found, 0, other)
	}
	c.Names = map[string]string{}
	for _, n := range found {
		c.Options = append(c.Options, n.ID)
		c.Names[n.ID] = n.Name
	}
	c.Empty = len(found) == 0 && !more
	if more {
		c.Beside = "These are the newest " + of.several + ". Another one, by its id"
	}
	return c, nil
}

// choose makes the fields for ids those for records by their names.
func (p *page) choose(fields []field) error {
	for i := range fields {
		f := &fields[i]
		if f.Of == nil || f.Kind != "" {
			continue
		}
		c, err := p.choice(f.Of, f.Value)
		if err != nil {
			return err
		}
		f.Options, f.Names, f.Beside, f.Known = c.Options, c.Names, c.Beside, c.Known
		if len(f.Options) > 0 {
			f.Kind = "select"
		}
		if c.Empty {
			f.Hint = strings.TrimSpace("There are no " + f.Of.several + " to choose from yet. " + f.Hint)
		}
	}
	return nil
}

// chooseFilters is choose for the form above a list.
func (p *page) chooseFilters(filters []filter) error {
	for i := range filters {
		f := &filters[i]
		if f.Of == nil {
			continue
		}
		c, err := p.choice(f.Of, f.Value)
		if err != nil {
			return err
		}
		f.Options, f.Names, f.Beside, f.Known = c.Options, c.Names, c.Beside, c.Known
	}
	return nil
}

// last is the last of several values that is not empty: an id that was written beside a choice counts, and not the choice.
func last(values []string) (value string) {
	for _, one := range values {
		value = cmp.Or(strings.TrimSpace(one), value)
	}
	return value
}

// newestOf are the newest records of a list; More is whether there are others.
type newestOf[T any] struct {
	All  []T
	More bool
}

// readNewest reads the newest records of a list once a page, and keeps them. quiet is as of a call.
func readNewest[T any](p *page, kept **newestOf[T], l list[T], quiet bool) (newestOf[T], error) {
	if *kept != nil {
		return **kept, nil
	}
	all, next, err := l.records(p, "", fmt.Sprint(checked), quiet)
	if err != nil {
		return newestOf[T]{}, err
	}
	*kept = &newestOf[T]{All: all, More: next != ""}
	return **kept, nil
}

func (p *page) newestRights() (newestOf[client.Right], error) {
	return readNewest(p, &p.rights, list[client.Right]{op: "list-rights", plural: "rights"}, true)
}

func (p *page) newestBases() (newestOf[client.Basis], error) {
	return readNewest(p, &p.bases, list[client.Basis]{op: "list-bases", plural: "bases"}, true)
}

func (p *page) newestPayees() (newestOf[client.Counterparty], error) {
	return readNewest(p, &p.counterparties, list[client.Counterparty]{op: "list-counterparties", plural: "counterparties"}, false)
}

// choosable is a record as a choice has it: its name, what else tells it apart, its state where that is not the usual one, and its id.
func choosable(name, of, state, id string) string {
	if of != "" {
		name += ": " + of
	}
	if state != "ACTIVE" && state != "" {
		name += ", " + words(state)
	}
	return name + " · " + short(id)
}

// rightChoice is a right as people choose it, with the titles of bases.
func rightChoice(r client.Right, titles map[string]string) option {
	name, of := cmp.Or(workOf(r), titles[r.BasisID]), words(r.Substrate)+" of "+r.HolderOrgID
	if name == "" {
		name, of = of, ""
	}
	return option{r.ID, choosable(name, of, r.EffectiveState, r.ID)}
}

// rightsThat are the rights that fit; nil is all.
func rightsThat(fit func(client.Right) bool) *records {
	return &records{
		several: "rights", op: "list-rights",
		newest: func(p *page) (found []option, more bool, err error) {
			n, err := p.newestRights()
			if err != nil {
				return nil, false, err
			}
			titles, err := p.titlesOf(n.All...)
			for _, r := range n.All {
				if fit == nil || fit(r) {
					found = append(found, rightChoice(r, titles))
				}
			}
			return found, n.More, err
		},
		name: func(p *page, id string) (string, error) {
			r, err := p.oneRight(id)
			if r == nil || err != nil {
				return "", err
			}
			titles, err := p.titlesOf(*r)
			return rightChoice(*r, titles).Name, err
		},
	}
}

var (
	anyRight      = rightsThat(nil)
	derivingRight = rightsThat(func(r client.Right) bool { return derivable(r) == "" })
	ownedRight    = rightsThat(func(r client.Right) bool { return r.State == "ACTIVE" })
)

// oneByID reads a record by its id from an operation that gets one, unless it is among the newest; singular is the member of the
// response that has it. nil if there is none, or the session may not read it.
func oneByID[T any](p *page, newest *newestOf[T], op, singular, id string, is func(T) bool) (*T, error) {
	if newest != nil {
		if i := slices.IndexFunc(newest.All, is); i >= 0 {
			return &newest.All[i], nil
		}
	}
	if !p.can(op) || strings.Trim(id, ".") == "" { // nothing, or a segment of only dots, is no segment
		return nil, nil
	}
	var data map[string]json.RawMessage
	switch err := p.do(call{op: op, params: []string{id}, quiet: true}, &data); {
	case unknown(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	one := new(T)
	return one, json.Unmarshal(data[singular], one)
}

func (p *page) oneRight(id string) (*client.Right, error) {
	return oneByID(p, p.rights, "get-right", "right", id, func(r client.Right) bool { return r.ID == id })
}

func (p *page) oneBasis(id string) (*client.Basis, error) {
	return oneByID(p, p.bases, "get-basis", "basis", id, func(b client.Basis) bool { return b.ID == id })
}

// unknown reports whether an error says that there is no such record, or that a text is no id of one.
func unknown(err error) bool { return err != nil && (absent(err) || wrong(err) != nil || isBusy(err)) }

// basesThat are the bases that fit; nil is all.
func basesThat(fit func(client.Basis) bool) *records {
	name := func(b client.Basis) string {
		return choosable(b.Title, words(b.Kind)+" of "+b.HolderOrgID, b.State, b.ID)
	}
	return &records{
		several: "bases", op: "list-bases",
		newest: func(p *page) (found []option, more bool, err error) {
			n, err := p.newestBases()
			for _, b := range n.All {
				if fit == nil || fit(b) {
					found = append(found, option{b.ID, name(b)})
				}
			}
			return found, n.More, err
		},
		name: func(p *page, id string) (string, error) {
			b, err := p.oneBasis(id)
			if b == nil || err != nil {
				return "", err
			}
			return name(*b), nil
		},
	}
}

var (
	anyBasis    = basesThat(nil)
	activeBasis = basesThat(func(b client.Basis) bool { return b.State == "ACTIVE" })
)

// onePayee is a counterparty.
var onePayee = &records{
	several: "counterparties", op: "list-counterparties",
	newest: func(p *page) (found []option, more bool, err error) {
		n, err := p.newestPayees()
		for _, c := range n.All {
			found = append(found, option{c.ID, choosable(c.Name, "", c.State, c.ID)})
		}
		return found, n.More, err
	},
	name: func(p *page, id string) (string, error) {
		c, err := oneByID(p, p.counterparties, "get-counterparty", "counterparty", id, func(c client.Counterparty) bool { return c.ID == id })
		if c == nil || err != nil {
			return "", err
		}
		return choosable(c.Name, "", c.State, id), nil
	},
}

// oneKey is an API key.
var oneKey = &records{
	several: "keys", op: "list-api-keys",
	newest: func(p *page) (found []option, more bool, err error) {
		all, next, err := keysList(p.s.cfg.Now()).records(p, "", fmt.Sprint(checked), true)
		for _, k := range all {
			found = append(found, option{k.KeyID, choosable(k.Label, "", keyState(k, p.s.cfg.Now()), k.KeyID)})
		}
		return found, next != "", err
	},
}

// organisation is one that records of the tenant name, or any other.
var organisation = &records{several: "organisations", free: true, newest: func(p *page) (found []option, more bool, err error) {
	names := map[string]string{}
	own, err := p.ownOrg()
	if err != nil {
		return nil, false, err
	}
	names[own] = "your organisation"
	note := func(id, name string) {
		if id != "" {
			names[id] = cmp.Or(names[id], name)
		}
	}
	if p.can("list-counterparties") {
		n, err := p.newestPayees()
		if err != nil {
			return nil, false, err
		}
		for _, c := range n.All {
			note(c.OrgID, c.Name)
		}
	}
	if p.can("list-bases") {
		n, err := p.newestBases()
		if err != nil {
			return nil, false, err
		}
		for _, b := range n.All {
			note(b.HolderOrgID, "")
		}
	}
	if p.can("list-rights") {
		n, err := p.newestRights()
		if err != nil {
			return nil, false, err
		}
		for _, r := range n.All {
			note(r.HolderOrgID, "")
		}
	}
	for id, name := range names {
		if id != "" {
			found = append(found, option{id, name})
		}
	}
	slices.SortFunc(found, func(a, b option) int { return strings.Compare(a.ID, b.ID) })
	return found, false, nil
}}

// campaign is one that the scope of a right lists, or any other.
var campaign = &records{several: "campaigns", op: "list-rights", free: true, newest: func(p *page) (found []option, more bool, err error) {
	n, err := p.newestRights()
	seen := map[string]bool{}
	for _, r := range n.All {
		var scope struct{ Campaigns []string }
		if json.Unmarshal(r.Scope, &scope) != nil {
			continue
		}
		for _, name := range scope.Campaigns {
			if !seen[name] && name != "" {
				seen[name] = true
				found = append(found, option{ID: name})
			}
		}
	}
	slices.SortFunc(found, func(a, b option) int { return strings.Compare(a.ID, b.ID) })
	return found, false, err
}}

package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"muniment.example/gate"
	"muniment.example/gateway/client"
)

// listed is a page with a list: its filters, and what to do while it is empty.
type listed struct {
	Lead    string
	Path    string
	Filters []filter
	Any     bool   // a filter is set
	Said    string // how much was found of what was asked for
	None    string // that nothing was found of it
	Table   table
	Empty   string // what to do next
	New     []task // acts that the session may do
	Problem *problem
}

// filter is a field of the form above a list.
type filter struct {
	Name, Label, Value, Example string
	Kind                        string // of the field: date, month or time; default: text
	Plain                       bool   // of a time: Value is none that a browser's own field can have
	Options                     []string
	Names                       map[string]string // of Options, for people; default: their words
	Of                          *records          // what its text is the id of, as of a field
	Beside                      string            // as of a field
	Known                       []option          // as of a field
}

// showList renders the page of a list. new are acts that the page offers.
func showList[T any](p *page, l list[T], page listed, filters ...filter) error {
	chosen := p.filters(namesOf(filters)...)
	l.query = chosen
	t, err := l.table(p, chosen)
	if page.Problem = wrong(err); err != nil && page.Problem == nil {
		return err
	}
	if page.Problem != nil {
		p.answers(page.Problem)
	}
	page.Table = t
	return p.renderList(page, filters)
}

func namesOf(filters []filter) []string {
	names := make([]string, len(filters))
	for i, f := range filters {
		names[i] = f.Name
	}
	return names
}

// renderList renders the page of a list with its filters, as the address has them.
func (p *page) renderList(page listed, filters []filter) error {
	chosen := p.filters(namesOf(filters)...)
	for i := range filters {
		filters[i].Value = chosen.Get(filters[i].Name)
	}
	if err := p.chooseFilters(filters); err != nil {
		return err
	}
	page.Path, page.Filters, page.Any = p.Path, filters, len(chosen) > 0
	p.render("list", page)
	return nil
}

// offer is an act that a page leads to, if the session may do it.
func (p *page) offer(op, text, path string) []task {
	if !p.can(op) {
		return nil
	}
	return []task{{Text: text, Href: Path + path}}
}

var rightFilters = []filter{
	{Name: "state", Label: "State", Options: []string{"ACTIVE", "SUSPENDED", "REVOKED"}},
	{Name: "substrate", Label: "Medium", Options: substrates()},
	{Name: "basisId", Label: "Basis", Of: anyBasis, Example: "bas_…"},
	{Name: "parentRightId", Label: "Derived from", Of: anyRight, Example: "rgh_…"},
}

// substrates are the names of the media.
func substrates() []string {
	var names []string
	for _, s := range gate.NewCatalogue().Substrates {
		names = append(names, fmt.Sprint(s.Substrate))
	}
	return names
}

func rightsList(query url.Values, titles map[string]string, names works) list[client.Right] {
	return list[client.Right]{
		op: "list-rights", query: query, plural: "rights",
		columns: []string{"Right", "In force", "Until", "From", "Medium", "Scope", "Holder", "Basis", "Derived from", "Id"},
		row: func(r client.Right) []cell {
			return []cell{
				{Text: cmp.Or(workOf(r), titles[r.BasisID], words(r.Substrate)+" of "+r.HolderOrgID), Href: Path + "/rights/" + url.PathEscape(r.ID)}, state(r.EffectiveState), ends(r.EffectiveUntil), begins(r.EffectiveFrom),
				text(words(r.Substrate)), text(scopeText(r.Scope)), text(r.HolderOrgID), link(cmp.Or(titles[r.BasisID], short(r.BasisID)), r.BasisID, "/bases"), names.cell(r.ParentRightID), reference(r.ID),
			}
		},
	}
}

// scopeText is a scope for people.
func scopeText(scope json.RawMessage) string {
	var parts []string
	for name, value := range scopeParts(scope) {
		parts = append(parts, name+": "+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, " · ")
}

// scopeParts are the members of a scope for people, by their names; each label by itself.
func scopeParts(scope json.RawMessage) map[string]string {
	var members map[string]any
	if json.Unmarshal(scope, &members) != nil {
		return nil
	}
	parts := map[string]string{}
	for name, value := range members {
		switch v := value.(type) {
		case []any:
			var all []string
			for _, one := range v {
				all = append(all, fmt.Sprint(one))
			}
			if len(all) > 0 {
				parts[name] = strings.Join(all, ", ")
			}
		case map[string]any:
			for label, one := range v {
				parts[name+" "+label] = fmt.Sprint(one)
			}
		case nil:
		default:
			parts[name] = fmt.Sprint(v)
		}
	}
	return parts
}

func showRights(p *page) error {
	p.show("Rights", "Rights")
	titles, err := p.readTitles()
	if err != nil {
		return err
	}
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	filters := append([]filter{endsFilter(p)}, rightFilters...)
	page := listed{
		Lead:  "A right says who may deliver what, where and until when. It rests on a legal basis, or derives from another right.",
		Empty: "No right is there yet. Register the legal basis first, then issue a right on it.",
	}
	issue := slices.Concat(p.offer("issue-right", "New right", "/rights/new"), p.offer("create-basis", "New basis", "/bases/new"))
	if asked := p.filters("ends"); len(asked) > 0 {
		page.New = append(issue, p.offer("list-bases", "Bases that end then", addressed("/bases", asked))...)
		return endingRights(titles, names).show(p, page, "right", "rights", filters)
	}
	page.New = append(issue, p.offer("list-bases", "Bases", "/bases")...)
	return showList(p, rightsList(nil, titles, names), page, filters...)
}

func sendRights(p *page) error {
	filters := namesOf(rightFilters)
	if len(p.filters("ends")) > 0 {
		return endingRights(nil, nil).send(p, "rights", filters...)
	}
	return rightsList(p.filters(filters...), nil, nil).csv(p, "rights")
}

func basesList() list[client.Basis] {
	return list[client.Basis]{
		op: "list-bases", plural: "bases", columns: []string{"Title", "State", "Until", "From", "Kind", "Holder", "Where", "Id"},
		row: func(b client.Basis) []cell {
			return []cell{{Text: b.Title, Href: Path + "/bases/" + url.PathEscape(b.ID)}, state(b.State), ends(b.EffectiveUntil), begins(b.EffectiveFrom), text(words(b.Kind)), text(b.HolderOrgID), text(b.Jurisdiction), reference(b.ID)}
		},
	}
}

func showBases(p *page) error {
	p.show("Rights", "Legal bases")
	filters := []filter{endsFilter(p)}
	page := listed{
		Lead: "Why you may deliver at all: a licence, a consent, a contract, a statute. When a basis ends, all rights on it end with it.", Empty: "No basis is there yet. It comes first: a right rests on it.",
	}
	if asked := p.filters("ends"); len(asked) > 0 {
		page.New = append(p.offer("create-basis", "New basis", "/bases/new"), p.offer("list-rights", "Rights that end then", addressed("/rights", asked))...)
		return endingBases().show(p, page, "basis", "bases", filters)
	}
	page.New = append(p.offer("create-basis", "New basis", "/bases/new"), p.offer("list-rights", "Rights", "/rights")...)
	return showList(p, basesList(), page, filters...)
}

func sendBases(p *page) error {
	if len(p.filters("ends")) > 0 {
		return endingBases().send(p, "bases")
	}
	return basesList().csv(p, "bases")
}

// basisPage is a basis with its rights.
type basisPage struct {
	Basis  client.Basis
	Rights []client.Right
	More   bool
}

func showBasis(p *page) error {
	p.show("Rights", "Legal basis")
	var b basisPage
	var data struct{ Basis client.Basis }
	if err := p.get(&data, "get-basis", nil, p.r.PathValue("basisId")); err != nil {
		return err
	}
	b.Basis = data.Basis
	var rights struct {
		Rights     []client.Right
		NextCursor string
	}
	if err := p.get(&rights, "list-rights", url.Values{"basisId": {b.Basis.ID}, "limit": {"100"}}); err != nil {
		return err
	}
	b.Rights, b.More = rights.Rights, rights.NextCursor != ""
	p.render("basis", b)
	return nil
}

// rightPage is a right in its family, and its history.
type rightPage struct {
	client.Right
	Basis       client.Basis
	Tree        *branch
	History     []change
	Propagation client.Propagation
	Plays       *client.MeteringTotals // of the last 24 hours
	PlaysBusy   bool                   // the tenant has too many requests in flight to show them
	Month       time.Time              // the first moment of this month; zero if the session may not read money
	Earned      []client.SettlementTotal
	EarnedLater bool // it takes longer than the page waits
	EarnedBusy  bool
	Offers      []client.Offer
	Challenges  []client.Challenge
	ScopeText   string
	Called      string
	Buttons     []button
}

// branch is a right in the tree.
type branch struct {
	client.Right
	Called   string // what it is for, if it says so
	Lasts    string
	Here     bool
	Children []*branch
	More     bool // there are more children
}

// change is an event about a right.
type change struct {
	At     time.Time
	Type   string
	By     cell
	Reason string
}

func showRight(p *page) error {
	p.show("Rights", "Right")
	rightID := p.r.PathValue("rightId")
	var r rightPage
	var family client.Provenance
	if err := p.get(&family, "get-right-provenance", nil, rightID); err != nil {
		return err
	}
	r.Right, r.Basis = family.Lineage[len(family.Lineage)-1], family.Basis
	r.ScopeText, r.Called = scopeText(r.Scope), cmp.Or(workOf(r.Right), r.Basis.Title)
	r.Tree = treeOf(p.zone(), family)
	if err := p.get(&struct {
		Propagation *client.Propagation `json:"propagation"`
	}{&r.Propagation}, "get-right-propagation", nil, rightID); err != nil {
		return err
	}
	reads := []func() error{}
	if p.can("list-events") {
		reads = append(reads, func() error { return r.readHistory(p) })
	}
	if p.can("get-metering") {
		reads = append(reads, p.panel(&r.PlaysBusy, func() error {
			var m client.Metering
			err := p.get(&m, "get-metering", url.Values{"rightId": {rightID}, "from": {stamp(p.s.cfg.Now().Truncate(time.Hour).Add(-24 * time.Hour))}, "limit": {"1"}})
			if err == nil {
				r.Plays = &m.Totals
			}
			return err
		}))
	}
	if p.can("get-settlement") {
		r.Month = p.zone().month(p.s.cfg.Now())
		reads = append(reads, p.panel(&r.EarnedBusy, func() (err error) {
			var s client.Settlement
			r.EarnedLater, err = p.waited(func(ctx context.Context) error {
				return p.do(call{op: "get-settlement", query: url.Values{"from": {stamp(r.Month)}, "rightId": {rightID}, "limit": {"1"}}, ctx: ctx}, &s)
			})
			r.Earned = earned(s.Totals)
			return err
		}))
	}
	if p.can("list-offers") {
		reads = append(reads, func() error {
			return p.get(&struct {
				Offers *[]client.Offer `json:"offers"`
			}{&r.Offers}, "list-offers", url.Values{"rightId": {rightID}, "limit": {"20"}})
		})
	}
	if p.can("list-challenges") {
		reads = append(reads, func() error {
			return p.get(&struct {
				Challenges *[]client.Challenge `json:"challenges"`
			}{&r.Challenges}, "list-challenges", url.Values{"rightId": {rightID}, "limit": {"20"}})
		})
	}
	if err := calling(p.r.Context(), reads...); err != nil {
		return err
	}
	r.Buttons = p.Acts(r.Right, r.ID)
	if derivable(r.Right) == "" {
		for _, on := range []struct {
			op, text, path string
			query          url.Values
		}{
			{"issue-right", "Derive a right…", "/rights/new", url.Values{"basisId": {r.BasisID}, "parentRightId": {r.ID}, "substrate": {r.Substrate}}},
			{"propose-offer", "Offer a part of it…", "/offers/new", url.Values{"rightId": {r.ID}}},
		} {
			if p.can(on.op) {
				r.Buttons = append(r.Buttons, button{Text: on.text, Href: addressed(Path+on.path, on.query)})
			}
		}
	}
	p.render("right", r)
	return nil
}

func (z zone) branch(r client.Right) *branch {
	return &branch{Right: r, Called: workOf(r), Lasts: z.lasts(r.EffectiveFrom, r.EffectiveUntil)}
}

// treeOf is the line from the root to the right, with what derives from it.
func treeOf(z zone, family client.Provenance) *branch {
	var root, at *branch
	for _, r := range family.Lineage {
		next := z.branch(r)
		if at == nil {
			root = next
		} else {
			at.Children = []*branch{next}
		}
		at = next
	}
	at.Here = true
	for _, r := range family.Derived {
		at.Children = append(at.Children, z.branch(r))
	}
	at.More = len(family.Derived) == 500
	return root
}

// actsOn are what was done to a right, the newest first.
func actsOn(rightID string) list[actOnRight] {
	return list[actOnRight]{
		op: "list-events", query: historyOf(rightID), plural: "events", columns: []string{"At", "Done", "By", "Name", "Reason", "Event"},
		row: func(e actOnRight) []cell {
			return []cell{moment(e.Event.At), text(strings.TrimPrefix(e.Event.Type, "right.")), text(e.Event.Actor.ID), {Text: "", actor: e.Event.Actor.ID}, text(e.Event.Data.StateReason), text(e.Event.EventID)}
		},
	}
}

func sendActsOn(p *page) error {
	rightID := p.r.PathValue("rightId")
	var data struct{}
	if err := p.get(&data, "get-right", nil, rightID); err != nil { // events of a right of nobody are none, and no 404
		return err
	}
	return actsOn(rightID).csv(p, "acts-"+rightID)
}

// actOnRight is an event that says who did what to a right.
type actOnRight struct {
	Event struct {
		EventID string
		At      time.Time
		Type    string
		Actor   struct{ Kind, ID string }
		Data    struct{ StateReason string }
	}
}

func historyOf(rightID string) url.Values {
	return url.Values{"subjectKind": {"right"}, "subjectId": {rightID}, "type": {"right.issued", "right.suspended", "right.resumed", "right.revoked"}}
}

// readHistory reads the changes of a right, the newest first.
func (r *rightPage) readHistory(p *page) error {
	var data struct{ Events []actOnRight }
	query := historyOf(r.ID)
	query.Set("limit", "50")
	if err := p.get(&data, "list-events", query); err != nil {
		return err
	}
	for _, e := range data.Events {
		r.History = append(r.History, change{e.Event.At, strings.TrimPrefix(e.Event.Type, "right."), p.shown(actor(e.Event.Actor.ID)), e.Event.Data.StateReason})
	}
	return nil
}

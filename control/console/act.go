package console

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/gateway/api"
)

// act is something that a person can change: a page that says what will happen, with a form, and the
// POST of the form. Both need the scopes of the operation; without them no page links here.
type act struct {
	path    string // with the parameters of the operation's path, in their order, unless within says which they are
	op      string
	section string
	title   string
	submit  string // the word on the button
	danger  bool   // it can't be undone
	// button is the word of the link to it on the page of its record; empty: that page has none. main is the one that
	// people look for there.
	button string
	main   bool
	// on says why it can't be done now on its record, by the record's state; empty if it can. It is the only place that
	// knows: the button is shown by it, and the act's page says it. ours is whether record is one of its kind. Optional.
	on func(p *page, record any) (why string, ours bool)
	// fields of the form. Optional.
	fields func(p *page) ([]field, error)
	// consequences says what will happen, from what is there now. Optional.
	consequences func(p *page, params []string) (consequences, error)
	// filled are the fields that the address may fill in. Anyone can have a person open an address, so it may say what the
	// act is about, but nothing that decides where data or money goes or what somebody may do. What a record of the tenant fills in, as
	// the rule that another is to be like, is not the address's.
	filled []string
	// body makes the operation's body of what the fields say. Default: a member for each field that is
	// not empty; none if there are no fields.
	body func(p *page, members map[string]any) (any, error)
	// try shows what would come of it, for the button of that name, and changes nothing. Optional.
	try     func(p *page, body any) (trial, error)
	tryText string
	// bounds says what limits the fields of a form, by what they have now; nil for nothing. Optional.
	bounds func(p *page, fields []field) (*bounds, error)
	// within returns the parameters of the operation's path, of those of path. Default: all.
	within func(params []string) []string
	// after leads on, once the operation has succeeded. response is its data.
	after func(p *page, params []string, response json.RawMessage) error
}

// consequences are what an act will do.
type consequences struct {
	Lead  string   // what it is about
	Lines []string // what follows
	Back  string   // the page to go back to
	Stop  string   // why it can't be done now; empty if it can

	// Of an act that stops a right: what falls with it, and its worth; nil if the session may not read money. If says on which
	// condition it does; empty if it always does.
	If    string
	Falls []fallen
	Worth *worth

	record any // that on looks at; nil if the session may not read it
}

// states is on for acts that records in some states allow.
func states[T any](noun string, stateOf func(T) string, all ...string) func(*page, any) (string, bool) {
	return where(func(_ *page, record T) string {
		now := stateOf(record)
		if slices.Contains(all, now) {
			return ""
		}
		return fmt.Sprintf("The %s is %s: this is for one that is %s.", noun, words(now), words(strings.Join(all, " or ")))
	})
}

// where is on for acts whose record says by more than its state whether they can be done.
func where[T any](why func(*page, T) string) func(*page, any) (string, bool) {
	return func(p *page, record any) (string, bool) {
		r, ours := record.(T)
		if !ours {
			return "", false
		}
		return why(p, r), true
	}
}

// button leads to an act.
type button struct {
	Text, Href string
	Main       bool
}

// Acts are the buttons of the page of a record: the acts on it that the session may do, and that its state allows, the one that
// people look for first. params are those of their paths.
func (p *page) Acts(record any, params ...string) []button {
	var all []button
	for _, a := range acts() {
		if a.button == "" || a.on == nil || !p.can(a.op) {
			continue
		}
		if why, ours := a.on(p, record); !ours || why != "" {
			continue
		}
		all = append(all, button{a.button, a.at(params), a.main})
	}
	slices.SortStableFunc(all, func(a, b button) int {
		switch {
		case a.Main == b.Main:
			return 0
		case a.Main:
			return -1
		}
		return 1
	})
	return all
}

// at is the address of the act with the parameters of its path.
func (a *act) at(params []string) string {
	path := a.path
	for _, value := range params {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(value) + after
	}
	return Path + path
}

// trial is what would come of an act.
type trial struct {
	Lead    string
	Lines   []string
	Nothing bool // it has no effect
}

// field is a field of a form. Its kind is one of text, area, select, list (a line for each value), choices
// (any number of Options), json, number, hours (of which the operation takes the seconds), decimal, money, bool, secret, time (of the page's zone), date, month or hidden.
type field struct {
	Name, Label, Kind, Value, Hint, Example string
	Of                                      *records // what its text is the id of: a choice by name is made of it, where that can be
	Beside                                  string   // of a choice: that there are others, whose ids a field beside it takes
	Known                                   []option // of a text: what is proposed
	Limit                                   string   // what it may not exceed
	Limits                                  bool     // it says by what other fields are limited
	Options                                 []string
	Names                                   map[string]string // of Options, for people; default: themselves
	Chosen                                  []string          // of choices
	Required                                bool
	Fault                                   string
	More                                    bool // few need it: it is folded away while it is empty
	Plain                                   bool // of a time: Value is none that a browser's own field can have
}

// form is what the page of an act shows.
type form struct {
	consequences
	Title, Submit, Action string
	Danger                bool
	Once                  string // that only this form has
	Fields                []field
	Problem               *problem
	Try                   string
	Trial                 *trial
	Bounded               *bounds // what limits its fields now; nil for nothing
	Faulty                []field // those in which something is wrong
}

// More reports whether fields are folded away, and Opened whether one of them has something.
func (f form) More() bool {
	return slices.ContainsFunc(f.Fields, func(one field) bool { return one.More })
}

// Limits reports whether a field says by what others are limited: a button shows by what.
func (f form) Limits() bool {
	return slices.ContainsFunc(f.Fields, func(one field) bool { return one.Limits })
}

// Opened belongs to More.
func (f form) Opened() bool {
	return slices.ContainsFunc(f.Fields, func(one field) bool { return one.More && (one.Value != "" || one.Fault != "") })
}

// said is what is wrong, with what can be chosen in the form as people see it there.
func (f form) said(fault string) string {
	for _, one := range f.Fields {
		for _, option := range one.Options {
			if coded.MatchString(option) {
				fault = strings.ReplaceAll(fault, option, "“"+cmp.Or(one.Names[option], words(option))+"”")
			}
		}
	}
	return fault
}

// params are the values of the path's parameters, in their order.
func (a *act) params(p *page) []string {
	var values []string
	for part := range strings.SplitSeq(a.path, "/") {
		if name, found := strings.CutPrefix(part, "{"); found {
			values = append(values, p.r.PathValue(strings.TrimSuffix(name, "}")))
		}
	}
	return values
}

// form is the form as it is before anything was sent.
func (a *act) form(p *page) (form, error) {
	p.show(a.section, a.title)
	if err := p.missing(a.op); err != nil {
		return form{}, err
	}
	f := form{Title: a.title, Submit: a.submit, Danger: a.danger, Action: p.Path, Once: rand.Text(), Try: a.tryText}
	var err error
	if a.fields != nil {
		if f.Fields, err = a.fields(p); err != nil {
			return form{}, err
		}
		for i := range f.Fields {
			field := &f.Fields[i]
			if asked := p.r.URL.Query().Get(field.Name); asked != "" && slices.Contains(a.filled, field.Name) {
				field.Value = asked
			}
		}
	}
	if a.consequences != nil {
		if f.consequences, err = a.consequences(p, a.params(p)); err != nil {
			return form{}, err
		}
		if !p.may(f.Back) {
			f.Back = Path
		}
		if f.Stop == "" && a.on != nil && f.record != nil {
			f.Stop, _ = a.on(p, f.record)
		}
	}
	return f, nil
}

// showAct is the page of an act.
func showAct(a *act) handler {
	return func(p *page) error {
		f, err := a.form(p)
		if err == nil && p.s.operations()[a.op].confirms {
			if unconfirmed := confirmed(p); unconfirmed != nil {
				return p.again(unconfirmed)
			}
		}
		if err != nil {
			return err
		}
		return a.render(p, f)
	}
}

// render renders the form: with choices by name, and with what limits its fields.
func (a *act) render(p *page, f form) error {
	if a.bounds != nil {
		var err error
		if f.Bounded, err = a.bounds(p, f.Fields); err != nil {
			return err
		}
	}
	f.Bounded.fix(p, f.Fields)
	if err := p.choose(f.Fields); err != nil {
		return err
	}
	f.Bounded.tell(p.zone(), f.Fields)
	p.render("form", f)
	return nil
}

// doAct does it. What the operation refuses is said beside the form, which keeps what was written.
func doAct(a *act) handler {
	return func(p *page) error {
		params := a.params(p)
		if err := p.missing(a.op); err != nil {
			return err
		}
		if p.s.operations()[a.op].confirms {
			if unconfirmed := confirmed(p); unconfirmed != nil {
				return p.again(unconfirmed)
			}
		}
		p.show(a.section, a.title)
		if a.bounds != nil && p.value("limits") != "" {
			f, err := a.form(p)
			if err != nil {
				return err
			}
			return a.again(p, f)
		}
		members, err := a.read(p)
		var body any
		if err == nil {
			switch {
			case a.body != nil:
				body, err = a.body(p, members)
			case a.fields != nil:
				body = members
			}
		}
		if err == nil && a.try != nil && p.value("try") != "" {
			return a.show(p, body)
		}
		var response json.RawMessage
		operands := params
		if a.within != nil {
			operands = a.within(params)
		}
		if err == nil {
			err = p.do(call{op: a.op, params: operands, body: body, once: p.value("once")}, &response)
		}
		if err == nil {
			return a.after(p, params, response)
		}
		e := asProblem(err)
		if e == nil || e.Status >= http.StatusInternalServerError || e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized || e.Status == http.StatusNotFound && len(params) > 0 && a.fields == nil {
			return err
		}
		return a.refused(p, e)
	}
}

// refused shows the form again, with what is wrong.
func (a *act) refused(p *page, e *problem) error {
	f, err := a.form(p)
	if err != nil {
		return e // what the act is about can't be shown; why it failed can
	}
	f.Problem = e
	p.answers(e)
	switch e.Message {
	case api.ErrKeyBusy.Message: // only with the same value will it not be done twice
		f.Once, e.Message = p.value("once"), "this was sent before, and is still being done: send it again in a moment"
	case api.ErrKeyReused.Message:
		e.Message = "this form was sent before, with other values, and that was done: look at the list, and send it again if you want both"
	}
	for i := range f.Fields {
		if f.Fields[i].keep(p.r.PostForm, e); f.Fields[i].Fault != "" {
			f.Faulty = append(f.Faulty, f.Fields[i])
		}
	}
	for i := range f.Fields {
		f.Fields[i].Fault = f.said(f.Fields[i].Fault)
	}
	if e.Code == api.ValidationFailed { // each fault is said once, beside its field
		e.Message = "this can't be sent yet"
	}
	return a.render(p, f)
}

// show shows the form with what would come of it.
func (a *act) show(p *page, body any) error {
	made, err := a.try(p, body)
	if e := wrong(err); e != nil {
		return a.refused(p, e)
	}
	if err != nil {
		return err
	}
	f, err := a.form(p)
	if err != nil {
		return err
	}
	f.Trial = &made
	return a.again(p, f)
}

// again renders the form with what was written.
func (a *act) again(p *page, f form) error {
	for i := range f.Fields {
		f.Fields[i].keep(p.r.PostForm, &problem{})
	}
	return a.render(p, f)
}

// keep sets what was written, and what is wrong with it.
func (f *field) keep(sent url.Values, e *problem) {
	if f.Kind == "choices" {
		f.Chosen = sent[f.Name]
	} else {
		f.Value = last(sent[f.Name])
	}
	if f.Kind == "secret" {
		f.Value = ""
	}
	e.ValidationErrors = slices.DeleteFunc(e.ValidationErrors, func(v api.ValidationError) bool {
		if !f.has(v.Field) {
			return false
		}
		f.Fault = v.Message
		return true
	})
}

// has reports whether a member of the operation's body is what the field says, or a part of it: tiers has tiers[0].price, and
// campaign has match.campaign.
func (f *field) has(member string) bool {
	of := func(member string) bool {
		rest, found := strings.CutPrefix(member, f.Name)
		return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	group, within, _ := strings.Cut(member, ".")
	return of(member) || !strings.Contains(group, "[") && of(within)
}

// read makes members of the fields that are not empty.
func (a *act) read(p *page) (map[string]any, error) {
	members := map[string]any{}
	if a.fields == nil {
		return members, nil
	}
	fields, err := a.fields(p)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		value := p.value(f.Name)
		if f.Kind == "choices" {
			if chosen := p.r.PostForm[f.Name]; len(chosen) > 0 {
				members[f.Name] = chosen
			}
			continue
		}
		if value == "" {
			if f.Required && (f.Kind == "select" || f.Of != nil && !f.Of.free) { // a browser sends none of a choice that was not made
				return nil, invalid(f.Name, "is missing: choose one")
			}
			continue
		}
		switch f.Kind {
		case "number":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, invalid(f.Name, "must be a whole number")
			}
			members[f.Name] = n
		case "hours":
			hours, err := strconv.ParseFloat(strings.Replace(value, ",", ".", 1), 64)
			if err != nil || !(hours >= 0 && hours <= 1e6) { // nor NaN
				return nil, invalid(f.Name, "must be a number of hours, such as 24 or 0.5")
			}
			members[f.Name] = int64(math.Round(hours * 3600))
		case "percent":
			bps, ok := basisPoints(value)
			if !ok {
				return nil, invalid(f.Name, "must be "+perCent+", such as 19 or 7.7")
			}
			members[f.Name] = bps
		case "decimal", "money":
			if members[f.Name], err = decimal(f.Name, value, f.Kind == "money"); err != nil {
				return nil, err
			}
		case "bool":
			members[f.Name] = value == "yes"
		case "json":
			if !json.Valid([]byte(value)) {
				return nil, invalid(f.Name, "must be JSON, such as {\"regions\":[\"DE\"]}")
			}
			members[f.Name] = json.RawMessage(value)
		case "list":
			members[f.Name] = strings.Fields(value)
		case "time":
			t, why := p.zone().read(value)
			if why != "" {
				return nil, invalid(f.Name, why)
			}
			members[f.Name] = stamp(t)
		case "date":
			if _, err := time.Parse(time.DateOnly, value); err != nil {
				return nil, invalid(f.Name, "is no day: write it as 2026-12-31")
			}
			members[f.Name] = value
		case "month":
			if _, err := time.Parse("2006-01", value); err != nil {
				return nil, invalid(f.Name, "is no month: write it as 2026-10")
			}
			members[f.Name] = value
		default:
			members[f.Name] = value
		}
	}
	return members, nil
}

var (
	decimals = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
	// grouped may be a whole number whose thousands are apart, or one with three digits behind the point.
	grouped = regexp.MustCompile(`^(-?[1-9][0-9]{0,2})([.,])([0-9]{3})$`)
)

// decimal is a number as the API takes it, of one with a decimal point or comma. What can be read in two ways is refused:
// 1,000, and of an amount of money, which has no three digits behind the point, 1.000.
func decimal(field, value string, money bool) (string, error) {
	if parts := grouped.FindStringSubmatch(value); parts != nil && (money || parts[2] == ",") {
		return "", invalid(field, fmt.Sprintf("can be read in two ways: write %s%s, or %s", parts[1], parts[3], sure(parts[1]+"."+parts[3])))
	}
	if written := strings.Replace(value, ",", ".", 1); decimals.MatchString(written) {
		return written, nil
	}
	return "", invalid(field, "is no number: write it as 4.28, without a currency and without separators of thousands")
}

// sure is a decimal with a point, as a field of money takes it: not with three digits behind the point.
func sure(value string) string {
	if !grouped.MatchString(value) {
		return value
	}
	short := strings.TrimRight(value, "0")
	if short == value || strings.HasSuffix(short, ".") {
		return short + "0"
	}
	return short
}

// goTo leads on to the page of a record that the response holds under a noun.
func goTo(under, noun, deed string) func(*page, []string, json.RawMessage) error {
	return func(p *page, _ []string, response json.RawMessage) error {
		var data map[string]json.RawMessage
		var record struct{ ID, KeyID string }
		if err := json.Unmarshal(response, &data); err != nil {
			return err
		}
		if err := json.Unmarshal(data[noun], &record); err != nil {
			return err
		}
		p.done(Path+under+"/"+url.PathEscape(record.ID+record.KeyID), deed)
		return nil
	}
}

// goBack leads on to the page of the record that the act is about.
func goBack(under, deed string) func(*page, []string, json.RawMessage) error {
	return func(p *page, params []string, _ json.RawMessage) error {
		p.done(Path+under+"/"+url.PathEscape(params[0]), deed)
		return nil
	}
}

// reason is the field of the acts that take one.
func reason(hint string) func(*page) ([]field, error) {
	return func(*page) ([]field, error) {
		return []field{{Name: "reason", Label: "Reason", Kind: "area", Hint: hint}}, nil
	}
}

const permanent = "Kept permanently in the audit log: no place for personal data."

// fixed are fields that need nothing else.
func fixed(fields ...field) func(*page) ([]field, error) {
	return func(*page) ([]field, error) { return slices.Clone(fields), nil }
}

package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"muniment.example/gateway/client"
)

// bounds are what a new right may not exceed: the limits of the right that it derives from, or those of its basis.
type bounds struct {
	Whose       string // in a sentence
	Named       cell   // the right or the basis
	right       *client.Right
	from, until time.Time
	scope       map[string]json.RawMessage
}

// boundsOfRight are those of what derives from a right; nil if there is none with the id, or the session may not read it.
func (p *page) boundsOfRight(id string) (*bounds, error) {
	r, err := p.oneRight(id)
	if r == nil || err != nil {
		return nil, err
	}
	titles, err := p.titlesOf(*r)
	if err != nil {
		return nil, err
	}
	b := &bounds{Whose: "the right", right: r, from: r.EffectiveFrom, until: r.EffectiveUntil, scope: map[string]json.RawMessage{}}
	b.Named = p.Link("/rights", r.ID, cmp.Or(workOf(*r), titles[r.BasisID], words(r.Substrate)+" of "+r.HolderOrgID))
	b.Named.Note = short(r.ID)
	_ = json.Unmarshal(r.Scope, &b.scope) // the service has made it
	return b, nil
}

// boundsOfBasis are those of a right on a basis.
func (p *page) boundsOfBasis(id string) (*bounds, error) {
	b, err := p.oneBasis(id)
	if b == nil || err != nil {
		return nil, err
	}
	made := &bounds{Whose: "the basis", from: b.EffectiveFrom, until: b.EffectiveUntil, Named: p.Link("/bases", b.ID, b.Title)}
	made.Named.Note = short(b.ID)
	return made, nil
}

// valueOf is what a field of a form has.
func valueOf(fields []field, name string) string {
	if i := slices.IndexFunc(fields, func(f field) bool { return f.Name == name }); i >= 0 {
		return fields[i].Value
	}
	return ""
}

// ofParent are the bounds of a new right: those of its parent, or of its basis if it has none.
func ofParent(p *page, fields []field) (*bounds, error) {
	b, err := p.boundsOfRight(valueOf(fields, "parentRightId"))
	if b != nil || err != nil {
		return b, err
	}
	return p.boundsOfBasis(valueOf(fields, "basisId"))
}

// ofOffered are the bounds of an offer: those of the right of which it offers a part.
func ofOffered(p *page, fields []field) (*bounds, error) {
	return p.boundsOfRight(valueOf(fields, "rightId"))
}

// ofCountered are the bounds of a counter-offer.
func ofCountered(p *page, _ []field) (*bounds, error) {
	if !p.can("get-offer") {
		return nil, nil
	}
	var data struct{ Offer client.Offer }
	if err := p.get(&data, "get-offer", nil, p.r.PathValue("offerId")); err != nil {
		return nil, err
	}
	return p.boundsOfRight(data.Offer.RightID)
}

// fix sets the fields that have only one value within the bounds, and a beginning that nobody has written yet. Without bounds it does
// nothing.
func (b *bounds) fix(p *page, fields []field) {
	if b == nil {
		return
	}
	for i := range fields {
		switch f := &fields[i]; f.Name {
		case "effectiveFrom":
			if t, why := p.zone().read(f.Value); p.r.Method == http.MethodGet && why == "" && t.Before(b.from) {
				f.Value = p.zone().field(b.from)
			}
		case "basisId":
			if b.right != nil {
				f.Value = b.right.BasisID
			}
		case "substrate":
			if b.right != nil && b.right.Substrate != "ANY" && len(f.Options) > 0 {
				f.Options, f.Value = []string{b.right.Substrate}, b.right.Substrate
			}
		}
	}
}

// tell says beside each field what it may not exceed, and leaves no other basis to choose than that of the right.
func (b *bounds) tell(z zone, fields []field) {
	if b == nil {
		return
	}
	for i := range fields {
		f := &fields[i]
		if f.Limit = b.limit(z, f.Name); f.Limit != "" && b.right != nil {
			f.Hint = withinRight(f.Name, f.Hint)
		}
		if f.Name == "basisId" && b.right != nil && f.Kind == "select" {
			f.Options, f.Beside = []string{b.right.BasisID}, ""
		}
	}
}

// withinRight is the hint of a field whose limit is said, without what is so for a right that derives from none.
func withinRight(name, hint string) string {
	switch name {
	case "basisId":
		return ""
	case "effectiveUntil":
		return "With the right, unless you name an earlier time."
	}
	if rest, none := strings.CutPrefix(hint, "None: "); none {
		_, hint, _ = strings.Cut(rest, ". ")
	}
	return hint
}

// limit is what the field of a name may not exceed, in a sentence; empty for nothing.
func (b *bounds) limit(z zone, name string) string {
	whose := b.subject()
	switch name {
	case "effectiveFrom":
		if b.from.IsZero() {
			return ""
		}
		return "Not before " + b.Whose + " begins: " + z.begin(b.from) + "."
	case "effectiveUntil":
		if b.until.IsZero() {
			return whose + " has no end."
		}
		said := "Not after " + b.Whose + " ends: " + z.end(b.until)
		if z.beginsDay(b.until) {
			said += ", which is " + z.minute(b.until) + " in this field"
		}
		return said + "."
	}
	if b.right == nil {
		return ""
	}
	key, ofScope := strings.CutPrefix(name, "scope.")
	limit, given := b.scope[key]
	switch {
	case name == "substrate" && b.right.Substrate == "ANY":
		return whose + " is for any medium."
	case name == "basisId", name == "substrate":
		return "That of " + b.Whose + "."
	case name == "scope":
		return b.own()
	case !ofScope:
		return ""
	}
	switch key {
	case "regions", "campaigns", "channels":
		var list []string
		_ = json.Unmarshal(limit, &list)
		switch {
		case !given:
			return whose + " has no limit here."
		case len(list) == 0:
			return whose + " has an empty list, so this one has none, either."
		}
		return whose + " has " + strings.Join(list, ", ") + ": some of these, or leave it empty for all of them."
	case "maxSpeedMph":
		if !given {
			return whose + " has no limit here."
		}
		return "Not above " + string(limit) + ", as " + b.Whose + " has it. Empty is the same."
	case "bvlos":
		if string(limit) == "true" {
			return whose + " has yes, so this one has it, too."
		}
	case "labels":
		var labels map[string]string
		_ = json.Unmarshal(limit, &labels)
		var all []string
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			all = append(all, label+" = "+labels[label])
		}
		if len(all) > 0 {
			return whose + " has " + strings.Join(all, ", ") + ": these stay, and others can be added."
		}
	}
	return ""
}

// own is what is said of members of a scope that people have made up: they stay as they are.
func (b *bounds) own() string {
	rest := maps.Clone(b.scope)
	maps.DeleteFunc(rest, func(key string, _ json.RawMessage) bool { return !strings.HasPrefix(key, "x-") })
	if len(rest) == 0 {
		return ""
	}
	text, _ := json.Marshal(rest) // it was read from JSON
	return fmt.Sprintf("%s has %s: these stay, and others can be added.", b.subject(), text)
}

// subject begins a sentence.
func (b *bounds) subject() string { return upperFirst(b.Whose) }

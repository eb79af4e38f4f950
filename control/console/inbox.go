package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"muniment.example/gateway/client"
)

// offersList says of each offer that is open who has to answer it; own is the tenant's organisation, empty if the session may not read it.
func offersList(names works, own string) list[client.Offer] {
	stands := func(o client.Offer) cell {
		shown := state(o.State)
		switch {
		case o.State != "PROPOSED":
		case o.ToOrgID == own:
			shown.Note = "waits for you"
		default:
			shown.Note = "waits for " + o.ToOrgID
		}
		return shown
	}
	return list[client.Offer]{
		op: "list-offers", plural: "offers", columns: []string{"Of the right", "From", "To", "State", "Answer before", "Scope", "Made", "Offer"},
		row: func(o client.Offer) []cell {
			return []cell{names.to(o.RightID, "/offers/"+url.PathEscape(o.ID)), text(o.FromOrgID), text(o.ToOrgID), stands(o), moment(o.ExpiresAt), text(scopeText(o.Scope)), moment(o.CreatedAt), id(o.ID, "/offers")}
		},
	}
}

var (
	offerFilters     = []filter{{Name: "state", Label: "State", Options: []string{"PROPOSED", "COUNTERED", "ACCEPTED", "REJECTED", "WITHDRAWN", "EXPIRED"}}, {Name: "rightId", Label: "Right", Of: anyRight, Example: "rgh_…"}}
	challengeFilters = []filter{{Name: "state", Label: "State", Options: []string{"OPEN", "UPHELD", "OVERTURNED", "WITHDRAWN"}}, {Name: "rightId", Label: "Right", Of: anyRight, Example: "rgh_…"}}
)

func showOffers(p *page) error {
	p.show("Offers", "Offers")
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	own, err := p.ownOrg()
	if err != nil {
		return err
	}
	return showList(p, offersList(names, own), listed{
		Lead: "Who asks for a part of a right, or offers one. Accepting issues a right that derives from it.", Empty: "No offer was made yet. Propose one to the organisation that shall use a part of a right.", New: p.offer("propose-offer", "New offer", "/offers/new"),
	}, slices.Clone(offerFilters)...)
}

func sendOffers(p *page) error {
	l := offersList(nil, "")
	l.query = p.filters("state", "rightId")
	return l.csv(p, "offers")
}

func showOffer(p *page) error {
	p.show("Offers", "Offer")
	var data struct{ Offer client.Offer }
	if err := p.get(&data, "get-offer", nil, p.r.PathValue("offerId")); err != nil {
		return err
	}
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	buttons, err := p.offerButtons(data.Offer)
	if err != nil {
		return err
	}
	o := offerPage{Offer: data.Offer, ScopeText: scopeText(data.Offer.Scope), Works: names, Buttons: buttons}
	if err := o.readAnswered(p); err != nil {
		return err
	}
	p.render("offer", o)
	return nil
}

// offerPage is an offer, with what it changes of the one that it answers.
type offerPage struct {
	client.Offer
	ScopeText string
	Works     works
	Buttons   []button
	Answers   string // the id of the offer that it answers; empty if it answers none
	Changes   []offerChange
}

// offerChange is what a counter-offer has otherwise than the offer that it answers.
type offerChange struct{ What, Was, Is string }

// counterOf begins what the API has as the terms of a counter-offer.
const counterOf = "counter_of:"

// scopeChanges are the members of two scopes, in the order of their names.
func scopeChanges(was, is json.RawMessage) (all []offerChange) {
	before, now := scopeParts(was), scopeParts(is)
	both := map[string]string{}
	maps.Copy(both, before)
	maps.Copy(both, now)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		all = append(all, offerChange{upperFirst(name), cmp.Or(before[name], "none"), cmp.Or(now[name], "none")})
	}
	return all
}

// readAnswered reads the offer that a counter-offer answers, and compares both.
func (o *offerPage) readAnswered(p *page) error {
	id, counters := strings.CutPrefix(o.TermsRef, counterOf)
	if !counters {
		return nil
	}
	o.Answers, o.TermsRef = id, o.CounterTermsRef
	var data struct{ Offer client.Offer }
	if err := p.get(&data, "get-offer", nil, id); err != nil {
		return err
	}
	was := data.Offer
	if strings.HasPrefix(was.TermsRef, counterOf) {
		was.TermsRef = was.CounterTermsRef
	}
	z := p.zone()
	from := func(t time.Time) string {
		if t.IsZero() {
			return "when it is accepted"
		}
		return z.begin(t)
	}
	until := func(t time.Time) string {
		if t.IsZero() {
			return "with the right"
		}
		return z.end(t)
	}
	begin := from(o.EffectiveFrom)
	if o.State == "ACCEPTED" && was.EffectiveFrom.IsZero() { // which has filled it in
		begin = from(was.EffectiveFrom)
	}
	changes := scopeChanges(was.Scope, o.Scope)
	for _, c := range append(changes, []offerChange{
		{"The new right begins", from(was.EffectiveFrom), begin},
		{"It ends", until(was.EffectiveUntil), until(o.EffectiveUntil)},
		{"Terms", cmp.Or(was.TermsRef, "none named"), cmp.Or(o.TermsRef, "none named")},
	}...) {
		if c.Was != c.Is {
			o.Changes = append(o.Changes, c)
		}
	}
	return nil
}

// ownOrg is the tenant's organisation; empty if the session may not read it, or the tenant has too many requests in flight.
func (p *page) ownOrg() (string, error) {
	if !p.can("get-tenant") {
		return "", nil
	}
	var own client.TenantSnapshot
	if err := p.do(call{op: "get-tenant", quiet: true}, &own); err != nil && !isBusy(err) {
		return "", err
	}
	return own.Tenant.OrgID, nil
}

// offerButtons are the acts on an offer. Who proposed it withdraws it, and the other side does the rest: what is the act of another
// organisation than the tenant's names that, as it is recorded in its name.
func (p *page) offerButtons(o client.Offer) ([]button, error) {
	all := p.Acts(o, o.ID)
	return all, p.bySides(all, o.FromOrgID, o.ToOrgID)
}

// bySides says on each button for which organisation it acts, if that is not the tenant's: who has begun something withdraws it, and the
// other side, if it is named, does the rest.
func (p *page) bySides(all []button, began, other string) error {
	if len(all) == 0 {
		return nil
	}
	own, err := p.ownOrg()
	if err != nil || own == "" {
		return err
	}
	for i := range all {
		side := other
		if strings.HasSuffix(all[i].Href, "/withdraw") {
			side = began
		}
		if side != own && side != "" {
			all[i].Text = strings.TrimSuffix(all[i].Text, "…") + " for " + side + "…"
			all[i].Main = false
		}
	}
	return nil
}

func challengesList(names works) list[client.Challenge] {
	return list[client.Challenge]{
		op: "list-challenges", plural: "challenges", columns: []string{"Of the right", "By", "State", "Reason", "Opened", "Challenge"},
		row: func(c client.Challenge) []cell {
			return []cell{names.to(c.RightID, "/challenges/"+url.PathEscape(c.ID)), text(c.ChallengerOrgID), state(c.State), text(c.Reason), moment(c.CreatedAt), id(c.ID, "/challenges")}
		},
	}
}

func showChallenges(p *page) error {
	p.show("Challenges", "Challenges")
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	return showList(p, challengesList(names), listed{
		Lead: "Who says that a right should not be there. One that is upheld revokes the right.", Empty: "Nobody has challenged a right.", New: p.offer("open-challenge", "New challenge", "/challenges/new"),
	}, slices.Clone(challengeFilters)...)
}

func sendChallenges(p *page) error {
	l := challengesList(nil)
	l.query = p.filters("state", "rightId")
	return l.csv(p, "challenges")
}

func showChallenge(p *page) error {
	p.show("Challenges", "Challenge")
	var data struct{ Challenge client.Challenge }
	if err := p.get(&data, "get-challenge", nil, p.r.PathValue("challengeId")); err != nil {
		return err
	}
	names, err := p.readWorks()
	if err != nil {
		return err
	}
	buttons := p.Acts(data.Challenge, data.Challenge.ID)
	if err := p.bySides(buttons, data.Challenge.ChallengerOrgID, ""); err != nil {
		return err
	}
	p.render("challenge", struct {
		client.Challenge
		Works   works
		Buttons []button
	}{data.Challenge, names, buttons})
	return nil
}

var (
	proposed = states("offer", func(o client.Offer) string { return o.State }, "PROPOSED")
	open     = states("challenge", func(c client.Challenge) string { return c.State }, "OPEN")
)

// aboutOffer are the consequences of an act on an offer.
func aboutOffer(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/offers/" + params[0], Lines: lines}
		if !p.can("get-offer") {
			return c, nil
		}
		var data struct{ Offer client.Offer }
		if err := p.get(&data, "get-offer", nil, params[0]); err != nil {
			return c, err
		}
		c.Lead = "From " + data.Offer.FromOrgID + " to " + data.Offer.ToOrgID + ": " + scopeText(data.Offer.Scope)
		c.record = data.Offer
		return c, nil
	}
}

func aboutChallenge(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/challenges/" + params[0], Lines: lines}
		if !p.can("get-challenge") {
			return c, nil
		}
		var data struct{ Challenge client.Challenge }
		if err := p.get(&data, "get-challenge", nil, params[0]); err != nil {
			return c, err
		}
		c.Lead = data.Challenge.ChallengerOrgID + ": " + data.Challenge.Reason
		c.record = data.Challenge
		return c, nil
	}
}

// aboutResolution are the consequences of resolving a challenge: what falls if it is upheld.
func aboutResolution(p *page, params []string) (consequences, error) {
	c, err := aboutChallenge("Upheld: the right is revoked for good, with all that derives from it. That needs the scope rights:write as well.", "Not upheld: the right goes on.")(p, params)
	of, known := c.record.(client.Challenge)
	if err != nil || !known || !p.can("get-right-provenance") {
		return c, err
	}
	var family client.Provenance
	if err := p.get(&family, "get-right-provenance", nil, of.RightID); err != nil {
		return c, err
	}
	r := family.Lineage[len(family.Lineage)-1]
	c.Lines = slices.Insert(slices.Clone(c.Lines), 0, fmt.Sprintf("It is about %s: %s of %s, %s.", cmp.Or(workOf(r), family.Basis.Title), words(r.Substrate), r.HolderOrgID, r.ID))
	if of.State != "OPEN" || r.State == "REVOKED" {
		return c, nil
	}
	c.If, c.Falls = "If it is upheld", p.falling(family)
	c.Worth, err = p.readWorth(family, p.s.cfg.Now().Truncate(time.Hour).Add(-worthSpan))
	return c, err
}

// counterFields are those of a counter-offer, as the offer is: what they do not say is inherited from the right, and not from
// the offer.
func counterFields(p *page) ([]field, error) {
	fields := append([]field{
		{Name: "termsRef", Label: "Where the terms are", Hint: "No place for personal data."},
		{Name: "effectiveFrom", Label: "The new right begins", Kind: "time", Hint: "When it is accepted, unless you name a time."},
		{Name: "effectiveUntil", Label: "It ends (exclusive)", Kind: "time", Hint: "With the right, unless you name a time."},
		{Name: "expiresAt", Label: "Answer before", Kind: "time", Hint: "In 7 days, unless you name a time."},
	}, scopeFields()...)
	if !p.can("get-offer") {
		return fields, nil
	}
	var data struct{ Offer client.Offer }
	if err := p.get(&data, "get-offer", nil, p.r.PathValue("offerId")); err != nil {
		return nil, err
	}
	o := data.Offer
	if !strings.HasPrefix(o.TermsRef, counterOf) {
		fields[0].Value = o.TermsRef
	} else {
		fields[0].Value = o.CounterTermsRef
	}
	fields[1].Value, fields[2].Value = p.zone().field(o.EffectiveFrom), p.zone().field(o.EffectiveUntil)
	return filledScope(fields, o.Scope), nil
}

var inboxActs = []*act{
	{
		path: "/offers/new", op: "propose-offer", section: "Offers", title: "New offer", submit: "Propose", filled: []string{"rightId"},
		consequences: saying("/offers", "", "The other organisation can accept it while the right is in force. Accepting issues a derived right."),
		fields: fixed(append([]field{
			{Name: "rightId", Label: "Of the right", Of: derivingRight, Limits: true, Required: true, Example: "rgh_…"},
			{Name: "fromOrgId", Label: "From", Of: organisation, Example: "org_…", Hint: "The right's holder, unless you name another. One of the two holds the right."},
			{Name: "toOrgId", Label: "To", Of: organisation, Required: true, Example: "org_…"},
			{Name: "termsRef", Label: "Where the terms are", Hint: "No place for personal data."},
			{Name: "effectiveFrom", Label: "The new right begins", Kind: "time", Hint: "When it is accepted, unless you name a time."},
			{Name: "effectiveUntil", Label: "It ends (exclusive)", Kind: "time", Hint: "With the right, unless you name a time."},
			{Name: "expiresAt", Label: "Answer before", Kind: "time", Hint: "In 7 days, unless you name a time."},
		}, scopeFields()...)...),
		bounds: ofOffered,
		body:   withScope,
		after:  goTo("/offers", "offer", "offer-proposed"),
	},
	{
		path: "/offers/{offerId}/accept", op: "accept-offer", section: "Offers", title: "Accept the offer", submit: "Accept", button: "Accept…", main: true, on: proposed,
		consequences: aboutOffer("A right that derives from the offered one is issued at once, with this scope, for the other organisation.", "It can be suspended and revoked like any right; the offer stays accepted."),
		after:        goBack("/offers", "offer-accepted"),
	},
	{
		path: "/offers/{offerId}/counter", op: "counter-offer", section: "Offers", title: "Make a counter-offer", submit: "Send the counter-offer", button: "Counter…", on: proposed,
		consequences: aboutOffer("The offer is over, and a new one goes the other way."),
		fields:       counterFields,
		bounds:       ofCountered,
		body:         withScope,
		after:        goTo("/offers", "offer", "offer-countered"),
	},
	{path: "/offers/{offerId}/reject", op: "reject-offer", section: "Offers", title: "Reject the offer", submit: "Reject", button: "Reject…", on: proposed, fields: reason(permanent), consequences: aboutOffer("The offer is over. Another one can be made."), after: goBack("/offers", "offer-rejected")},
	{path: "/offers/{offerId}/withdraw", op: "withdraw-offer", section: "Offers", title: "Withdraw the offer", submit: "Withdraw", button: "Withdraw…", on: proposed, fields: reason(permanent), consequences: aboutOffer("The offer is over. Another one can be made."), after: goBack("/offers", "offer-withdrawn")},
	{
		path: "/challenges/new", op: "open-challenge", section: "Challenges", title: "New challenge", submit: "Open the challenge",
		consequences: saying("/challenges", "", "The right goes on until the challenge is resolved."),
		fields:       fixed(field{Name: "rightId", Label: "Of the right", Of: ownedRight, Required: true, Example: "rgh_…"}, field{Name: "challengerOrgId", Label: "By", Of: organisation, Required: true, Example: "org_…"}, field{Name: "reason", Label: "Reason", Kind: "area", Required: true, Hint: permanent}),
		after:        goTo("/challenges", "challenge", "challenge-opened"),
	},
	{
		path: "/challenges/{challengeId}/resolve", op: "resolve-challenge", section: "Challenges", title: "Resolve the challenge", submit: "Resolve", danger: true, button: "Resolve…", main: true, on: open,
		consequences: aboutResolution,
		fields:       fixed(field{Name: "upheld", Label: "Is it upheld?", Kind: "bool", Options: []string{"no", "yes"}, Names: map[string]string{"no": "no: the right goes on", "yes": "yes: the right is revoked for good"}, Required: true}, field{Name: "resolution", Label: "Why", Kind: "area", Hint: "Your answer, with where its evidence is: the page of a play has a file that proves it. " + permanent}),
		after:        goBack("/challenges", "challenge-resolved"),
	},
	{
		path: "/challenges/{challengeId}/withdraw", op: "withdraw-challenge", section: "Challenges", title: "Withdraw the challenge", submit: "Withdraw", button: "Withdraw…", on: open,
		consequences: aboutChallenge("The challenge is over, without a decision."), fields: reason(permanent), after: goBack("/challenges", "challenge-withdrawn"),
	},
}

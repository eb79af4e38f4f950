package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"muniment.example/gateway/client"
)

var basisKinds = []string{"LICENSE", "CONSENT", "CONTRACT", "STATUTE", "LEGITIMATE_INTEREST"}

// rightActs change bases and rights.
var rightActs = []*act{
	{
		path: "/bases/new", op: "create-basis", section: "Rights", title: "New legal basis", submit: "Register the basis",
		consequences: saying("/bases", "", "The basis is recorded in your log. It can't be changed; a later one takes its place."),
		fields: fixed(
			field{Name: "title", Label: "Title", Required: true, Example: "Music licence 2026", Hint: permanent},
			field{Name: "kind", Label: "Kind", Kind: "select", Options: basisKinds, Required: true},
			field{Name: "holderOrgId", Label: "Holder", Of: organisation, Example: "org_…", Hint: "Your organisation, unless you name another."},
			field{Name: "jurisdiction", Label: "Where it applies", Example: "DE"},
			field{Name: "reference", Label: "Where to read about it", Example: "https://…"},
			field{Name: "effectiveFrom", Label: "From", Kind: "time"},
			field{Name: "effectiveUntil", Label: "Until (exclusive)", Kind: "time", Hint: "The first moment after it: to the end of a year, 1 January, 00:00. All rights on it end then."},
			field{Name: "contentHash", Label: "SHA-256 of the document", Hint: "A fingerprint of the signed document, in base64url, by which it can be recognised. Leave it empty if nobody gave you one."},
		),
		after: goTo("/bases", "basis", "basis-registered"),
	},
	{
		path: "/rights/new", op: "issue-right", section: "Rights", title: "New right", submit: "Issue the right", filled: []string{"basisId", "parentRightId", "substrate"},
		consequences: saying("/rights", "", "Nodes accept deliveries on it within seconds, from the moment when it begins.", "Single screens, weekdays and hours are no limits that are checked: your players keep to them. Write them into the labels or the words, for people to read."),
		fields: func(p *page) ([]field, error) {
			made, _ := fixed(
				field{Name: "basisId", Label: "Legal basis", Of: activeBasis, Required: true, Example: "bas_…", Hint: "Of a right that derives from another it is that one's."},
				field{Name: "parentRightId", Label: "Derived from", Of: derivingRight, Limits: true, Example: "rgh_…", Hint: "A right whose limits bind the new one, and whose end ends it."},
				field{Name: "substrate", Label: "Medium", Kind: "select", Options: substrates(), Required: true},
				field{Name: "holderOrgId", Label: "Holder", Of: organisation, Example: "org_…", Hint: "Your organisation, unless you name another."},
				field{Name: "effectiveFrom", Label: "From", Kind: "time", Required: true, Value: p.zone().field(p.s.cfg.Now().Truncate(time.Hour))},
				field{Name: "effectiveUntil", Label: "Until (exclusive)", Kind: "time", Hint: "With its basis, unless you name an earlier time."},
			)(p)
			return append(made, scopeFields()...), nil
		},
		bounds: ofParent,
		body:   withScope,
		after:  goTo("/rights", "right", "right-issued"),
	},
	{
		path: "/rights/{rightId}/suspend", op: "suspend-right", section: "Rights", title: "Suspend the right", submit: "Suspend", button: "Suspend…", on: rightIs("ACTIVE"), fields: reason(permanent),
		consequences: stopping("Deliveries on it are refused from now on, by each node within seconds, or as soon as it can't reach the service any more. Rows of batches that were played before wait until it is resumed; what is played meanwhile is refused for good. It isn't resumed by itself: somebody has to."),
		after:        goBack("/rights", "right-suspended"),
	},
	{
		path: "/rights/{rightId}/resume", op: "resume-right", section: "Rights", title: "Resume the right", submit: "Resume", button: "Resume…", main: true, on: rightIs("SUSPENDED"), fields: reason(permanent),
		consequences: moving("Deliveries on it are accepted again, and rows that waited are delivered."),
		after:        goBack("/rights", "right-resumed"),
	},
	{
		path: "/rights/{rightId}/revoke", op: "revoke-right", section: "Rights", title: "Revoke the right", submit: "Revoke for good", danger: true, button: "Revoke…", on: rightIs("ACTIVE", "SUSPENDED"), fields: reason(permanent),
		consequences: stopping("Deliveries on it are refused for good, by each node within seconds, or as soon as it can't reach the service any more. This can't be undone."),
		after:        goBack("/rights", "right-revoked"),
	},
}

// saying are consequences that depend on nothing.
func saying(back, lead string, lines ...string) func(*page, []string) (consequences, error) {
	return func(*page, []string) (consequences, error) {
		return consequences{Lead: lead, Lines: lines, Back: Path + back}, nil
	}
}

// rightIs is on for acts that the right's own state allows.
func rightIs(all ...string) func(*page, any) (string, bool) {
	return states("right", func(r client.Right) string { return r.State }, all...)
}

// derivable says why nothing can be derived from a right now; empty if something can.
func derivable(r client.Right) string {
	if r.EffectiveState == "ACTIVE" || r.EffectiveState == "NOT_BEGUN" {
		return ""
	}
	return "The right is " + words(r.EffectiveState) + ", so nothing can be derived from it."
}

// moving are the consequences of a change of a right's state: for it, and for all that derives from it. Those of stopping it are
// in money, too.
func moving(first string) func(*page, []string) (consequences, error)   { return changing(first, false) }
func stopping(first string) func(*page, []string) (consequences, error) { return changing(first, true) }

func changing(first string, stops bool) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/rights/" + url.PathEscape(params[0]), Lines: []string{first}}
		if !p.can("get-right-provenance") {
			c.Lines = append(c.Lines, "So it is for each right that derives from it. Your session may not read which these are.")
			return c, nil
		}
		var family client.Provenance
		if err := p.get(&family, "get-right-provenance", nil, params[0]); err != nil {
			return c, err
		}
		r := family.Lineage[len(family.Lineage)-1]
		c.Lead = fmt.Sprintf("%s of %s, %s", words(r.Substrate), r.HolderOrgID, r.ID)
		if called := cmp.Or(workOf(r), family.Basis.Title); called != "" {
			c.Lead = called + ": " + c.Lead
		}
		c.record = r
		c.Lines = append(c.Lines, derivedLine(family))
		since := p.s.cfg.Now().Truncate(time.Hour).Add(-worthSpan)
		if p.can("get-metering") {
			var m client.Metering
			if err := p.get(&m, "get-metering", url.Values{"rightId": {r.ID}, "from": {stamp(since)}, "limit": {"1"}}); err != nil {
				return c, err
			}
			c.Lines = append(c.Lines, fmt.Sprintf("Plays on this right itself in the last 7 days: %s, %s of them billed.", count(m.Totals.Receipts), count(m.Totals.Metered)))
		}
		if stops = stops && r.State != "REVOKED"; stops {
			c.Falls = p.falling(family)
			var err error
			if c.Worth, err = p.readWorth(family, since); err != nil {
				return c, err
			}
		}
		if p.can("list-offers") {
			var offers struct{ Offers []client.Offer }
			if err := p.get(&offers, "list-offers", url.Values{"rightId": {r.ID}, "state": {"PROPOSED"}, "limit": {"100"}}); err != nil {
				return c, err
			}
			if n := len(offers.Offers); n > 0 {
				c.Lines = append(c.Lines, fmt.Sprintf("Offers of it that wait for an answer: %d. They can only be accepted while it is in force.", n))
			}
			if stops {
				for _, o := range offers.Offers[:min(len(offers.Offers), mostFalling)] {
					c.Falls = append(c.Falls, fallen{p.Link("/offers", o.ID, "an offer to "+o.ToOrgID), o.State})
				}
			}
		}
		return c, nil
	}
}

// derivedLine names what derives from a right.
func derivedLine(family client.Provenance) string {
	n := len(family.Derived)
	if n == 0 {
		return "No right derives from it."
	}
	more := ""
	if n == 500 {
		more = "at least "
	}
	holders := map[string]bool{}
	for _, r := range family.Derived {
		holders[r.HolderOrgID] = true
	}
	return fmt.Sprintf("It holds for what derives from it, too: directly %s%d, held by %s, and what derives from these in turn.", more, n, named(holders))
}

// named lists up to five names.
func named(all map[string]bool) string {
	names := slices.Sorted(maps.Keys(all))
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

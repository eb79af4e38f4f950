// Package paper shows a statement to people who pay it, get paid by it or book it: as a page, as a PDF, and
// as CSV files. It shows what the signed document, the payables and the rights say, and computes no amount.
//
// A paper is of all payees of a statement, or of one (For): then it has the number, the parties, the tax
// and the due date that an invoice needs (Directive 2006/112/EC, article 226), and names no others. Its lines have price and
// amount, as an invoice does, so what others get of a line that is shared is the rest of it.
//
// The PDF is set in the fonts Go Regular, Go Bold and Go Mono, which have the letters of Latin, Greek and
// Cyrillic scripts. A paper with others can't be one (Lacking): the page shows it.
package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment.example/control/payable"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/statement"
)

// Paper is what is shown. All texts are as they are, in no language's quotes.
type Paper struct {
	ID, TenantID string
	// Organisation is the tenant's organisation: the issuer, where a payable names none.
	Organisation string
	// State is the statement's.
	State string
	// Period is the name of the period; nil for one without.
	Period *string
	// IssuedAt and SettledAt are zero until then.
	IssuedAt, SettledAt time.Time
	// SHA256 is that of the signed file, base64url; nil for a draft.
	SHA256 *string
	PackID string
	// Reference is the newest payment's; nil for none.
	Reference *string
	Document  statement.Statement
	// Previous is the document that Document corrects or voids; nil for none, and if its text is lost.
	Previous *statement.Statement
	// Payables are those of the statement, by number; none for a draft.
	Payables []payable.Payable
	// Rights are those of the lines, by id. One that is missing has an id alone.
	Rights map[string]Right

	names, legal map[string]string // by id, made once
}

// Right is how people name a right.
type Right struct {
	// Title is that of its legal basis.
	Title     string
	Campaigns []string
}

// For returns the paper of one payee: its parts alone. Changes of a correction are the payee's too, and nil
// without Previous.
func (p *Paper) For(counterpartyID string) (*Paper, error) {
	one := *p
	one.names, one.legal = nil, nil
	if one.Document.CounterpartyID != nil {
		return &one, nil
	}
	one.Document = partOf(&p.Document, counterpartyID)
	d := &one.Document
	names := slices.Clone(p.Document.Payees)
	if d.Correction != nil {
		c := *d.Correction
		names = append(names, c.Payees...)
		c.Payees, c.Changes, c.Previous.Total = kept(c.Payees, payee(counterpartyID)), nil, ""
		c.Difference = total(c.Payees)
		if p.Previous != nil {
			previous := partOf(p.Previous, counterpartyID)
			one.Previous, c.Previous.Total = &previous, previous.Total
			var err error
			if c.Changes, err = changes(d.Correction.Changes, &previous, d); err != nil {
				return nil, err
			}
		}
		d.Correction = &c
	}
	if len(d.Payees) == 0 { // so that it has a name
		if i := slices.IndexFunc(names, payee(counterpartyID)); i >= 0 {
			d.Payees = []statement.Payee{{Amount: "0", CounterpartyID: counterpartyID, Name: names[i].Name}}
		}
	}
	one.Payables = kept(p.Payables, func(of payable.Payable) bool { return of.CounterpartyID == counterpartyID })
	one.Reference = nil // the newest payment may be another payee's; the payable has its own
	return &one, nil
}

func payee(counterpartyID string) func(statement.Payee) bool {
	return func(p statement.Payee) bool { return p.CounterpartyID == counterpartyID }
}

func total(payees []statement.Payee) string {
	if len(payees) == 0 {
		return "0"
	}
	return payees[0].Amount
}

// partOf returns a document with the shares of one payee alone.
func partOf(whole *statement.Statement, counterpartyID string) statement.Statement {
	d := *whole
	shares := func(all []statement.Share) []statement.Share {
		return kept(all, func(s statement.Share) bool { return s.CounterpartyID == counterpartyID })
	}
	d.CounterpartyID = &counterpartyID
	d.Lines = kept(d.Lines, func(l statement.Line) bool { return len(shares(l.Shares)) > 0 })
	for i := range d.Lines {
		d.Lines[i].Shares = shares(d.Lines[i].Shares)
	}
	d.Adjustments = kept(d.Adjustments, func(a statement.Adjustment) bool { return len(shares(a.Shares)) > 0 })
	for i := range d.Adjustments {
		d.Adjustments[i].Shares = shares(d.Adjustments[i].Shares)
	}
	d.Payees = kept(d.Payees, payee(counterpartyID))
	d.Total, d.HeldAmount, d.Unrated, d.Excluded = total(d.Payees), "", nil, nil
	return d
}

// changes are those between two documents of one payee. The signed text divides the change of a right, a
// metering basis and a rule by reasons for all payees together: so a change of one has all reasons of those,
// separated by spaces. Where the text has none, payees changed among themselves, which rules do.
func changes(whole []statement.Change, before, after *statement.Statement) ([]statement.Change, error) {
	type subject struct{ rightID, meteringBasis, ruleID string }
	why := map[subject][]string{}
	for _, c := range whole {
		of := subject{c.RightID, c.MeteringBasis, c.RuleID}
		why[of] = append(why[of], c.Reason)
	}
	all, err := statement.Changes(before, statement.Step{Statement: after})
	for i := range all {
		c := &all[i]
		c.Reason = cmp.Or(strings.Join(why[subject{c.RightID, c.MeteringBasis, c.RuleID}], " "), statement.ChangedByRules)
	}
	return all, err
}

func kept[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

// Names are the names of counterparties, by id.
func (p *Paper) Names() map[string]string {
	if p.names != nil {
		return p.names
	}
	names := map[string]string{}
	if c := p.Document.Correction; c != nil {
		for _, of := range c.Payees {
			names[of.CounterpartyID] = of.Name
		}
	}
	for _, of := range p.Document.Payees {
		names[of.CounterpartyID] = of.Name
	}
	for _, of := range p.Payables {
		if _, known := names[of.CounterpartyID]; !known && of.Recipient.LegalName != nil {
			names[of.CounterpartyID] = *of.Recipient.LegalName
		}
	}
	p.names = names
	return names
}

// PayeeName is the legal name of a payee as the payables have it, or else its name.
func (p *Paper) PayeeName(counterpartyID string) string {
	if p.legal == nil {
		p.legal = map[string]string{}
		for i := range p.Payables {
			if name := p.Payables[i].Recipient.LegalName; name != nil {
				p.legal[p.Payables[i].CounterpartyID] = *name
			}
		}
	}
	return cmp.Or(p.legal[counterpartyID], p.Names()[counterpartyID])
}

// Payee is the name of the statement's only payee, or its id; empty for a statement of all.
func (p *Paper) Payee() string {
	id := p.Document.CounterpartyID
	if id == nil {
		return ""
	}
	if name := p.Names()[*id]; name != "" {
		return name
	}
	return *id
}

// One is the payable of a paper for one payee; nil for all, and of a draft.
func (p *Paper) One() *payable.Payable {
	if p.Document.CounterpartyID == nil || len(p.Payables) != 1 {
		return nil
	}
	return &p.Payables[0]
}

// Open is what is left to be paid of its payables, in the currency's minor unit.
func (p *Paper) Open() (string, error) {
	b, err := payable.NewBalance(p.Payables, p.Document.Currency)
	return b.Due, err
}

// Title says what the paper is.
func (p *Paper) Title() string {
	one, correction := p.One(), p.Document.Correction
	switch {
	case one != nil && one.Kind == payable.CreditNote:
		return "Credit note " + one.Number
	case one != nil && one.Kind == payable.DebitNote:
		return "Debit note " + one.Number
	case one != nil:
		return "Statement " + one.Number
	case correction == nil:
		return "Statement"
	case correction.VoidReason != nil:
		return "Void"
	}
	return "Correction"
}

// IsVoid says whether the statement takes others back.
func (p *Paper) IsVoid() bool {
	return p.Document.Correction != nil && p.Document.Correction.VoidReason != nil
}

// Issuer is the organisation that issues.
func (p *Paper) Issuer() payable.Party {
	party := payable.Party{}
	if len(p.Payables) > 0 {
		party = p.Payables[0].Issuer
	}
	if party.LegalName == nil {
		party.LegalName = &p.Organisation
	}
	return party
}

// lines are the lines of a text.
func lines(text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return strings.Split(*text, "\n")
}

// mostCampaigns bounds the campaigns of a right that are shown: a scope may list thousands.
const mostCampaigns = 5

// campaigns are those of a right that are shown.
func (p *Paper) campaigns(rightID, between string) string {
	all := p.Rights[rightID].Campaigns
	text := strings.Join(all[:min(len(all), mostCampaigns)], between)
	if more := len(all) - mostCampaigns; more > 0 {
		text += fmt.Sprintf("%sand %d more", between, more)
	}
	return text
}

// RightName is how a right is named beside its id.
func (p *Paper) RightName(id string) string {
	name, campaigns := p.Rights[id].Title, p.campaigns(id, ", ")
	if name != "" && campaigns != "" {
		name += " · "
	}
	return name + campaigns
}

// Sum is the sum of shares, exactly.
func Sum(shares []statement.Share) (string, error) {
	sum := rate.Money(0)
	for _, s := range shares {
		part, err := rate.ParseAmount(s.Amount)
		if err == nil {
			sum, err = sum.Plus(part)
		}
		if err != nil {
			return "", err
		}
	}
	return sum.String(), nil
}

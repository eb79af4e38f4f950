package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"muniment.example/gateway/client"
)

// payees are the names of counterparties, by their ids.
type payees map[string]string

// readPayees reads the newest 500 counterparties.
func readPayees(p *page) (payees, error) {
	newest, err := p.newestPayees()
	if err != nil {
		return nil, err
	}
	names := payees{}
	for _, c := range newest.All {
		names[c.ID] = c.Name
	}
	return names, nil
}

// Name is a counterparty's name; its id where it isn't known.
func (n payees) Name(id string) string {
	if name := n[id]; name != "" {
		return name
	}
	return short(id)
}

// payeeFilter is the choice of a counterparty by its name.
var payeeFilter = filter{Name: "counterpartyId", Label: "Counterparty", Of: onePayee, Example: "cp_…"}

// called are the ids of the counterparties that have a name.
func (n payees) called(name string) []string {
	var ids []string
	for id, is := range n {
		if is == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// unitNames are what a price may be of.
var unitNames = map[string]string{"EVENT": "play", "IMPRESSION": "impression", "CPM": "1,000 impressions", "MS": "millisecond", "SECOND": "second"}

var unitWords = map[string]string{"EVENT": "a play", "IMPRESSION": "an impression", "CPM": "a thousand impressions", "MS": "a millisecond", "SECOND": "a second"}

// ruleSentence says what a rule pays, for what, to whom.
func ruleSentence(r client.SettlementRule, names payees) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", money(r.Price, r.Currency), r.Currency, unitWords[r.Unit])
	var on []string
	m := r.Match
	if m.MeteringBasis != "" {
		on = append(on, "what is metered as "+m.MeteringBasis)
	}
	if m.Completion != "" {
		on = append(on, "videos played to "+words(m.Completion))
	}
	if m.Substrate != "" && m.Substrate != "ANY" {
		on = append(on, words(m.Substrate))
	}
	if m.RightID != "" {
		on = append(on, "the right "+short(m.RightID))
	}
	if m.BasisID != "" {
		on = append(on, "rights under the basis "+short(m.BasisID))
	}
	if m.Campaign != "" {
		on = append(on, "the campaign “"+m.Campaign+"”")
	}
	if m.Label != nil {
		on = append(on, fmt.Sprintf("rights with the label “%s: %s”", m.Label.Name, m.Label.Value))
	}
	if len(on) == 0 {
		b.WriteString(" on everything")
	} else {
		b.WriteString(" on " + strings.Join(on, ", "))
	}
	var shares []string
	for _, s := range r.Shares {
		shares = append(shares, fmt.Sprintf("%s %% to %s", percent(s.BPS), names.Name(s.CounterpartyID)))
	}
	b.WriteString(": " + strings.Join(shares, ", "))
	for _, t := range r.Tiers {
		fmt.Fprintf(&b, "; above %s in a month %s %s", count(t.Above), money(t.Price, r.Currency), r.Currency)
	}
	if r.Minimum != "" {
		fmt.Fprintf(&b, "; at least %s %s a month", money(r.Minimum, r.Currency), r.Currency)
	}
	if r.Cap != "" {
		fmt.Fprintf(&b, "; at most %s %s a month", money(r.Cap, r.Currency), r.Currency)
	}
	return b.String()
}

// percent is basis points for people.
func percent(bps int64) string { return strconv.FormatFloat(float64(bps)/100, 'f', -1, 64) }

func rulesList(names payees) list[client.SettlementRule] {
	return list[client.SettlementRule]{
		op: "list-settlement-rules", plural: "rules", columns: []string{"What it pays", "State", "From", "Until", "Priority", "Id"},
		row: func(r client.SettlementRule) []cell {
			return []cell{{Text: ruleSentence(r, names), Href: Path + "/money/rules/" + url.PathEscape(r.ID)}, state(r.State), begins(r.EffectiveFrom), ends(r.EffectiveUntil), amount(r.Priority), reference(r.ID)}
		},
	}
}

func showMoney(p *page) error {
	p.show("Money", "Money")
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	return showList(p, rulesList(names), listed{
		Lead:  "What a play is worth, and who gets it. A rule rates the plays that are shown between its beginning and its end. If it is changed, the plays that no issued statement states yet are rated by what it is now.",
		Empty: "No rule is there yet. Make the counterparties who are paid first, then a rule that gives each a share.",
		New: slices.Concat(p.offer("list-statements", "Statements", "/money/statements"), p.offer("create-settlement-rule", "New rule", "/money/rules/new"),
			p.offer("list-counterparties", "Counterparties", "/money/counterparties"), p.offer("list-payouts", "Payouts due", "/money/payouts"), p.offer("list-payables", "Payables", "/money/payables"), p.offer("reconcile-settlement", "Reconciliation", "/money/reconciliation")),
	}, filter{Name: "state", Label: "State", Options: []string{"ACTIVE", "RETIRED"}}, filter{Name: "rightId", Label: "Right", Of: anyRight, Example: "rgh_…"}, payeeFilter)
}

func sendRules(p *page) error {
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	l := rulesList(names)
	l.query = p.filters("state", "rightId", "counterpartyId")
	return l.csv(p, "rules")
}

func payoutsList() list[client.Payout] {
	return list[client.Payout]{
		op: "list-payouts", plural: "payouts", columns: []string{"Payee", "Amount", "Currency", "Due on", "Paid to", "Number", "Statement"},
		row: func(o client.Payout) []cell {
			return []cell{text(o.Payee), priced(o.Amount, o.Currency), text(o.Currency), {Text: date(o.DueOn), value: o.DueOn}, text(o.PayoutRef), text(o.Number), id(o.StatementID, "/money/statements")}
		},
	}
}

// payablesList is what payees are due by the papers that were issued, as an accountant books it.
func payablesList(p *page, names payees) list[due] {
	return list[due]{
		op: "list-payables", plural: "payables", columns: []string{"Number", "Kind", "Payee", "State", "Open", "Net", "Tax", "Gross", "Currency", "Issued", "Due on", "Corrects", "Exactly", "Statement"},
		row: func(d due) []cell {
			day := func(written string) cell { return cell{Text: date(written), value: written} }
			on := day(d.DueOn)
			if d.IsCredit() {
				on = cell{Text: "–", value: " "}
			}
			return []cell{
				text(d.Number), text(words(d.Kind)), {Text: names.Name(d.CounterpartyID), Href: Path + "/money/counterparties/" + url.PathEscape(d.CounterpartyID)}, p.Stands(d), priced(d.Open(), d.Currency), priced(d.Net, d.Currency), priced(d.Tax, d.Currency), priced(d.Gross, d.Currency), text(d.Currency),
				day(d.IssuedOn), on, text(d.Corrects), priced(d.Exact, d.Currency), id(d.StatementID, "/money/statements"),
			}
		},
	}
}

// payableFilters are those of the operation. Days are the tenant's, as those of payables are.
var payableFilters = []filter{
	{Name: "state", Label: "State", Options: []string{"DUE", "PAID"}}, {Name: "overdue", Label: "Overdue", Options: []string{"true"}, Names: map[string]string{"true": "only what is overdue"}},
	{Name: "issuedSince", Label: "Issued from", Kind: "date"}, {Name: "issuedBy", Label: "Issued until", Kind: "date"}, {Name: "dueSince", Label: "Due from", Kind: "date"}, {Name: "dueBy", Label: "Due until", Kind: "date"},
}

// overduePath is the list of what should have been paid before today.
const overduePath = "/money/payables?overdue=true"

func showPayables(p *page) error {
	p.show("Money", "Payables")
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	return showList(p, payablesList(p, names), listed{
		Lead:  "What each payee is due by each statement, correction and void, the newest first: what an accountant books. What a credit note takes back is below zero. A filter by days takes in both of them.",
		Empty: "Nothing is issued yet. Issuing a statement makes a payable for each of its payees.",
		New:   slices.Concat(p.offer("list-payouts", "Payouts due", "/money/payouts"), p.offer("list-payables", "Overdue", overduePath), p.offer("list-statements", "Statements", "/money/statements"), p.offer("set-issuer", "Who issues the papers", "/money/issuer")),
	}, append(slices.Clone(payableFilters), payeeFilter)...)
}

func sendPayables(p *page) error {
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	l := payablesList(p, names)
	l.query = p.filters(append(namesOf(payableFilters), payeeFilter.Name)...)
	return l.csv(p, "payables")
}

func showPayouts(p *page) error {
	p.show("Money", "Payouts due")
	return showList(p, payoutsList(), listed{
		Lead:  "What is to be paid by today, or by a day that you choose, the longest due first; a day of 30 days ago shows what is overdue for longer. Credits are set off already. Record each payment on its statement.",
		Empty: "Nothing is due by today. Choose a later day to see what is due until then.",
		New:   slices.Concat(p.offer("list-payables", "All that is open", "/money/payables?state=DUE"), p.offer("list-payables", "Overdue", overduePath)),
	}, filter{Name: "dueBy", Label: "Due until", Kind: "date"}, filter{Name: "currency", Label: "Currency", Example: "EUR"})
}

// sendPayouts sends the operation's own file, which payment systems read.
func sendPayouts(p *page) error {
	query := p.filters("dueBy", "currency")
	query.Set("format", "csv")
	query.Set("bom", "true")
	return p.serve("list-payouts", query)
}

func counterpartiesList() list[client.Counterparty] {
	return list[client.Counterparty]{
		op: "list-counterparties", plural: "counterparties", columns: []string{"Name", "Kind", "Currency", "State", "Tax", "Paid to", "Id"},
		row: func(c client.Counterparty) []cell {
			return []cell{{Text: c.Name, Href: Path + "/money/counterparties/" + url.PathEscape(c.ID)}, text(words(c.Kind)), text(c.Currency), state(c.State), tax(c), text(c.PayoutRef), text(c.ID)}
		},
	}
}

// tax is the tax on what a counterparty gets.
func tax(c client.Counterparty) cell {
	if c.ReverseCharge {
		return text("reverse charge")
	}
	return number(percent(c.TaxBPS) + " %")
}

func showCounterparties(p *page) error {
	p.show("Money", "Counterparties")
	return showList(p, counterpartiesList(), listed{
		Lead: "Who is paid.", Empty: "No counterparty is there yet. A rule gives each a share.", New: slices.Concat(p.offer("create-counterparty", "New counterparty", "/money/counterparties/new"), p.offer("list-settlement-rules", "Rules", "/money")),
	}, filter{Name: "state", Label: "State", Options: []string{"ACTIVE", "INACTIVE"}})
}

// counterpartyPage is a counterparty with what it is due.
type counterpartyPage struct {
	client.Counterparty
	Tax      cell
	Payables []due
	More     bool // there are older ones
}

func showCounterparty(p *page) error {
	p.show("Money", "Counterparty")
	var c counterpartyPage
	if err := p.get(&struct {
		Counterparty *client.Counterparty `json:"counterparty"`
	}{&c.Counterparty}, "get-counterparty", nil, p.r.PathValue("counterpartyId")); err != nil {
		return err
	}
	var data struct {
		Payables   []due
		NextCursor string
	}
	if err := p.get(&data, "list-payables", url.Values{"counterpartyId": {c.ID}, "limit": {"100"}}); err != nil {
		return err
	}
	p.Title, c.Tax, c.Payables, c.More = c.Name, tax(c.Counterparty), data.Payables, data.NextCursor != ""
	p.render("counterparty", c)
	return nil
}

func sendCounterparties(p *page) error {
	l := counterpartiesList()
	l.query = p.filters("state")
	return l.csv(p, "counterparties")
}

// onPapers is what follows from changing what papers say.
var onPapers = []string{"Papers that are issued from now on show this. Those that were issued stay as they are.", "What you leave empty becomes empty."}

var moneyActs = []*act{
	{
		path: "/money/issuer", op: "set-issuer", section: "Money", title: "Who issues the papers", submit: "Save", fields: issuerFields,
		consequences: saying("/money/payables", "", onPapers...),
		after: func(p *page, _ []string, _ json.RawMessage) error {
			p.done(Path+"/money/payables", "issuer-set")
			return nil
		},
	},
	{
		path: "/money/counterparties/new", op: "create-counterparty", section: "Money", title: "New counterparty", submit: "Add",
		consequences: saying("/money/counterparties", ""),
		fields:       fixed(counterpartyFields()...),
		after: func(p *page, _ []string, _ json.RawMessage) error {
			p.done(Path+"/money/counterparties", "counterparty-added")
			return nil
		},
	},
	{
		path: "/money/counterparties/{counterpartyId}/change", op: "change-counterparty", section: "Money", title: "Change the counterparty", submit: "Save", button: "Change…", main: true,
		on: states("counterparty", func(c client.Counterparty) string { return c.State }, "ACTIVE"),
		consequences: func(_ *page, params []string) (consequences, error) {
			return consequences{Back: Path + "/money/counterparties/" + url.PathEscape(params[0]), Lines: onPapers}, nil
		},
		fields: func(p *page) ([]field, error) {
			if err := p.missing("get-counterparty"); err != nil { // an empty form would empty it
				return nil, err
			}
			var data struct{ Counterparty client.Counterparty }
			if err := p.get(&data, "get-counterparty", nil, p.r.PathValue("counterpartyId")); err != nil {
				return nil, err
			}
			fields, filled := counterpartyFields(), counterpartyValues(data.Counterparty)
			for i := range fields {
				fields[i].Value = filled[fields[i].Name]
			}
			return fields, nil
		},
		after: goBack("/money/counterparties", "counterparty-changed"),
	},
}

// issuerFields are all that papers say of who issues them, filled in as it is now.
func issuerFields(p *page) ([]field, error) {
	if err := p.missing("get-issuer"); err != nil { // an empty form would empty it
		return nil, err
	}
	var data struct{ Issuer *client.Issuer }
	if err := p.get(&data, "get-issuer", nil); err != nil {
		return nil, err
	}
	now := client.Issuer{PaymentDays: 30}
	if data.Issuer != nil {
		now = *data.Issuer
	}
	return []field{
		{Name: "legalName", Label: "Name on papers", Required: true, Value: now.LegalName}, {Name: "address", Label: "Address", Kind: "area", Value: now.Address}, {Name: "taxId", Label: "Tax number", Value: now.TaxID},
		{Name: "email", Label: "E-mail", Value: now.Email, Hint: "Where payees ask about papers."}, {Name: "note", Label: "What each paper says besides", Kind: "area", Value: now.Note, Hint: "For example that it is a self-billed invoice."},
		{Name: "paymentDays", Label: "Days until a paper is due", Kind: "number", Value: fmt.Sprint(now.PaymentDays), Hint: "Unless the counterparty has its own."},
	}, nil
}

// counterpartyFields are all that can be said of a counterparty.
func counterpartyFields() []field {
	return []field{
		{Name: "name", Label: "Name", Required: true, Hint: "A business name or a pseudonym. " + permanent},
		{Name: "kind", Label: "Kind", Kind: "select", Options: []string{"RIGHTS_HOLDER", "PUBLISHER", "PLATFORM", "AGENCY", "OTHER"}, Required: true},
		{Name: "currency", Label: "Currency", Required: true, Example: "EUR"},
		{Name: "orgId", Label: "Organisation", Of: organisation, Example: "org_…"},
		{Name: "legalName", Label: "Name on papers"}, {Name: "address", Label: "Address on papers", Kind: "area"}, {Name: "email", Label: "E-mail"}, {Name: "taxId", Label: "Tax number"},
		{Name: "taxBps", Label: "Tax, in per cent", Kind: "percent", Example: "19", Hint: "None with reverse charge: the tax is owed by you, then."},
		{Name: "reverseCharge", Label: "Reverse charge", Kind: "bool", Options: []string{"no", "yes"}, Value: "no", Required: true},
		{Name: "payoutRef", Label: "Paid to", Example: "DE89 3704 0044 0532 0130 00", Hint: "Its bank account, as your payment system names it. It is in no event."},
		{Name: "paymentDays", Label: "Days until a paper is due", Kind: "number", Example: "30"},
	}
}

// counterpartyValues are the values of counterpartyFields.
func counterpartyValues(c client.Counterparty) map[string]string {
	values := map[string]string{
		"name": c.Name, "kind": c.Kind, "currency": c.Currency, "orgId": c.OrgID, "legalName": c.LegalName, "address": c.Address, "email": c.Email, "taxId": c.TaxID, "payoutRef": c.PayoutRef, "reverseCharge": "no",
	}
	if c.TaxBPS != 0 {
		values["taxBps"] = percent(c.TaxBPS)
	}
	if c.ReverseCharge {
		values["reverseCharge"] = "yes"
	}
	if c.PaymentDays != nil {
		values["paymentDays"] = fmt.Sprint(*c.PaymentDays)
	}
	return values
}

package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/gateway/client"
)

// payees are the names of counterparties, by their ids.
type payees map[string]string

// readPayees reads the newest 500 counterparties.
func readPayees(p *page) (payees, error) {
	var data struct{ Counterparties []client.Counterparty }
	if err := p.get(&data, "list-counterparties", url.Values{"limit": {"500"}}); err != nil {
		return nil, err
	}
	names := payees{}
	for _, c := range data.Counterparties {
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

var unitWords = map[string]string{"EVENT": "a play", "IMPRESSION": "an impression", "CPM": "a thousand impressions", "MS": "a millisecond", "SECOND": "a second"}

// ruleSentence says what a rule pays, for what, to whom.
func ruleSentence(r client.SettlementRule, names payees) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", r.Price, r.Currency, unitWords[r.Unit])
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
		fmt.Fprintf(&b, "; above %s in a month %s %s", count(t.Above), t.Price, r.Currency)
	}
	if r.Minimum != "" {
		fmt.Fprintf(&b, "; at least %s %s a month", r.Minimum, r.Currency)
	}
	if r.Cap != "" {
		fmt.Fprintf(&b, "; at most %s %s a month", r.Cap, r.Currency)
	}
	return b.String()
}

// percent is basis points for people.
func percent(bps int64) string { return strconv.FormatFloat(float64(bps)/100, 'f', -1, 64) }

func rulesList(names payees) list[client.SettlementRule] {
	return list[client.SettlementRule]{
		op: "list-settlement-rules", plural: "rules", columns: []string{"Rule", "What it pays", "State", "From", "Until", "Priority"},
		row: func(r client.SettlementRule) []cell {
			return []cell{id(r.ID, "/money/rules"), text(ruleSentence(r, names)), state(r.State), moment(r.EffectiveFrom), {Text: when(r.EffectiveUntil), value: stamp(r.EffectiveUntil) + " "}, amount(r.Priority)}
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
		Lead:  "What a play is worth, and who gets it. A play is rated by the rules of the moment in which it was shown.",
		Empty: "No rule is there yet. Make the counterparties who are paid first, then a rule that gives each a share.",
		New: slices.Concat(p.offer("list-statements", "Statements", "/money/statements"), p.offer("create-settlement-rule", "New rule", "/money/rules/new"),
			p.offer("list-counterparties", "Counterparties", "/money/counterparties"), p.offer("list-payouts", "Payouts due (CSV)", "/money/payouts.csv")),
	}, filter{Name: "state", Label: "State", Options: options("ACTIVE", "RETIRED")}, filter{Name: "rightId", Label: "Right", Example: "rgh_…"}, filter{Name: "counterpartyId", Label: "Counterparty", Example: "cp_…"})
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

func sendPayouts(p *page) error {
	return p.serve("list-payouts", url.Values{"format": {"csv"}, "bom": {"true"}})
}

// rulePage is a rule as a sentence.
type rulePage struct {
	client.SettlementRule
	Sentence string
	Like     string // where a rule like it can be tried
}

// lastMonth is the month before the current one, as 2026-10.
func lastMonth(now time.Time) string {
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -1, 0).Format("2006-01")
}

func showRule(p *page) error {
	p.show("Money", "Rule")
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	var data struct{ Rule client.SettlementRule }
	if err := p.get(&data, "get-settlement-rule", nil, p.r.PathValue("ruleId")); err != nil {
		return err
	}
	p.render("rule", rulePage{SettlementRule: data.Rule, Sentence: ruleSentence(data.Rule, names), Like: addressed(Path+"/money/rules/new", url.Values{"like": {data.Rule.ID}})})
	return nil
}

// tryRule is what a rule would have paid in the last month, if it had been in force all the time.
func tryRule(p *page, body any) (trial, error) {
	rule, _ := body.(map[string]any)
	if rule["effectiveFrom"] == nil {
		rule["effectiveFrom"] = "1970-01-01T00:00:00Z"
	}
	month := lastMonth(p.s.cfg.Now().UTC())
	var r client.DryRunResult
	if err := p.do(call{op: "dry-run-settlement-rule", body: map[string]any{"rule": rule, "period": month}}, &r); err != nil {
		return trial{}, err
	}
	made := trial{Lead: fmt.Sprintf("In %s it would have paid %s %s", month, r.Total.Amount, r.Total.Currency)}
	var plays int64
	for _, l := range r.Lines {
		plays += l.Receipts
	}
	made.Lines = append(made.Lines, fmt.Sprintf("It would have rated %s plays.", count(plays)))
	for _, payee := range r.Total.Payees {
		made.Lines = append(made.Lines, fmt.Sprintf("%s gets %s %s.", payee.Name, payee.Amount, r.Total.Currency))
	}
	for _, a := range r.Adjustments {
		made.Lines = append(made.Lines, fmt.Sprintf("By its %s: %s.", words(a.Reason), a.Amount))
	}
	for _, total := range []struct {
		of  string
		all []client.SettlementTotal
	}{{"without", r.Before}, {"with", r.After}} {
		for _, t := range total.all {
			made.Lines = append(made.Lines, fmt.Sprintf("All rules %s it: %s %s.", total.of, t.Amount, t.Currency))
		}
	}
	return made, nil
}

func counterpartiesList() list[client.Counterparty] {
	return list[client.Counterparty]{
		op: "list-counterparties", plural: "counterparties", columns: []string{"Counterparty", "Name", "Kind", "Currency", "State", "Tax", "Paid to"},
		row: func(c client.Counterparty) []cell {
			return []cell{text(c.ID), text(c.Name), text(words(c.Kind)), text(c.Currency), state(c.State), number(percent(c.TaxBps) + " %"), text(c.PayoutRef)}
		},
	}
}

func showCounterparties(p *page) error {
	p.show("Money", "Counterparties")
	return showList(p, counterpartiesList(), listed{
		Lead: "Who is paid.", Empty: "No counterparty is there yet. A rule gives each a share.", New: slices.Concat(p.offer("create-counterparty", "New counterparty", "/money/counterparties/new"), p.offer("list-settlement-rules", "Rules", "/money")),
	}, filter{Name: "state", Label: "State", Options: options("ACTIVE", "INACTIVE")})
}

func sendCounterparties(p *page) error {
	l := counterpartiesList()
	l.query = p.filters("state")
	return l.csv(p, "counterparties")
}

// readMatch makes the members of a rule's match of the form's.
func readMatch(members map[string]any) {
	match := map[string]any{}
	for _, name := range []string{"substrate", "rightId", "campaign", "meteringBasis"} {
		if value, given := members[name]; given {
			match[name] = value
			delete(members, name)
		}
	}
	if len(match) > 0 {
		members["match"] = match
	}
}

// readShares makes shares of lines such as "cp_… 60".
func readShares(written string) ([]client.SettlementShare, error) {
	var shares []client.SettlementShare
	for line := range strings.Lines(written) {
		parts := strings.Fields(line)
		if len(parts) == 0 {
			continue
		}
		if len(parts) != 2 {
			return nil, invalid("shares", "has the line “"+strings.TrimSpace(line)+"”: write an id and a per cent number on each line")
		}
		bps, ok := basisPoints(strings.TrimSuffix(parts[1], "%"))
		if !ok {
			return nil, invalid("shares", "has the share “"+parts[1]+"”: write per cent with at most two digits behind the point")
		}
		shares = append(shares, client.SettlementShare{CounterpartyID: parts[0], BPS: bps})
	}
	return shares, nil
}

// basisPoints reads per cent with at most two digits behind the point.
func basisPoints(percent string) (bps int64, ok bool) {
	whole, fraction, _ := strings.Cut(percent, ".")
	if len(fraction) > 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+(fraction + "00")[:2], 10, 16)
	return int64(n), err == nil && whole != ""
}

// ruleFields are those of a new rule, filled in like the rule that the address names, if it names one.
func ruleFields(p *page) ([]field, error) {
	fields := []field{
		{Name: "price", Label: "Price", Required: true, Example: "0.005"},
		{Name: "currency", Label: "Currency", Required: true, Example: "EUR"},
		{Name: "unit", Label: "For each", Kind: "select", Options: options("SECOND", "IMPRESSION", "CPM", "EVENT", "MS"), Required: true},
		{Name: "shares", Label: "Who gets it", Kind: "area", Required: true, Example: "cp_… 60\ncp_… 40", Hint: "A line for each counterparty: its id, and its share in per cent. Together 100."},
		{Name: "substrate", Label: "Only on the medium", Kind: "select", Options: substrates()},
		{Name: "rightId", Label: "Only on the right", Example: "rgh_…"},
		{Name: "campaign", Label: "Only on the campaign"},
		{Name: "meteringBasis", Label: "Only what is metered as", Kind: "select", Options: options("gross", "viewable", "audible", "delivered")},
		{Name: "minimum", Label: "At least, a month"}, {Name: "cap", Label: "At most, a month"},
		{Name: "priority", Label: "Priority", Kind: "number", Hint: "Of several rules that fit, the highest rates."},
		{Name: "effectiveFrom", Label: "From", Hint: "Now, unless you name a time.", Example: "2026-11-01T00:00:00Z"},
	}
	like := p.r.URL.Query().Get("like")
	if like == "" || !p.can("get-settlement-rule") {
		return fields, nil
	}
	var data struct{ Rule client.SettlementRule }
	if err := p.get(&data, "get-settlement-rule", nil, like); err != nil {
		return nil, err
	}
	rule := data.Rule
	var shares strings.Builder
	for _, share := range rule.Shares {
		fmt.Fprintf(&shares, "%s %s\n", share.CounterpartyID, percent(share.BPS))
	}
	filled := map[string]string{"price": rule.Price, "currency": rule.Currency, "unit": rule.Unit, "substrate": rule.Match.Substrate, "rightId": rule.Match.RightID, "campaign": rule.Match.Campaign, "shares": shares.String()}
	for i := range fields {
		fields[i].Value = filled[fields[i].Name]
	}
	return fields, nil
}

var moneyActs = []*act{
	{
		path: "/money/rules/new", op: "create-settlement-rule", section: "Money", title: "New rule", submit: "Make the rule",
		consequences: saying("/money", "", "Plays that were rendered from its beginning on are rated by it, those that are not on an issued statement yet included.", "Try it first: that shows what it would have paid last month, and changes nothing."),
		fields:       ruleFields,
		body: func(_ *page, members map[string]any) (any, error) {
			readMatch(members)
			written, _ := members["shares"].(string)
			shares, err := readShares(written)
			members["shares"] = shares
			return members, err
		},
		try: tryRule, tryText: "Try it on last month",
		after: goTo("/money/rules", "rule", "rule-made"),
	},
	{
		path: "/money/rules/{ruleId}/retire", op: "retire-settlement-rule", section: "Money", title: "Retire the rule", submit: "Retire",
		consequences: func(p *page, params []string) (consequences, error) {
			c := consequences{Back: Path + "/money/rules/" + url.PathEscape(params[0]), Lines: []string{"Plays that are rendered from now on are no longer rated by it. Earlier plays are.", "It can't be taken back; another rule can be made."}}
			if !p.can("get-settlement-rule") {
				return c, nil
			}
			names, err := readPayees(p)
			if err != nil {
				return c, err
			}
			var data struct{ Rule client.SettlementRule }
			err = p.get(&data, "get-settlement-rule", nil, params[0])
			c.Lead = ruleSentence(data.Rule, names)
			if data.Rule.State == "RETIRED" {
				c.Stop = "The rule is retired, so there is nothing to do here."
			}
			return c, err
		},
		after: func(p *page, _ []string, _ json.RawMessage) error { p.done(Path+"/money", "rule-retired"); return nil },
	},
	{
		path: "/money/counterparties/new", op: "create-counterparty", section: "Money", title: "New counterparty", submit: "Add",
		consequences: saying("/money/counterparties", ""),
		fields: fixed(
			field{Name: "name", Label: "Name", Required: true, Hint: "A business name or a pseudonym. " + permanent},
			field{Name: "kind", Label: "Kind", Kind: "select", Options: options("RIGHTS_HOLDER", "PUBLISHER", "PLATFORM", "AGENCY", "OTHER"), Required: true},
			field{Name: "currency", Label: "Currency", Required: true, Example: "EUR"},
			field{Name: "orgId", Label: "Organisation", Example: "org_…"},
			field{Name: "legalName", Label: "Name on papers"}, field{Name: "address", Label: "Address on papers", Kind: "area"}, field{Name: "email", Label: "E-mail"}, field{Name: "taxId", Label: "Tax number"},
			field{Name: "taxBps", Label: "Tax, in hundredths of a per cent", Kind: "number", Example: "1900"},
			field{Name: "payoutRef", Label: "Paid to", Hint: "As your payment system names it. In no event."},
			field{Name: "paymentDays", Label: "Days until a paper is due", Kind: "number"},
		),
		after: func(p *page, _ []string, _ json.RawMessage) error {
			p.done(Path+"/money/counterparties", "counterparty-added")
			return nil
		},
	},
}

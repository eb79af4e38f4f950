package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/gateway/client"
	"muniment.example/sealer/calendar"
)

// rulePage is a rule as a sentence, with what it was before.
type rulePage struct {
	client.SettlementRule
	Sentence string
	Like     string // where a rule like it can be tried
	History  []ruleChange
	Older    bool // there are older changes
}

// ruleChange is an event of a rule, with what the rule was from then on.
type ruleChange struct {
	At       time.Time
	Type     string
	By       cell
	Sentence string
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
	r := rulePage{SettlementRule: data.Rule, Sentence: ruleSentence(data.Rule, names), Like: addressed(Path+"/money/rules/new", url.Values{"like": {data.Rule.ID}})}
	if r.History, r.Older, err = p.ruleHistory(r.ID, names); err != nil {
		return err
	}
	p.render("rule", r)
	return nil
}

// ruleTerms are what the sentence of a rule leaves out, in words. A change of one shows in its history.
func (z zone) ruleTerms(r client.SettlementRule) []string {
	until := "until it is retired"
	if !r.EffectiveUntil.IsZero() {
		until = "until " + z.end(r.EffectiveUntil)
	}
	terms := []string{"from " + z.begin(r.EffectiveFrom), until, fmt.Sprintf("of priority %d", r.Priority), "by months in " + r.TimeZone, ""}
	if r.TiersMode != "" {
		terms[4] = "prices for more are for " + tiersModes[r.TiersMode]
	}
	return terms
}

// tiersModes are what a price for more is for.
var tiersModes = map[string]string{"GRADUATED": "the units above", "VOLUME": "all units of the month"}

// ruleHistory reads the newest 50 changes of a rule, the newest first; none if the session may not. Older is whether there are
// others.
func (p *page) ruleHistory(ruleID string, names payees) (all []ruleChange, older bool, err error) {
	if !p.can("list-events") {
		return nil, false, nil
	}
	var data struct {
		Events []struct {
			Event struct {
				At    time.Time
				Type  string
				Actor struct{ ID string }
				Data  client.SettlementRule
			}
		}
		NextCursor string
	}
	if err := p.get(&data, "list-events", url.Values{"subjectKind": {"settlement_rule"}, "subjectId": {ruleID}, "limit": {"50"}}); err != nil {
		return nil, false, err
	}
	for i, e := range data.Events {
		sentence := ruleSentence(e.Event.Data, names)
		if i+1 < len(data.Events) {
			was := p.zone().ruleTerms(data.Events[i+1].Event.Data)
			for j, is := range p.zone().ruleTerms(e.Event.Data) {
				if is != was[j] && is != "" {
					sentence += "; " + is
				}
			}
		}
		all = append(all, ruleChange{e.Event.At, strings.TrimPrefix(e.Event.Type, "settlement_rule."), p.shown(actor(e.Event.Actor.ID)), sentence})
	}
	return all, data.NextCursor != "", nil
}

// tryRule is what a rule would have paid in the last month of its time zone, if it had been in force all the time, whenever it
// is to begin and to end.
func tryRule(p *page, body any) (trial, error) {
	rule, _ := body.(map[string]any)
	rule["effectiveFrom"] = "1970-01-01T00:00:00Z"
	delete(rule, "effectiveUntil")
	own, asked := p.zone(), map[string]any{"rule": rule}
	named, _ := rule["timeZone"].(string)
	if named != "" {
		zoned, err := calendar.Zone(named)
		if err != nil {
			return trial{}, invalid("timeZone", err.Error())
		}
		own, asked["timeZone"] = zone{zoned}, named
	}
	month := own.lastMonth(p.s.cfg.Now())
	asked["period"] = month
	monthly := func(month string) string {
		return p.zone().period(client.Statement{Period: month, TimeZone: named})
	}
	var r client.DryRunResult
	if err := p.do(call{op: "dry-run-settlement-rule", body: asked}, &r); err != nil {
		if e := asProblem(err); e != nil {
			for i, fault := range e.ValidationErrors { // as the form names its fields
				e.ValidationErrors[i].Field = strings.TrimPrefix(fault.Field, "rule.")
			}
			return trial{}, e
		}
		return trial{}, err
	}
	made := trial{Lead: fmt.Sprintf("If it had been in force in all of %s, it would have paid %s %s", monthly(month), money(r.Total.Amount, r.Total.Currency), r.Total.Currency)}
	var plays int64
	for _, l := range r.Lines {
		plays += l.Receipts
	}
	if made.Lines = append(made.Lines, fmt.Sprintf("It would have rated %s.", counted(plays, "play"))); plays == 0 {
		made.Nothing = true
		made.Lines[0] = "It would have rated no play: none is what it is for, or other rules rate them before it."
	}
	for _, payee := range r.Total.Payees {
		made.Lines = append(made.Lines, fmt.Sprintf("%s gets %s %s.", payee.Name, money(payee.Amount, r.Total.Currency), r.Total.Currency))
	}
	for _, a := range r.Adjustments {
		made.Lines = append(made.Lines, fmt.Sprintf("By its %s of %s: %s %s.", words(a.Reason), monthly(a.Month), money(a.Amount, r.Total.Currency), r.Total.Currency))
	}
	made.Lines = append(made.Lines, costs(r.Before, r.After)...)
	return made, nil
}

// costs says of each currency what all rules pay without a rule and with it, where that differs.
func costs(before, after []client.SettlementTotal) (lines []string) {
	with, without := map[string]string{}, map[string]string{}
	for _, t := range after {
		with[t.Currency] = t.Amount
	}
	for _, t := range before {
		without[t.Currency] = t.Amount
	}
	both := maps.Clone(with)
	maps.Copy(both, without)
	for _, currency := range slices.Sorted(maps.Keys(both)) {
		then, now := cmp.Or(without[currency], "0"), cmp.Or(with[currency], "0")
		if apart := minus(now, then); !isZero(apart) {
			what := "more"
			if less, negative := strings.CutPrefix(apart, "-"); negative {
				apart, what = less, "less"
			}
			lines = append(lines, fmt.Sprintf("All rules together: %[1]s %[2]s with it, %[3]s %[2]s without it: %[4]s %[2]s %[5]s.", money(now, currency), currency, money(then, currency), money(apart, currency), what))
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "All rules together would have paid the same without it.")
	}
	return append(lines, "These sums are without tiers, minimums and caps, which a statement applies to the whole month.")
}

// readMatch makes the members of a rule's match of the form's.
func readMatch(members map[string]any) error {
	match := map[string]any{}
	for _, name := range []string{"substrate", "rightId", "basisId", "campaign", "meteringBasis", "completion"} {
		if value, given := members[name]; given {
			match[name] = value
			delete(members, name)
		}
	}
	if written, given := members["label"].(string); given {
		name, value, found := strings.Cut(written, "=")
		if name = strings.TrimSpace(name); !found || name == "" {
			return invalid("label", "must be a name and a value, such as venue = central-station")
		}
		match["label"] = client.SettlementLabel{Name: name, Value: strings.TrimSpace(value)}
		delete(members, "label")
	}
	if len(match) > 0 {
		members["match"] = match
	}
	return nil
}

// readTiers makes tiers of lines such as "1000 0.5".
func readTiers(members map[string]any) error {
	written, given := members["tiers"].(string)
	if !given {
		return nil
	}
	var tiers []client.Tier
	for line := range strings.Lines(written) {
		parts := strings.Fields(line)
		if len(parts) == 0 {
			continue
		}
		if len(parts) != 2 {
			return invalid("tiers", "has the line “"+strings.TrimSpace(line)+"”: write a number of units and a price on each line")
		}
		above, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			return invalid("tiers", "has the volume “"+parts[0]+"”: write a whole number")
		}
		price, err := decimal("tiers", parts[1], false)
		if err != nil {
			return err
		}
		tiers = append(tiers, client.Tier{Above: above, Price: price})
	}
	members["tiers"] = tiers
	return nil
}

// readShares makes shares of lines such as "Song Rights Ltd 60", by the name or the id of a counterparty.
func readShares(written string, names payees) ([]client.SettlementShare, error) {
	var shares []client.SettlementShare
	for line := range strings.Lines(written) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line = strings.TrimSpace(strings.TrimSuffix(line, "%"))
		at := strings.LastIndexAny(line, " \t")
		if at < 0 {
			return nil, invalid("shares", "has the line “"+line+"”: write a name and a per cent number on each line")
		}
		payee, share := strings.TrimSpace(line[:at]), line[at+1:]
		bps, ok := basisPoints(share)
		if !ok {
			return nil, invalid("shares", "has the share “"+share+"”: write "+perCent)
		}
		switch named := names.called(payee); {
		case names[payee] != "" || len(named) == 0: // it is an id
		case len(named) == 1:
			payee = named[0]
		default:
			return nil, invalid("shares", "has “"+payee+"”, and several counterparties have this name: write the id, as the list of counterparties has it")
		}
		shares = append(shares, client.SettlementShare{CounterpartyID: payee, BPS: bps})
	}
	return shares, nil
}

// perCent is what basisPoints reads.
const perCent = "per cent with at most two digits behind the point"

// basisPoints reads per cent with at most two digits behind the point or comma, with the sign of per cent or without.
func basisPoints(percent string) (bps int64, ok bool) {
	percent = strings.TrimSpace(strings.TrimSuffix(percent, "%"))
	whole, fraction, _ := strings.Cut(strings.Replace(percent, ",", ".", 1), ".")
	if len(fraction) > 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+(fraction + "00")[:2], 10, 16)
	return int64(n), err == nil && whole != ""
}

// ruleFields are those of a new rule, filled in like the rule that the address names, if it names one. They are all that a
// rule has.
func ruleFields(p *page) ([]field, error) {
	fields := []field{
		{Name: "price", Label: "Price", Kind: "decimal", Required: true, Example: "0.005"},
		{Name: "currency", Label: "Currency", Required: true, Example: "EUR"},
		{Name: "unit", Label: "For each", Kind: "select", Options: []string{"SECOND", "IMPRESSION", "CPM", "EVENT", "MS"}, Names: unitNames, Required: true},
		{Name: "shares", Label: "Who gets it", Kind: "area", Required: true, Example: "Song Rights Ltd 60\nVenue Media 40", Hint: "A line for each counterparty: its name, and its share in per cent. Together 100."},
		{Name: "substrate", Label: "Only on the medium", Kind: "select", Options: substrates()},
		{Name: "rightId", Label: "Only on the right", Of: anyRight, Example: "rgh_…"},
		{Name: "campaign", Label: "Only on the campaign", Of: campaign},
		{Name: "label", Label: "Only on rights with the label", Example: "venue = central-station"},
		{Name: "effectiveFrom", Label: "From", Kind: "time", Hint: "Now, unless you name a time."}, {Name: "effectiveUntil", Label: "Until (exclusive)", Kind: "time", Hint: "Until it is retired, unless you name a time."},
		{More: true, Name: "basisId", Label: "Only on rights under the basis", Of: anyBasis, Example: "bas_…"},
		{More: true, Name: "meteringBasis", Label: "Only what is metered as", Kind: "select", Options: []string{"gross", "viewable", "audible", "delivered"}},
		{More: true, Name: "completion", Label: "Only videos played to", Kind: "select", Options: []string{"started", "first_quartile", "midpoint", "third_quartile", "complete"}},
		{More: true, Name: "tiers", Label: "For more of it in a month", Kind: "area", Example: "1000 0.004", Hint: "A line for each: the units above which it holds, and the price."},
		{More: true, Name: "tiersMode", Label: "Such a price is for", Kind: "select", Options: []string{"GRADUATED", "VOLUME"}, Names: tiersModes},
		{More: true, Name: "minimum", Label: "At least, a month", Kind: "money"}, {More: true, Name: "cap", Label: "At most, a month", Kind: "money"},
		{More: true, Name: "timeZone", Label: "Months of the time zone", Example: p.Zone(), Hint: "Your tenant's, unless you name one."},
		{More: true, Name: "priority", Label: "Priority", Kind: "number", Hint: "Of several rules that fit, the highest rates."},
	}
	like := p.r.URL.Query().Get("like")
	if like == "" || !p.can("get-settlement-rule") {
		return fields, nil
	}
	var data struct{ Rule client.SettlementRule }
	if err := p.get(&data, "get-settlement-rule", nil, like); err != nil {
		return nil, err
	}
	names, err := readPayees(p)
	if err != nil {
		return nil, err
	}
	filled := p.filledLike(data.Rule, names)
	for i := range fields {
		fields[i].Value = filled[fields[i].Name]
	}
	return fields, nil
}

// filledLike are the fields of a form that makes the same rule again.
func (p *page) filledLike(rule client.SettlementRule, names payees) map[string]string {
	var shares, tiers strings.Builder
	for _, share := range rule.Shares {
		payee := share.CounterpartyID
		if name := names[payee]; len(names.called(name)) == 1 {
			payee = name
		}
		fmt.Fprintf(&shares, "%s %s\n", payee, percent(share.BPS))
	}
	for _, tier := range rule.Tiers {
		fmt.Fprintf(&tiers, "%d %s\n", tier.Above, tier.Price)
	}
	filled := map[string]string{
		"price": rule.Price, "currency": rule.Currency, "unit": rule.Unit, "shares": shares.String(), "tiers": tiers.String(), "tiersMode": rule.TiersMode, "minimum": sure(rule.Minimum), "cap": sure(rule.Cap),
		"timeZone": rule.TimeZone, "effectiveFrom": p.zone().field(rule.EffectiveFrom), "effectiveUntil": p.zone().field(rule.EffectiveUntil),
		"rightId": rule.Match.RightID, "basisId": rule.Match.BasisID, "campaign": rule.Match.Campaign, "meteringBasis": rule.Match.MeteringBasis, "completion": rule.Match.Completion, "substrate": rule.Match.Substrate,
	}
	if rule.Priority != 0 {
		filled["priority"] = fmt.Sprint(rule.Priority)
	}
	if label := rule.Match.Label; label != nil {
		filled["label"] = label.Name + " = " + label.Value
	}
	return filled
}

// ruleBody is the body of the request for a rule.
func ruleBody(p *page, members map[string]any) (any, error) {
	if err := readMatch(members); err != nil {
		return nil, err
	}
	if err := readTiers(members); err != nil {
		return nil, err
	}
	var names payees
	if p.can("list-counterparties") {
		var err error
		if names, err = readPayees(p); err != nil {
			return nil, err
		}
	}
	written, _ := members["shares"].(string)
	shares, err := readShares(written, names)
	members["shares"] = shares
	return members, err
}

var ruleActs = []*act{
	{
		path: "/money/rules/new", op: "create-settlement-rule", section: "Money", title: "New rule", submit: "Make the rule",
		consequences: saying("/money", "", "Plays that were rendered from its beginning on are rated by it, those that are not on an issued statement yet included.", "Try it first: that shows what it would have paid last month, and changes nothing."),
		fields:       ruleFields, body: ruleBody,
		try: tryRule, tryText: "Try it on last month",
		after: goTo("/money/rules", "rule", "rule-made"),
	},
	{
		path: "/money/rules/{ruleId}/retire", op: "retire-settlement-rule", section: "Money", title: "Retire the rule", submit: "Retire", button: "Retire…", on: states("rule", func(r client.SettlementRule) string { return r.State }, "ACTIVE"),
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
			c.record = data.Rule
			return c, err
		},
		after: func(p *page, _ []string, _ json.RawMessage) error { p.done(Path+"/money", "rule-retired"); return nil },
	},
}

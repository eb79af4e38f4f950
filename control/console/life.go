package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"muniment.example/gate"
	"muniment.example/gateway/client"
	"muniment.example/sealer"
)

// life is a play from its report to its payment.
type life struct {
	Play
	Right      *client.Right // nil: the session may not read it
	Called     string        // what people call it
	Rules      []rule
	Reasons    []rule
	Older      bool // it was decided by another version of the rules than this one's
	Statements []stated
	Partial    bool // there are more statements than were looked at
	Disputes   []client.Dispute
	CanMoney   bool
	CanDispute bool
	Node       string
	Loaded     bool // it is in the sums
}

// Play has another name in a life, which templates can reach.
type Play = play

// Shown is how long it was shown, and how much of that is billed.
func (l *life) Shown() string {
	shown, billed := int64(l.Receipt.DwellMs), l.Event.Data.Metering.QuantityMs
	switch {
	case !l.Event.Data.Metering.Metered:
		return "shown for " + long(shown) + ", not billed"
	case billed == shown:
		return "shown for " + long(shown) + ", all of it billed"
	}
	return "shown for " + long(shown) + ", " + long(billed) + " of it billed"
}

// rule is a rule of the gate, or a reason not to bill, as it was decided.
type rule struct {
	Code, Name, Means, Source string
	Applies                   bool // of a reason: it kept the play from being billed
}

// stated is a statement about the time of a play.
type stated struct {
	client.Statement
	Line  bool // it has a line for the right at the play's tier
	Found bool // the play is among the receipts behind the line
	Rule  string
	More  bool // the line has more receipts than were looked at
}

// statementsChecked is how many statements, the newest first, a play's page looks at.
const statementsChecked = 100

func showPlay(p *page) error {
	p.show("Plays", "Play")
	l := life{CanMoney: p.can("list-statements"), CanDispute: p.can("list-disputes")}
	receiptID := p.r.PathValue("receiptId")
	if err := p.get(&l.Play, "get-receipt", nil, receiptID); err != nil {
		return err
	}
	if p.can("get-right") {
		var data struct{ Right client.Right }
		if err := p.get(&data, "get-right", nil, l.Event.Data.RightID); err != nil && !absent(err) {
			return err
		}
		if data.Right.ID != "" {
			l.Right, l.Called = &data.Right, cmp.Or(workOf(data.Right), words(data.Right.Substrate)+" of "+data.Right.HolderOrgID)
		}
	}
	if err := l.readLoaded(p); err != nil {
		return err
	}
	l.decide()
	if l.Receipt.Witness != nil {
		if parts := strings.Split(*l.Receipt.Witness, ":"); len(parts) == 3 {
			l.Node = parts[1]
		}
	}
	if l.CanDispute {
		var data struct{ Disputes []client.Dispute }
		if err := p.get(&data, "list-disputes", url.Values{"receiptId": {receiptID}}); err != nil {
			return err
		}
		l.Disputes = data.Disputes
	}
	if l.CanMoney {
		if err := l.readStatements(p); err != nil {
			return err
		}
	}
	p.render("play", &l)
	return nil
}

// readLoaded finds out whether the warehouse has the play: sums and lists have it from then on.
func (l *life) readLoaded(p *page) error {
	var data struct{ AsOf string }
	if err := p.do(call{op: "list-receipts", query: url.Values{"limit": {"1"}}, quiet: true}, &data); err != nil {
		return err
	}
	loaded, err := sealer.ParsePosition(data.AsOf)
	if err != nil {
		return nil // nothing is loaded
	}
	at, err := sealer.ParsePosition(l.Position)
	l.Loaded = err == nil && at.Compare(loaded) < 0
	return err
}

func absent(err error) bool {
	e := (*problem)(nil)
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// decide lists the rules of the play's medium. A play that has a receipt passed all that refuse.
func (l *life) decide() {
	catalogue := gate.NewCatalogue()
	l.Older = l.Event.Data.Gate.Ruleset != catalogue.Ruleset
	surface := slices.IndexFunc(catalogue.Substrates, func(s gate.Surface) bool { return fmt.Sprint(s.Substrate) == l.Event.Data.Substrate })
	if surface < 0 {
		return
	}
	for _, r := range catalogue.Refusals {
		if slices.Contains(catalogue.Substrates[surface].Refusals, r.Code) {
			l.Rules = append(l.Rules, rule{Code: r.Code, Name: r.Rule, Means: sentence(r.Conditions), Source: r.Reference})
		}
	}
	for _, s := range catalogue.Suppressions {
		if slices.Contains(catalogue.Substrates[surface].Suppressions, s.Reason) {
			l.Reasons = append(l.Reasons, rule{Name: s.Reason, Means: sentence(s.Conditions), Source: s.Reference, Applies: slices.Contains(l.Event.Data.Metering.Reasons, s.Reason)})
		}
	}
}

// sentence says when a condition holds.
func sentence(all []gate.Condition) string {
	var parts []string
	for _, c := range all {
		text := strings.Join(c.When, " and ")
		if len(c.Unless) > 0 {
			if text != "" {
				text += " "
			}
			text += "unless " + strings.Join(c.Unless, " or ")
		}
		if text != "" && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; or ")
}

// readStatements finds statements about the time at which the play was rendered, and in which line of
// them it is.
func (l *life) readStatements(p *page) error {
	var data struct {
		Statements []client.Statement
		NextCursor string
	}
	if err := p.get(&data, "list-statements", url.Values{"limit": {fmt.Sprint(statementsChecked)}}); err != nil {
		return err
	}
	l.Partial = data.NextCursor != ""
	at := l.Receipt.RenderedAt
	for _, s := range data.Statements {
		if s.State == "DISCARDED" || at.Before(s.From) || !at.Before(s.To) {
			continue
		}
		one := stated{Statement: s}
		var lines struct {
			Receipts   []client.LineReceipt
			NextCursor string
		}
		err := p.get(&lines, "list-statement-receipts", url.Values{"rightId": {l.Event.Data.RightID}, "meteringBasis": {l.Event.Data.Metering.Basis}, "limit": {"500"}}, s.ID)
		if err != nil && wrong(err) == nil && !absent(err) {
			return err
		}
		one.Line, one.More = len(lines.Receipts) > 0, lines.NextCursor != ""
		for _, r := range lines.Receipts {
			if r.ReceiptID == l.Receipt.ReceiptID {
				one.Found, one.Rule = true, r.RuleID
			}
		}
		if l.Statements = append(l.Statements, one); len(l.Statements) == 5 {
			return nil
		}
	}
	return nil
}

func sendReceiptProof(p *page) error {
	return p.serve("prove-receipt", nil, p.r.PathValue("receiptId"))
}

package console

import (
	"encoding/json"
	"net/url"
	"slices"

	"muniment.example/gateway/client"
)

func statementsList(names payees) list[client.Statement] {
	return list[client.Statement]{
		op: "list-statements", plural: "statements", columns: []string{"Statement", "About", "For", "State", "Total", "Held", "Open", "Plays", "Made"},
		row: func(s client.Statement) []cell {
			about := s.Period
			if about == "" {
				about = day(s.From) + " to " + day(s.To)
			}
			payee := "all"
			if s.CounterpartyID != "" {
				payee = names.Name(s.CounterpartyID)
			}
			shown := state(s.State)
			if s.Corrects != "" {
				shown.Note = "correction"
			}
			return []cell{id(s.ID, "/money/statements"), text(about), text(payee), shown, number(s.Total + " " + s.Currency), number(s.HeldAmount), number(s.DueAmount), amount(s.Receipts), moment(s.CreatedAt)}
		},
	}
}

func showStatements(p *page) error {
	p.show("Money", "Statements")
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	return showList(p, statementsList(names), listed{
		Lead: "What is owed for a period, from the draft to the payment. An issued statement never changes: a correction is another one.", Empty: "No statement is there yet. Draft one for the last month; a draft binds nobody.",
		New: slices.Concat(p.offer("draft-statement", "New draft", "/money/statements/new?period="+lastMonth(p.s.cfg.Now().UTC())), p.offer("list-settlement-rules", "Rules", "/money")),
	}, filter{Name: "state", Label: "State", Options: options("DRAFT", "ISSUED", "SETTLED", "VOIDED", "DISCARDED")}, filter{Name: "currency", Label: "Currency", Example: "EUR"}, filter{Name: "counterpartyId", Label: "Counterparty", Example: "cp_…"})
}

func sendStatements(p *page) error {
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	l := statementsList(names)
	l.query = p.filters("state", "currency", "counterpartyId")
	return l.csv(p, "statements")
}

// statementPage is a statement with its lines and its papers.
type statementPage struct {
	client.Statement
	Lines    []client.SettlementLine
	Adjusted []struct{ Amount, Month, Reason string }
	Payables []client.Payable
	Links    []payeeLink
	// Older and Newest lead to other pages of Links; empty if there are none.
	Older, Newest string
	Names         payees
	Steps         []step
}

// step is a state in the life of a statement.
type step struct {
	Name string
	Past bool
	Here bool
}

func showStatement(p *page) error {
	p.show("Money", "Statement")
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	statementID := p.r.PathValue("statementId")
	var data client.StatementDocument
	if err := p.get(&data, "get-statement", nil, statementID); err != nil {
		return err
	}
	s := statementPage{Statement: data.Statement, Names: names}
	if len(data.Document) > 0 && string(data.Document) != "null" {
		var document struct {
			Lines       []client.SettlementLine
			Adjustments []struct{ Amount, Month, Reason string }
		}
		if err := json.Unmarshal(data.Document, &document); err != nil {
			return err
		}
		s.Lines, s.Adjusted = document.Lines, document.Adjustments
		if len(s.Lines) > 500 {
			s.Lines = s.Lines[:500]
		}
	}
	if s.State != "DRAFT" && s.State != "DISCARDED" {
		var payables struct{ Payables []client.Payable }
		if err := p.get(&payables, "list-payables", url.Values{"statementId": {statementID}, "limit": {"100"}}); err != nil {
			return err
		}
		s.Payables = payables.Payables
		cursor := p.r.URL.Query().Get("cursor")
		var next string
		if s.Links, next, err = p.payeeLinks(statementID, cursor, pageRows); err != nil {
			return err
		}
		if next != "" {
			s.Older = addressed(p.Path, url.Values{"cursor": {next}})
		}
		if cursor != "" {
			s.Newest = p.Path
		}
	}
	order := []string{"DRAFT", "ISSUED", "SETTLED"}
	at := slices.Index(order, s.State)
	for i, name := range order {
		s.Steps = append(s.Steps, step{Name: name, Past: i < at, Here: i == at})
	}
	p.render("statement", s)
	return nil
}

// sendPaper sends a form of a statement that is no page.
func sendPaper(p *page) error {
	query := p.filters("format", "table", "payee")
	if !slices.Contains([]string{"pdf", "html", "csv", "signed"}, query.Get("format")) {
		return invalid("format", "must be pdf, html, csv or signed")
	}
	if query.Get("format") == "csv" {
		query.Set("bom", "true")
	}
	return p.serve("get-statement", query, p.r.PathValue("statementId"))
}

// aboutStatement are the consequences of an act on a statement in one of some states.
func aboutStatement(states []string, lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/money/statements/" + url.PathEscape(params[0]), Lines: lines}
		if !p.can("get-statement") {
			return c, nil
		}
		var data client.StatementDocument
		if err := p.get(&data, "get-statement", nil, params[0]); err != nil {
			return c, err
		}
		s := data.Statement
		c.Lead = day(s.From) + " to " + day(s.To) + ": " + s.Total + " " + s.Currency + ", " + count(s.Receipts) + " plays"
		if !slices.Contains(states, s.State) {
			c.Stop = "The statement is " + s.State + ", so there is nothing to do here."
		}
		if s.HeldAmount != "" && s.HeldAmount != "0" {
			c.Lines = append(slices.Clone(lines), "Disputes hold "+s.HeldAmount+" "+s.Currency+" out of it. Once they are resolved a correction can state it.")
		}
		return c, nil
	}
}

func toStatements(deed string) func(*page, []string, json.RawMessage) error {
	return func(p *page, _ []string, _ json.RawMessage) error {
		p.done(Path+"/money/statements", deed)
		return nil
	}
}

var statementActs = []*act{
	{
		path: "/money/statements/new", op: "draft-statement", section: "Money", title: "New draft of a statement", submit: "Draft", filled: []string{"period"},
		consequences: saying("/money/statements", "", "What was played so far is sealed first. A draft binds nobody: look at it, then issue or discard it."),
		fields: fixed(field{Name: "currency", Label: "Currency", Required: true, Example: "EUR"}, field{Name: "period", Label: "Month, week or day", Example: "2026-10", Hint: "Or from and to."},
			field{Name: "from", Label: "From", Example: "2026-10-01T00:00:00Z"}, field{Name: "to", Label: "To (exclusive)"}, field{Name: "counterpartyId", Label: "Only the counterparty", Example: "cp_…"}, field{Name: "timeZone", Label: "Time zone", Example: "Europe/Berlin"}),
		after: goTo("/money/statements", "statement", "statement-drafted"),
	},
	{path: "/money/statements/{statementId}/issue", op: "issue-statement", section: "Money", title: "Issue the statement", submit: "Issue and sign", danger: true, consequences: aboutStatement([]string{"DRAFT"}, "It is signed, gets its numbers, and never changes again. A mistake is repaired by a correction, or by voiding it, which both are signed, too.", "Each payee is due an amount from then on."), after: goBack("/money/statements", "statement-issued")},
	{path: "/money/statements/{statementId}/discard", op: "discard-statement", section: "Money", title: "Discard the draft", submit: "Discard", consequences: aboutStatement([]string{"DRAFT"}, "The draft is over. Another one can be made at any time."), after: toStatements("statement-discarded")},
	{path: "/money/statements/{statementId}/correct", op: "correct-statement", section: "Money", title: "Draft a correction", submit: "Draft the correction", consequences: aboutStatement([]string{"ISSUED", "SETTLED"}, "A draft is made that states the difference to what was stated, by plays that came later and by disputes that were resolved.", "The statement itself does not change."), after: goTo("/money/statements", "statement", "statement-drafted")},
	{path: "/money/statements/{statementId}/void", op: "void-statement", section: "Money", title: "Void the statement", submit: "Void it", danger: true, fields: fixed(field{Name: "reason", Label: "Reason", Kind: "area", Required: true, Hint: "It is signed. " + permanent}), consequences: aboutStatement([]string{"ISSUED", "SETTLED"}, "A signed credit takes all of it back, with all its corrections. The plays can be stated again.", "This can't be undone."), after: toStatements("statement-voided")},
	{path: "/money/statements/{statementId}/settle", op: "settle-statement", section: "Money", title: "Record a payment", submit: "Record", fields: fixed(field{Name: "reference", Label: "Reference of the payment", Required: true, Hint: permanent}, field{Name: "counterpartyId", Label: "Payee", Example: "cp_…", Hint: "All payees, unless you name one."}, field{Name: "amount", Label: "Amount", Hint: "All that is open, unless you name an amount."}, field{Name: "date", Label: "Day of the payment", Example: "2026-11-30", Hint: "Today, unless you name a day."}), consequences: aboutStatement([]string{"ISSUED", "SETTLED"}, "It records that you have paid. No money moves by it."), after: goBack("/money/statements", "payment-recorded")},
}

package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"muniment.example/gateway/client"
	"muniment.example/sealer/calendar"
	"muniment.example/sealer/rate"
)

// period is what a statement is about, for people. A statement has a time zone of its own, which is named where it is not the
// page's.
func (z zone) period(s client.Statement) string {
	of := ""
	if own, err := calendar.Zone(s.TimeZone); err == nil && s.TimeZone != "" && own.String() != z.String() {
		z, of = zone{own}, " ("+s.TimeZone+")"
	}
	if month, err := time.Parse("2006-01", s.Period); err == nil {
		return month.Format("January 2006") + of
	}
	return z.span(s.From, s.To) + of
}

// titled is what a statement is called: a correction and a voiding are others than the one that they are about.
func (z zone) titled(s client.Statement) string {
	switch {
	case s.VoidReason != "":
		return "Voiding of " + z.period(s)
	case s.Corrects != "":
		return fmt.Sprintf("Correction %d of %s", s.Correction, z.period(s))
	}
	return "Statement " + z.period(s)
}

func statementsList(p *page, names payees) list[client.Statement] {
	return list[client.Statement]{
		op: "list-statements", plural: "statements", columns: []string{"Statement", "State", "Open", "Difference", "Total", "Held", "Currency", "For", "Plays", "Corrects", "Made", "Id"},
		row: func(s client.Statement) []cell {
			payee := "all"
			if s.CounterpartyID != "" {
				payee = names.Name(s.CounterpartyID)
			}
			return []cell{
				{Text: p.zone().titled(s), Href: Path + "/money/statements/" + url.PathEscape(s.ID)}, p.State(s), priced(s.DueAmount, s.Currency), priced(adds(s), s.Currency), priced(s.Total, s.Currency), priced(s.HeldAmount, s.Currency), text(s.Currency),
				text(payee), amount(s.Receipts), corrected(s), moment(s.CreatedAt), reference(s.ID),
			}
		},
	}
}

// overtaken says what has overtaken a stale draft, for what.
var overtaken = map[string]string{
	"CORRECTED":  "what it corrects was corrected or voided",
	"STATED":     "another statement of the same was issued",
	"OVERLAPPED": "another statement of its time was issued or voided",
	"DISPUTED":   "a dispute of its time was opened or resolved",
}

// State is the state of a statement; that of a stale draft is not that of a fresh one.
func (p *page) State(s client.Statement) cell {
	shown := state(s.State)
	if s.Stale != "" {
		shown.Text, shown.State, shown.Note = "stale draft", "STALE", cmp.Or(overtaken[s.Stale], words(s.Stale))+" since"
	}
	return shown
}

// adds is what a statement adds to what was stated before it: a correction states all of its period again. So the amounts of a
// list sum to what is stated. A draft states nothing.
func adds(s client.Statement) string {
	switch {
	case s.State == "DRAFT" || s.State == "DISCARDED":
		return ""
	case s.Corrects != "":
		return s.Difference
	}
	return s.Total
}

// corrected is the statement that another corrects or voids.
func corrected(s client.Statement) cell {
	if s.Corrects == "" {
		return cell{}
	}
	return id(s.Corrects, "/money/statements")
}

func showStatements(p *page) error {
	p.show("Money", "Statements")
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	return showList(p, statementsList(p, names), listed{
		Lead: "What is owed for a period, from the draft to the payment. An issued statement never changes: a correction is another one, which states the whole period again, so add up the differences and not the totals.", Empty: "No statement is there yet. Draft one for the last month; a draft binds nobody.",
		New: slices.Concat(p.offer("draft-statement", "New draft", "/money/statements/new"), p.offer("list-settlement-rules", "Rules", "/money"), p.offer("list-payables", "Payables", "/money/payables"), p.offer("reconcile-settlement", "Reconciliation", "/money/reconciliation")),
	}, filter{Name: "state", Label: "State", Options: []string{"DRAFT", "ISSUED", "SETTLED", "VOIDED", "DISCARDED"}}, filter{Name: "currency", Label: "Currency", Example: "EUR"}, payeeFilter)
}

func sendStatements(p *page) error {
	names, err := readPayees(p)
	if err != nil {
		return err
	}
	l := statementsList(p, names)
	l.query = p.filters("state", "currency", "counterpartyId")
	return l.csv(p, "statements")
}

// statementRecord is a statement with what its payees are due of it: an act may depend on both.
type statementRecord struct {
	client.Statement
	Payables []due
}

// due is a payable.
type due struct{ client.Payable }

// Open is what is open of it, a decimal.
func (d due) Open() string { return minus(d.Gross, d.PaidAmount) }

// IsCredit reports whether the payee owes it: it is set off against what the payee is due later.
func (d due) IsCredit() bool { return strings.HasPrefix(d.Gross, "-") }

// Stands says where a payable stands today: a credit is due from nobody, and what was due before this day is overdue.
func (p *page) Stands(d due) cell {
	shown := state(d.State)
	switch {
	case d.State != "DUE":
	case d.IsCredit():
		shown.Text, shown.State = "credit", "CREDIT"
	case d.DueOn != "" && d.DueOn < p.zone().today(p.s.cfg.Now()):
		shown.Text, shown.State = "overdue", "OVERDUE"
	}
	return shown
}

// concerned reports whether a payment can be recorded of it, or taken back.
func (d due) concerned() bool { return !isZero(d.Open()) || !isZero(d.Paid()) }

// Paid is what is recorded as paid of it: what was set off is none of that.
func (d due) Paid() string {
	paid := "0"
	for _, one := range d.Payments {
		if !one.SetOff {
			paid = plus(paid, one.Amount)
		}
	}
	return paid
}

// readDocument reads a statement, and what it says; null for one that is discarded.
func (p *page) readDocument(id string) (client.Statement, json.RawMessage, error) {
	if err := p.missing("get-statement"); err != nil {
		return client.Statement{}, nil, err
	}
	var data client.StatementDocument
	err := p.get(&data, "get-statement", nil, id)
	return data.Statement, data.Document, err
}

// readStatement reads a statement with its payables, and what it says.
func (p *page) readStatement(id string) (record statementRecord, document json.RawMessage, err error) {
	if record.Statement, document, err = p.readDocument(id); err != nil || record.State == "DRAFT" || record.State == "DISCARDED" {
		return record, document, err
	}
	of, err := p.payablesOf(id)
	record.Payables = of.Payables
	return record, document, err
}

// payables are the first 500 of a statement.
type payables struct {
	Payables   []due
	NextCursor string
}

// payablesOf reads the payables of a statement, once a page.
func (p *page) payablesOf(statementID string) (of payables, err error) {
	if read, known := p.payables[statementID]; known {
		return read, nil
	}
	if err := p.get(&of, "list-payables", url.Values{"statementId": {statementID}, "limit": {"500"}}); err != nil {
		return of, err
	}
	if p.payables == nil {
		p.payables = map[string]payables{}
	}
	p.payables[statementID] = of
	return of, nil
}

// statementPage is a statement with its lines and its papers.
type statementPage struct {
	statementRecord
	Called      string
	Lines       []client.SettlementLine
	AllLines    int // of which the page has the first shownRows
	Adjusted    []adjustment
	Corrections []client.Statement // of it, and what voids it
	Links       []payeeLink
	// Older and Newest lead to other pages of Links; empty if there are none.
	Older, Newest string
	Names         payees
	Rights        works
	Steps         []step
	Buttons       []button
	// Sums are those of Payables; MorePayables is whether there are others.
	Sums         dueTotals
	MorePayables bool
	// Early says why a draft can't be issued; empty if it can. Anew is where another one is made, if that is what to do, and
	// the session may.
	Early string
	Anew  button
}

// dueTotals are what several payables add up to, exactly.
type dueTotals struct{ Open, Net, Tax, Gross string }

func totalsOf(all []due) (s dueTotals) {
	for _, d := range all {
		s = dueTotals{plus(s.Open, d.Open()), plus(s.Net, d.Net), plus(s.Tax, d.Tax), plus(s.Gross, d.Gross)}
	}
	return s
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
	record, document, err := p.readStatement(statementID)
	if err != nil {
		return err
	}
	s := statementPage{statementRecord: record, Called: p.zone().titled(record.Statement), Names: names, Buttons: p.Acts(record, statementID)}
	p.Title = s.Called
	said, err := readLines(document)
	if err != nil {
		return err
	}
	s.Lines, s.Adjusted = said.Lines[:min(len(said.Lines), shownRows)], said.Adjustments
	s.AllLines = len(said.Lines)
	if s.Rights, err = p.readWorks(); err != nil {
		return err
	}
	s.Sums, s.MorePayables = totalsOf(s.Payables), p.payables[statementID].NextCursor != ""
	if s.State == "DRAFT" {
		s.Early, s.Anew = issuable(p, record), p.anew(record.Statement)
	} else if s.State != "DISCARDED" {
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
		var later struct{ Statements []client.Statement }
		if err := p.get(&later, "list-statements", url.Values{"corrects": {cmp.Or(s.Corrects, statementID)}, "limit": {"100"}}); err != nil { // all correct the first
			return err
		}
		s.Corrections = slices.DeleteFunc(later.Statements, func(c client.Statement) bool {
			return c.State == "DISCARDED" || c.Correction <= s.Correction
		})
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

// aboutStatement are the consequences of an act on a statement.
func aboutStatement(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/money/statements/" + url.PathEscape(params[0]), Lines: lines}
		if !p.can("get-statement") {
			return c, nil
		}
		s, _, err := p.readStatement(params[0])
		if err != nil {
			return c, err
		}
		c.Lead = p.zone().titled(s.Statement) + ": " + money(s.Total, s.Currency) + " " + s.Currency + " net, " + counted(s.Receipts, "play")
		c.record = s
		if s.HeldAmount != "" && s.HeldAmount != "0" {
			c.Lines = append(slices.Clone(lines), "Disputes hold "+money(s.HeldAmount, s.Currency)+" "+s.Currency+" out of it. Once they are resolved a correction can state it.")
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
		consequences: saying("/money/statements", "", "What was played so far is sealed first. A draft binds nobody: look at it, then issue or discard it."), fields: draftFields,
		after: goTo("/money/statements", "statement", "statement-drafted"),
	},
	{path: "/money/statements/{statementId}/issue", op: "issue-statement", section: "Money", title: "Issue the statement", submit: "Issue and sign", danger: true, button: "Issue…", main: true, on: where(issuable), consequences: aboutStatement("It is signed, gets its numbers, and never changes again. A mistake is repaired by a correction, or by voiding it, which both are signed, too.", "Each payee is due an amount from then on."), after: goBack("/money/statements", "statement-issued")},
	{path: "/money/statements/{statementId}/discard", op: "discard-statement", section: "Money", title: "Discard the draft", submit: "Discard", button: "Discard…", on: statementIs("DRAFT"), consequences: aboutStatement("The draft is over. Another one can be made at any time."), after: toStatements("statement-discarded")},
	{path: "/money/statements/{statementId}/correct", op: "correct-statement", section: "Money", title: "Draft a correction", submit: "Draft the correction", button: "Correct…", on: statementIs("ISSUED", "SETTLED"), consequences: aboutStatement("A draft is made that states the difference to what was stated, by plays that came later and by disputes that were resolved.", "The statement itself does not change."), after: goTo("/money/statements", "statement", "statement-drafted")},
	{path: "/money/statements/{statementId}/void", op: "void-statement", section: "Money", title: "Void the statement", submit: "Void it", danger: true, button: "Void…", on: statementIs("ISSUED", "SETTLED"), fields: fixed(field{Name: "reason", Label: "Reason", Kind: "area", Required: true, Hint: "It is signed. " + permanent}), consequences: aboutStatement("A signed credit takes all of it back, with all its corrections. The plays can be stated again.", "This can't be undone."), after: toStatements("statement-voided")},
	{path: "/money/statements/{statementId}/settle", op: "settle-statement", section: "Money", title: "Record a payment", submit: "Record", button: "Record a payment…", main: true, on: where(payable), fields: paymentFields, body: func(p *page, members map[string]any) (any, error) {
		switch members["counterpartyId"] {
		case everyone:
			delete(members, "counterpartyId")
		case nil:
			if !p.can(payeesListed...) {
				return nil, invalid("counterpartyId", "is missing")
			}
		}
		return members, nil
	}, consequences: aboutStatement("It records that you have paid. No money moves by it."), after: goBack("/money/statements", "payment-recorded")},
}

func statementIs(all ...string) func(*page, any) (string, bool) {
	return states("statement", func(s statementRecord) string { return s.State }, all...)
}

// issuable says why a statement can't be issued now. A draft that was made before its period ended may lack what came later.
func issuable(p *page, s statementRecord) string {
	switch {
	case s.State != "DRAFT":
		return "The statement is " + words(s.State) + ": only a draft can be issued."
	case s.Stale != "":
		next := "draft it again"
		if s.Stale == "STATED" {
			next = "correct that statement for what came later"
		}
		return "Since it was drafted, " + cmp.Or(overtaken[s.Stale], "something has overtaken it") + ". It can’t be issued any more: discard it, and " + next + "."
	case s.To.After(p.s.cfg.Now()):
		return "Its period lasts until " + p.zone().end(s.To) + ". Draft it again after that, and issue the new draft."
	case s.CreatedAt.Before(s.To):
		return "It was drafted before its period ended, so it may lack what came later. Draft it again, and issue the new draft."
	}
	return ""
}

// anew leads to another draft in place of one that can't be issued any more.
func (p *page) anew(s client.Statement) button {
	switch {
	case s.Stale == "" && !s.CreatedAt.Before(s.To) || s.To.After(p.s.cfg.Now()):
	case s.Stale == "STATED":
		return button{Text: "Statements of the currency", Href: addressed(Path+"/money/statements", url.Values{"currency": {s.Currency}})}
	case s.Corrects != "" && p.can("correct-statement"):
		return button{Text: "New draft of the correction…", Href: Path + "/money/statements/" + url.PathEscape(s.Corrects) + "/correct"}
	case s.Corrects == "" && p.can("draft-statement"):
		about := url.Values{}
		if _, err := time.Parse("2006-01", s.Period); err == nil { // the form takes no other
			about.Set("period", s.Period)
		}
		return button{Text: "New draft…", Href: addressed(Path+"/money/statements/new", about)}
	}
	return button{}
}

// payable says why nothing can be recorded as paid of a statement: nothing is open, and nothing was paid that could be
// taken back. One that is issued and of which nothing is due is settled by a reference alone.
func payable(_ *page, s statementRecord) string {
	switch {
	case s.State == "DRAFT" || s.State == "DISCARDED":
		return "The statement is " + words(s.State) + ": only one that is issued is paid."
	case s.State != "ISSUED" && !slices.ContainsFunc(s.Payables, due.concerned):
		return "Nothing of it is open to be paid."
	}
	return ""
}

// everyone is the choice of all payees in the form of a payment.
const everyone = "all"

// payeesListed are the operations that list the payees of a statement by their names.
var payeesListed = []string{"list-payables", "list-counterparties"}

// paymentFields are those of a payment: the payees with what is open of each. Of a statement of which nothing is due there are
// none to choose from.
func paymentFields(p *page) ([]field, error) {
	payee := field{Name: "counterpartyId", Label: "Payee", Required: true, Example: "cp_…"}
	fields := []field{
		{Name: "reference", Label: "Reference of the payment", Required: true, Hint: permanent},
		{Name: "amount", Label: "Amount", Kind: "money", Hint: "All that is open, unless you name an amount, with the sign of what is open. One of the other sign takes back what was recorded: -4.28 of what was paid, 4.28 of a credit."},
		{Name: "date", Label: "Day of the payment", Kind: "date", Hint: "Today, unless you name a day."},
	}
	if p.can(payeesListed...) {
		of, err := p.payablesOf(p.r.PathValue("statementId"))
		if err != nil {
			return nil, err
		}
		names, err := readPayees(p)
		if err != nil {
			return nil, err
		}
		payee.Kind, payee.Names = "select", map[string]string{}
		var open []string
		total := "0"
		for _, d := range of.Payables {
			if rate.Minor(d.Currency) > 2 { // an amount may have three digits behind the point
				fields[1].Kind = "decimal"
			}
			if !d.concerned() {
				continue
			}
			payee.Options = append(payee.Options, d.CounterpartyID)
			payee.Names[d.CounterpartyID] = fmt.Sprintf("%s: %s %s open", names.Name(d.CounterpartyID), money(d.Open(), d.Currency), d.Currency)
			if !d.IsCredit() && !isZero(d.Open()) {
				open, total = append(open, d.CounterpartyID), plus(total, d.Open())
			}
		}
		slices.SortFunc(payee.Options, func(a, b string) int { return strings.Compare(payee.Names[a], payee.Names[b]) })
		switch {
		case of.NextCursor != "": // and what is open of the others is not known
			payee.Options = append(payee.Options, everyone)
			payee.Names[everyone] = "all of them, those that are not listed here, too"
		case len(payee.Options) == 0:
			return fields, nil
		case len(open) == 1:
			payee.Value = open[0]
		case len(open) > 1:
			payee.Options = append(payee.Options, everyone)
			payee.Names[everyone] = fmt.Sprintf("all of them: %s %s open", money(total, of.Payables[0].Currency), of.Payables[0].Currency)
		}
	}
	return append([]field{payee}, fields...), nil
}

// statedBy is the newest statement of all payees that states a month; nil if there is none among the newest 100.
func (p *page) statedBy(month string) (*client.Statement, error) {
	if !p.can("list-statements") {
		return nil, nil
	}
	var data struct{ Statements []client.Statement }
	if err := p.get(&data, "list-statements", url.Values{"limit": {"100"}}); err != nil {
		return nil, err
	}
	for i, s := range data.Statements {
		if s.Period == month && s.CounterpartyID == "" && (s.State == "ISSUED" || s.State == "SETTLED") {
			return &data.Statements[i], nil
		}
	}
	return nil, nil
}

// draftFields are those of a draft: of the last month. In what currency that is stated is said beside it.
func draftFields(p *page) ([]field, error) {
	month, hint := p.zone().lastMonth(p.s.cfg.Now()), "Or from and to: leave the month empty, then."
	stated, err := p.statedBy(month)
	if err != nil {
		return nil, err
	}
	if stated != nil {
		hint += " " + p.zone().period(*stated) + " is stated in " + stated.Currency + " already: for what came later, correct that statement."
	}
	return []field{
		{Name: "currency", Label: "Currency", Required: true, Example: "EUR"}, {Name: "period", Label: "Month", Kind: "month", Value: month, Hint: hint},
		{Name: "from", Label: "From", Kind: "time"}, {Name: "to", Label: "To (exclusive)", Kind: "time"},
		{Name: "counterpartyId", Label: "Only the counterparty", Of: onePayee, Example: "cp_…"}, {Name: "timeZone", Label: "Time zone", Example: "Europe/Berlin", Hint: "Of the month: your tenant's, unless you name one."},
	}, nil
}

package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

// reconciliation is the page that compares what was signed, what is loaded and what was stated in a period.
type reconciliation struct {
	client.Reconciliation
	Fields  []filter
	Called  string // the period; empty while it can't be read
	Problem *problem
	Later   bool // it takes longer than the page waits
	Busy    bool // the tenant has too many requests in flight to show it
	// Behind: the warehouse lacks sealed events for a moment.
	Behind bool
	File   string

	Verdict, Mood string // the verdict in a sentence; its colour
	Empty         bool   // there is neither a pack nor a statement
	Of            table  // packs
	Stated        table
	Due           table // months that a correction would change
	Missing       table // plays on no statement
	Steps         []task
}

// asked is the period that the address names: a month of the page's zone, or times; the last month by default.
func (p *page) asked() (month string, query url.Values, err error) {
	chosen := p.filters("month", "from", "to")
	month = chosen.Get("month")
	if month == "" && len(chosen) > 0 {
		return "", chosen, p.times(chosen)
	}
	month = cmp.Or(month, p.zone().lastMonth(p.s.cfg.Now()))
	from, to, err := p.zone().monthOf(month)
	return month, url.Values{"from": {stamp(from)}, "to": {stamp(to)}}, err
}

func showReconciliation(p *page) error {
	p.show("Money", "Reconciliation")
	if err := p.missing("reconcile-settlement"); err != nil {
		return err
	}
	month, query, err := p.asked()
	r := reconciliation{Fields: []filter{{Name: "month", Label: "Month", Kind: "month", Value: month}, {Name: "from", Label: "Or from", Kind: "time"}, {Name: "to", Label: "To (exclusive)", Kind: "time"}}}
	if month == "" {
		r.Fields[1].Value, r.Fields[2].Value = p.filters("from").Get("from"), p.filters("to").Get("to")
	}
	if err == nil {
		r.File = addressed(p.Path+".csv", query)
		err = r.read(p, query)
	}
	if r.Problem = wrong(err); err != nil && r.Problem == nil {
		return err
	}
	if r.Problem != nil {
		p.answers(r.Problem)
	}
	p.render("reconciliation", r)
	return nil
}

// read compares, and says what follows.
func (r *reconciliation) read(p *page, query url.Values) (err error) {
	err = p.panel(&r.Busy, func() (err error) {
		r.Later, err = p.waited(func(ctx context.Context) error {
			return p.do(call{op: "reconcile-settlement", query: query, ctx: ctx}, &r.Reconciliation)
		})
		return err
	})()
	if e := asProblem(err); e != nil && e.Reason == api.WarehouseBehind {
		r.Behind, err = true, nil
	}
	if err != nil {
		return err
	}
	if r.Later || r.Behind || r.Busy {
		return nil
	}
	r.Called = p.zone().called(r.From, r.To)
	names, rights, err := p.readNames()
	if err != nil {
		return err
	}
	r.tables(p, names, rights)
	r.judge(p, names)
	return nil
}

// readNames reads what payees and rights are called.
func (p *page) readNames() (names payees, rights works, err error) {
	if names, err = readPayees(p); err == nil {
		rights, err = p.readWorks()
	}
	return names, rights, err
}

// reconciled is what a statement of the comparison is called.
func (p *page) reconciled(s client.ReconciledStatement, names payees) string {
	called := "Statement " + p.zone().called(s.From, s.To)
	if s.Corrects != "" {
		called = "Correction of " + p.zone().called(s.From, s.To)
	}
	if s.CounterpartyID != "" {
		called += " for " + names.Name(s.CounterpartyID)
	}
	return called
}

// sideCount is what packs have of something, and what the warehouse has of it: decimals.
type sideCount struct {
	shown, unit    string // what it is called on the page, and in the file
	sealed, loaded string
	as             func(string) cell // on the page
}

// counts are what packs and warehouse are compared by.
func (r *reconciliation) counts() []sideCount {
	sealed, loaded := r.Packs.Sealed, r.Packs.Loaded
	return []sideCount{
		{"Entries of the log", "entries", fmt.Sprint(sealed.Entries), fmt.Sprint(loaded.Entries), tally},
		{"Plays", "plays", fmt.Sprint(sealed.Receipts), fmt.Sprint(loaded.Receipts), tally},
		{"Plays that are billed", "billed plays", fmt.Sprint(sealed.Metered), fmt.Sprint(loaded.Metered), tally},
		{"Billed time", "billed milliseconds", fmt.Sprint(sealed.QuantityMs), fmt.Sprint(loaded.QuantityMs), func(ms string) cell { n, _ := strconv.ParseInt(ms, 10, 64); return milliseconds(n) }},
		{"Billed impressions", "billed impressions", sealed.Impressions, loaded.Impressions, tally},
	}
}

// tables are the numbers of both sides.
func (r *reconciliation) tables(p *page, names payees, rights works) {
	r.Of.Columns = []string{"What", "Difference", "Packs", "Warehouse"}
	for _, c := range r.counts() {
		apart := number("0")
		if d := difference(c.loaded, c.sealed); d != "0" {
			apart = c.as(d)
		}
		r.Of.Rows = append(r.Of.Rows, []cell{text(c.shown), apart, c.as(c.sealed), c.as(c.loaded)})
	}

	r.Stated.Columns = []string{"Statement", "Difference", "Stated", "Recomputed", "Currency", "Came later", "Plays", "Recomputed plays", "State"}
	r.Due.Columns = []string{"Statement", "Month", "Because of", "Stated", "Now", "Currency"}
	for _, s := range r.Statements {
		of := p.allowed(cell{Text: p.reconciled(s, names), Href: Path + "/money/statements/" + url.PathEscape(s.StatementID), value: s.StatementID})
		row := []cell{of, number("–"), priced(s.Stated.Total, s.Currency), number("–"), text(s.Currency), amount(s.Late), amount(s.Stated.Receipts), number("–"), state(s.State)}
		if now := s.Recomputed; now != nil {
			row[1], row[3], row[7] = priced(difference(now.Total, s.Stated.Total), s.Currency), priced(now.Total, s.Currency), amount(now.Receipts)
		}
		r.Stated.Rows = append(r.Stated.Rows, row)
		for _, m := range s.Months {
			r.Due.Rows = append(r.Due.Rows, []cell{of, text(m.Month + " (" + m.TimeZone + ")"), text(words(m.Reason)), priced(m.Stated, s.Currency), priced(m.Now, s.Currency), text(s.Currency)})
		}
	}
	r.Missing.Columns = []string{"Right", "Plays", "Amount", "Currency"}
	for _, l := range r.Unstated {
		r.Missing.Rows = append(r.Missing.Rows, []cell{p.allowed(rights.cell(l.RightID)), amount(l.Receipts), priced(l.Amount, l.Currency), text(l.Currency)})
	}
}

// judge says what the comparison comes to, and what to do next.
func (r *reconciliation) judge(p *page, names payees) {
	r.Empty = r.Packs.Count == 0 && len(r.Statements) == 0
	switch n := len(r.Differences); {
	case r.Empty:
	case n > 0:
		r.Verdict, r.Mood = counted(int64(n), "thing")+" of "+r.Called+" do not agree", "bad"
		if n == 1 {
			r.Verdict = "One thing of " + r.Called + " does not agree"
		}
	case len(r.Unstated) > 0 || len(r.Due.Rows) > 0:
		r.Verdict, r.Mood = "The numbers of "+r.Called+" agree, and something is not stated yet", "open"
	default:
		r.Verdict, r.Mood = "The numbers of "+r.Called+" agree", "good"
	}
	for i, s := range r.Statements {
		last := !slices.ContainsFunc(r.Statements[i+1:], func(later client.ReconciledStatement) bool {
			return later.Corrects == cmp.Or(s.Corrects, s.StatementID)
		})
		missing := len(s.Months) > 0 || slices.ContainsFunc(r.Unstated, func(l client.SettlementLine) bool { return l.Currency == s.Currency })
		if last && missing && p.can("correct-statement") {
			r.Steps = append(r.Steps, task{Text: p.reconciled(s, names) + " lacks something: a correction states the difference, once there is one for it.", Href: Path + "/money/statements/" + url.PathEscape(s.StatementID) + "/correct", Do: "Draft a correction…"})
		}
	}
	if len(r.Statements) == 0 && !r.Empty && p.can("draft-statement") {
		r.Steps = append(r.Steps, task{Text: "No issued statement is about this time, so only packs and warehouse are compared.", Href: Path + "/money/statements/new", Do: "New draft…"})
	}
}

// sendReconciliation sends the numbers of both sides, a line for each pair.
func sendReconciliation(p *page) error {
	if err := p.missing("reconcile-settlement"); err != nil {
		return err
	}
	_, query, err := p.asked()
	if err != nil {
		return err
	}
	var r reconciliation
	if err := p.get(&r.Reconciliation, "reconcile-settlement", query); err != nil {
		return err
	}
	names, rights, err := p.readNames()
	if err != nil {
		return err
	}
	var rows [][]cell
	pair := func(what, of, id, signed, now, unit string) {
		rows = append(rows, []cell{text(what), text(of), text(id), number(signed), number(now), number(difference(now, signed)), text(unit)})
	}
	packs := fmt.Sprintf("%d packs", r.Packs.Count)
	for _, c := range r.counts() {
		pair("packs and warehouse", packs, r.Packs.LastPackID, c.sealed, c.loaded, c.unit)
	}
	for _, s := range r.Statements {
		called := p.reconciled(s, names)
		if now := s.Recomputed; now != nil {
			pair("stated and recomputed", called, s.StatementID, s.Stated.Total, now.Total, s.Currency)
			pair("stated and recomputed", called, s.StatementID, fmt.Sprint(s.Stated.Receipts), fmt.Sprint(now.Receipts), "plays")
			pair("stated and recomputed", called, s.StatementID, s.Stated.HeldAmount, now.HeldAmount, s.Currency+" held")
		} else {
			rows = append(rows, []cell{text("stated, can't be recomputed"), text(called), text(s.StatementID), number(s.Stated.Total), text(""), text(""), text(s.Currency)})
		}
		pair("came later", called, s.StatementID, "0", fmt.Sprint(s.Late), "plays")
		for _, m := range s.Months {
			pair("a correction would change "+m.Month+" by its "+words(m.Reason), called, s.StatementID, m.Stated, m.Now, s.Currency)
		}
	}
	for _, l := range r.Unstated {
		called := cmp.Or(rights[l.RightID], l.RightID)
		pair("on no statement", called, l.RightID, "0", fmt.Sprint(l.Receipts), "plays")
		pair("on no statement", called, l.RightID, "0", l.Amount, l.Currency)
	}
	for _, d := range r.Differences {
		rows = append(rows, []cell{text("does not agree"), text(d.Message), text(d.ID), text(""), text(""), text(""), text(words(d.Code))})
	}
	p.sheet("reconciliation-"+strings.NewReplacer(" ", "-", ":", "", ",", "").Replace(p.zone().called(r.From, r.To)), []string{"What", "Of", "Id", "Signed or stated", "Now", "Difference", "Unit"}, rows)
	return nil
}

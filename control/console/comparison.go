package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"muniment.example/gateway/client"
)

// statementLines are the lines of a statement's document.
type statementLines struct {
	Lines       []client.SettlementLine
	Adjustments []adjustment
}

// adjustment is what a rule's tier, minimum or cap adds to a month.
type adjustment struct {
	Amount, Month, Reason, RuleID, TimeZone string
	Shares                                  []client.SettlementLineShare
}

// readLines reads them; none of a document that is not there any more.
func readLines(document json.RawMessage) (l statementLines, err error) {
	if len(document) == 0 {
		return l, nil
	}
	err = json.Unmarshal(document, &l)
	return l, err
}

// shownRows is how many lines of a statement, or rights of a comparison, a page has; the file has all.
const shownRows = 500

// comparison is a statement beside another in its currency, right by right.
type comparison struct {
	Now, Then       client.Statement
	Called, Against string // the names of both; Against is empty while there is no other
	With            filter // the choice of the other
	Difference      string
	Table           table
	All             int // rows, of which the page has the first shownRows
	Problem         *problem
}

// comparedAgainst are the statements that one can be compared with, among the newest 100 in its currency: the one before it
// comes first.
func (p *page) comparedAgainst(now client.Statement) (all []client.Statement, err error) {
	var data struct{ Statements []client.Statement }
	if err := p.get(&data, "list-statements", url.Values{"currency": {now.Currency}, "limit": {"100"}}); err != nil {
		return nil, err
	}
	for _, s := range data.Statements {
		if s.ID != now.ID && s.VoidReason == "" && s.Stale == "" && s.State != "DISCARDED" && s.State != "VOIDED" {
			all = append(all, s)
		}
	}
	// The nearest that ended before this one began, of the same payee; of a chain its last correction.
	rank := func(s client.Statement) int {
		switch {
		case s.CounterpartyID != now.CounterpartyID:
			return 2
		case s.To.After(now.From):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b client.Statement) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), b.To.Compare(a.To), cmp.Compare(b.Correction, a.Correction))
	})
	return all, nil
}

// compare reads both statements. The other is the one that the address names, or the one before.
func (p *page) compare(statementID string) (c comparison, err error) {
	now, document, err := p.readDocument(statementID)
	if err != nil {
		return c, err
	}
	c.Now, c.Called = now, p.zone().titled(now)
	others, err := p.comparedAgainst(now)
	if err != nil {
		return c, err
	}
	names, err := readPayees(p)
	if err != nil {
		return c, err
	}
	c.With = filter{Name: "with", Label: "Compare with", Names: map[string]string{}}
	for _, s := range others {
		called := p.zone().titled(s) + ", " + words(s.State)
		if s.CounterpartyID != "" {
			called += ", for " + names.Name(s.CounterpartyID)
		}
		c.With.Options, c.With.Names[s.ID] = append(c.With.Options, s.ID), called
	}
	with := p.filters("with").Get("with")
	if with == "" && len(others) > 0 && others[0].CounterpartyID == now.CounterpartyID && !others[0].To.After(now.From) {
		with = others[0].ID
	}
	c.With.Value = with
	if with == "" {
		return c, nil
	}
	if !slices.Contains(c.With.Options, with) {
		return c, invalid("with", "is none of the newest statements in "+now.Currency+" that hold: choose one of the list")
	}
	then, earlier, err := p.readDocument(with)
	if err != nil {
		return c, err
	}
	c.Then, c.Against, c.Difference = then, p.zone().titled(then), difference(now.Total, then.Total)
	rights, err := p.readWorks()
	if err != nil {
		return c, err
	}
	c.Table, err = p.compared(now.Currency, earlier, document, rights)
	return c, err
}

// compared has a row for each right of two statements in a currency, and for each reason of adjustments, the largest difference first.
func (p *page) compared(currency string, then, now json.RawMessage, rights works) (table, error) {
	t := table{Columns: []string{"Right", "Difference", "Amount then", "Amount now", "Plays then", "Plays now", "Price then", "Price now"}}
	type side struct {
		plays  int64
		prices []string
		amount string
	}
	type both struct {
		of    cell
		sides [2]side
	}
	found := map[string]*both{}
	of := func(key string, what cell, i int) *side {
		if found[key] == nil {
			found[key] = &both{of: what}
		}
		return &found[key].sides[i]
	}
	for i, document := range []json.RawMessage{then, now} {
		l, err := readLines(document)
		if err != nil {
			return t, err
		}
		for _, line := range l.Lines {
			s := of(line.RightID, p.allowed(rights.cell(line.RightID)), i)
			s.plays, s.amount = s.plays+line.Receipts, plus(s.amount, line.Amount)
			if price := money(line.Price, currency) + " " + unitWords[line.Unit]; !slices.Contains(s.prices, price) {
				s.prices = append(s.prices, price)
			}
		}
		for _, a := range l.Adjustments {
			s := of(" "+a.Reason, text("by months: "+words(a.Reason)), i)
			s.amount = plus(s.amount, a.Amount)
		}
	}
	size := func(b *both) float64 {
		n, _ := strconv.ParseFloat(difference(b.sides[1].amount, b.sides[0].amount), 64) // for the order alone
		return math.Abs(n)
	}
	keys := make([]string, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(size(found[b]), size(found[a])), strings.Compare(a, b))
	})
	shown := func(list []string) cell { return text(cmp.Or(strings.Join(list, ", "), "–")) }
	for _, key := range keys {
		b := found[key]
		before, after := b.sides[0], b.sides[1]
		t.Rows = append(t.Rows, []cell{b.of, priced(difference(after.amount, before.amount), currency), priced(cmp.Or(before.amount, "0"), currency), priced(cmp.Or(after.amount, "0"), currency), amount(before.plays), amount(after.plays), shown(before.prices), shown(after.prices)})
	}
	return t, nil
}

func showComparison(p *page) error {
	p.show("Money", "Compare statements")
	c, err := p.compare(p.r.PathValue("statementId"))
	if c.Problem = wrong(err); err != nil && c.Problem == nil {
		return err
	}
	if c.Problem != nil {
		p.answers(c.Problem)
	}
	c.Table.File = addressed(p.Path+".csv", url.Values{"with": {c.With.Value}})
	c.All = len(c.Table.Rows)
	c.Table.Rows = c.Table.Rows[:min(c.All, shownRows)]
	p.render("comparison", c)
	return nil
}

func sendComparison(p *page) error {
	statementID := p.r.PathValue("statementId")
	c, err := p.compare(statementID)
	if err != nil {
		return err
	}
	for _, row := range c.Table.Rows {
		if of := &row[0]; of.value != "" && of.Text != short(of.value) { // a right by its name
			of.value = of.Text + " (" + of.value + ")"
		}
	}
	p.sheet(fmt.Sprintf("%s-against-%s", statementID, c.Then.ID), c.Table.Columns, c.Table.Rows)
	return nil
}

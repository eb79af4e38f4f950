package paper

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"

	"muniment.example/control/route"
	"muniment.example/sealer/statement"
)

// Table is one of the tables of a statement.
type Table string

// The tables.
const (
	// Lines has a row for each line and adjustment. Amount sums to the total.
	Lines Table = "lines"
	// Shares has a row for each share of them. Share sums to the total, and of a payee to what it gets.
	Shares Table = "shares"
	// Changes has a row for each change of a correction or a void. Amount sums to the difference. Of one payee
	// of several, a row may have several reasons, separated by spaces.
	Changes Table = "changes"
)

// Own is the table whose amounts sum to what the paper is about: what a correction or a voiding changes, as its other tables are
// those of the whole period, and otherwise the lines.
func (p *Paper) Own() Table {
	if p.Document.Correction != nil {
		return Changes
	}
	return Lines
}

// CSV returns a table as CSV. Times are local ones. Names are inert in spreadsheets.
func (p *Paper) CSV(table Table) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	d, names := &p.Document, p.Names()
	numbers := map[string]string{}
	for _, of := range p.Payables {
		numbers[of.CounterpartyID] = of.Number
	}
	period := ""
	if p.Period != nil {
		period = *p.Period
	}
	right := func(id string) []string {
		return []string{id, route.Inert(p.Rights[id].Title), route.Inert(p.campaigns(id, " "))}
	}
	payee := func(id string) []string { return []string{id, route.Inert(names[id])} }
	number, only := "", []string{"", ""} // of the only payee
	if id := d.CounterpartyID; id != nil {
		number, only = numbers[*id], payee(*id)
	}
	write := func(cells ...[]string) { _ = w.Write(slices.Concat(cells...)) } // w.Error has its error
	head := func(columns ...string) {
		write([]string{"number", "statementId", "period", "from", "to", "timeZone", "currency"}, columns)
	}
	row := func(number string, cells ...[]string) {
		write([]string{number, d.StatementID, period, d.LocalFrom, d.LocalTo, d.TimeZone, d.Currency}, slices.Concat(cells...))
	}
	switch table {
	case Shares:
		head("counterpartyId", "counterparty", "kind", "rightId", "right", "campaigns", "meteringBasis", "month", "monthTimeZone", "ruleId", "ruleLeaf", "bps", "share")
		of := func(shares []statement.Share, cells ...[]string) {
			for _, s := range shares {
				row(numbers[s.CounterpartyID], append(append([][]string{payee(s.CounterpartyID)}, cells...), []string{fmt.Sprint(s.Bps), s.Amount})...)
			}
		}
		for _, l := range d.Lines {
			of(l.Shares, []string{"LINE"}, right(l.RightID), []string{l.MeteringBasis, "", "", l.RuleID, fmt.Sprint(l.RuleLeaf)})
		}
		for _, a := range d.Adjustments {
			of(a.Shares, []string{a.Reason, "", "", "", "", a.Month, a.TimeZone, a.RuleID, fmt.Sprint(a.RuleLeaf)})
		}
	case Changes:
		head("corrects", "counterpartyId", "counterparty", "reason", "rightId", "right", "campaigns", "meteringBasis", "ruleId", "receipts", "amount")
		if d.Correction == nil {
			break
		}
		for _, c := range d.Correction.Changes {
			row(number, []string{d.Correction.Of}, only, []string{c.Reason}, right(c.RightID), []string{c.MeteringBasis, c.RuleID, fmt.Sprint(c.Receipts), c.Amount})
		}
	default:
		head("counterpartyId", "counterparty", "kind", "rightId", "right", "campaigns", "meteringBasis", "month", "monthTimeZone", "ruleId", "ruleLeaf",
			"unit", "price", "receipts", "impressions", "quantityMs", "lineAmount", "amount")
		for _, l := range d.Lines {
			sum, err := Sum(l.Shares)
			if err != nil {
				return nil, err
			}
			row(number, only, []string{"LINE"}, right(l.RightID), []string{l.MeteringBasis, "", "", l.RuleID, fmt.Sprint(l.RuleLeaf), l.Unit, l.Price, fmt.Sprint(l.Receipts), l.Impressions, fmt.Sprint(l.QuantityMs), l.Amount, sum})
		}
		for _, a := range d.Adjustments {
			sum, err := Sum(a.Shares)
			if err != nil {
				return nil, err
			}
			row(number, only, []string{a.Reason, "", "", "", "", a.Month, a.TimeZone, a.RuleID, fmt.Sprint(a.RuleLeaf), "", "", "", "", "", a.Amount, sum})
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

package paper

import (
	"bytes"
	"compress/zlib"
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"muniment.example/control/payable"
	"muniment.example/sealer/statement"
)

// november is a statement of two payees, with a line of each kind and an adjustment.
func november() *Paper {
	share := func(id, amount string, bps int64) statement.Share {
		return statement.Share{Amount: amount, Bps: bps, CounterpartyID: id}
	}
	document := statement.Statement{
		AsOf: statement.PackRef{PackID: "ppk_1", TreeSize: 1234}, Currency: "EUR", StatementID: "stm_1", TenantID: "tnt_a", TimeZone: "Europe/Berlin",
		LocalFrom: "2026-11-01T00:00:00.000+01:00", LocalTo: "2026-12-01T00:00:00.000+01:00", HeldAmount: "0.5", Total: "4.104999",
		Lines: []statement.Line{
			{RightID: "rgh_1", MeteringBasis: "viewable", RuleID: "rule_1", RuleLeaf: 7, Unit: "CPM", Price: "8.5", Receipts: 3, Impressions: "400.5", QuantityMs: 31_500, Amount: "3.404999", Shares: []statement.Share{share("cp_a", "2.27", 6_667), share("cp_b", "1.134999", 3_333)}},
			{RightID: "rgh_2", MeteringBasis: "gross", RuleID: "rule_2", RuleLeaf: 9, Unit: "EVENT", Price: "0.1", Receipts: 2, Impressions: "0", Amount: "0.2", Shares: []statement.Share{share("cp_b", "0.2", 10_000)}},
		},
		Adjustments: []statement.Adjustment{{RuleID: "rule_2", RuleLeaf: 9, Month: "2026-11", TimeZone: "Europe/Berlin", Reason: "MINIMUM", Amount: "0.5", Shares: []statement.Share{share("cp_b", "0.5", 10_000)}}},
		Payees:      []statement.Payee{{Amount: "2.27", CounterpartyID: "cp_a", Name: "=Studio A"}, {Amount: "1.834999", CounterpartyID: "cp_b", Name: "Studio B"}},
		Unrated:     []statement.Unrated{{RightID: "rgh_3", MeteringBasis: "gross", Reason: "NO_RULE", Receipts: 5}},
	}
	issuer := payable.Party{LegalName: new("Transit Screens AG"), Address: new("Bahnhofplatz 3\n8001 Zürich"), TaxID: new("CHE-1"), Note: new("Self-billing")}
	return &Paper{
		ID: "stm_1", TenantID: "tnt_a", Organisation: "org_a", State: "ISSUED", Period: new("2026-11"), IssuedAt: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC), SHA256: new(strings.Repeat("A", 43)), PackID: "ppk_1",
		Document: document,
		Payables: []payable.Payable{
			{CounterpartyID: "cp_a", Number: "2026-000001", Kind: payable.OfStatement, Currency: "EUR", Exact: "2.27", Net: "2.27", TaxBps: 1_900, Tax: "0.43", Gross: "2.70", PaidAmount: "0.00", IssuedOn: "2026-12-01", DueOn: "2026-12-31", Issuer: issuer, Recipient: payable.Party{LegalName: new("Studio Süd GmbH"), TaxID: new("DE1")}},
			{CounterpartyID: "cp_b", Number: "2026-000002", Kind: payable.OfStatement, Currency: "EUR", Exact: "1.834999", Net: "1.83", ReverseCharge: true, Tax: "0.00", Gross: "1.83", PaidAmount: "1.00", IssuedOn: "2026-12-01", DueOn: "2026-12-31", Issuer: issuer, Recipient: payable.Party{LegalName: new("Studio B SRL")},
				Payments: []payable.Payment{{Date: "2026-12-14", Amount: "1.00", Reference: "transfer 7"}}},
		},
		Rights: map[string]Right{"rgh_1": {Title: "Frame agreement", Campaigns: []string{"spring", "winter"}}},
	}
}

// sum is that of a column, and rows are those of a table, by the names of their columns.
func read(t *testing.T, text []byte) (rows []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	for _, row := range all[1:] {
		named := map[string]string{}
		for i, name := range all[0] {
			named[name] = row[i]
		}
		rows = append(rows, named)
	}
	return rows
}

func sum(t *testing.T, rows []map[string]string, column string) *big.Rat {
	t.Helper()
	total := new(big.Rat)
	for _, row := range rows {
		n, ok := new(big.Rat).SetString(row[column])
		require.True(t, ok, row[column])
		total.Add(total, n)
	}
	return total
}

func decimal(text string) *big.Rat { n, _ := new(big.Rat).SetString(text); return n }

// TestTables: a row a line, and sums that are the totals, of all and of each payee.
func TestTables(t *testing.T) {
	p := november()
	table := func(p *Paper, table Table) []map[string]string {
		text, err := p.CSV(table)
		require.NoError(t, err)
		return read(t, text)
	}
	rows := table(p, Lines)
	require.Len(t, rows, 3)
	require.Zero(t, sum(t, rows, "amount").Cmp(decimal(p.Document.Total)))
	require.Equal(t, []string{"", "2026-11", "EUR", "Frame agreement", "spring winter", "2026-11-01T00:00:00.000+01:00"}, []string{rows[0]["number"], rows[0]["period"], rows[0]["currency"], rows[0]["right"], rows[0]["campaigns"], rows[0]["from"]})
	rows = table(p, Shares)
	require.Len(t, rows, 4)
	require.Zero(t, sum(t, rows, "share").Cmp(decimal(p.Document.Total)))
	require.Equal(t, []string{"2026-000001", "'=Studio A"}, []string{rows[0]["number"], rows[0]["counterparty"]}, "a name is no formula")
	require.Empty(t, table(p, Changes))
	for _, payee := range p.Document.Payees {
		one := only(t, p, payee.CounterpartyID)
		for _, of := range []struct {
			table  Table
			column string
		}{{Lines, "amount"}, {Shares, "share"}} {
			rows := table(one, of.table)
			require.Zero(t, sum(t, rows, of.column).Cmp(decimal(payee.Amount)), of.table)
			for _, row := range rows {
				require.Equal(t, []string{payee.CounterpartyID, one.Payables[0].Number}, []string{row["counterpartyId"], row["number"]})
			}
		}
	}

	p.Document.Correction = &statement.Correction{
		Of: "stm_0", Difference: "-1", Payees: []statement.Payee{{Amount: "-1", CounterpartyID: "cp_a", Name: "=Studio A"}},
		Changes: []statement.Change{{Amount: "-1.5", Reason: "DISPUTE", Receipts: -1, RightID: "rgh_1", MeteringBasis: "viewable", RuleID: "rule_1"}, {Amount: "0.5", Reason: "LATE", RuleID: "rule_2"}},
	}
	require.Zero(t, sum(t, table(p, Changes), "amount").Cmp(decimal("-1")))
}

// only is the paper of one payee.
func only(t *testing.T, p *Paper, counterpartyID string) *Paper {
	t.Helper()
	one, err := p.For(counterpartyID)
	require.NoError(t, err)
	return one
}

// TestChangesOfOnePayee: they are the differences of the payee's shares, with all reasons that the whole has
// for the same right and rule, or rules, if the whole has none.
func TestChangesOfOnePayee(t *testing.T) {
	before, p := november().Document, november()
	d := &p.Document
	d.Lines[0].Receipts, d.Lines[0].Amount, d.Lines[0].Shares[0].Amount, d.Lines[0].Shares[1].Amount = 2, "2.270000", "1.51", "0.76"
	d.Lines = d.Lines[:1]
	d.Adjustments[0].Shares = []statement.Share{{Amount: "0.4", Bps: 8_000, CounterpartyID: "cp_a"}, {Amount: "0.1", Bps: 2_000, CounterpartyID: "cp_b"}}
	d.Payees[0].Amount, d.Payees[1].Amount, d.Total = "1.91", "0.86", "2.77"
	d.Correction = &statement.Correction{
		Of: "stm_0", Difference: "-1.334999", Previous: statement.Predecessor{StatementID: "stm_0", Total: before.Total},
		Payees: []statement.Payee{{Amount: "-0.36", CounterpartyID: "cp_a", Name: "Studio A"}, {Amount: "-0.974999", CounterpartyID: "cp_b", Name: "Studio B"}},
		Changes: []statement.Change{
			{Amount: "-2.134999", Reason: "DISPUTE", Receipts: -2, RightID: "rgh_1", MeteringBasis: "viewable", RuleID: "rule_1"},
			{Amount: "1", Reason: "LATE", Receipts: 1, RightID: "rgh_1", MeteringBasis: "viewable", RuleID: "rule_1"},
			{Amount: "-0.2", Reason: "DISPUTE", Receipts: -2, RightID: "rgh_2", MeteringBasis: "gross", RuleID: "rule_2"},
		},
	}
	require.Nil(t, only(t, p, "cp_a").Document.Correction.Changes, "the text before is not there")
	p.Previous = &before
	a, b := only(t, p, "cp_a"), only(t, p, "cp_b")
	require.Equal(t, []statement.Change{
		{Amount: "0.4", Reason: "RULES", RuleID: "rule_2"},
		{Amount: "-0.76", Reason: "DISPUTE LATE", Receipts: -1, RightID: "rgh_1", MeteringBasis: "viewable", RuleID: "rule_1"},
	}, a.Document.Correction.Changes)
	require.Equal(t, []string{"2.27", "-0.36"}, []string{a.Document.Correction.Previous.Total, a.Document.Correction.Difference})
	all := new(big.Rat)
	for _, one := range []*Paper{a, b} {
		text, err := one.CSV(one.Own())
		require.NoError(t, err)
		gets := sum(t, read(t, text), "amount")
		require.Zero(t, gets.Cmp(decimal(one.Document.Correction.Difference)))
		all.Add(all, gets)
	}
	require.Zero(t, all.Cmp(decimal(d.Correction.Difference)))
	page, err := a.HTML("")
	require.NoError(t, err)
	require.Contains(t, string(page), "<td>dispute opened or resolved, came late</td>")
	require.NotContains(t, string(page), "rgh_2")
	require.Len(t, d.Correction.Changes, 3, "the whole paper stays as it was")
}

// TestOnePayee: the paper of one names nobody else, in any form, and has prices and amounts of its lines, as an invoice
// does.
func TestOnePayee(t *testing.T) {
	p := november()
	whole, err := p.HTML("")
	require.NoError(t, err)
	for _, want := range []string{"<h1>Statement</h1>", "2026-000001", "2026-000002", "Studio Süd GmbH", "Transit Screens AG", "<strong>Frame agreement · spring, winter</strong>", strings.Repeat("00", 32), "0.43 (19 %)", "reverse charge", "<span>Open</span><strong>3.53 EUR</strong>"} {
		require.Contains(t, string(whole), want)
	}
	one := only(t, p, "cp_a")
	page, err := one.HTML("")
	require.NoError(t, err)
	lines, err := one.CSV(Lines)
	require.NoError(t, err)
	for _, foreign := range []string{"Studio B", "cp_b", "2026-000002", "rgh_2", "rule_2", "rgh_3", "1.834999", "4.104999"} {
		require.NotContains(t, string(page), foreign)
		require.NotContains(t, string(lines), foreign)
	}
	for _, want := range []string{"<h1>Statement 2026-000001</h1>", "<strong>2.70 EUR</strong>", "8.50 per 1,000 impressions", "3.404999", "<span>Open</span><strong>2.70 EUR</strong>", "Issued", "1 December 2026", "31 December 2026", "Tax number DE1", "Self-billing"} {
		require.Contains(t, string(page), want)
	}
	page, err = only(t, p, "cp_b").HTML("")
	require.NoError(t, err)
	for _, want := range []string{"Reverse charge: the tax is owed by the customer, Transit Screens AG.", "transfer 7", "14 December 2026", "Studio B SRL"} {
		require.Contains(t, string(page), want)
	}
	require.Len(t, p.Document.Lines[0].Shares, 2, "the whole paper stays as it was")
	for kind, title := range map[payable.Kind]string{payable.CreditNote: "Credit note 2026-000001", payable.DebitNote: "Debit note 2026-000001"} {
		one.Payables[0].Kind = kind
		require.Equal(t, title, one.Title())
	}
}

// textOf is the text of a PDF: of each cell, in their order.
func textOf(t *testing.T, pdf []byte) (cells []string) {
	t.Helper()
	for _, stream := range regexp.MustCompile(`(?s)stream\n(.*?)\nendstream`).FindAllSubmatch(pdf, -1) {
		inflated, err := zlib.NewReader(bytes.NewReader(stream[1]))
		if err != nil {
			continue // a font
		}
		page, err := io.ReadAll(inflated)
		require.NoError(t, err)
		for _, cell := range regexp.MustCompile(`(?s)\(((?:\\.|[^\\)])*)\) ?Tj`).FindAllSubmatch(page, -1) {
			text := regexp.MustCompile(`(?s)\\(.)`).ReplaceAllFunc(cell[1], func(escaped []byte) []byte {
				if escaped[1] == 'r' {
					return []byte{'\r'}
				}
				return escaped[1:]
			})
			var units []uint16
			for i := 0; i+1 < len(text); i += 2 {
				units = append(units, uint16(text[i])<<8|uint16(text[i+1]))
			}
			cells = append(cells, string(utf16.Decode(units)))
		}
	}
	return cells
}

// TestPDFText: a PDF says what the page does of totals, shares and plays without a price; that of one payee has
// nothing of others.
func TestPDFText(t *testing.T) {
	texts := func(p *Paper) string {
		pdf, _, err := p.PDF()
		require.NoError(t, err)
		return "\n" + strings.Join(textOf(t, pdf), "\n") + "\n"
	}
	whole := texts(november())
	for _, want := range []string{
		"\nTotal, exactly: 4.104999 EUR\n", "\nHeld for open disputes: 0.50 EUR\n", "\nPlays (receipts): 5\n", "\nOpen in all: 3.53 EUR\n",
		"\n3.404999\n", "\n66.67 % to Studio Süd GmbH\n", "\n2.27\n", "\n33.33 % to Studio B SRL\n", "\n1.134999\n", "\n100 % to Studio B SRL\n",
		"\nMetered, and without a price\n", "\nrgh_3\n", "\nno rule fits\n", "\nStudio Süd GmbH\n",
	} {
		require.Contains(t, whole, want)
	}
	one := texts(only(t, november(), "cp_a"))
	for _, want := range []string{"\nTotal, exactly: 2.27 EUR\n", "\n66.67 % to Studio Süd GmbH\n", "\nPlays (receipts): 3\n"} {
		require.Contains(t, one, want)
	}
	for _, foreign := range []string{"Studio B", "Held", "33.33", "without a price", "1.134999", "4.104999"} {
		require.NotContains(t, one, foreign)
	}
}

// TestLargeAmounts: no number of a PDF is broken, however large it is, and no table is wider than the page.
func TestLargeAmounts(t *testing.T) {
	for _, amount := range []string{"12345.67", "12345678.90", "-1234567.123456", "99999999999.123456", "-4111222333444.555666"} {
		p := november()
		p.Payables[0].Recipient.LegalName = new("Donaudampfschifffahrtsgesellschaft und Söhne GmbH")
		for i := range p.Payables {
			of := &p.Payables[i]
			of.Exact, of.Net, of.Tax, of.Gross, of.PaidAmount = amount, amount, amount, amount, "0.00"
			of.Payments = []payable.Payment{{Date: "2026-12-14", Amount: amount, Reference: "transfer 7"}}
		}
		for i := range p.Document.Lines {
			l := &p.Document.Lines[i]
			l.Receipts, l.Impressions, l.QuantityMs, l.Price, l.Amount, l.Shares[0].Amount = 1_234_567_890, "12345678901.5", 123_456_789_012_345, "1234567.123456", amount, amount
		}
		p.Document.Adjustments[0].Amount = amount
		p.Document.Correction = &statement.Correction{Of: "stm_0", Difference: amount, Changes: []statement.Change{{Amount: amount, Reason: "LATE", Receipts: 1_234_567_890, RuleID: "rule_2"}}}
		for _, of := range []*Paper{p, only(t, p, "cp_a")} {
			of.Document.Correction = p.Document.Correction
			pdf, lacking, err := of.PDF()
			require.NoError(t, err)
			require.Empty(t, lacking)
			cells := textOf(t, pdf)
			whole := map[string]bool{}
			for _, number := range []string{grouped(amount), signed(amount), "1,234,567,890", "+1,234,567,890", "12,345,678,901.5", "123,456,789,012.345", "2026-000001", "2026-12-31"} {
				whole[number] = true
				require.Contains(t, cells, number)
			}
			for _, cell := range cells {
				if regexp.MustCompile(`^[+−]?[0-9]+[,.][0-9,.]*$`).MatchString(cell) {
					require.True(t, whole[cell] || slices.Contains([]string{"1,234,567.123456", "1.134999", "0.50"}, cell), "%s of %s", cell, amount)
				}
			}
		}
	}
	s, err := newSheet()
	require.NoError(t, err)
	s.AddPage()
	for _, number := range []string{"1", "99,999,999,999.123456"} {
		columns, size := s.fit([]column{{"Payee", 80, "L"}, {"Net", 20, "R"}, {"Tax", 20, "R"}, {"Total", 20, "R"}, {"Open", 34, "R"}}, [][]string{{"Studio North", number, number, number, number}})
		require.Equal(t, number == "1", size == largest && columns[0].width == 80)
		sum := 0.0
		s.style("", size, false)
		for i, c := range columns {
			if sum += c.width; i > 0 {
				require.Equal(t, []string{number}, s.SplitText(number, c.width-around))
			}
		}
		require.InDelta(t, width, sum, 0.001)
	}
}

// TestPDF: a long table goes over pages; a paper with characters that the fonts lack is no PDF.
func TestPDF(t *testing.T) {
	for _, p := range []*Paper{november(), only(t, november(), "cp_a"), only(t, november(), "cp_b")} {
		pdf, lacking, err := p.PDF()
		require.NoError(t, err)
		require.Empty(t, lacking)
		require.True(t, bytes.HasPrefix(pdf, []byte("%PDF-")))
		if dir := os.Getenv("MUNIMENT_TEST_PAPERS"); dir != "" { // for people to look at
			page, err := p.HTML("")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, p.Title()+".pdf"), pdf, 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, p.Title()+".html"), page, 0o644))
		}
	}
	many := november()
	for range 300 {
		many.Document.Lines = append(many.Document.Lines, many.Document.Lines[0])
	}
	pdf, _, err := many.PDF()
	require.NoError(t, err)
	require.Greater(t, bytes.Count(pdf, []byte("/Type /Page\n")), 5)

	p := november()
	p.Payables[0].Recipient.LegalName, p.Document.Payees[1].Name = new("株式会社 Ελλάς Žižkov Київ"), "نص"
	pdf, lacking, err := p.PDF()
	require.NoError(t, err)
	require.Empty(t, pdf)
	require.Equal(t, "株式会社", lacking, "the Greek, Latin and Cyrillic letters are there; who has a legal name is shown by it")
	p = november()
	p.Payables[0].Recipient.LegalName = new("𠮷野家 🙂")
	_, lacking, err = p.PDF()
	require.NoError(t, err)
	require.Equal(t, "𠮷野家🙂", lacking)

	p = november()
	p.Payables[0].Recipient.LegalName, p.Payables[0].Recipient.Address = new("Jose\u0301\u200d \u200dAuf\u200clage Ки\u0438\u0306в\u200d"), new("Stra\u0308\u00dfe 1")
	pdf, lacking, err = p.PDF()
	require.NoError(t, err)
	require.Empty(t, lacking, "letters with accents of their own, and joiners that join nothing")
	require.Contains(t, textOf(t, pdf), "José Auflage Кийв")
	pdf, _, err = only(t, p, "cp_a").PDF()
	require.NoError(t, err)
	require.Contains(t, textOf(t, pdf), "Sträße 1")
	p = november()
	p.Payables[0].Recipient.LegalName = new("q\u0301 ن\u200cن\u200d")
	_, lacking, err = p.PDF()
	require.NoError(t, err)
	require.Equal(t, "\u0301ن\u200c\u200d", lacking, "no letter of the fonts has this accent, and others are joined")

	tall := november()
	for n := range 2_000 {
		tall.Rights["rgh_1"] = Right{Title: strings.Repeat("Frame agreement ", 100), Campaigns: append(tall.Rights["rgh_1"].Campaigns, fmt.Sprint("campaign", n))}
	}
	pdf, _, err = tall.PDF()
	require.NoError(t, err)
	require.Less(t, bytes.Count(pdf, []byte("/Type /Page\n")), 4, "a cell has a few lines")
	page, err := tall.HTML("")
	require.NoError(t, err)
	require.Contains(t, string(page), "and 1997 more")
	for len(many.Document.Lines) <= mostRows {
		many.Document.Lines = append(many.Document.Lines, many.Document.Lines...)
	}
	_, _, err = many.PDF()
	require.ErrorIs(t, err, ErrLong)

	void := november() // of many payees, without lines
	for range mostRows {
		void.Payables = append(void.Payables, void.Payables[0])
	}
	_, _, err = void.PDF()
	require.ErrorIs(t, err, ErrLong)
	paid := only(t, november(), "cp_b")
	for range mostRows {
		paid.Payables[0].Payments = append(paid.Payables[0].Payments, paid.Payables[0].Payments[0])
	}
	_, _, err = paid.PDF()
	require.ErrorIs(t, err, ErrLong)
	draft := november()
	draft.Payables, draft.State = nil, "DRAFT"
	for range mostRows {
		draft.Document.Payees = append(draft.Document.Payees, draft.Document.Payees[0])
	}
	_, _, err = draft.PDF()
	require.ErrorIs(t, err, ErrLong)
}

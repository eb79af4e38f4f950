package paper

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/text/unicode/norm"

	"muniment.example/control/payable"
	"muniment.example/sealer/statement"
)

// sheet is a PDF in the making: A4, in millimetres.
type sheet struct {
	*fpdf.Fpdf
	// lacking are the characters that no font has, in their order.
	lacking []rune
	seen    map[rune]bool
	font    *sfnt.Font
}

const (
	margin = 18.0
	width  = 210 - 2*margin
	line   = 4.6 // of text of 9 points
)

// mostRows bounds the rows of a PDF: one of more takes seconds, and nobody prints it.
const mostRows = 5_000

// ErrLong says that a paper is too long for a PDF.
var ErrLong = fmt.Errorf("has more than %d rows, which are too many for a PDF", mostRows)

// PDF returns the paper as a PDF. lacking are characters that its fonts do not have; if there are any, there
// is no PDF. It fails with ErrLong.
func (p *Paper) PDF() (pdf []byte, lacking string, err error) {
	rows := len(p.Document.Lines) + len(p.Document.Adjustments) + len(p.Document.Excluded) + len(p.Document.Unrated) + len(p.Payables)
	if len(p.Payables) == 0 {
		rows += len(p.Document.Payees)
	}
	if one := p.One(); one != nil {
		rows += len(one.Payments)
	}
	for _, l := range p.Document.Lines {
		rows += len(l.Shares)
	}
	for _, a := range p.Document.Adjustments {
		rows += len(a.Shares)
	}
	if c := p.Document.Correction; c != nil {
		rows += len(c.Changes)
	}
	if rows > mostRows {
		return nil, "", ErrLong
	}
	s, err := newSheet()
	if err != nil {
		return nil, "", err
	}
	at := p.IssuedAt
	if at.IsZero() {
		at = p.Document.IssuedAt.Time
	}
	s.SetCreationDate(at.UTC())
	s.SetModificationDate(at.UTC())
	s.SetLang("en")
	s.SetTitle(p.Title()+" "+p.ID, true)
	s.AliasNbPages("{pages}")
	s.SetFooterFunc(func() {
		s.SetY(-12)
		s.style("", 7, true)
		s.CellFormat(width/2, 4, p.Title()+", "+p.ID, "", 0, "L", false, 0, "")
		s.CellFormat(width/2, 4, fmt.Sprintf("%d of {pages}", s.PageNo()), "", 0, "R", false, 0, "")
	})
	s.AddPage()
	if err := p.write(s); err != nil {
		return nil, "", err
	}
	if len(s.lacking) > 0 {
		return nil, string(s.lacking), nil
	}
	var b bytes.Buffer
	err = s.Output(&b)
	return b.Bytes(), "", err
}

// newSheet returns a sheet without pages.
func newSheet() (*sheet, error) {
	font, err := sfnt.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	s := &sheet{Fpdf: fpdf.New("P", "mm", "A4", ""), seen: map[rune]bool{}, font: font}
	s.AddUTF8FontFromBytes("go", "", goregular.TTF)
	s.AddUTF8FontFromBytes("go", "B", gobold.TTF)
	s.AddUTF8FontFromBytes("mono", "", gomono.TTF)
	s.SetMargins(margin, margin, margin)
	s.SetAutoPageBreak(true, margin)
	return s, nil
}

// write writes all of the paper.
func (p *Paper) write(s *sheet) error {
	d, one := &p.Document, p.One()
	from, err := day(d.LocalFrom)
	if err != nil {
		return err
	}
	to, err := day(d.LocalTo)
	if err != nil {
		return err
	}
	s.style("B", 16, false)
	s.text(p.Title(), 8)
	if p.State == "DRAFT" || p.State == "VOIDED" && !p.IsVoid() {
		s.style("B", 10, false)
		s.text(states[p.State], 5)
	}
	s.style("", 9, false)
	period := from + " up to, but not including, " + to + " (" + d.TimeZone + ")"
	if p.Period != nil {
		period = *p.Period + ": " + period
	}
	s.text(period, line)
	if len(p.Payables) > 0 {
		if err := p.parties(s, one); err != nil {
			return err
		}
	}
	s.Ln(3)
	s.text("Total, exactly: "+money(d.Total, d.Currency)+" "+d.Currency, line)
	if d.HeldAmount != "" {
		s.text("Held for open disputes: "+money(d.HeldAmount, d.Currency)+" "+d.Currency, line)
	}
	s.text("Plays (receipts): "+grouped(receipts(d.Lines)), line)
	if c := d.Correction; c != nil {
		if c.VoidReason != nil {
			s.heading("Voids the statement " + c.Of + ", with its corrections")
			s.text("Reason: "+*c.VoidReason, line)
		} else {
			s.heading("Corrects the statement " + c.Of)
			s.text("The period is stated once more, in full. What is due is the difference, "+change(c.Difference, d.Currency)+" "+d.Currency+".", line)
		}
	}
	if err := p.due(s, one); err != nil {
		return err
	}
	if err := p.lines(s); err != nil {
		return err
	}
	s.heading("How it can be checked")
	if p.SHA256 != nil {
		sum, err := asHex(p.SHA256)
		if err != nil {
			return err
		}
		s.text("What binds is the signed file "+p.ID+".json. Its SHA-256, as sha256sum prints it:", line)
		s.SetFont("mono", "", 8)
		s.text(sum, line)
		s.style("", 9, false)
		s.text("With it and the proof packs anyone can recompute this statement: muniment verify.", line)
	} else {
		s.text("A draft binds nobody: it is not signed.", line)
	}
	s.text(fmt.Sprintf("It states the log of the tenant %s up to %s, %s events.", p.TenantID, p.PackID, grouped(d.AsOf.TreeSize)), line)
	return nil
}

// parties writes who issues, who receives, and the dates.
func (p *Paper) parties(s *sheet, one *payable.Payable) error {
	column := func(x float64, title string, texts []string) float64 {
		s.SetXY(x, s.GetY())
		s.style("", 8, true)
		s.block(x, width/3-4, title)
		s.style("", 9, false)
		for i, text := range texts {
			if i == 0 {
				s.style("B", 9, false)
			}
			s.block(x, width/3-4, text)
			s.style("", 9, false)
		}
		return s.GetY()
	}
	s.Ln(4)
	top := s.GetY()
	bottom := column(margin, "From", partyLines(p.Issuer()))
	if one != nil {
		issued, err := date(one.IssuedOn)
		if err != nil {
			return err
		}
		due, err := date(one.DueOn)
		if err != nil {
			return err
		}
		s.SetY(top)
		bottom = max(bottom, column(margin+width/3, "To", partyLines(one.Recipient)))
		facts := []string{one.Number, "Issued " + issued, "Due " + due}
		if one.Corrects != nil {
			facts = append(facts, "Corrects "+*one.Corrects)
		}
		s.SetY(top)
		bottom = max(bottom, column(margin+2*width/3, "Number", facts))
	}
	s.SetY(bottom)
	return nil
}

func partyLines(of payable.Party) (texts []string) {
	if of.LegalName != nil {
		texts = append(texts, *of.LegalName)
	}
	texts = append(texts, lines(of.Address)...)
	if of.TaxID != nil {
		texts = append(texts, "Tax number "+*of.TaxID)
	}
	if of.Email != nil {
		texts = append(texts, *of.Email)
	}
	return texts
}

// due writes what is due to whom.
func (p *Paper) due(s *sheet, one *payable.Payable) error {
	d := &p.Document
	if len(p.Payables) == 0 {
		s.heading("Who is paid")
		rows := [][]string{}
		for _, of := range d.Payees {
			rows = append(rows, []string{of.Name, of.CounterpartyID, money(of.Amount, d.Currency)})
		}
		return s.table([]column{{"Counterparty", 74, "L"}, {"Id", 60, "L"}, {"Amount, " + d.Currency, 40, "R"}}, rows)
	}
	s.heading("What is due, in " + d.Currency)
	var rows [][]string
	for i := range p.Payables {
		of := &p.Payables[i]
		open, err := of.Open()
		if err != nil {
			return err
		}
		tax := money(of.Tax, d.Currency) + " (" + percent(of.TaxBps) + ")"
		if of.ReverseCharge {
			tax = "reverse charge"
		}
		rows = append(rows, []string{of.Number, p.PayeeName(of.CounterpartyID), money(of.Exact, d.Currency), money(of.Net, d.Currency), tax, money(of.Gross, d.Currency), of.DueOn, money(open, d.Currency)})
	}
	err := s.table([]column{{"Number", 23, "L"}, {"Payee", 33, "L"}, {"Exactly", 21, "R"}, {"Net", 20, "R"}, {"Tax", 22, "R"}, {"Total", 20, "R"}, {"Due", 20, "R"}, {"Open", 15, "R"}}, rows)
	if err != nil {
		return err
	}
	s.style("", 8, true)
	s.text("Net is what the exact amounts so far come to in whole minor units, less what was payable before: so nothing is lost to rounding.", 4)
	s.style("", 9, false)
	if one == nil {
		open, err := p.Open()
		s.text("Open in all: "+money(open, d.Currency)+" "+d.Currency, line)
		return err
	}
	if one.ReverseCharge {
		s.text("Reverse charge: the tax is owed by the customer, "+*p.Issuer().LegalName+".", line)
	}
	if len(one.Payments) > 0 {
		rows = nil
		for _, paid := range one.Payments {
			reference := paid.Reference
			if paid.SetOff {
				reference = "set off against " + reference
			}
			rows = append(rows, []string{paid.Date, reference, money(paid.Amount, d.Currency)})
		}
		if err := s.table([]column{{"Paid on", 30, "L"}, {"Reference", 104, "L"}, {"Amount, " + d.Currency, 40, "R"}}, rows); err != nil {
			return err
		}
	}
	for _, note := range lines(one.Issuer.Note) {
		s.text(note, line)
	}
	return nil
}

// lines writes for what.
func (p *Paper) lines(s *sheet) error {
	d := &p.Document
	named := func(id string) string {
		if name := p.RightName(id); name != "" {
			return name + "\n" + id
		}
		return id
	}
	if len(d.Lines) > 0 {
		s.heading("For what")
		var rows [][]string
		for _, l := range d.Lines {
			rows = append(rows, []string{named(l.RightID), l.MeteringBasis, grouped(l.Receipts), grouped(l.Impressions), seconds(l.QuantityMs), money(l.Price, d.Currency) + " " + units[l.Unit], money(l.Amount, d.Currency)})
			for _, share := range l.Shares {
				rows = append(rows, []string{percent(share.Bps) + " to " + p.PayeeName(share.CounterpartyID), "", "", "", "", "", money(share.Amount, d.Currency)})
			}
		}
		err := s.table([]column{{"Right", 56, "L"}, {"Measured as", 18, "L"}, {"Plays", 16, "R"}, {"Impressions", 19, "R"}, {"Seconds", 17, "R"}, {"Price", 26, "R"}, {"Amount, " + d.Currency, 22, "R"}}, rows)
		if err != nil {
			return err
		}
	}
	if len(d.Adjustments) > 0 {
		s.heading("Months: tiers, minimums and caps")
		var rows [][]string
		for _, a := range d.Adjustments {
			rows = append(rows, []string{a.RuleID, a.Month + " (" + a.TimeZone + ")", adjusted[a.Reason], money(a.Amount, d.Currency)})
			for _, share := range a.Shares {
				rows = append(rows, []string{percent(share.Bps) + " to " + p.PayeeName(share.CounterpartyID), "", "", money(share.Amount, d.Currency)})
			}
		}
		if err := s.table([]column{{"Rule", 56, "L"}, {"Month", 44, "L"}, {"Why", 48, "L"}, {"Amount", 26, "R"}}, rows); err != nil {
			return err
		}
	}
	if c := d.Correction; c != nil && len(c.Changes) > 0 {
		s.heading("What has changed")
		var rows [][]string
		for _, of := range c.Changes {
			what := "Tiers, minimum or cap of " + of.RuleID
			if of.RightID != "" {
				what = named(of.RightID)
			}
			rows = append(rows, []string{reason(of.Reason), what, signed(of.Receipts), change(of.Amount, d.Currency)})
		}
		if err := s.table([]column{{"Why", 50, "L"}, {"What", 74, "L"}, {"Plays", 20, "R"}, {"Amount", 30, "R"}}, rows); err != nil {
			return err
		}
	}
	if len(d.Excluded) > 0 {
		s.heading("Left out for disputes")
		var rows [][]string
		for _, x := range d.Excluded {
			state := "upheld: not paid"
			if x.State == statement.ExclusionHeld {
				state = "open: held until it is resolved"
			}
			about, err := about(&x)
			if err != nil {
				return err
			}
			rows = append(rows, []string{x.DisputeID, state, about})
		}
		if err := s.table([]column{{"Dispute", 60, "L"}, {"State", 50, "L"}, {"About", 64, "L"}}, rows); err != nil {
			return err
		}
	}
	if len(d.Unrated) == 0 {
		return nil
	}
	s.heading("Metered, and without a price")
	var rows [][]string
	for _, u := range d.Unrated {
		rows = append(rows, []string{named(u.RightID), u.MeteringBasis, unrated[u.Reason], grouped(u.Receipts)})
	}
	return s.table([]column{{"Right", 74, "L"}, {"Measured as", 30, "L"}, {"Why", 48, "L"}, {"Plays", 22, "R"}}, rows)
}

// style sets the font, its size in points, and whether the text is quiet.
func (s *sheet) style(style string, size float64, quiet bool) {
	s.SetFont("go", style, size)
	if s.SetTextColor(27, 31, 36); quiet {
		s.SetTextColor(87, 96, 106)
	}
}

func (s *sheet) heading(text string) {
	if s.GetY() > 297-margin-25 { // not alone at the end of a page
		s.AddPage()
	}
	s.Ln(5)
	s.style("B", 10, false)
	s.text(text, 5)
	s.Ln(1)
	s.style("", 9, false)
}

// text writes a paragraph.
func (s *sheet) text(text string, height float64) {
	s.SetX(margin)
	s.MultiCell(width, height, s.cover(text), "", "L", false)
}

// block writes a paragraph of a column, and leaves the position below it.
func (s *sheet) block(x, width float64, text string) {
	s.SetX(x)
	s.MultiCell(width, line, s.cover(text), "", "L", false)
}

// cover composes letters with their accents, which the fonts have only so, and notes the characters that they
// lack. It leaves out those that the library can't take.
func (s *sheet) cover(text string) string {
	var buffer sfnt.Buffer
	text = withoutJoiners(norm.NFC.String(text))
	for _, r := range text {
		if r == '\n' || s.seen[r] {
			continue
		}
		s.seen[r] = true
		if glyph, err := s.font.GlyphIndex(&buffer, r); err != nil || glyph == 0 {
			s.lacking = append(s.lacking, r)
		}
	}
	return strings.Map(func(r rune) rune {
		if r > 0xffff {
			return -1
		}
		return r
	}, text)
}

// withoutJoiners leaves out the joiners beside letters that are never joined, of which they change nothing.
func withoutJoiners(text string) string {
	if !strings.ContainsAny(text, "\u200c\u200d") {
		return text
	}
	var kept []rune
	all := []rune(text)
	apart := func(i int) bool {
		return i >= 0 && i < len(all) && unicode.In(all[i], unicode.Latin, unicode.Greek, unicode.Cyrillic)
	}
	for i, r := range all {
		if r != '\u200c' && r != '\u200d' || !apart(i-1) && !apart(i+1) {
			kept = append(kept, r)
		}
	}
	return string(kept)
}

type column struct {
	title string
	width float64
	align string
}

// mostLines bounds the lines of a cell.
const mostLines = 12

// Sizes of the text of tables, in points, and what a cell is wider than its text.
const (
	largest, smallest = 8.0, 4.0
	around            = 1.0
)

// fit returns columns in which no word that is aligned right is broken, a number above all, and the size of
// their text. They get what they lack from the others, of what these do not need themselves; if that is not
// enough, the text is smaller.
func (s *sheet) fit(columns []column, rows [][]string) (fitted []column, size float64) {
	widest := make([]float64, len(columns)) // of the largest size
	s.style("B", largest, false)
	for i, c := range columns {
		widest[i] = s.GetStringWidth(c.title)
	}
	s.style("", largest, false)
	for _, row := range rows {
		for i, text := range row {
			for _, word := range strings.Fields(text) {
				widest[i] = max(widest[i], s.GetStringWidth(word))
			}
		}
	}
	needs := make([]float64, len(columns))
	for size = largest; ; size -= 0.25 {
		lacking, spare := 0.0, 0.0
		for i, c := range columns {
			needs[i] = widest[i]*size/largest + around + 2*s.GetCellMargin()
			if c.align == "L" {
				needs[i] = min(needs[i], c.width)
			}
			lacking, spare = lacking+max(0, needs[i]-c.width), spare+max(0, c.width-needs[i])
		}
		if lacking > spare && size > smallest {
			continue
		}
		fitted = slices.Clone(columns)
		for i, c := range columns {
			fitted[i].width = max(c.width, needs[i])
			if c.width > needs[i] {
				fitted[i].width -= (c.width - needs[i]) * min(1, lacking/spare)
			}
		}
		return fitted, size
	}
}

// table writes rows under their titles, which are repeated on each page. A row stays on one page.
func (s *sheet) table(columns []column, rows [][]string) error {
	const height, pad = 4.2, 1.2
	for _, row := range rows {
		for i := range row {
			row[i] = s.cover(row[i])
		}
	}
	columns, size := s.fit(columns, rows)
	head := func() {
		s.style("B", size, true)
		s.SetX(margin)
		for _, c := range columns {
			s.CellFormat(c.width, 5, s.cover(c.title), "B", 0, c.align, false, 0, "")
		}
		s.Ln(5 + pad)
		s.style("", size, false)
	}
	head()
	for _, row := range rows {
		cells, most := make([][]string, len(row)), 1
		for i, text := range row {
			for _, one := range strings.Split(text, "\n") {
				split := s.SplitText(one, columns[i].width-around)
				if len(split) == 0 {
					split = []string{""}
				}
				cells[i] = append(cells[i], split...)
			}
			if cells[i] = cells[i][:min(len(cells[i]), mostLines)]; len(cells[i]) == mostLines {
				cells[i][mostLines-1] = "…"
			}
			most = max(most, len(cells[i]))
		}
		if s.GetY()+float64(most)*height > 297-margin {
			s.AddPage()
			head()
		}
		top := s.GetY()
		for n := range most {
			s.SetXY(margin, top+float64(n)*height)
			for i, c := range columns {
				text := ""
				if n < len(cells[i]) {
					text = cells[i][n]
				}
				s.CellFormat(c.width, height, text, "", 0, c.align, false, 0, "")
			}
		}
		s.SetY(top + float64(most)*height + pad/2)
		s.SetDrawColor(225, 229, 234)
		s.Line(margin, s.GetY(), margin+width, s.GetY())
		s.SetDrawColor(0, 0, 0)
		s.SetY(s.GetY() + pad/2)
	}
	s.style("", 9, false)
	return s.Error()
}

package paper

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"strings"
	"time"

	"muniment.example/control/payable"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/statement"
)

//go:embed page.css
var style string

//go:embed page.html
var pageText string

// Style is the style sheet that PagePolicy allows.
func Style() string { return style }

// Handout is what the page of a payee shows above its paper.
type Handout struct {
	// Notes say what became of the statement since.
	Notes []string
	// Verify is the address at which a browser judges what the service has recorded; empty: nothing is due, so nothing is.
	Verify string
	Files  []File
	// Until is when the page ends.
	Until time.Time
	// Alone says that the signed statement shows the lines of this payee alone, so that it is among Files.
	Alone bool
}

// File is a file that a page offers.
type File struct{ Name, Href, About string }

// PagePolicy is the Content-Security-Policy of the page: it may load and run nothing, except its one
// style sheet, by its hash.
var PagePolicy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

var page = template.Must(template.New("statement").Funcs(template.FuncMap{
	"style":    func() template.CSS { return template.CSS(style) },
	"day":      day,
	"moment":   moment,
	"grouped":  grouped,
	"signed":   signed,
	"money":    money,
	"change":   change,
	"state":    func(name string) string { return states[name] },
	"about":    func(x statement.Exclusion) (string, error) { return about(&x) },
	"percent":  percent,
	"seconds":  seconds,
	"hex":      asHex,
	"lines":    lines,
	"date":     date,
	"open":     func(p payable.Payable) (string, error) { return p.Open() },
	"receipts": receipts,
	"unit":     func(u string) string { return units[u] },
	"reason":   reason,
	"unrated":  func(r string) string { return unrated[r] },
	"adjusted": func(r string) string { return adjusted[r] },
}).Parse(pageText))

func moment(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

func percent(bps int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", float64(bps)/100), "0"), ".") + " %"
}

func seconds(ms int64) string {
	return grouped(strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", ms/1000, ms%1000), "0"), "."))
}

// money is an amount in a currency.
func money(decimal, currency string) string { return grouped(rate.Shown(decimal, currency)) }

// change is an amount by which something changes.
func change(decimal, currency string) string { return signed(rate.Shown(decimal, currency)) }

// utc is a time of a document, which has it in UTC.
func utc(text string) (string, error) {
	t, err := time.Parse(time.RFC3339, text)
	return moment(t), err
}

// about says which plays a dispute excludes.
func about(x *statement.Exclusion) (string, error) {
	if x.RightID == nil {
		if len(x.ReceiptIDs) == 1 {
			return "1 play", nil
		}
		return grouped(len(x.ReceiptIDs)) + " plays", nil
	}
	from, err := utc(*x.From)
	if err != nil {
		return "", err
	}
	to, err := utc(*x.To)
	return "plays on " + *x.RightID + ", from " + from + " to " + to, err
}

// states are the texts of a statement's states.
var states = map[string]string{"DRAFT": "Draft", "VOIDED": "Voided", "ISSUED": "Issued", "SETTLED": "Settled"}

// units are the texts that follow a price on the page.
var units = map[string]string{"EVENT": "per play", "IMPRESSION": "per impression", "CPM": "per 1,000 impressions", "MS": "per millisecond", "SECOND": "per second"}

// reasons are the texts of the reasons of changes.
var reasons = map[string]string{
	statement.ChangedByDispute: "dispute opened or resolved", statement.ChangedByRules: "rule made or changed", statement.ChangedLate: "came late", statement.Voided: "voided",
}

// reason is the text of the reasons of a change.
func reason(all string) string {
	texts := strings.Fields(all)
	for i, one := range texts {
		texts[i] = reasons[one]
	}
	return strings.Join(texts, ", ")
}

// adjusted are the texts of the reasons of adjustments.
var adjusted = map[string]string{rate.ByTier: "prices of the rule's tiers", rate.ByMinimum: "below the rule's minimum", rate.ByCap: "above the rule's cap"}

// unrated are the texts of the reasons for which a play has no price.
var unrated = map[string]string{rate.NoRule: "no rule fits", rate.TooLarge: "the amount is too large"}

// day formats a local time of a document for the page: as a date alone if it is the beginning of a day.
func day(local string) (string, error) {
	t, err := time.Parse(time.RFC3339, local)
	if h, m, s := t.Clock(); h+m+s+t.Nanosecond() == 0 {
		return t.Format("2 January 2006"), err
	}
	return t.Format("2 January 2006, 15:04:05"), err
}

// asHex is how sha256sum prints a hash.
func asHex(sha256 *string) (string, error) {
	sum, err := base64.RawURLEncoding.DecodeString(*sha256)
	return hex.EncodeToString(sum), err
}

// date formats a date of a payable.
func date(text string) (string, error) {
	t, err := time.Parse(time.DateOnly, text)
	return t.Format("2 January 2006"), err
}

// receipts counts those behind the lines.
func receipts(all []statement.Line) (n int64) {
	for _, l := range all {
		n += l.Receipts
	}
	return n
}

// grouped groups the integer digits of a decimal with commas.
func grouped(n any) string {
	text := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "−", text[1:]
	}
	whole, part, fraction := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction {
		whole += "." + part
	}
	return sign + whole
}

// signed is grouped with a plus sign for positive values.
func signed(n any) string {
	text := grouped(n)
	if strings.Trim(text, "0.") == "" || strings.HasPrefix(text, "−") {
		return text
	}
	return "+" + text
}

// HTML returns the page. instead says why it is shown in place of another format; empty: it was asked for.
func (p *Paper) HTML(instead string) ([]byte, error) { return p.render(instead, nil) }

// Handed returns the page for a payee.
func (p *Paper) Handed(h *Handout) ([]byte, error) { return p.render("", h) }

func (p *Paper) render(instead string, h *Handout) ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		*Paper
		Instead string
		Handout *Handout
	}{p, instead, h})
	return b.Bytes(), err
}

package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"muniment.example/gateway/client"
)

// worth is what comes of a right that is about to be stopped, in money.
type worth struct {
	From       time.Time // plays since then are counted
	Totals     []client.SettlementTotal
	Family     bool     // others derive from it
	Rights     table    // by right, where others do
	Later      bool     // it takes longer than the page waits
	Busy       bool     // the tenant has too many requests in flight to show it
	Unrated    int64    // billed plays that no rule rates
	Minimums   []string // rules of the right that pay without plays, too
	Drafts     []cell   // statements that are not issued yet
	MoreDrafts bool
}

// worthSpan is how far back worth looks.
const worthSpan = 7 * 24 * time.Hour

// readWorth reads what a right, and what derives directly from it, was worth in the last days; nil if the session may not read money.
func (p *page) readWorth(family client.Provenance, since time.Time) (*worth, error) {
	if !p.can("get-settlement") {
		return nil, nil
	}
	r := family.Lineage[len(family.Lineage)-1]
	w := &worth{From: since, Family: len(family.Derived) > 0}
	rightIDs := []string{r.ID}
	for _, d := range family.Derived[:min(len(family.Derived), 499)] {
		rightIDs = append(rightIDs, d.ID)
	}
	var s client.Settlement
	err := p.panel(&w.Busy, func() (err error) {
		w.Later, err = p.waited(func(ctx context.Context) error {
			return p.do(call{op: "get-settlement", query: url.Values{"from": {stamp(since)}, "rightId": rightIDs, "limit": {"500"}}, ctx: ctx}, &s)
		})
		return err
	})()
	if err != nil {
		return nil, err
	}
	w.Totals = earned(s.Totals)
	for _, u := range s.Unrated {
		w.Unrated += u.Receipts
	}
	if len(rightIDs) > 1 && s.NextCursor == "" {
		names, err := p.readWorks()
		if err != nil {
			return nil, err
		}
		w.Rights = byRight(p, s.Lines, names)
	}
	if err := w.readMinimums(p, r.ID); err != nil {
		return nil, err
	}
	return w, w.readDrafts(p)
}

// earned are the totals of which something is.
func earned(all []client.SettlementTotal) (some []client.SettlementTotal) {
	for _, t := range all {
		if !isZero(t.Amount) || !isZero(t.HeldAmount) {
			some = append(some, t)
		}
	}
	return some
}

// byRight sums lines by right and currency.
func byRight(p *page, lines []client.SettlementLine, names works) table {
	t := table{Columns: []string{"Right", "Billed plays", "Worth", "Currency"}}
	type key struct{ rightID, currency string }
	type part struct {
		receipts int64
		amount   string
	}
	sums, order := map[key]part{}, []key{}
	for _, l := range lines {
		k := key{l.RightID, l.Currency}
		sum, known := sums[k]
		if !known {
			order = append(order, k)
		}
		sums[k] = part{sum.receipts + l.Receipts, plus(sum.amount, l.Amount)}
	}
	for _, k := range order {
		t.Rows = append(t.Rows, []cell{p.allowed(names.cell(k.rightID)), amount(sums[k].receipts), number(sums[k].amount), text(k.currency)})
	}
	return t
}

// readMinimums finds the rules that are for the right alone, and pay something for a month without plays.
func (w *worth) readMinimums(p *page, rightID string) error {
	if !p.can("list-settlement-rules") {
		return nil
	}
	var data struct{ Rules []client.SettlementRule }
	if err := p.get(&data, "list-settlement-rules", url.Values{"rightId": {rightID}, "state": {"ACTIVE"}, "limit": {"100"}}); err != nil {
		return err
	}
	for _, r := range data.Rules {
		if r.Minimum != "" {
			w.Minimums = append(w.Minimums, r.Minimum+" "+r.Currency)
		}
	}
	return nil
}

// readDrafts finds the statements that are not issued yet.
func (w *worth) readDrafts(p *page) error {
	if !p.can("list-statements") {
		return nil
	}
	var data struct {
		Statements []client.Statement
		NextCursor string
	}
	if err := p.get(&data, "list-statements", url.Values{"state": {"DRAFT"}, "limit": {"5"}}); err != nil {
		return err
	}
	for _, s := range data.Statements {
		w.Drafts = append(w.Drafts, p.Link("/money/statements", s.ID, fmt.Sprintf("%s in %s", p.zone().titled(s), s.Currency)))
	}
	w.MoreDrafts = data.NextCursor != ""
	return nil
}

// mostFalling is how many of those that fall with a right a page names.
const mostFalling = 20

// falling are the rights that derive directly from one, by what people call them.
func (p *page) falling(family client.Provenance) (all []fallen) {
	for _, r := range family.Derived {
		if r.EffectiveState == "REVOKED" || len(all) == mostFalling {
			continue
		}
		all = append(all, fallen{p.Link("/rights", r.ID, fmt.Sprintf("%s, held by %s", cmp.Or(workOf(r), short(r.ID)), r.HolderOrgID)), r.EffectiveState})
	}
	return all
}

// fallen is what falls with a right, and its state before.
type fallen struct {
	What  cell
	State string
}

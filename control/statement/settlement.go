package statement

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/control/dispute"
	"muniment.example/control/route"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// Line is a line of a settlement, in the currency of its rule.
type Line struct {
	CampaignID    *string `json:"campaignId,omitempty" nullable:"true" doc:"With by=campaign: a campaign that the right's scope lists; null if it lists none."`
	RightID       string  `json:"rightId"`
	MeteringBasis string  `json:"meteringBasis" doc:"The tier at which they are metered."`
	RuleID        string  `json:"ruleId" doc:"The rule that rates them."`
	Unit          string  `json:"unit" enum:"EVENT,IMPRESSION,CPM,MS,SECOND" doc:"What the price applies to."`
	Price         string  `json:"price" doc:"Decimal: the price of one unit."`
	Currency      string  `json:"currency" doc:"A code of ISO 4217."`
	Receipts      int64   `json:"receipts"`
	Impressions   string  `json:"impressions" doc:"Decimal: the metered impressions."`
	QuantityMs    int64   `json:"quantityMs"`
	Amount        string  `json:"amount" doc:"Decimal: the price times the counted units, rounded once to six fractional digits, half to even."`
	Shares        []Share `json:"shares" doc:"How the amount is divided. The shares sum to the amount."`
}

// Share is a counterparty's part.
type Share struct {
	CounterpartyID string `json:"counterpartyId" doc:"The counterparty."`
	Bps            int64  `json:"bps" doc:"Basis points: 10,000 are the whole."`
	Amount         string `json:"amount" doc:"Decimal."`
}

// Total are the sums of one currency.
type Total struct {
	Currency   string  `json:"currency" doc:"A code of ISO 4217."`
	Amount     string  `json:"amount" doc:"Decimal: the sum of the lines. Each right counts once."`
	HeldAmount string  `json:"heldAmount" doc:"Decimal: what receipts under open disputes would add: the lines with them minus the lines without. As a line is rounded once, it may differ in the sixth fractional digit from what they are worth alone."`
	Payees     []Payee `json:"payees" doc:"How the amount is divided, sorted by counterpartyId."`
}

// Payee is the sum of a counterparty's shares.
type Payee struct {
	CounterpartyID string `json:"counterpartyId" doc:"The counterparty."`
	Name           string `json:"name" doc:"Its current name."`
	Amount         string `json:"amount" doc:"Decimal: the sum of its shares."`
}

// Unrated counts metered receipts that no rule rates.
type Unrated struct {
	RightID       string `json:"rightId"`
	MeteringBasis string `json:"meteringBasis" doc:"The tier at which they are metered."`
	Reason        string `json:"reason" enum:"NO_RULE,AMOUNT_TOO_LARGE" doc:"Why."`
	Receipts      int64  `json:"receipts"`
	Impressions   string `json:"impressions" doc:"Decimal: the metered impressions."`
	QuantityMs    int64  `json:"quantityMs"`
}

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (Line) SchemaName() string       { return "SettlementLine" }
func (Share) SchemaName() string      { return "SettlementLineShare" }
func (Total) SchemaName() string      { return "SettlementTotal" }
func (Payee) SchemaName() string      { return "SettlementPayee" }
func (Unrated) SchemaName() string    { return "SettlementUnrated" }
func (Adjustment) SchemaName() string { return "SettlementAdjustment" }

// rater rates the loaded receipts: what statements state by the rules by which it was stated, the rest
// by the current rules.
type rater struct{ *core }

// Settlement is a page of the rated lines of a period.
type Settlement struct {
	From       store.Instant `json:"from" nullable:"true" doc:"Start of the requested window; null is open."`
	To         store.Instant `json:"to" nullable:"true"`
	AsOf       *string       `json:"asOf" doc:"The log position before which receipts are counted. Null while nothing is loaded."`
	Lines      []Line        `json:"lines" doc:"The lines of this page."`
	Totals     []Total       `json:"totals" doc:"Totals by currency, over all pages."`
	Unrated    []Unrated     `json:"unrated" doc:"Metered receipts that no rule rates. On the first page only."`
	NextCursor *string       `json:"nextCursor"`
}

type settlementInput struct {
	route.Window
	Currency string   `query:"currency" maxLength:"3" doc:"Only lines in this currency."`
	RightID  []string `query:"rightId,explode" maxItems:"500" minLength:"1" doc:"Only receipts of deliveries under these rights, in lines, totals and unrated; repeat the parameter, or separate values with commas."`
	By       string   `query:"by" enum:"right,campaign" default:"right" doc:"right: lines by right. campaign: each line is repeated for every campaign that the right's scope lists, also if its rule matches another one of them; totals count it once."`
	route.AsOf
	route.Page
}

func (r *rater) getSettlement(ctx context.Context, in *settlementInput) (Settlement, error) {
	tenantID := auth.PrincipalFrom(ctx).TenantID
	slice, err := in.Slice()
	if err == nil && in.Currency != "" && !rate.IsCurrency(in.Currency) {
		err = errCurrency
	}
	if err != nil {
		return Settlement{}, err
	}
	first := 0
	if slice.Behind != "" { // a cursor belongs to one asOf; another asOf is refused
		asOf, row, ok := strings.Cut(slice.Behind, " ")
		if first, err = strconv.Atoi(row); !ok || err != nil || first <= 0 || in.AsOf.AsOf != "" && in.AsOf.AsOf != asOf {
			return Settlement{}, route.BadCursor()
		}
		in.AsOf.AsOf = asOf
	}
	answer := Settlement{Lines: []Line{}, Totals: []Total{}, Unrated: []Unrated{}}
	if answer.From, answer.To, err = in.Bounds(); err != nil {
		return answer, err
	}
	at, err := in.Position(ctx, r.cfg.Warehouse, r.cfg.Log, tenantID)
	if err != nil {
		return answer, err
	}
	if at != nil {
		answer.AsOf = new(at.String())
	}
	from, to := bounds(answer.From, answer.To)
	rules, err := r.rulesNow(ctx, tenantID)
	if err != nil {
		return answer, err
	}
	t, err := r.current(ctx, tenantID, from, to, rules)
	if err != nil {
		return answer, err
	}
	l, err := r.load(ctx, tenantID, from, to, nil, at, in.RightID, t)
	if err != nil {
		return answer, err
	}
	p, err := l.rated(t, ratingOf, slices.DeleteFunc([]string{in.Currency}, func(c string) bool { return c == "" })...)
	if err != nil {
		return answer, err
	}
	answer.Totals = p.totals()
	lines := []Line{}
	for i := range p.statements {
		lines = append(lines, linesOf(&p.statements[i])...)
	}
	if in.By == "campaign" {
		if lines, err = r.byCampaign(ctx, tenantID, lines, first+in.Limit+1); err != nil {
			return answer, err
		}
	}
	if first == 0 {
		answer.Unrated = append(answer.Unrated, p.unrated...)
	}
	rest := lines[min(first, len(lines)):]
	page, next := store.Cut(rest[:min(len(rest), in.Limit+1)], in.Limit, func(Line) string { return fmt.Sprintf("%s %d", *answer.AsOf, first+in.Limit) })
	answer.Lines, answer.NextCursor = append(answer.Lines, page...), in.Next(next)
	return answer, nil
}

// projection is a rated period: a statement for each currency.
type projection struct {
	statements []statement.Statement
	unrated    []Unrated
}

// forever is the end of an open window.
var forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// bounds returns the ends of a window that may be open.
func bounds(from, to store.Instant) (time.Time, time.Time) {
	if from.IsZero() {
		from = store.At(time.UnixMilli(0))
	}
	if to.IsZero() {
		to = store.At(forever)
	}
	return from.Time, to.Time
}

// rulesNow returns the current rules, in the form that their events have.
func (c *core) rulesNow(ctx context.Context, tenantID string) ([]settlement.Rule, error) {
	rules, err := settle.Rules(ctx, c.db.Read(), tenantID, store.Instant{})
	if err != nil {
		return nil, err
	}
	return settle.Records(rules)
}

// current returns the terms of now: those of what is stated, and the rules of now for the rest.
func (c *core) current(ctx context.Context, tenantID string, from, to time.Time, rules []settlement.Rule) (*terms, error) {
	issued, err := issuedIn(ctx, c.db.Read(), &Statement{TenantID: tenantID, From: store.At(from), To: store.At(to)})
	if err != nil {
		return nil, err
	}
	return c.terms(ctx, tenantID, issued, rules)
}

// periodReceipts holds the receipts of a period, as sums over those that no rule distinguishes.
type periodReceipts struct {
	periodSums
	from, to time.Time
	months   []settlement.Month
	names    []statement.Payee
}

// load sums the receipts of some rights, or of all without any.
func (r *rater) load(ctx context.Context, tenantID string, from, to time.Time, edges []time.Time, asOf *sealer.Position, rightIDs []string, by ...*terms) (l periodReceipts, err error) {
	l.from, l.to = from, to
	holding, err := dispute.Holding(ctx, r.db.Read(), tenantID, dispute.Window{From: store.At(from), To: store.At(to)})
	if err != nil {
		return l, err
	}
	if l.names, err = r.names(ctx, tenantID); err != nil || asOf == nil {
		return l, err
	}
	asked := question{tenantID: tenantID, from: from, to: to, edges: edges, asOf: asOf, terms: by, excluded: holding}
	if len(rightIDs) == 1 {
		asked.rightID = rightIDs[0]
	}
	l.periodSums, err = count(ctx, r.cfg.Sums, asked)
	if len(rightIDs) > 1 {
		other := func(m settlement.Metered) bool { return !slices.Contains(rightIDs, m.RightID) }
		l.free, l.held = slices.DeleteFunc(l.free, other), slices.DeleteFunc(l.held, other)
	}
	return l, err
}

// names lists all counterparties of the tenant, with their names.
func (c *core) names(ctx context.Context, tenantID string) (names []statement.Payee, err error) {
	list, err := settle.Counterparties(ctx, c.db.Read(), tenantID)
	for _, p := range list {
		names = append(names, statement.Payee{CounterpartyID: p.ID, Name: p.Name})
	}
	return names, err
}

// rated rates the loaded receipts, in the given currencies, or in all. Without any rule it has no
// total. Tiers, minimums and caps, which apply to statements, change it only in the months that are set.
func (l *periodReceipts) rated(t *terms, by settlement.Rating, currencies ...string) (p projection, err error) {
	if len(currencies) == 0 {
		currencies = t.Currencies()
	}
	if len(currencies) == 0 {
		currencies = []string{""}
	}
	var all []*statement.Statement
	for _, currency := range currencies {
		all = append(all, &statement.Statement{Currency: currency, From: canonical.Moment{Time: l.from}, To: canonical.Moment{Time: l.to}, Months: l.months, Payees: slices.Clone(l.names)})
	}
	if err := l.settle(by, t, all...); err != nil {
		return p, err
	}
	for _, s := range all {
		p.statements, p.unrated = append(p.statements, *s), nil
		for _, u := range s.Unrated { // each currency's statement lists them all
			p.unrated = append(p.unrated, Unrated{u.RightID, u.MeteringBasis, u.Reason, u.Receipts, u.Impressions, u.QuantityMs})
		}
	}
	return p, nil
}

// only rates by all rules, and keeps the lines of one of them.
func only(ruleID string) settlement.Rating {
	return settlement.Rating{
		Precedence: settle.Rating.Precedence,
		Rate: func(rules []settlement.Rule, receipts iter.Seq[settlement.Metered]) ([]settlement.Line, []settlement.Unrated, error) {
			lines, unrated, err := settle.Rating.Rate(rules, receipts)
			return slices.DeleteFunc(lines, func(l settlement.Line) bool { return l.RuleID != ruleID }), unrated, err
		},
		Adjust: func(rule settlement.Rule, lines, older []settlement.Line, from, to time.Time) ([]settlement.Adjustment, error) {
			if rule.ID() != ruleID {
				return nil, nil
			}
			return settle.Rating.Adjust(rule, lines, older, from, to)
		},
	}
}

func linesOf(s *statement.Statement) (lines []Line) {
	for _, l := range s.Lines {
		line := Line{
			RightID: l.RightID, MeteringBasis: l.MeteringBasis, RuleID: l.RuleID, Unit: l.Unit, Price: l.Price, Currency: s.Currency,
			Receipts: l.Receipts, Impressions: l.Impressions, QuantityMs: l.QuantityMs, Amount: l.Amount,
		}
		for _, share := range l.Shares {
			line.Shares = append(line.Shares, Share{share.CounterpartyID, share.Bps, share.Amount})
		}
		lines = append(lines, line)
	}
	return lines
}

func totalOf(s *statement.Statement) Total {
	t := Total{Currency: s.Currency, Amount: s.Total, HeldAmount: s.HeldAmount, Payees: []Payee{}}
	for _, p := range s.Payees {
		t.Payees = append(t.Payees, Payee{p.CounterpartyID, p.Name, p.Amount})
	}
	return t
}

// DryRun is the body of a request for a dry run: a rule and a period.
type DryRun struct {
	Rule settle.NewRule `json:"rule" doc:"The rule, as in a request to create it."`
	NewPeriod
}

// DryRunData is the result of a dry run.
type DryRunData struct {
	From        store.Instant `json:"from" doc:"Start of the requested period."`
	To          store.Instant `json:"to" doc:"End of the requested period, exclusive."`
	AsOf        *string       `json:"asOf" doc:"The log position before which receipts are counted. Null while nothing is loaded."`
	Lines       []Line        `json:"lines" doc:"The lines of the rule."`
	Adjustments []Adjustment  `json:"adjustments" doc:"What the rule's tiers, minimum and cap change in the months that end in the period."`
	Total       Total         `json:"total" doc:"The sum of lines and adjustments."`
	Before      []Total       `json:"before" doc:"Totals of all rules without this one, by currency, without tiers, minimums and caps."`
	After       []Total       `json:"after" doc:"The same totals with this rule."`
}

// Adjustment is what a rule changes in a month.
type Adjustment struct {
	Month    string `json:"month" doc:"The calendar month, in the rule's time zone." example:"2026-11"`
	TimeZone string `json:"timeZone" doc:"The rule's IANA time zone."`
	Reason   string `json:"reason" enum:"TIER,MINIMUM,CAP" doc:"Why."`
	Amount   string `json:"amount" doc:"Decimal; below zero if it takes off."`
}

type dryRunInput struct{ Body DryRun }

func (r *rater) postDryRun(ctx context.Context, in *dryRunInput) (d DryRunData, err error) {
	tenantID := auth.PrincipalFrom(ctx).TenantID
	asked, err := r.period(ctx, tenantID, &in.Body.NewPeriod)
	if err != nil {
		return d, err
	}
	d.From, d.To = asked.From, asked.To
	proposed, err := settle.Propose(ctx, r.db.Read(), tenantID, "rule", &in.Body.Rule, r.db.Now())
	if err != nil {
		return d, err
	}
	at, err := route.AsOf{}.Position(ctx, r.cfg.Warehouse, r.cfg.Log, tenantID)
	if err != nil {
		return d, err
	}
	if at != nil {
		d.AsOf = new(at.String())
	}
	record, err := settle.Records([]settle.Rule{proposed})
	if err != nil {
		return d, err
	}
	reaching := statement.Statement{Currency: proposed.Currency, From: canonical.Moment(d.From), To: canonical.Moment(d.To)}
	if err := reach(&reaching, record); err != nil {
		return d, err
	}
	rules, err := r.rulesNow(ctx, tenantID)
	if err != nil {
		return d, err
	}
	now, err := r.current(ctx, tenantID, reaching.Since.Time, d.To.Time, rules)
	if err != nil {
		return d, err
	}
	with, err := r.current(ctx, tenantID, reaching.Since.Time, d.To.Time, append(rules, record...))
	if err != nil {
		return d, err
	}
	l, err := r.load(ctx, tenantID, reaching.Since.Time, d.To.Time, reaching.Edges(), at, nil, now, with)
	if err != nil {
		return d, err
	}
	l.from = d.From.Time
	before, err := l.rated(now, ratingOf)
	if err != nil {
		return d, err
	}
	after, err := l.rated(with, ratingOf)
	if err != nil {
		return d, err
	}
	l.months = reaching.Months
	proposal, err := l.rated(with, only(proposed.ID), proposed.Currency)
	if err != nil {
		return d, err
	}
	own := &proposal.statements[0]
	d.Lines, d.Total, d.Adjustments = append([]Line{}, linesOf(own)...), totalOf(own), []Adjustment{}
	for _, a := range own.Adjustments {
		d.Adjustments = append(d.Adjustments, Adjustment{a.Month, a.TimeZone, a.Reason, a.Amount})
	}
	d.Before, d.After = before.totals(), after.totals()
	return d, nil
}

// totals returns the total of each currency.
func (p *projection) totals() []Total {
	totals := []Total{}
	for i := range p.statements {
		if s := &p.statements[i]; s.Currency != "" {
			totals = append(totals, totalOf(s))
		}
	}
	return totals
}

// byCampaign repeats each line for each campaign that its right lists, up to limit lines.
func (r *rater) byCampaign(ctx context.Context, tenantID string, lines []Line, limit int) ([]Line, error) {
	repeated := []Line{}
	for some := range slices.Chunk(lines, rightsAtOnce) {
		rights := make([]string, 0, len(some))
		for _, l := range some {
			rights = append(rights, l.RightID)
		}
		slices.Sort(rights)
		scopes, err := r.cfg.Packs.Scopes(ctx, tenantID, nil, slices.Compact(rights))
		if err != nil {
			return nil, err
		}
		of := make(map[string][]string)
		for _, s := range scopes {
			of[s.RightID] = s.Campaigns
		}
		for _, l := range some {
			for _, campaign := range of[l.RightID] {
				in := l
				in.CampaignID = &campaign
				repeated = append(repeated, in)
			}
			if len(of[l.RightID]) == 0 {
				repeated = append(repeated, l)
			}
			if len(repeated) >= limit {
				return repeated, nil
			}
		}
	}
	return repeated, nil
}

// rightsAtOnce is for how many lines one query looks up campaigns.
const rightsAtOnce = 200

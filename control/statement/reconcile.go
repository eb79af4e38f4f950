package statement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// Reconciliation compares what was signed, what is loaded and what was stated.
type Reconciliation struct {
	From        store.Instant          `json:"from" nullable:"true" doc:"Start of the requested period; null is open."`
	To          store.Instant          `json:"to" nullable:"true"`
	Packs       ReconciledPacks        `json:"packs" doc:"The packs that were sealed in the period, in the hour before it, and up to the newest pack that its statements state. They contain everything that is stated."`
	Statements  []ReconciledStatement  `json:"statements" doc:"The statements that are ISSUED or SETTLED and whose period overlaps with this one, sorted by their ends, each followed by its corrections."`
	Unstated    []Line                 `json:"unstated" doc:"What an issued statement lacks: receipts of times that it covers, in the currency of the rule that rates them, and for a counterparty that the rule pays. They came late, or their rule did. A correction of that statement states them."`
	Differences []ReconciledDifference `json:"differences" doc:"What does not agree; empty if everything agrees. At most 20 packs are listed."`
}

// ReconciledPacks compares packs with the rows of the same entries.
type ReconciledPacks struct {
	Count       int64   `json:"count" doc:"How many packs."`
	FirstPackID *string `json:"firstPackId" doc:"Null if there is no pack."`
	LastPackID  *string `json:"lastPackId" doc:"Null if there is no pack."`
	Sealed      Counted `json:"sealed" doc:"The counts in the packs' headers, computed from what nodes have signed."`
	Loaded      Counted `json:"loaded" doc:"The warehouse's current counts for the same part of the log."`
}

// Counted counts entries of the log and sums the deliveries among them.
type Counted struct {
	Entries     int64  `json:"entries" doc:"Events of all types."`
	Receipts    int64  `json:"receipts"`
	Metered     int64  `json:"metered" doc:"Receipts that are neither suppressed nor duplicates."`
	QuantityMs  int64  `json:"quantityMs" doc:"The metered milliseconds."`
	Impressions string `json:"impressions" doc:"Decimal: the metered impressions."`
}

// ReconciledStatement compares a statement with its recomputation.
type ReconciledStatement struct {
	StatementID    string        `json:"statementId" doc:"The statement."`
	State          State         `json:"state" enum:"ISSUED,SETTLED"`
	From           store.Instant `json:"from" doc:"Start of its period."`
	To             store.Instant `json:"to" doc:"End of its period, exclusive."`
	Currency       string        `json:"currency" doc:"A code of ISO 4217."`
	CounterpartyID *string       `json:"counterpartyId" doc:"The counterparty whose shares it states; null: all counterparties."`
	Corrects       *string       `json:"corrects" doc:"The statement that it corrects; null for a first statement."`
	Stated         Stated        `json:"stated" doc:"The sums that it states."`
	Recomputed     *Recomputed   `json:"recomputed" doc:"The same sums recomputed from the warehouse, by the statement's own rules and disputes; null if the database lacks the data for that, or if its record or text differs from what was signed."`
	Months         []MonthDue    `json:"months" doc:"What a correction of it would change of the months that end in its period, by the current rules: for example because an earlier part of a month was corrected. Empty for a statement that was corrected since."`
	Late           int64         `json:"late" doc:"Metered receipts of its period after its asOf. They are in none of its lines; a correction states them."`
}

// MonthDue is an adjustment that is not as it would be now.
type MonthDue struct {
	Month    string `json:"month" doc:"The calendar month, in the rule's time zone." example:"2026-11"`
	TimeZone string `json:"timeZone" doc:"The rule's IANA time zone."`
	RuleID   string `json:"ruleId" doc:"The rule."`
	Reason   string `json:"reason" enum:"TIER,MINIMUM,CAP" doc:"Why the rule adjusts the month."`
	Stated   string `json:"stated" doc:"Decimal: the amount that the statement has; 0 for none."`
	Now      string `json:"now" doc:"Decimal: the amount that a correction would have; 0 for none."`
}

// Stated are the sums of a statement.
type Stated struct {
	Receipts   int64  `json:"receipts" doc:"How many receipts are behind its lines."`
	Total      string `json:"total" doc:"Decimal."`
	HeldAmount string `json:"heldAmount" doc:"Decimal."`
}

// Recomputed are the sums of a statement, recomputed from the warehouse.
type Recomputed struct {
	_ struct{} `nullable:"true"`
	Stated
}

// ReconciledDifference is a pack or a statement that does not agree.
type ReconciledDifference struct {
	Code    string `json:"code" enum:"PACK_DIFFERS,STATEMENT_DIFFERS" doc:"What differs."`
	ID      string `json:"id" doc:"The id of the pack or the statement."`
	Message string `json:"message" doc:"A sentence that says what does not agree."`
}

// The codes of differences.
const (
	packDiffers      = "PACK_DIFFERS"
	statementDiffers = "STATEMENT_DIFFERS"
)

const (
	// mostPacks and mostStatements bound one response, mostDiffering the packs that it lists.
	mostPacks, mostStatements, mostDiffering = 20_000, mostOverlaps, 20
	// packsAtOnce is how many packs one query compares with their rows.
	packsAtOnce = 500
)

// clocksApart is far more than clocks differ: no receipt of a period is sealed earlier than that before
// its beginning.
const clocksApart = time.Hour

// reconciler recomputes issued statements from rows, whose Sums are the warehouse, and compares packs with their rows.
type reconciler struct{ *core }

type reconcileInput struct{ route.Window }

func (r *reconciler) getReconciliation(ctx context.Context, in *reconcileInput) (answer Reconciliation, err error) {
	tenantID := auth.PrincipalFrom(ctx).TenantID
	remembering := *r.core
	remembering.cfg.Packs = &rememberedScopes{Packs: r.cfg.Packs}
	r = &reconciler{&remembering}
	answer = Reconciliation{Statements: []ReconciledStatement{}, Unstated: []Line{}, Differences: []ReconciledDifference{}}
	if answer.From, answer.To, err = in.Bounds(); err != nil {
		return answer, err
	}
	from, to := bounds(answer.From, answer.To)
	requested := Statement{TenantID: tenantID, From: store.At(from), To: store.At(to)}
	issued, err := issuedIn(ctx, r.db.Read(), &requested)
	if err != nil {
		return answer, err
	}
	issued = slices.DeleteFunc(issued, func(s Statement) bool { return s.State == Voided })
	if len(issued) > mostStatements {
		return answer, api.InvalidField("to", fmt.Sprintf("more than %d statements overlap with the period: choose a shorter one", mostStatements))
	}
	slices.SortFunc(issued, func(a, b Statement) int { // first statements precede their corrections
		return cmp.Or(a.To.Compare(b.To.Time), strings.Compare(a.first(), b.first()), cmp.Compare(a.Correction, b.Correction))
	})
	loaded, err := route.AsOf{}.Position(ctx, r.cfg.Warehouse, r.cfg.Log, tenantID)
	if err != nil {
		return answer, err
	}
	if err := r.reconcilePacks(ctx, &requested, issued, loaded, &answer); err != nil {
		return answer, err
	}
	rules, err := r.rulesNow(ctx, tenantID)
	if err != nil {
		return answer, err
	}
	for i := range issued {
		s, err := r.reconcileStatement(ctx, tenantID, issued[i].ID, &answer)
		if err != nil {
			return answer, err
		}
		if last := i+1 == len(issued) || issued[i+1].first() != issued[i].first(); last { // of its chain
			months := &answer.Statements[i].Months
			if *months, err = r.monthsDue(ctx, s, rules, loaded); err != nil {
				return answer, err
			}
		}
	}
	answer.Unstated, err = r.unstated(ctx, tenantID, from, to, rules, loaded)
	return answer, err
}

// readable is current; nil if the record of a statement was edited or is lost, which is reported as a
// difference.
func (r *reconciler) readable(ctx context.Context, tenantID string, from, to time.Time, rules []settlement.Rule) (*terms, error) {
	t, err := r.current(ctx, tenantID, from, to, rules)
	if code := api.From(err).Code; err != nil && (code == api.StateConflict || code == api.ResourceNotFound) {
		return nil, nil
	}
	return t, err
}

// monthsDue lists what a correction of a statement would change of its months, by the rules of now.
func (r *reconciler) monthsDue(ctx context.Context, s *fullStatement, rules []settlement.Rule, asOf *sealer.Position) ([]MonthDue, error) {
	due := []MonthDue{}
	if s.Document == "" || s.edited() { // which is reported as a difference
		return due, nil
	}
	stated, err := s.document()
	if err != nil {
		return due, err
	}
	now := stated
	if err := reach(&now, rules); err != nil || len(stated.Months)+len(now.Months) == 0 {
		return due, err
	}
	if stated.Since.Before(now.Since.Time) {
		now.Since = stated.Since
	}
	t, err := r.readable(ctx, s.TenantID, now.Since.Time, now.To.Time, rules)
	if err != nil || t == nil {
		return due, err
	}
	l, err := (&rater{r.core}).load(ctx, s.TenantID, now.Since.Time, now.To.Time, now.Edges(), asOf, nil, t)
	if err == nil {
		now.Payees = l.names
		err = l.settle(ratingOf, t, &now)
	}
	if err != nil {
		return due, err
	}
	amounts := map[MonthDue][2]string{} // by the names
	for i, list := range [][]statement.Adjustment{stated.Adjustments, now.Adjustments} {
		for _, a := range list {
			of := MonthDue{Month: a.Month, TimeZone: a.TimeZone, RuleID: a.RuleID, Reason: a.Reason}
			pair := amounts[of]
			pair[i] = a.Amount
			amounts[of] = pair
		}
	}
	for of, pair := range amounts {
		if of.Stated, of.Now = cmp.Or(pair[0], "0"), cmp.Or(pair[1], "0"); of.Stated != of.Now {
			due = append(due, of)
		}
	}
	slices.SortFunc(due, func(a, b MonthDue) int {
		return cmp.Or(strings.Compare(a.Month, b.Month), strings.Compare(a.RuleID, b.RuleID), strings.Compare(a.Reason, b.Reason))
	})
	return due, nil
}

// unstated rates the receipts of a period that are missing in its statements.
func (r *reconciler) unstated(ctx context.Context, tenantID string, from, to time.Time, rules []settlement.Rule, asOf *sealer.Position) ([]Line, error) {
	lines := []Line{}
	t, err := r.readable(ctx, tenantID, from, to, rules)
	if err != nil || t == nil {
		return lines, err
	}
	l, err := (&rater{r.core}).load(ctx, tenantID, from, to, nil, asOf, nil, t)
	if err != nil {
		return lines, err
	}
	l.free = slices.DeleteFunc(append(l.free, l.held...), func(m settlement.Metered) bool { return !t.Missing(&m) })
	l.held = nil
	p, err := l.rated(t, ratingOf)
	for i := range p.statements {
		lines = append(lines, linesOf(&p.statements[i])...)
	}
	return lines, err
}

// errBehind refuses while the warehouse lacks sealed events, for example because it was replaced by
// an older copy and loads the log again.
var errBehind = api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded all sealed events yet: send the request again", time.Second)

// reconcilePacks compares the packs of a period and its statements with the warehouse.
func (r *reconciler) reconcilePacks(ctx context.Context, requested *Statement, issued []Statement, loaded *sealer.Position, answer *Reconciliation) error {
	tenantID, from := requested.TenantID, requested.From.Time
	var through []string
	for _, s := range issued {
		through = append(through, s.PackID)
		if s.From.Before(from) {
			from = s.From.Time
		}
	}
	first, last, err := r.cfg.Packs.SealedIn(ctx, tenantID, from.Add(-clocksApart), requested.To.Time, through)
	if err != nil {
		return err
	}
	p := &answer.Packs
	if last > 0 {
		p.Count = last - first + 1
	}
	if p.Count > mostPacks {
		return api.InvalidField("from", fmt.Sprintf("the period and its statements need more than %d packs: choose a shorter period", mostPacks))
	}
	var sealed, rows counts
	for begin := first; p.Count > 0 && begin <= last; begin += packsAtOnce {
		span, err := r.cfg.Packs.Span(ctx, tenantID, begin, min(begin+packsAtOnce-1, last))
		if err != nil {
			return err
		}
		if loaded == nil || loaded.Compare(span.To) <= 0 {
			return errBehind
		}
		if begin == first {
			p.FirstPackID = &span.FirstID
		}
		p.LastPackID = &span.LastID
		some, of, err := r.compare(ctx, tenantID, span, answer)
		if err != nil {
			return err
		}
		sealed.addAll(some)
		rows.addAll(of)
	}
	p.Sealed, p.Loaded = sealed.counted(), rows.counted()
	return nil
}

// counts are the sums of packs or rows, over all deliveries.
type counts struct {
	entries, receipts, metered, quantityMs, impressions int64
}

func (c *counts) add(reason string, receipts, quantityMs, impressions int64) {
	c.receipts, c.quantityMs, c.impressions = c.receipts+receipts, c.quantityMs+quantityMs, c.impressions+impressions
	if reason == sealer.ReasonMetered {
		c.metered += receipts
	}
}

func (c *counts) addAll(more counts) {
	c.entries, c.receipts, c.metered = c.entries+more.entries, c.receipts+more.receipts, c.metered+more.metered
	c.quantityMs, c.impressions = c.quantityMs+more.quantityMs, c.impressions+more.impressions
}

func (c counts) counted() Counted {
	return Counted{c.entries, c.receipts, c.metered, c.quantityMs, sealer.FormatImpressions(c.impressions)}
}

// compare compares the headers of packs with their rows, and reports each pack with a line that
// differs. It finds these packs by bisection.
func (r *reconciler) compare(ctx context.Context, tenantID string, span *proof.Span, answer *Reconciliation) (sealed, rows counts, err error) {
	n, lines, err := r.cfg.Warehouse.Sum(ctx, tenantID, span.From, span.To)
	if err != nil {
		return sealed, rows, err
	}
	sealed.entries, rows.entries = span.Entries, n
	left := map[pack.MeterRow]bool{}
	for _, l := range span.Metering {
		sealed.add(l.Reason, l.Receipts, l.QuantityMs, l.Impressions)
		left[l] = true
	}
	same := sealed.entries == rows.entries
	for i := range lines {
		l := lines[i].Sealed()
		rows.add(l.Reason, l.Receipts, l.QuantityMs, l.Impressions)
		same = same && left[l]
		delete(left, l)
	}
	switch {
	case same && len(left) == 0:
		return sealed, rows, nil
	case span.First == span.Last:
		s, l := sealed.counted(), rows.counted()
		answer.Differences = append(answer.Differences, ReconciledDifference{packDiffers, span.FirstID, fmt.Sprintf(
			"the pack has %d entries, %d plays (receipts), %d of them billed, with %v s and %s impressions; the warehouse has %d, %d, %d, %v s and %s, or the same sums for other rights",
			s.Entries, s.Receipts, s.Metered, float64(s.QuantityMs)/1000, s.Impressions, l.Entries, l.Receipts, l.Metered, float64(l.QuantityMs)/1000, l.Impressions)})
		return sealed, rows, nil
	}
	middle := (span.First + span.Last) / 2
	for _, half := range [][2]int64{{span.First, middle}, {middle + 1, span.Last}} {
		if len(answer.Differences) >= mostDiffering {
			break
		}
		part, err := r.cfg.Packs.Span(ctx, tenantID, half[0], half[1])
		if err == nil {
			_, _, err = r.compare(ctx, tenantID, part, answer)
		}
		if err != nil {
			return sealed, rows, err
		}
	}
	return sealed, rows, nil
}

// reconcileStatement recomputes a statement, adds the result to the response, and returns the record.
func (r *reconciler) reconcileStatement(ctx context.Context, tenantID, id string, answer *Reconciliation) (*fullStatement, error) {
	again, err := r.restate(ctx, tenantID, id)
	if err != nil {
		return nil, err
	}
	s := again.record
	one := ReconciledStatement{
		StatementID: s.ID, State: s.State, From: s.From, To: s.To, Currency: s.Currency, CounterpartyID: s.CounterpartyID, Corrects: s.Corrects,
		Stated: Stated{s.Receipts, s.Total, s.HeldAmount}, Months: []MonthDue{},
	}
	if again.now != nil {
		one.Recomputed = &Recomputed{Stated: Stated{receiptsOf(again.now), again.now.Total, again.now.HeldAmount}}
	}
	if again.differs != "" {
		answer.Differences = append(answer.Differences, ReconciledDifference{statementDiffers, s.ID, again.differs})
	}
	if one.Late, err = r.late(ctx, &s.Statement); err != nil {
		return nil, err
	}
	answer.Statements = append(answer.Statements, one)
	return s, nil
}

// late counts the metered receipts of a statement's period that are after its asOf.
func (r *reconciler) late(ctx context.Context, s *Statement) (int64, error) {
	end, err := sealer.ParsePosition(s.AsOf)
	if err != nil { // the record was edited, which is reported as a difference
		return 0, nil
	}
	q := pipeline.MeterQuery{TenantID: s.TenantID, From: s.From.Time, To: s.To.Time}
	now, err := r.cfg.Warehouse.MeterTotals(ctx, q)
	if err != nil {
		return 0, err
	}
	q.AsOf = &end
	then, err := r.cfg.Warehouse.MeterTotals(ctx, q)
	return now.Metered - then.Metered, err
}

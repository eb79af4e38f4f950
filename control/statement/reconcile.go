package statement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment/control/proof"
	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

// Reconciliation holds against each other what was signed, what is loaded and what was stated.
type Reconciliation struct {
	From        store.Instant          `json:"from" nullable:"true" doc:"The period as asked for; null is open."`
	To          store.Instant          `json:"to" nullable:"true"`
	Packs       ReconciledPacks        `json:"packs" doc:"The packs that were sealed in the period, an hour before it, and up to the last one that its statements state: whatever is stated is in them."`
	Statements  []ReconciledStatement  `json:"statements" doc:"The issued statements whose period meets this one, by their ends, each with its corrections."`
	Differences []ReconciledDifference `json:"differences" doc:"What does not agree; empty if all does. Of packs the first 20 are named."`
}

// ReconciledPacks are what packs hold, and the rows of the same entries.
type ReconciledPacks struct {
	Count       int64   `json:"count" doc:"How many packs."`
	FirstPackID *string `json:"firstPackId" doc:"Null without a pack."`
	LastPackID  *string `json:"lastPackId" doc:"Null without a pack."`
	Sealed      Counted `json:"sealed" doc:"What the headers of the packs count, which is what nodes have signed."`
	Loaded      Counted `json:"loaded" doc:"What the warehouse counts of the same part of the log now."`
}

// Counted counts entries of the log, and the deliveries among them.
type Counted struct {
	Entries     int64  `json:"entries" doc:"Events of all types."`
	Receipts    int64  `json:"receipts"`
	Metered     int64  `json:"metered" doc:"Receipts that are neither suppressed nor duplicates."`
	QuantityMs  int64  `json:"quantityMs" doc:"The metered milliseconds."`
	Impressions string `json:"impressions" doc:"Decimal: how many they stand for."`
}

// ReconciledStatement is what a statement says, and what its rows sum to now.
type ReconciledStatement struct {
	StatementID    string        `json:"statementId" doc:"The statement."`
	State          State         `json:"state" enum:"ISSUED,SETTLED"`
	From           store.Instant `json:"from" doc:"Of the statement."`
	To             store.Instant `json:"to" doc:"Of the statement."`
	Currency       string        `json:"currency" doc:"Three capital letters."`
	CounterpartyID *string       `json:"counterpartyId" doc:"Whose shares it states; null: those of all."`
	Corrects       *string       `json:"corrects" doc:"The statement that it corrects; null for a first one."`
	Stated         Stated        `json:"stated" doc:"What it says."`
	Recomputed     *Recomputed   `json:"recomputed" doc:"What the warehouse gives for it now, by the rules and disputes that it was made by; null where the database lacks what that needs, or has another record or text than the one that was signed."`
	Late           int64         `json:"late" doc:"Metered receipts of its period that stand behind its asOf: they are in no line of it. A correction states those that concern it."`
}

// Stated are the sums of a statement.
type Stated struct {
	Receipts   int64  `json:"receipts" doc:"How many are behind its lines."`
	Total      string `json:"total" doc:"Decimal."`
	HeldAmount string `json:"heldAmount" doc:"Decimal."`
}

// Recomputed are the sums of a statement, computed now.
type Recomputed struct {
	_ struct{} `nullable:"true"`
	Stated
}

// ReconciledDifference is one thing that does not agree.
type ReconciledDifference struct {
	Code    string `json:"code" enum:"PACK_DIFFERS,STATEMENT_DIFFERS"`
	ID      string `json:"id" doc:"Of the pack or the statement."`
	Message string `json:"message" doc:"What does not agree, as a sentence."`
}

// The codes of differences.
const (
	packDiffers      = "PACK_DIFFERS"
	statementDiffers = "STATEMENT_DIFFERS"
)

const (
	// mostPacks and mostStatements bound one answer, mostDiffering the packs that it names.
	mostPacks, mostStatements, mostDiffering = 20_000, 100, 20
	// packsAtOnce are compared with their rows by one question.
	packsAtOnce = 500
)

// reconciler computes issued statements anew, and compares packs with their rows.
type reconciler struct{ *core }

type reconcileInput struct{ route.Window }

func (r *reconciler) getReconciliation(ctx context.Context, in *reconcileInput) (answer Reconciliation, err error) {
	tenantID := auth.PrincipalFrom(ctx).TenantID
	answer = Reconciliation{Statements: []ReconciledStatement{}, Differences: []ReconciledDifference{}}
	if answer.From, answer.To, err = in.Bounds(); err != nil {
		return answer, err
	}
	asked := Statement{TenantID: tenantID, From: answer.From, To: answer.To}
	if asked.To.IsZero() {
		asked.To = store.At(forever)
	}
	if asked.From.IsZero() {
		asked.From = store.At(time.UnixMilli(0))
	}
	issued, err := issuedIn(ctx, r.db.Read(), &asked)
	if err != nil {
		return answer, err
	}
	if len(issued) > mostStatements {
		return answer, api.InvalidField("to", fmt.Sprintf("more than %d statements meet the period: ask for a shorter one", mostStatements))
	}
	slices.SortFunc(issued, func(a, b Statement) int { // each first statement before its corrections
		return cmp.Or(a.To.Compare(b.To.Time), strings.Compare(a.first(), b.first()), cmp.Compare(a.Correction, b.Correction))
	})
	loaded, err := route.AsOf{}.Position(ctx, r.cfg.Warehouse, r.cfg.Log, tenantID)
	if err != nil {
		return answer, err
	}
	if err := r.reconcilePacks(ctx, &asked, issued, loaded, &answer); err != nil {
		return answer, err
	}
	for i := range issued {
		if err := r.reconcileStatement(ctx, tenantID, issued[i].ID, &answer); err != nil {
			return answer, err
		}
	}
	return answer, nil
}

// errBehind refuses while the warehouse, replaced by an older copy, loads the log again.
var errBehind = api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded all that is sealed: send the request again", time.Second)

// reconcilePacks holds the packs of a period and its statements against the warehouse.
func (r *reconciler) reconcilePacks(ctx context.Context, asked *Statement, issued []Statement, loaded *sealer.Position, answer *Reconciliation) error {
	tenantID, from := asked.TenantID, asked.From.Time
	var through []string
	for _, s := range issued {
		through = append(through, s.PackID)
		if s.From.Before(from) {
			from = s.From.Time
		}
	}
	first, last, err := r.cfg.Packs.SealedIn(ctx, tenantID, from.Add(-clocksApart), asked.To.Time, through)
	if err != nil {
		return err
	}
	p := &answer.Packs
	if last > 0 {
		p.Count = last - first + 1
	}
	if p.Count > mostPacks {
		return api.InvalidField("from", fmt.Sprintf("more than %d packs hold the period and what its statements state: ask for a shorter one", mostPacks))
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

// compare compares the headers of packs with their rows, and names the packs of which some line
// differs; it finds them by bisection.
func (r *reconciler) compare(ctx context.Context, tenantID string, span *proof.Span, answer *Reconciliation) (sealed, rows counts, err error) {
	n, lines, err := r.cfg.Warehouse.Sum(ctx, tenantID, span.From, span.To)
	if err != nil {
		return sealed, rows, err
	}
	sealed.entries, rows.entries = span.Entries, n
	left := map[sealer.MeterRow]bool{}
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
			"the pack holds %d entries, %d receipts, %d of them metered, with %d ms and %s impressions; the warehouse has %d, %d, %d, %d ms and %s, or for other rights",
			s.Entries, s.Receipts, s.Metered, s.QuantityMs, s.Impressions, l.Entries, l.Receipts, l.Metered, l.QuantityMs, l.Impressions)})
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

// reconcileStatement computes a statement anew.
func (r *reconciler) reconcileStatement(ctx context.Context, tenantID, id string, answer *Reconciliation) error {
	s, err := r.restate(ctx, tenantID, id)
	if err != nil {
		return err
	}
	one := ReconciledStatement{
		StatementID: s.ID, State: s.State, From: s.From, To: s.To, Currency: s.Currency, CounterpartyID: s.CounterpartyID, Corrects: s.Corrects,
		Stated: Stated{s.Receipts, s.Total, s.HeldAmount},
	}
	if s.now != nil {
		one.Recomputed = &Recomputed{Stated: Stated{receiptsOf(s.now), s.now.Total, s.now.HeldAmount}}
	}
	if s.differs != "" {
		answer.Differences = append(answer.Differences, ReconciledDifference{statementDiffers, s.ID, s.differs})
	}
	if one.Late, err = r.late(ctx, &s.Statement); err != nil {
		return err
	}
	answer.Statements = append(answer.Statements, one)
	return nil
}

// late counts the metered receipts of a statement's period that came after it.
func (r *reconciler) late(ctx context.Context, s *Statement) (int64, error) {
	end, err := sealer.ParsePosition(s.AsOf)
	if err != nil { // edited, which is a difference
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

package sealer

import (
	"bytes"
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muniment.example/sealer/canonical"
)

// MaxStatementBytes bounds the file of a statement.
const MaxStatementBytes = 16 << 20

// Statement is the settlement of a period, in one currency. Its RFC 8785 text is signed.
// Amounts are decimals of at most six digits after the point, without needless zeros; those of
// Adjustments may be negative.
type Statement struct {
	// Adjustments are the amounts by which tiers, minimums and caps of rules change the months that end in
	// the period; by ruleId and month.
	Adjustments []StatementAdjustment `json:"adjustments"`
	AsOf        StatementAsOf         `json:"asOf"`
	// Correction is nil in the first statement of a period.
	Correction *StatementCorrection `json:"correction"`
	// CounterpartyID limits the statement to the shares of one counterparty. nil means all.
	CounterpartyID *string `json:"counterpartyId"`
	Currency       string  `json:"currency"`
	// Excluded are the receipts that are not in the lines because of disputes; by disputeId.
	Excluded []StatementExclusion `json:"excluded"`
	// From ≤ renderedAt < To of each receipt.
	From canonical.Moment `json:"from"`
	// HeldAmount is by how much Total would be larger if no receipts were held.
	HeldAmount string           `json:"heldAmount"`
	IssuedAt   canonical.Moment `json:"issuedAt"`
	// Lines are those of rules in Currency, in which CounterpartyID has a share; by rightId,
	// meteringBasis, ruleId and ruleLeaf.
	Lines []StatementLine `json:"lines"`
	// LocalFrom and LocalTo are From and To as clocks in TimeZone show them: RFC 3339, with the offset.
	LocalFrom string `json:"localFrom"`
	LocalTo   string `json:"localTo"`
	// Months are those that end in the period, and in which a rule adjusts something; by timeZone and month.
	Months []StatementMonth `json:"months"`
	// Overlaps are all statements that were issued before, voided ones too, and whose periods overlap
	// with the time from Since to To; by statementId.
	Overlaps []StatementOverlap `json:"overlaps"`
	// Payees are the counterparties that get Total; by counterpartyId.
	Payees []StatementPayee `json:"payees"`
	// Rights has what the terms' rules name of the scopes of the rights whose receipts count, or are held,
	// from Since on; by rightId.
	Rights []SettlementRight `json:"rights"`
	// Since is from when on receipts count in Months: From, or earlier if a month begins earlier; of a
	// correction, not later than that of Previous.
	Since       canonical.Moment `json:"since"`
	StatementID string           `json:"statementId"`
	TenantID    string           `json:"tenantId"`
	// TimeZone is the IANA zone of the period's dates.
	TimeZone string           `json:"timeZone"`
	To       canonical.Moment `json:"to"`
	// Total is the sum of all shares that are shown.
	Total string `json:"total"`
	// Unrated counts the metered receipts of the period without a line in any currency.
	Unrated []StatementUnrated `json:"unrated"`
	V       int                `json:"v"`
}

// StatementAsOf names the pack up to whose end a statement covers the tenant's log.
type StatementAsOf struct {
	PackID   string `json:"packId"`
	RootHash string `json:"rootHash"`
	TreeSize uint64 `json:"treeSize"`
}

// StatementOverlap names a statement by the hash of its text.
type StatementOverlap struct {
	SHA256      string `json:"sha256"`
	StatementID string `json:"statementId"`
}

// StatementLine rates the receipts of one right and metering basis by one text of a rule.
type StatementLine struct {
	Amount        string `json:"amount"`
	Impressions   string `json:"impressions"`
	MeteringBasis string `json:"meteringBasis"`
	// Price is of one Unit, as the rule has it.
	Price      string `json:"price"`
	QuantityMs int64  `json:"quantityMs"`
	Receipts   int64  `json:"receipts"`
	RightID    string `json:"rightId"`
	RuleID     string `json:"ruleId"`
	// RuleLeaf is the leaf with that text.
	RuleLeaf uint64           `json:"ruleLeaf"`
	Shares   []StatementShare `json:"shares"`
	Unit     string           `json:"unit"`
}

// StatementShare is a counterparty's part of a line or an adjustment.
type StatementShare struct {
	Amount         string `json:"amount"`
	Bps            int64  `json:"bps"`
	CounterpartyID string `json:"counterpartyId"`
}

// StatementMonth is a calendar month in a time zone. The moments are stated because the rules of time
// zones change.
type StatementMonth struct {
	From     canonical.Moment `json:"from"`
	Month    string           `json:"month"` // as 2026-11
	TimeZone string           `json:"timeZone"`
	To       canonical.Moment `json:"to"`
}

// MaxMonths bounds the months of a statement.
const MaxMonths = 400

// ErrTimeZone says that this machine does not know a time zone.
var ErrTimeZone = errors.New("is not known here")

// ErrMonths says that a period has more than MaxMonths months with something to adjust.
var ErrMonths = fmt.Errorf("more than %d months end in the period, in which rules have a minimum, a cap or tiers", MaxMonths)

// StatementAdjustment is the amount by which tiers, the minimum or the cap of a rule change the sum of its
// lines in a month, whichever statements have these lines.
type StatementAdjustment struct {
	Amount   string           `json:"amount"`
	Month    string           `json:"month"`
	Reason   string           `json:"reason"` // TIER, then MINIMUM or CAP
	RuleID   string           `json:"ruleId"`
	RuleLeaf uint64           `json:"ruleLeaf"`
	Shares   []StatementShare `json:"shares"`
	TimeZone string           `json:"timeZone"`
}

// Adjustment is that of a rule in a month, in the order of the rule's shares.
type Adjustment struct {
	Reason, Amount string
	Shares         []string
}

// Months returns the months that end at from < end ≤ to and in which a rule has something to adjust, in
// their order. It returns ErrMonths if they are too many.
type Months func(rule SettlementRule, from, to time.Time) ([]StatementMonth, error)

// StatementExclusion names receipts: those of ReceiptIDs, or all of a right with
// From ≤ renderedAt < To.
type StatementExclusion struct {
	DisputeID  string   `json:"disputeId"`
	From       *string  `json:"from"`
	ReceiptIDs []string `json:"receiptIds"`
	RightID    *string  `json:"rightId"`
	// State is HELD while the dispute is open, UPHELD once it was upheld.
	State string  `json:"state"`
	To    *string `json:"to"`
}

// The states of exclusions.
const (
	ExclusionHeld   = "HELD"
	ExclusionUpheld = "UPHELD"
)

// StatementPayee is what a counterparty gets.
type StatementPayee struct {
	Amount         string `json:"amount"`
	CounterpartyID string `json:"counterpartyId"`
	Name           string `json:"name"`
}

// StatementUnrated is Unrated.
type StatementUnrated struct {
	Impressions   string `json:"impressions"`
	MeteringBasis string `json:"meteringBasis"`
	QuantityMs    int64  `json:"quantityMs"`
	Reason        string `json:"reason"`
	Receipts      int64  `json:"receipts"`
	RightID       string `json:"rightId"`
}

// Adjust applies tiers, minimum and cap of a rule to its lines in a month, in this order; older are lines by
// earlier texts with another unit or price. It must be pure, as Rate.
type Adjust func(rule SettlementRule, lines, older []SettlementLine, from, to time.Time) ([]Adjustment, error)

// Precedence returns a function that finds the rule that rates receipts: its place among rules, −1 if
// none does. It must be pure, as Rate, and fails if a rule can't be read.
type Precedence func(rules []SettlementRule) (func(*Metered) int, error)

// Rating computes statements.
type Rating struct {
	Rate       Rate
	Adjust     Adjust
	Precedence Precedence
	Months     Months
}

// Reach sets the statement's Months, by the terms' own rules in its currency in which its counterparty has a
// share, and Since. It returns ErrMonths if they are too many.
func (s *Statement) Reach(by Rating, terms *Terms) error {
	s.Months, s.Since = []StatementMonth{}, s.From
	for _, r := range terms.own.list {
		if !r.bounds() || !r.pays(s.Currency, s.CounterpartyID) {
			continue
		}
		months, err := by.Months(r.rule, s.From.Time, s.To.Time)
		if err != nil {
			return err
		}
		s.Months = append(s.Months, months...)
	}
	slices.SortFunc(s.Months, compareMonths)
	s.Months = slices.CompactFunc(s.Months, func(a, b StatementMonth) bool { return compareMonths(a, b) == 0 })
	if len(s.Months) > MaxMonths {
		return ErrMonths
	}
	for _, m := range s.Months {
		if m.From.Before(s.Since.Time) {
			s.Since = m.From
		}
	}
	return nil
}

func compareMonths(a, b StatementMonth) int {
	return cmp.Or(strings.Compare(a.TimeZone, b.TimeZone), strings.Compare(a.Month, b.Month))
}

// Edges are the moments between which its receipts may not be summed, besides those of Terms; in any order.
func (s *Statement) Edges() []time.Time {
	edges := []time.Time{s.From.Time}
	for _, m := range s.Months {
		edges = append(edges, m.From.Time, m.To.Time)
	}
	return edges
}

// Settle computes lines, adjustments, payees, unrated, total and held amount of statements about
// one period, with the same months, and Rights. The caller has set all else, including the names of payees, and Months
// and Since, see Reach. receipts are those from Since on that are stated, held those that are held; equal
// ones may be summed, see Terms and Edges. It returns ErrAmount if a sum is too large.
func Settle(by Rating, terms *Terms, receipts, held iter.Seq[Metered], statements ...*Statement) error {
	if len(statements) == 0 {
		return nil
	}
	stated, err := terms.rateAll(by, receipts, statements[0])
	if err != nil {
		return err
	}
	rights := terms.rights(receipts, held)
	all := stated
	if more := slices.Collect(held); len(more) > 0 {
		if all, err = terms.rateAll(by, slices.Values(slices.AppendSeq(more, receipts)), statements[0]); err != nil {
			return err
		}
	}
	for _, s := range statements {
		s.Rights = rights
		more := *s
		if err = s.settle(by, terms, stated); err == nil {
			err = more.settle(by, terms, all)
		}
		if err != nil {
			return fmt.Errorf("cannot settle the statement %s: %w", s.StatementID, err)
		}
		total, _ := parseMicros(more.Total) // both were just written
		own, _ := parseMicros(s.Total)
		if total, err = addMicros(total, -own); err != nil {
			return err
		}
		s.HeldAmount = formatMicros(total)
	}
	return nil
}

// rights returns what the rules name of the rights of receipts.
func (t *Terms) rights(of ...iter.Seq[Metered]) []SettlementRight {
	known := make(map[string]SettlementRight)
	for _, receipts := range of {
		for m := range receipts {
			if m.Right != nil {
				known[m.RightID] = *m.Right
			}
		}
	}
	return t.names.Of(slices.Collect(maps.Values(known)))
}

// ratedPeriod are the lines of a period.
type ratedPeriod struct {
	lines   []ratedLine
	unrated []StatementUnrated
	// months are the lines of each month of a statement, by rule.
	months []map[string][]ratedLine
}

// ratedLine is a line with the text that rates it.
type ratedLine struct {
	SettlementLine
	by *ruleText
}

// rateAll rates the receipts of a statement's period, and those of each of its months.
func (t *Terms) rateAll(by Rating, receipts iter.Seq[Metered], s *Statement) (r ratedPeriod, err error) {
	within := func(from, to canonical.Moment) iter.Seq[Metered] {
		return func(yield func(Metered) bool) {
			for m := range receipts {
				if !m.RenderedAt.Before(from.Time) && m.RenderedAt.Before(to.Time) && !yield(m) {
					return
				}
			}
		}
	}
	if r, err = t.rate(by, within(s.From, s.To)); err != nil {
		return r, err
	}
	for _, month := range s.Months {
		of, err := t.rate(by, within(month.From, month.To))
		if err != nil {
			return r, err
		}
		byRule := make(map[string][]ratedLine)
		for _, l := range of.lines {
			byRule[l.RuleID] = append(byRule[l.RuleID], l)
		}
		r.months = append(r.months, byRule)
	}
	return r, nil
}

// rate rates receipts, those of one text at once.
func (t *Terms) rate(by Rating, receipts iter.Seq[Metered]) (r ratedPeriod, err error) {
	groups := make(map[*ruleText][]Metered) // nil: no rule
	for m := range receipts {
		rule, _ := t.rule(&m)
		groups[rule] = append(groups[rule], m)
	}
	unrated := make(map[Unrated]*Unrated) // by the names
	for text, some := range groups {
		var rules []SettlementRule
		if text != nil {
			rules = append(rules, text.rule)
		}
		lines, rest, err := by.Rate(rules, slices.Values(some))
		if err != nil {
			return r, err
		}
		for _, l := range lines {
			r.lines = append(r.lines, ratedLine{l, text})
		}
		for _, u := range rest {
			of := Unrated{RightID: u.RightID, MeteringBasis: u.MeteringBasis, Reason: u.Reason}
			if unrated[of] == nil {
				unrated[of] = &of
			}
			sum := unrated[of]
			sum.Receipts, sum.QuantityMs, sum.Impressions = sum.Receipts+u.Receipts, sum.QuantityMs+u.QuantityMs, sum.Impressions+u.Impressions
		}
	}
	slices.SortFunc(r.lines, func(a, b ratedLine) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.RuleID, b.RuleID), cmp.Compare(a.by.rule.Leaf, b.by.rule.Leaf))
	})
	for _, u := range unrated {
		r.unrated = append(r.unrated, StatementUnrated{
			Impressions: FormatImpressions(u.Impressions), MeteringBasis: u.MeteringBasis, QuantityMs: u.QuantityMs, Reason: u.Reason, Receipts: u.Receipts, RightID: u.RightID,
		})
	}
	slices.SortFunc(r.unrated, func(a, b StatementUnrated) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.Reason, b.Reason))
	})
	return r, nil
}

func (s *Statement) settle(by Rating, terms *Terms, r ratedPeriod) error {
	names, payees := make(map[string]string), sums{}
	for _, p := range s.Payees {
		names[p.CounterpartyID] = p.Name
	}
	s.Lines, s.Adjustments, s.Payees, s.Unrated = []StatementLine{}, []StatementAdjustment{}, []StatementPayee{}, append([]StatementUnrated{}, r.unrated...)
	for _, l := range r.lines {
		if l.by.Currency != s.Currency {
			continue
		}
		shares, err := s.shares(l.by, l.Shares, payees)
		if err != nil {
			return err
		}
		if len(shares) > 0 {
			s.Lines = append(s.Lines, StatementLine{
				Amount: l.Amount, Impressions: FormatImpressions(l.Impressions), MeteringBasis: l.MeteringBasis, Price: l.by.Price, QuantityMs: l.QuantityMs, Receipts: l.Receipts,
				RightID: l.RightID, RuleID: l.RuleID, RuleLeaf: l.by.rule.Leaf, Shares: shares, Unit: l.by.Unit,
			})
		}
	}
	for _, t := range terms.ownByID() {
		for i, month := range s.Months {
			if !t.bounds() || t.Currency != s.Currency || t.TimeZone != month.TimeZone {
				continue
			}
			if err := s.adjust(by, t, month, r.months[i][t.ID], payees); err != nil {
				return err
			}
		}
	}
	total := int64(0)
	for _, id := range slices.Sorted(maps.Keys(payees)) {
		s.Payees = append(s.Payees, StatementPayee{Amount: formatMicros(payees[id]), CounterpartyID: id, Name: names[id]})
		var err error
		if total, err = addMicros(total, payees[id]); err != nil {
			return err
		}
	}
	s.Total = formatMicros(total)
	return nil
}

// adjust adds the adjustments of a rule in a month, in which it has made the given lines in all currencies.
func (s *Statement) adjust(by Rating, t *ruleText, month StatementMonth, rated []ratedLine, payees sums) error {
	var lines, older []SettlementLine
	for _, l := range rated {
		switch {
		case l.by.Currency != s.Currency:
		case l.by.Unit == t.Unit && l.by.Price == t.Price:
			lines = append(lines, l.SettlementLine)
		default:
			older = append(older, l.SettlementLine)
		}
	}
	made, err := by.Adjust(t.rule, lines, older, month.From.Time, month.To.Time)
	if err != nil {
		return err
	}
	for _, a := range made {
		shares, err := s.shares(t, a.Shares, payees)
		if err != nil {
			return err
		}
		if len(shares) > 0 {
			s.Adjustments = append(s.Adjustments, StatementAdjustment{
				Amount: a.Amount, Month: month.Month, Reason: a.Reason, RuleID: t.ID, RuleLeaf: t.rule.Leaf, Shares: shares, TimeZone: month.TimeZone,
			})
		}
	}
	return nil
}

// shares returns the parts of a line that the statement shows, and adds them to payees. A line of
// nothing has no parts.
func (s *Statement) shares(t *ruleText, parts []string, payees sums) (shown []StatementShare, err error) {
	for i, part := range parts {
		share := t.Shares[i]
		if s.CounterpartyID != nil && *s.CounterpartyID != share.CounterpartyID {
			continue
		}
		if err := payees.add(share.CounterpartyID, part); err != nil {
			return nil, err
		}
		shown = append(shown, StatementShare{Amount: part, Bps: share.Bps, CounterpartyID: share.CounterpartyID})
	}
	return shown, nil
}

// Text is the RFC 8785 text.
func (s *Statement) Text() ([]byte, error) { return canonical.JSON(s) }

// SignStatement returns the statement as a file: its text, and the line with the signature of a
// key for packs.
func SignStatement(s *Statement, key crypto.Signer) ([]byte, error) {
	text, err := s.Text()
	if err == nil {
		_, err = ParseStatement(text) // no statement is issued that readers refuse
	}
	var pub []byte
	if err == nil {
		pub, err = PublicKey(key)
	}
	var signature []byte
	if err == nil {
		signature, err = Sign(key, text)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot sign the statement %s: %w", s.StatementID, err)
	}
	return slices.Concat(text, []byte("\n"), SignatureLine(KeyID(pub), signature), []byte("\n")), nil
}

// ParseStatement reads the text of a statement and checks its sums. It verifies no signature,
// and nothing that depends on other files.
func ParseStatement(text []byte) (s Statement, err error) {
	if err = json.Unmarshal(text, &s, json.RejectUnknownMembers(true)); err == nil {
		var again []byte
		if again, err = s.Text(); err == nil && !bytes.Equal(again, text) {
			err = canonical.ErrNotCanonical
		}
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Statement{}, fmt.Errorf("cannot read statement: %w", err)
	}
	return s, nil
}

// check checks that the statement is consistent.
func (s *Statement) check() error {
	if s.V != 1 || !s.From.Before(s.To.Time) || checkTenant(s.TenantID) != nil {
		return errors.New("its version, tenant or period is invalid")
	}
	payees := sums{}
	if !slices.IsSortedFunc(s.Lines, func(a, b StatementLine) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.RuleID, b.RuleID), cmp.Compare(a.RuleLeaf, b.RuleLeaf))
	}) {
		return errors.New("its lines are out of order")
	}
	for i := 1; i < len(s.Excluded); i++ {
		if s.Excluded[i].DisputeID <= s.Excluded[i-1].DisputeID {
			return errors.New("its exclusions are out of order or listed twice")
		}
	}
	for i, o := range s.Overlaps {
		if _, err := canonical.DecodeBase64(o.SHA256, 32); err != nil || o.StatementID == s.StatementID || i > 0 && o.StatementID <= s.Overlaps[i-1].StatementID {
			return errors.New("the statements with which it overlaps are out of order, listed twice, or without a hash")
		}
	}
	if err := checkRights(s.Rights); err != nil {
		return err
	}
	if err := s.checkTimes(); err != nil {
		return err
	}
	for i, l := range s.Lines {
		if err := s.addUp(l.Amount, l.Shares, payees); err != nil {
			return fmt.Errorf("line %d: %w", i, err)
		}
	}
	for i, a := range s.Adjustments {
		if err := s.addUp(a.Amount, a.Shares, payees); err != nil {
			return fmt.Errorf("adjustment %d: %w", i, err)
		}
	}
	total := int64(0)
	for i, p := range s.Payees {
		got, err := parseMicros(p.Amount)
		if _, known := payees[p.CounterpartyID]; err != nil || !known || got != payees[p.CounterpartyID] || i > 0 && p.CounterpartyID <= s.Payees[i-1].CounterpartyID {
			return fmt.Errorf("%s does not get what its shares add up to", p.CounterpartyID)
		}
		if total, err = addMicros(total, got); err != nil {
			return err
		}
	}
	if len(s.Payees) != len(payees) || s.Total != formatMicros(total) {
		return fmt.Errorf("the total of %s is not what the payees get, %s", s.Total, formatMicros(total))
	}
	if _, err := parseMicros(s.HeldAmount); err != nil {
		return err
	}
	return s.checkCorrection()
}

// checkTimes checks that local times, months and adjustments are consistent with the period.
func (s *Statement) checkTimes() error {
	for _, of := range []struct {
		local string
		at    canonical.Moment
	}{{s.LocalFrom, s.From}, {s.LocalTo, s.To}} {
		if at, err := time.Parse(localLayout, of.local); err != nil || at.Format(localLayout) != of.local || !at.Equal(of.at.Time) {
			return fmt.Errorf("%q is not %s in local time", of.local, canonical.FormatTime(of.at.Time))
		}
	}
	if s.TimeZone == "" || s.From.Before(s.Since.Time) || len(s.Months) > MaxMonths {
		return errors.New("it has no time zone, begins before the time since which it counts, or has too many months")
	}
	months := make(map[StatementMonth]bool) // by names
	for i, m := range s.Months {
		if m.From.Before(s.Since.Time) || !s.From.Before(m.To.Time) || s.To.Before(m.To.Time) || !m.From.Before(m.To.Time) || i > 0 && compareMonths(s.Months[i-1], m) >= 0 {
			return errors.New("its months are out of order, listed twice, or do not end in the period")
		}
		months[StatementMonth{Month: m.Month, TimeZone: m.TimeZone}] = true
	}
	for i, a := range s.Adjustments {
		if !months[StatementMonth{Month: a.Month, TimeZone: a.TimeZone}] {
			return fmt.Errorf("adjustment %d is of the month %s in %s, which is not among its months", i, a.Month, a.TimeZone)
		}
	}
	return nil
}

// localLayout is that of local times, as RFC 3339 with milliseconds.
const localLayout = "2006-01-02T15:04:05.000Z07:00"

// Local sets the zone of the period's dates. It fails if clocks there are not whole minutes off UTC,
// or show a year after 9999.
func (s *Statement) Local(zone *time.Location) error {
	s.TimeZone, s.LocalFrom, s.LocalTo = zone.String(), s.From.In(zone).Format(localLayout), s.To.In(zone).Format(localLayout)
	for _, at := range []canonical.Moment{s.From, s.To} {
		local := at.In(zone)
		if local.Year() > 9999 {
			return fmt.Errorf("is in another year than 1970 to 9999 at %s", canonical.FormatTime(at.Time))
		}
		if _, offset := local.Zone(); offset%60 != 0 {
			return fmt.Errorf("is %d seconds off UTC at %s, which no date can say", offset, canonical.FormatTime(at.Time))
		}
	}
	return nil
}

// addUp adds shares to payees. They must add up to amount, unless the statement omits shares of others.
func (s *Statement) addUp(amount string, shares []StatementShare, payees sums) error {
	whole, err := parseMicros(amount)
	if err != nil {
		return err
	}
	sum := int64(0)
	for _, share := range shares {
		part, err := parseMicros(share.Amount)
		if err == nil {
			err = payees.add(share.CounterpartyID, share.Amount)
		}
		if err == nil {
			sum, err = addMicros(sum, part)
		}
		if err != nil {
			return err
		}
	}
	if s.CounterpartyID == nil && sum != whole {
		return fmt.Errorf("shares of %s do not make %s", formatMicros(sum), amount)
	}
	return nil
}

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
)

// MaxStatementBytes bounds the file of a statement.
const MaxStatementBytes = 16 << 20

// Statement is the settlement of a period, in one currency. Its RFC 8785 text is signed.
// Amounts are decimals of at most six digits after the point, without needless zeros; those of
// Adjustments may be negative.
type Statement struct {
	// Adjustments are the amounts that minimums of rules add and caps subtract; by ruleId.
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
	From Moment `json:"from"`
	// HeldAmount is by how much Total would be larger if no receipts were held.
	HeldAmount string `json:"heldAmount"`
	IssuedAt   Moment `json:"issuedAt"`
	// Lines are those of rules in Currency, in which CounterpartyID has a share; by rightId,
	// meteringBasis and ruleId.
	Lines []StatementLine `json:"lines"`
	// Payees are the counterparties that get Total; by counterpartyId.
	Payees      []StatementPayee `json:"payees"`
	StatementID string           `json:"statementId"`
	TenantID    string           `json:"tenantId"`
	To          Moment           `json:"to"`
	// Total is the sum of all shares that are shown.
	Total string `json:"total"`
	// Unrated counts the metered receipts of the period without a line in any currency.
	Unrated []StatementUnrated `json:"unrated"`
	V       int                `json:"v"`
}

// StatementAsOf names the pack up to whose end a statement covers the tenant's log. The rules
// are those that the log holds there, except in a correction.
type StatementAsOf struct {
	PackID   string `json:"packId"`
	RootHash string `json:"rootHash"`
	TreeSize uint64 `json:"treeSize"`
}

// StatementLine rates the receipts of one right and metering basis by one rule.
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
	// RuleLeaf is the leaf with the rule.
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

// StatementAdjustment is the amount that a rule's minimum adds to its lines, or its cap subtracts.
type StatementAdjustment struct {
	Amount   string           `json:"amount"`
	Reason   string           `json:"reason"` // MINIMUM or CAP
	RuleID   string           `json:"ruleId"`
	RuleLeaf uint64           `json:"ruleLeaf"`
	Shares   []StatementShare `json:"shares"`
}

// The reasons of adjustments.
const (
	AdjustedMinimum = "MINIMUM"
	AdjustedCap     = "CAP"
)

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

// Adjust applies the minimum and the cap of a rule to its lines in a period. It returns the
// amount, empty for none, and the rule's shares of it, in their order. It must be pure, as Rate.
type Adjust func(rule SettlementRule, lines []SettlementLine, from, to time.Time) (amount string, shares []string, err error)

// Rating computes statements.
type Rating struct {
	Rate   Rate
	Adjust Adjust
}

// terms are the members of a rule that a statement repeats.
type terms struct {
	ID       string `json:"id"`
	Currency string `json:"currency"`
	Price    string `json:"price"`
	Unit     string `json:"unit"`
	Shares   []struct {
		Bps            int64  `json:"bps"`
		CounterpartyID string `json:"counterpartyId"`
	} `json:"shares"`
	rule SettlementRule
}

// Settle computes lines, adjustments, payees, unrated, total and held amount of statements about
// one period. The caller has set all else, including the names of payees. receipts are those of
// the period that are stated, held those that are held; equal ones may be summed. It returns
// ErrAmount if a sum is too large.
func Settle(by Rating, rules []SettlementRule, receipts, held iter.Seq[Metered], statements ...*Statement) error {
	parsed := make([]terms, len(rules))
	for i, r := range rules {
		if err := json.Unmarshal(r.Record, &parsed[i]); err != nil {
			return fmt.Errorf("cannot read the settlement rule of leaf %d: %w", r.Leaf, err)
		}
		parsed[i].rule = r
	}
	slices.SortFunc(parsed, func(a, b terms) int { return strings.Compare(a.ID, b.ID) })
	stated, err := rateBy(by, rules, receipts)
	if err != nil {
		return err
	}
	all := stated
	if more := slices.Collect(held); len(more) > 0 {
		if all, err = rateBy(by, rules, slices.Values(slices.AppendSeq(more, receipts))); err != nil {
			return err
		}
	}
	for _, s := range statements {
		more := *s
		if err = s.settle(by, parsed, stated); err == nil {
			err = more.settle(by, parsed, all)
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

// ratedBy are the lines of a period, also by rule.
type ratedBy struct {
	lines   []SettlementLine
	unrated []Unrated
	byRule  map[string][]SettlementLine
}

func rateBy(by Rating, rules []SettlementRule, receipts iter.Seq[Metered]) (r ratedBy, err error) {
	r.lines, r.unrated, err = by.Rate(rules, receipts)
	r.byRule = make(map[string][]SettlementLine)
	for _, l := range r.lines {
		r.byRule[l.RuleID] = append(r.byRule[l.RuleID], l)
	}
	return r, err
}

func (s *Statement) settle(by Rating, rules []terms, r ratedBy) error {
	names, payees := make(map[string]string), sums{}
	for _, p := range s.Payees {
		names[p.CounterpartyID] = p.Name
	}
	s.Lines, s.Adjustments, s.Payees, s.Unrated = []StatementLine{}, []StatementAdjustment{}, []StatementPayee{}, []StatementUnrated{}
	for _, l := range r.lines {
		i, known := slices.BinarySearchFunc(rules, l.RuleID, func(t terms, id string) int { return strings.Compare(t.ID, id) })
		if !known {
			return fmt.Errorf("a line names the unknown rule %s", l.RuleID)
		}
		t := &rules[i]
		shares, err := s.shares(t, l.Shares, payees)
		if err != nil {
			return err
		}
		if len(shares) > 0 {
			s.Lines = append(s.Lines, StatementLine{
				Amount: l.Amount, Impressions: FormatImpressions(l.Impressions), MeteringBasis: l.MeteringBasis, Price: t.Price, QuantityMs: l.QuantityMs, Receipts: l.Receipts,
				RightID: l.RightID, RuleID: l.RuleID, RuleLeaf: t.rule.Leaf, Shares: shares, Unit: t.Unit,
			})
		}
	}
	for i := range rules {
		t := &rules[i]
		if t.Currency != s.Currency {
			continue
		}
		amount, parts, err := by.Adjust(t.rule, r.byRule[t.ID], s.From.Time, s.To.Time)
		if err != nil {
			return err
		}
		shares, err := s.shares(t, parts, payees)
		if err != nil {
			return err
		}
		if len(shares) == 0 {
			continue
		}
		reason := AdjustedMinimum
		if strings.HasPrefix(amount, "-") {
			reason = AdjustedCap
		}
		s.Adjustments = append(s.Adjustments, StatementAdjustment{Amount: amount, Reason: reason, RuleID: t.ID, RuleLeaf: t.rule.Leaf, Shares: shares})
	}
	for _, u := range r.unrated {
		s.Unrated = append(s.Unrated, StatementUnrated{
			Impressions: FormatImpressions(u.Impressions), MeteringBasis: u.MeteringBasis, QuantityMs: u.QuantityMs, Reason: u.Reason, Receipts: u.Receipts, RightID: u.RightID,
		})
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

// shares returns the parts of a line that the statement shows, none for a rule in another
// currency, and adds them to payees.
func (s *Statement) shares(t *terms, parts []string, payees sums) (shown []StatementShare, err error) {
	if t.Currency != s.Currency || len(parts) != len(t.Shares) {
		return nil, nil
	}
	for i, share := range t.Shares {
		if s.CounterpartyID != nil && *s.CounterpartyID != share.CounterpartyID {
			continue
		}
		if err := payees.add(share.CounterpartyID, parts[i]); err != nil {
			return nil, err
		}
		shown = append(shown, StatementShare{Amount: parts[i], Bps: share.Bps, CounterpartyID: share.CounterpartyID})
	}
	return shown, nil
}

// Text is the RFC 8785 text.
func (s *Statement) Text() ([]byte, error) { return Canonical(s) }

// SignStatement returns the statement as a file: its text, and the line with the signature of a
// key for packs.
func SignStatement(s *Statement, key crypto.Signer) ([]byte, error) {
	text, err := s.Text()
	if err == nil {
		_, err = ParseStatement(text) // no statement is issued that readers refuse
	}
	var pub []byte
	if err == nil {
		pub, err = publicKey(key)
	}
	var signature []byte
	if err == nil {
		signature, err = sign(key, text)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot sign the statement %s: %w", s.StatementID, err)
	}
	return slices.Concat(text, []byte("\n"), signatureLine(KeyID(pub), signature), []byte("\n")), nil
}

// ParseStatement reads the text of a statement and checks its sums. It verifies no signature,
// and nothing that depends on other files.
func ParseStatement(text []byte) (s Statement, err error) {
	if err = json.Unmarshal(text, &s, json.RejectUnknownMembers(true)); err == nil {
		var again []byte
		if again, err = s.Text(); err == nil && !bytes.Equal(again, text) {
			err = ErrNotCanonical
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
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.RuleID, b.RuleID))
	}) {
		return errors.New("its lines are out of order")
	}
	for i := 1; i < len(s.Excluded); i++ {
		if s.Excluded[i].DisputeID <= s.Excluded[i-1].DisputeID {
			return errors.New("its exclusions are out of order or listed twice")
		}
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

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
	// meteringBasis, ruleId and ruleLeaf.
	Lines []StatementLine `json:"lines"`
	// Overlaps are all statements that were issued before, voided ones too, and whose periods overlap
	// with this one; by statementId.
	Overlaps []StatementOverlap `json:"overlaps"`
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

// Precedence returns a function that finds the rule that rates receipts: its place among rules, −1 if
// none does. It must be pure, as Rate, and fails if a rule can't be read.
type Precedence func(rules []SettlementRule) (func(*Metered) int, error)

// Rating computes statements.
type Rating struct {
	Rate       Rate
	Adjust     Adjust
	Precedence Precedence
}

// Settle computes lines, adjustments, payees, unrated, total and held amount of statements about
// one period. The caller has set all else, including the names of payees. receipts are those of
// the period that are stated, held those that are held; equal ones may be summed, see Terms. It
// returns ErrAmount if a sum is too large.
func Settle(by Rating, terms *Terms, receipts, held iter.Seq[Metered], statements ...*Statement) error {
	stated, err := terms.rate(by, receipts)
	if err != nil {
		return err
	}
	all := stated
	if more := slices.Collect(held); len(more) > 0 {
		if all, err = terms.rate(by, slices.Values(slices.AppendSeq(more, receipts))); err != nil {
			return err
		}
	}
	for _, s := range statements {
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

// rated are the lines of a period.
type rated struct {
	lines   []ratedLine
	unrated []StatementUnrated
}

// ratedLine is a line with the text that rates it.
type ratedLine struct {
	SettlementLine
	by *ruleText
}

// rate rates receipts, those of one text at once.
func (t *Terms) rate(by Rating, receipts iter.Seq[Metered]) (r rated, err error) {
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

func (s *Statement) settle(by Rating, terms *Terms, r rated) error {
	names, payees := make(map[string]string), sums{}
	for _, p := range s.Payees {
		names[p.CounterpartyID] = p.Name
	}
	s.Lines, s.Adjustments, s.Payees, s.Unrated = []StatementLine{}, []StatementAdjustment{}, []StatementPayee{}, append([]StatementUnrated{}, r.unrated...)
	byRule := make(map[string][]SettlementLine)
	for _, l := range r.lines {
		if l.by.Currency != s.Currency {
			continue
		}
		byRule[l.RuleID] = append(byRule[l.RuleID], l.SettlementLine)
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
		if t.Currency != s.Currency {
			continue
		}
		amount, parts, err := by.Adjust(t.rule, byRule[t.ID], s.From.Time, s.To.Time)
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
		if _, err := DecodeBase64(o.SHA256, 32); err != nil || o.StatementID == s.StatementID || i > 0 && o.StatementID <= s.Overlaps[i-1].StatementID {
			return errors.New("the statements with which it overlaps are out of order, listed twice, or without a hash")
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

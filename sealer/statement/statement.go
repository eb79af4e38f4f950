// Package statement has statements: the settlement of a period, in one currency, and corrections, which restate one.
// It computes their amounts, from receipts and the terms by which these are stated; signs them, and reads
// them strictly. Package sealer specifies their text; package verify judges them.
//
// It is pure and keeps no state. Prices are no part of it: a Rating is passed in.
package statement

import (
	"bytes"
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/settlement"
)

// MaxBytes bounds the file of a statement.
const MaxBytes = 16 << 20

// Statement is the settlement of a period, in one currency. Its RFC 8785 text is signed.
// Amounts are decimals of at most six digits after the point, without needless zeros; those of
// Adjustments may be negative.
type Statement struct {
	// Adjustments are the amounts by which tiers, minimums and caps of rules change the months that end in
	// the period; by ruleId and month.
	Adjustments []Adjustment `json:"adjustments"`
	AsOf        PackRef      `json:"asOf"`
	// Correction is nil in the first statement of a period.
	Correction *Correction `json:"correction"`
	// CounterpartyID limits the statement to the shares of one counterparty. nil means all.
	CounterpartyID *string `json:"counterpartyId"`
	Currency       string  `json:"currency"`
	// Excluded are the receipts that are not in the lines because of disputes; by disputeId.
	Excluded []Exclusion `json:"excluded"`
	// From ≤ renderedAt < To of each receipt.
	From canonical.Moment `json:"from"`
	// HeldAmount is by how much Total would be larger if no receipts were held.
	HeldAmount string           `json:"heldAmount"`
	IssuedAt   canonical.Moment `json:"issuedAt"`
	// Lines are those of rules in Currency, in which CounterpartyID has a share; by rightId,
	// meteringBasis, ruleId and ruleLeaf.
	Lines []Line `json:"lines"`
	// LocalFrom and LocalTo are From and To as clocks in TimeZone show them: RFC 3339, with the offset.
	LocalFrom string `json:"localFrom"`
	LocalTo   string `json:"localTo"`
	// Months are those that end in the period, and in which a rule adjusts something; by timeZone and month.
	Months []settlement.Month `json:"months"`
	// Overlaps are all statements that were issued before, voided ones too, and whose periods overlap
	// with the time from Since to To; by statementId.
	Overlaps []Overlap `json:"overlaps"`
	// Payees are the counterparties that get Total; by counterpartyId.
	Payees []Payee `json:"payees"`
	// Rights has what the terms' rules name of the scopes of the rights whose receipts count, or are held,
	// from Since on; by rightId.
	Rights []settlement.Right `json:"rights"`
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
	Unrated []Unrated `json:"unrated"`
	V       int       `json:"v"`
}

// PackRef names the pack up to whose end a statement covers the tenant's log.
type PackRef struct {
	PackID   string `json:"packId"`
	RootHash string `json:"rootHash"`
	TreeSize uint64 `json:"treeSize"`
}

// Overlap names a statement by the hash of its text.
type Overlap struct {
	SHA256      string `json:"sha256"`
	StatementID string `json:"statementId"`
}

// Line rates the receipts of one right and metering basis by one text of a rule.
type Line struct {
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
	RuleLeaf uint64  `json:"ruleLeaf"`
	Shares   []Share `json:"shares"`
	Unit     string  `json:"unit"`
}

// Share is a counterparty's part of a line or an adjustment.
type Share struct {
	Amount         string `json:"amount"`
	Bps            int64  `json:"bps"`
	CounterpartyID string `json:"counterpartyId"`
}

// Adjustment is the amount by which tiers, the minimum or the cap of a rule change the sum of its
// lines in a month, whichever statements have these lines.
type Adjustment struct {
	Amount   string  `json:"amount"`
	Month    string  `json:"month"`
	Reason   string  `json:"reason"` // TIER, then MINIMUM or CAP
	RuleID   string  `json:"ruleId"`
	RuleLeaf uint64  `json:"ruleLeaf"`
	Shares   []Share `json:"shares"`
	TimeZone string  `json:"timeZone"`
}

// Exclusion names receipts: those of ReceiptIDs, or all of a right with
// From ≤ renderedAt < To.
type Exclusion struct {
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

// Payee is what a counterparty gets.
type Payee struct {
	Amount         string `json:"amount"`
	CounterpartyID string `json:"counterpartyId"`
	Name           string `json:"name"`
}

// Unrated is settlement.Unrated, in the text of a statement.
type Unrated struct {
	Impressions   string `json:"impressions"`
	MeteringBasis string `json:"meteringBasis"`
	QuantityMs    int64  `json:"quantityMs"`
	Reason        string `json:"reason"`
	Receipts      int64  `json:"receipts"`
	RightID       string `json:"rightId"`
}

// Text is the RFC 8785 text.
func (s *Statement) Text() ([]byte, error) { return canonical.JSON(s) }

// Sign returns the statement as a file: its text, and the line with the signature of a
// key for packs.
func Sign(s *Statement, key crypto.Signer) ([]byte, error) {
	text, err := s.Text()
	if err == nil {
		_, err = Parse(text) // no statement is issued that readers refuse
	}
	var pub []byte
	if err == nil {
		pub, err = sealer.PublicKey(key)
	}
	var signature []byte
	if err == nil {
		signature, err = sealer.Sign(key, text)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot sign the statement %s: %w", s.StatementID, err)
	}
	return slices.Concat(text, []byte("\n"), sealer.SignatureLine(keydir.KeyID(pub), signature), []byte("\n")), nil
}

// Parse reads the text of a statement and checks its sums. It verifies no signature,
// and nothing that depends on other files.
func Parse(text []byte) (s Statement, err error) {
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
	if s.V != 1 || !s.From.Before(s.To.Time) || sealer.CheckTenant(s.TenantID) != nil {
		return errors.New("its version, tenant or period is invalid")
	}
	payees := sums{}
	if !slices.IsSortedFunc(s.Lines, func(a, b Line) int {
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
	if err := settlement.CheckRights(s.Rights); err != nil {
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
	if s.TimeZone == "" || s.From.Before(s.Since.Time) || len(s.Months) > settlement.MaxMonths {
		return errors.New("it has no time zone, begins before the time since which it counts, or has too many months")
	}
	months := make(map[settlement.Month]bool) // by names
	for i, m := range s.Months {
		if m.From.Before(s.Since.Time) || !s.From.Before(m.To.Time) || s.To.Before(m.To.Time) || !m.From.Before(m.To.Time) || i > 0 && compareMonths(s.Months[i-1], m) >= 0 {
			return errors.New("its months are out of order, listed twice, or do not end in the period")
		}
		months[settlement.Month{Month: m.Month, TimeZone: m.TimeZone}] = true
	}
	for i, a := range s.Adjustments {
		if !months[settlement.Month{Month: a.Month, TimeZone: a.TimeZone}] {
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
func (s *Statement) addUp(amount string, shares []Share, payees sums) error {
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

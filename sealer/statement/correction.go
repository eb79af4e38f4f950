package statement

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muniment.example/sealer/canonical"
)

// Correction makes a statement a correction, which restates a period in full, up to a later
// end of the log and with the disputes as of then; or the end of a chain of statements, which states
// nothing.
type Correction struct {
	// Changes are the differences of lines and adjustments; by rightId, meteringBasis, ruleId and reason.
	Changes []Change `json:"changes"`
	// Difference is the statement's total less that of Previous.
	Difference string `json:"difference"`
	// Of is the first statement of the period.
	Of string `json:"of"`
	// Payees are the counterparties that get more or less than by Previous, and how much; by counterpartyId.
	Payees []Payee `json:"payees"`
	// Previous is Of, or the newest correction of it that was issued.
	Previous Predecessor `json:"previous"`
	// VoidReason says why the chain is voided; nil in a correction.
	VoidReason *string `json:"voidReason"`
}

// Predecessor is what a correction repeats of the statement before it.
type Predecessor struct {
	AsOf        PackRef `json:"asOf"`
	SHA256      string  `json:"sha256"`
	StatementID string  `json:"statementId"`
	Total       string  `json:"total"`
}

// Change is the difference of a line for one reason; without a right, that of a rule's
// adjustments. A line that is in only one of the two statements counts as zero in the other.
type Change struct {
	// Amount is the difference of the shares that are shown; it may be negative, as Receipts may.
	Amount        string `json:"amount"`
	MeteringBasis string `json:"meteringBasis"`
	Reason        string `json:"reason"` // DISPUTE, RULES, LATE or VOID
	Receipts      int64  `json:"receipts"`
	RightID       string `json:"rightId"`
	RuleID        string `json:"ruleId"`
}

// The reasons of changes.
const (
	// ChangedByDispute: the disputes as of now change it, for the log up to the end of the
	// previous statement.
	ChangedByDispute = "DISPUTE"
	// ChangedByRules: the rules at the end of the correction change it, for the same part of the log.
	ChangedByRules = "RULES"
	// ChangedLate: the events after that end change it.
	ChangedLate = "LATE"
	// Voided: the chain is voided.
	Voided = "VOID"
)

// Step is a statement on the way from the previous one to a correction, and why it differs from the one
// before.
type Step struct {
	*Statement
	Reason string
}

// Correct computes changes, difference and payees of s, which must be settled and otherwise complete,
// including the names of payees. The steps lead from the previous statement to s, which is the last
// of them. It returns ErrAmount if a difference is too large.
func (s *Statement) Correct(previous *Statement, steps ...Step) (err error) {
	c := s.Correction
	if c.Changes, err = Changes(previous, steps...); err != nil {
		return err
	}
	names, payees := make(map[string]string), sums{}
	for _, p := range c.Payees {
		names[p.CounterpartyID] = p.Name
	}
	for _, p := range s.Payees {
		err = errors.Join(err, payees.add(p.CounterpartyID, p.Amount))
	}
	for _, p := range previous.Payees {
		err = errors.Join(err, payees.subtract(p.CounterpartyID, p.Amount))
	}
	c.Payees = []Payee{}
	for _, id := range slices.Sorted(maps.Keys(payees)) {
		if payees[id] != 0 {
			c.Payees = append(c.Payees, Payee{Amount: formatMicros(payees[id]), CounterpartyID: id, Name: names[id]})
		}
	}
	difference := sums{}
	err = errors.Join(err, difference.add("", s.Total), difference.subtract("", previous.Total))
	if c.Difference = formatMicros(difference[""]); err != nil {
		return err
	}
	return s.checkCorrection()
}

// Changes are the changes of the steps from a statement on, in the order of
// Correction.Changes.
func Changes(before *Statement, steps ...Step) (changes []Change, err error) {
	changes = []Change{}
	for _, step := range steps {
		some, err := changesTo(before, step)
		if err != nil {
			return nil, err
		}
		changes, before = append(changes, some...), step.Statement
	}
	slices.SortFunc(changes, compareChanges)
	return changes, nil
}

// changesTo are the changes of one step, in any order.
func changesTo(before *Statement, after Step) (changes []Change, err error) {
	type counted struct {
		amounts  sums
		receipts int64
	}
	all := make(map[Change]*counted) // by what is left without amount and receipts
	add := func(rightID, meteringBasis, ruleID string, receipts int64, shares []Share, to func(sums, string) error) {
		key := Change{RightID: rightID, MeteringBasis: meteringBasis, RuleID: ruleID, Reason: after.Reason}
		if all[key] == nil {
			all[key] = &counted{amounts: sums{}}
		}
		all[key].receipts += receipts
		for _, share := range shares {
			err = errors.Join(err, to(all[key].amounts, share.Amount))
		}
	}
	more := func(s sums, amount string) error { return s.add("", amount) }
	less := func(s sums, amount string) error { return s.subtract("", amount) }
	for _, l := range after.Lines {
		add(l.RightID, l.MeteringBasis, l.RuleID, l.Receipts, l.Shares, more)
	}
	for _, l := range before.Lines {
		add(l.RightID, l.MeteringBasis, l.RuleID, -l.Receipts, l.Shares, less)
	}
	for _, a := range after.Adjustments {
		add("", "", a.RuleID, 0, a.Shares, more)
	}
	for _, a := range before.Adjustments {
		add("", "", a.RuleID, 0, a.Shares, less)
	}
	for change, n := range all {
		if amount := n.amounts[""]; amount != 0 || n.receipts != 0 {
			change.Amount, change.Receipts = formatMicros(amount), n.receipts
			changes = append(changes, change)
		}
	}
	return changes, err
}

func compareChanges(a, b Change) int {
	return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.RuleID, b.RuleID), strings.Compare(a.Reason, b.Reason))
}

// reasons are those that its changes may have.
func (c *Correction) reasons() []string {
	if c.VoidReason != nil {
		return []string{Voided}
	}
	return []string{ChangedByDispute, ChangedByRules, ChangedLate}
}

// checkCorrection checks that a correction is consistent and agrees with the statement.
func (s *Statement) checkCorrection() error {
	c := s.Correction
	if c == nil {
		return nil
	}
	p := &c.Previous
	if _, err := canonical.DecodeBase64(p.SHA256, 32); err != nil {
		return err
	}
	switch {
	case c.Of == "" || p.StatementID == "" || c.Of == s.StatementID || p.StatementID == s.StatementID:
		return errors.New("it does not name another statement that it corrects")
	case p.AsOf.TreeSize > s.AsOf.TreeSize:
		return errors.New("it states an earlier end of the log than what it corrects")
	case c.VoidReason != nil && (*c.VoidReason == "" || p.AsOf != s.AsOf || !s.Since.Equal(s.From.Time) || len(s.Months) > 0 || s.Total != "0" || s.HeldAmount != "0" || len(s.Lines)+len(s.Adjustments)+len(s.Excluded)+len(s.Overlaps)+len(s.Payees)+len(s.Rights)+len(s.Unrated) > 0):
		return errors.New("it voids a chain of statements, and states something, or gives no reason")
	}
	total := sums{}
	if err := errors.Join(total.add("total", s.Total), total.subtract("total", p.Total)); err != nil {
		return err
	}
	for i, change := range c.Changes {
		switch {
		case !slices.Contains(c.reasons(), change.Reason):
			return fmt.Errorf("change %d has the unknown reason %q", i, change.Reason)
		case change.Amount == "0" && change.Receipts == 0:
			return fmt.Errorf("change %d changes nothing", i)
		case i > 0 && compareChanges(c.Changes[i-1], change) >= 0:
			return errors.New("its changes are out of order or listed twice")
		}
		if err := total.add("changes", change.Amount); err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
	}
	for i, payee := range c.Payees {
		if payee.Amount == "0" || i > 0 && payee.CounterpartyID <= c.Payees[i-1].CounterpartyID || s.CounterpartyID != nil && *s.CounterpartyID != payee.CounterpartyID {
			return fmt.Errorf("%s gets nothing more or less, is there twice, in another order, or not whose statement it is", payee.CounterpartyID)
		}
		if err := total.add("payees", payee.Amount); err != nil {
			return err
		}
	}
	if difference := formatMicros(total["total"]); c.Difference != difference || total["changes"] != total["total"] || total["payees"] != total["total"] {
		return fmt.Errorf("its total differs by %s from the one before: it says %s, its changes make %s, its payees get %s",
			difference, c.Difference, formatMicros(total["changes"]), formatMicros(total["payees"]))
	}
	return nil
}

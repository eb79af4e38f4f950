package sealer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/oklog/ulid/v2"
)

// ruleEvents begins the types of the events whose data is the record of a settlement rule.
const ruleEvents = "settlement_rule."

// isRule reports whether an event has the record of a settlement rule.
func isRule(e *Event) bool { return strings.HasPrefix(e.Type, ruleEvents) }

// ruleID is the id in the record of a rule.
func ruleID(record []byte) (string, error) {
	var r struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return "", err
	}
	if r.ID == "" {
		return "", errors.New("it has no id")
	}
	return r.ID, nil
}

// Rated is what a ledger keeps of a metered receipt: a pack may have 100,000.
type Rated struct {
	Row         *MeterRow
	Completion  string // one of few constants
	RenderedAt  int64  // in milliseconds
	QuantityMs  int64
	Impressions int64     // in ten-thousandths
	ID          ulid.ULID // of the receipt and its event
}

// Settlement is what rate makes of what was folded; nil without rules.
func (l *Ledger) Settlement(rate Rate) (*Settlement, error) {
	switch {
	case l.ruleFault != nil:
		return nil, l.ruleFault
	case len(l.history.rules) == 0:
		return nil, nil
	case rate == nil:
		return nil, errors.New("there are settlement rules, and nothing to rate with")
	}
	s := &Settlement{Rules: l.history.byLeaf()}
	var err error
	s.Lines, s.Unrated, err = rate(s.Rules, func(yield func(Metered) bool) {
		for _, r := range l.Rated {
			m := Metered{
				RightID: r.Row.RightID, BasisID: r.Row.BasisID, Substrate: r.Row.Substrate, MeteringBasis: r.Row.MeteringBasis,
				Completion: r.Completion, RenderedAt: time.UnixMilli(r.RenderedAt).UTC(), Receipts: 1, QuantityMs: r.QuantityMs, Impressions: r.Impressions,
			}
			if !yield(m) {
				return
			}
		}
	})
	if held := s.receipts(); err == nil && held != int64(len(l.Rated)) {
		err = fmt.Errorf("%d receipts were rated or counted, of %d", held, len(l.Rated))
	}
	return s, err
}

// receipts counts those in lines and the unrated.
func (s *Settlement) receipts() (n int64) {
	for i := range s.Lines {
		n += s.Lines[i].Receipts
	}
	for i := range s.Unrated {
		n += s.Unrated[i].Receipts
	}
	return n
}

// Adopt takes a header's word for the rules of leaves that lie between the packs at hand
// and this one: all others are known.
func (l *Ledger) Adopt(rules []SettlementRule) {
	for _, r := range rules {
		if l.history.settled <= r.Leaf && r.Leaf < l.first {
			l.amend(r.Leaf, r.Record)
		}
	}
}

// amend notes a rule, or that it can't be read.
func (l *Ledger) amend(leaf uint64, record []byte) {
	if l.ruleFault == nil {
		l.ruleFault = l.history.amend(leaf, record)
	}
}

// UnprovenRules counts the rules whose events are in no pack at hand.
func (l *Ledger) UnprovenRules() (n int) {
	for _, r := range l.history.rules {
		if l.Unknown(r.Leaf) {
			n++
		}
	}
	return n
}

package rate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unit is what a price is of.
type Unit string

// The units. A second is a thousand of the milliseconds that are metered, not a second
// that was begun.
const (
	Event  Unit = "EVENT" // a metered receipt
	MS     Unit = "MS"    // a metered millisecond
	Second Unit = "SECOND"
)

// whole is all of a line, in basis points.
const whole = 10_000

const (
	// MaxShares is the most shares of a rule.
	MaxShares = 10
	// MaxPriority is the highest priority of a rule; the lowest is 0.
	MaxPriority = 1_000_000
)

// Rule is what rating needs of a settlement rule.
type Rule struct {
	ID    string
	Match Match
	Unit  Unit
	Price Price
	// Currency is three capital letters, as in ISO 4217.
	Currency string
	// Shares are 1 to MaxShares, of 10,000 basis points together.
	Shares []Share
	// EffectiveFrom ≤ renderedAt < EffectiveUntil; a zero EffectiveUntil is open.
	EffectiveFrom, EffectiveUntil time.Time
	Priority                      int64
}

// Match names what a rule is for; an empty name is any.
type Match struct{ RightID, BasisID, Substrate, MeteringBasis string }

// Share is a counterparty's part of a line, 1 to 10,000 basis points.
type Share struct {
	CounterpartyID string
	Bps            int64
}

func (m *Match) fits(r *Receipt) bool {
	fits := func(name, is string) bool { return name == "" || name == is }
	return fits(m.RightID, r.RightID) && fits(m.BasisID, r.BasisID) && fits(m.Substrate, r.Substrate) && fits(m.MeteringBasis, r.MeteringBasis)
}

// weight orders matches by what they name: the right before all else.
func (m *Match) weight() (w int) {
	for _, name := range []string{m.RightID, m.BasisID, m.Substrate, m.MeteringBasis} {
		w *= 2
		if name != "" {
			w++
		}
	}
	return w
}

func (r *Rule) in(at time.Time) bool {
	return !at.Before(r.EffectiveFrom) && (r.EffectiveUntil.IsZero() || at.Before(r.EffectiveUntil))
}

// Fault says which field of a rule is wrong.
type Fault struct{ Field, Message string }

func (f *Fault) Error() string { return f.Field + " " + f.Message }

// Check is nil, or the first *Fault of a rule that can't be rated by.
func (r *Rule) Check() error {
	switch {
	case r.ID == "":
		return &Fault{"id", "is missing"}
	case r.Unit != Event && r.Unit != MS && r.Unit != Second:
		return &Fault{"unit", "must be EVENT, MS or SECOND"}
	case r.Price < 0:
		return &Fault{"price", "must not be negative"}
	case !IsCurrency(r.Currency):
		return &Fault{"currency", "must be three capital letters"}
	case r.EffectiveFrom.IsZero():
		return &Fault{"effectiveFrom", "is missing"}
	case !r.EffectiveUntil.IsZero() && !r.EffectiveUntil.After(r.EffectiveFrom):
		return &Fault{"effectiveUntil", "must be after effectiveFrom"}
	case r.Priority < 0 || r.Priority > MaxPriority:
		return &Fault{"priority", fmt.Sprintf("must be within 0 and %d", MaxPriority)}
	case len(r.Shares) == 0 || len(r.Shares) > MaxShares:
		return &Fault{"shares", fmt.Sprintf("must be 1 to %d", MaxShares)}
	}
	seen, sum := map[string]bool{}, int64(0)
	for i, s := range r.Shares {
		switch {
		case s.CounterpartyID == "" || seen[s.CounterpartyID]:
			return &Fault{fmt.Sprintf("shares[%d].counterpartyId", i), "must name a counterparty that no other share names"}
		case s.Bps < 1 || s.Bps > whole:
			return &Fault{fmt.Sprintf("shares[%d].bps", i), fmt.Sprintf("must be within 1 and %d", whole)}
		}
		seen[s.CounterpartyID] = true
		sum += s.Bps
	}
	if sum != whole {
		return &Fault{"shares", fmt.Sprintf("must add up to %d basis points, not %d", whole, sum)}
	}
	return nil
}

// IsCurrency says whether s is three capital letters.
func IsCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// record is a settlement rule as its event and its packs have it, member by member.
type record struct {
	CreatedAt      string  `json:"createdAt"`
	Currency       string  `json:"currency"`
	EffectiveFrom  string  `json:"effectiveFrom"`
	EffectiveUntil *string `json:"effectiveUntil"`
	ID             string  `json:"id"`
	Match          struct {
		BasisID       *string `json:"basisId"`
		MeteringBasis *string `json:"meteringBasis"`
		RightID       *string `json:"rightId"`
		Substrate     *string `json:"substrate"`
	} `json:"match"`
	Price    string `json:"price"`
	Priority int64  `json:"priority"`
	Revision int64  `json:"revision"`
	Shares   []struct {
		Bps            int64  `json:"bps"`
		CounterpartyID string `json:"counterpartyId"`
	} `json:"shares"`
	State     string `json:"state"`
	Unit      string `json:"unit"`
	UpdatedAt string `json:"updatedAt"`
}

// ParseRule reads the record of a settlement rule, RFC 8785 text with exactly the members
// of the format (see sealer), and checks the rule.
func ParseRule(text []byte) (Rule, error) {
	r, err := parseRule(text)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return Rule{}, fmt.Errorf("cannot read settlement rule: %w", err)
	}
	return r, nil
}

func parseRule(text []byte) (r Rule, err error) {
	var in record
	if err := json.Unmarshal(text, &in, json.RejectUnknownMembers(true)); err != nil {
		return r, err
	}
	// What is missing, or spelled in another way, comes out differently again.
	again, err := json.Marshal(in)
	if err == nil {
		err = (*jsontext.Value)(&again).Canonicalize()
	}
	if err != nil || string(again) != string(text) {
		return r, errors.Join(err, errors.New("not the one spelling of a rule"))
	}
	moment := func(s string) time.Time {
		const layout = "2006-01-02T15:04:05.000Z"
		at, fault := time.Parse(layout, s)
		if fault != nil || at.Format(layout) != s || at.Year() < 1970 {
			err = errors.Join(err, fmt.Errorf("%q is no time of 1970 or later", s))
		}
		return at
	}
	name := func(s *string) string {
		if s == nil {
			return ""
		}
		if *s == "" {
			err = errors.Join(err, errors.New("a match of an empty name"))
		}
		return *s
	}
	moment(in.CreatedAt)
	moment(in.UpdatedAt)
	r = Rule{ID: in.ID, Unit: Unit(in.Unit), Currency: in.Currency, EffectiveFrom: moment(in.EffectiveFrom), Priority: in.Priority}
	if in.EffectiveUntil != nil {
		r.EffectiveUntil = moment(*in.EffectiveUntil)
	}
	r.Match = Match{name(in.Match.RightID), name(in.Match.BasisID), name(in.Match.Substrate), name(in.Match.MeteringBasis)}
	for _, s := range in.Shares {
		r.Shares = append(r.Shares, Share{s.CounterpartyID, s.Bps})
	}
	price, fault := ParsePrice(in.Price)
	if fault == nil && price.String() != in.Price {
		fault = fmt.Errorf("%q is not the one spelling of a price", in.Price)
	}
	if in.Revision < 0 || in.Revision > 1<<53 {
		err = errors.Join(err, fmt.Errorf("a revision of %d", in.Revision))
	}
	if err = errors.Join(err, fault); err == nil && in.State != "ACTIVE" && in.State != "RETIRED" {
		err = fmt.Errorf("a state of %q", in.State)
	}
	r.Price = price
	return r, err
}

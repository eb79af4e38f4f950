package rate

import (
	"errors"
	"fmt"
	"slices"
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
	Event      Unit = "EVENT" // a metered receipt
	MS         Unit = "MS"    // a metered millisecond
	Second     Unit = "SECOND"
	Impression Unit = "IMPRESSION"
	CPM        Unit = "CPM" // a thousand impressions
)

var units = []Unit{Event, MS, Second, Impression, CPM}

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
	// Minimum and Cap bound the sum of the rule's lines, see Adjust; nil is no bound.
	Minimum, Cap *Money
}

// Match names what a rule is for; an empty name is any.
type Match struct{ RightID, BasisID, Substrate, MeteringBasis, Completion string }

// Share is a counterparty's part of a line, 1 to 10,000 basis points.
type Share struct {
	CounterpartyID string
	Bps            int64
}

func (m *Match) fits(r *Metered) bool {
	fits := func(name, is string) bool { return name == "" || name == is }
	return fits(m.RightID, r.RightID) && fits(m.BasisID, r.BasisID) && fits(m.Substrate, r.Substrate) &&
		fits(m.MeteringBasis, r.MeteringBasis) && fits(m.Completion, r.Completion)
}

// weight orders matches by what they name: the right before all else.
func (m *Match) weight() (w int) {
	for _, name := range []string{m.RightID, m.BasisID, m.Substrate, m.MeteringBasis, m.Completion} {
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

// Faults are all that is wrong with a rule: at least one, as an error.
type Faults []*Fault

func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, fault := range f {
		texts[i] = fault.Error()
	}
	return strings.Join(texts, "; ")
}

func (f *Faults) add(field, format string, args ...any) {
	*f = append(*f, &Fault{field, fmt.Sprintf(format, args...)})
}

// err is nil if nothing is wrong.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Check is nil, or the Faults of a rule that can't be rated by.
func (r *Rule) Check() error { return r.faults().err() }

func (r *Rule) faults() (f Faults) {
	if r.ID == "" {
		f.add("id", "is missing")
	}
	if !slices.Contains(units, r.Unit) {
		f.add("unit", "must be EVENT, MS, SECOND, IMPRESSION or CPM")
	}
	if r.Price < 0 {
		f.add("price", "must not be negative")
	}
	if !IsCurrency(r.Currency) {
		f.add("currency", "must be three capital letters")
	}
	if r.EffectiveFrom.IsZero() {
		f.add("effectiveFrom", "is missing")
	} else if !r.EffectiveUntil.IsZero() && !r.EffectiveUntil.After(r.EffectiveFrom) {
		f.add("effectiveUntil", "must be after effectiveFrom")
	}
	if r.Priority < 0 || r.Priority > MaxPriority {
		f.add("priority", "must be within 0 and %d", MaxPriority)
	}
	if r.Minimum != nil && *r.Minimum < 0 {
		f.add("minimum", "must not be negative")
	}
	if r.Cap != nil && *r.Cap < 0 {
		f.add("cap", "must not be negative")
	} else if r.Minimum != nil && r.Cap != nil && *r.Minimum > *r.Cap {
		f.add("cap", "must not be below the minimum")
	}
	return append(f, r.shareFaults()...)
}

func (r *Rule) shareFaults() (f Faults) {
	if len(r.Shares) == 0 || len(r.Shares) > MaxShares {
		f.add("shares", "must be 1 to %d", MaxShares)
		return f // a list that is far too long has faults without end
	}
	seen, sum := map[string]bool{}, int64(0)
	for i, s := range r.Shares {
		if s.CounterpartyID == "" || seen[s.CounterpartyID] {
			f.add(fmt.Sprintf("shares[%d].counterpartyId", i), "must name a counterparty that no other share names")
		}
		seen[s.CounterpartyID] = true
		if s.Bps < 1 || s.Bps > whole {
			f.add(fmt.Sprintf("shares[%d].bps", i), "must be within 1 and %d", whole)
			continue
		}
		sum += s.Bps
	}
	if f == nil && sum != whole {
		f.add("shares", "must add up to %d basis points, not %d", whole, sum)
	}
	return f
}

// IsCurrency says whether s is three capital letters.
func IsCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// record is a settlement rule as its event and its packs have it, member by member.
type record struct {
	Cap            *string `json:"cap"`
	CreatedAt      string  `json:"createdAt"`
	Currency       string  `json:"currency"`
	EffectiveFrom  string  `json:"effectiveFrom"`
	EffectiveUntil *string `json:"effectiveUntil"`
	ID             string  `json:"id"`
	Match          struct {
		BasisID       *string `json:"basisId"`
		Completion    *string `json:"completion"`
		MeteringBasis *string `json:"meteringBasis"`
		RightID       *string `json:"rightId"`
		Substrate     *string `json:"substrate"`
	} `json:"match"`
	Minimum  *string `json:"minimum"`
	Price    string  `json:"price"`
	Priority int64   `json:"priority"`
	Revision int64   `json:"revision"`
	Shares   []struct {
		Bps            int64  `json:"bps"`
		CounterpartyID string `json:"counterpartyId"`
	} `json:"shares"`
	State     string `json:"state"`
	Unit      string `json:"unit"`
	UpdatedAt string `json:"updatedAt"`
}

// ParseRule reads the record of a settlement rule, RFC 8785 text with exactly the members
// of the format (see sealer), and checks the rule. The error holds Faults where members of the
// right type have wrong values: all of them, those of Check included.
func ParseRule(text []byte) (Rule, error) {
	r, err := parseRule(text)
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
	r, faults := in.rule()
	return r, append(faults, r.faults()...).err()
}

// rule is the rule of a record, and what of it could not be read.
func (in *record) rule() (r Rule, f Faults) {
	moment := func(field, s string) time.Time {
		const layout = "2006-01-02T15:04:05.000Z"
		at, err := time.Parse(layout, s)
		if err != nil || at.Format(layout) != s || at.Year() < 1970 {
			f.add(field, "%q is no time of 1970 or later", s)
		}
		return at
	}
	name := func(field string, s *string) string {
		if s == nil {
			return ""
		}
		if *s == "" {
			f.add(field, "must not be empty")
		}
		return *s
	}
	money := func(field string, s *string) *Money {
		if s == nil {
			return nil
		}
		m, err := ParseMoney(*s)
		f.spelled(field, *s, m, err)
		return &m
	}
	moment("createdAt", in.CreatedAt)
	moment("updatedAt", in.UpdatedAt)
	r = Rule{ID: in.ID, Unit: Unit(in.Unit), Currency: in.Currency, EffectiveFrom: moment("effectiveFrom", in.EffectiveFrom), Priority: in.Priority}
	if in.EffectiveUntil != nil {
		r.EffectiveUntil = moment("effectiveUntil", *in.EffectiveUntil)
	}
	m := &in.Match
	r.Match = Match{
		name("match.rightId", m.RightID), name("match.basisId", m.BasisID), name("match.substrate", m.Substrate),
		name("match.meteringBasis", m.MeteringBasis), name("match.completion", m.Completion),
	}
	for _, s := range in.Shares {
		r.Shares = append(r.Shares, Share{s.CounterpartyID, s.Bps})
	}
	price, err := ParsePrice(in.Price)
	f.spelled("price", in.Price, price, err)
	r.Price, r.Minimum, r.Cap = price, money("minimum", in.Minimum), money("cap", in.Cap)
	if in.Revision < 0 || in.Revision > 1<<53 {
		f.add("revision", "must be within 0 and 2^53")
	}
	if in.State != "ACTIVE" && in.State != "RETIRED" {
		f.add("state", "must be ACTIVE or RETIRED")
	}
	return r, f
}

// spelled asks that a decimal was read, and that its text is the one spelling of it.
func (f *Faults) spelled(field, text string, read fmt.Stringer, err error) {
	switch {
	case err != nil:
		f.add(field, "%v", err)
	case read.String() != text:
		f.add(field, "%q is not the one spelling of %s", text, read)
	}
}

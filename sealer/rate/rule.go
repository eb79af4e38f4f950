package rate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer/calendar"
)

// Unit is what a price applies to.
type Unit string

// The units. A second is a thousand metered milliseconds; seconds are not rounded up.
const (
	Event      Unit = "EVENT" // a metered receipt
	MS         Unit = "MS"    // a metered millisecond
	Second     Unit = "SECOND"
	Impression Unit = "IMPRESSION"
	CPM        Unit = "CPM" // a thousand impressions
)

var units = []Unit{Event, MS, Second, Impression, CPM}

// Whole is a whole line, in basis points.
const Whole = 10_000

const (
	// MaxShares is the most shares of a rule.
	MaxShares = 10
	// MaxPriority is the highest priority of a rule; the lowest is 0.
	MaxPriority = 1_000_000
	// MaxTiers is the most tiers of a rule.
	MaxTiers = 20
	// MaxAbove is the largest volume above which a tier's price may apply.
	MaxAbove = 1 << 53
)

// Mode says which units the price of a tier is for.
type Mode string

// The modes of tiers.
const (
	Graduated Mode = "GRADUATED" // those above the tier's volume
	Volume    Mode = "VOLUME"    // all of the month, once its volume is above the tier's
)

// Tier is a price for volumes of a month above a number of units.
type Tier struct {
	Above int64
	Price Price
}

// Rule is the part of a settlement rule that rating needs.
type Rule struct {
	ID    string
	Match Match
	Unit  Unit
	Price Price
	// Currency is a code of ISO 4217.
	Currency string
	// Shares has 1 to MaxShares elements, which sum to 10,000 basis points.
	Shares []Share
	// EffectiveFrom ≤ renderedAt < EffectiveUntil; a zero EffectiveUntil is open.
	EffectiveFrom, EffectiveUntil time.Time
	// Retired rules may have an empty window, EffectiveUntil = EffectiveFrom: they ended before they
	// began, so they rate nothing.
	Retired  bool
	Priority int64
	// TimeZone is the IANA zone of the months in which volumes and sums are bounded.
	TimeZone string
	// Tiers change the price with the month's volume, see Adjust: at most MaxTiers, by rising Above, from 1
	// to MaxAbove. Price is the price of the first tier, which is below all of them. TiersMode is empty
	// without any.
	Tiers     []Tier
	TiersMode Mode
	// Minimum and Cap bound the sum of the rule's lines in a month, see Adjust; nil is no bound.
	Minimum, Cap *Money
}

// Match selects the receipts of a rule; an empty field matches any.
type Match struct {
	RightID, BasisID string
	// Campaign is among those of the right's scope.
	Campaign string
	// Label is among those of the right's scope; without a name it matches any.
	Label                                Label
	Substrate, MeteringBasis, Completion string
}

// Label is a label in the scope of a right.
type Label struct{ Name, Value string }

// Share is a counterparty's part of a line, 1 to 10,000 basis points.
type Share struct {
	CounterpartyID string
	Bps            int64
}

func (m *Match) fits(r *Metered) bool {
	fits := func(name, is string) bool { return name == "" || name == is }
	value, labelled := r.Labels[m.Label.Name]
	return fits(m.RightID, r.RightID) && fits(m.BasisID, r.BasisID) && (m.Campaign == "" || slices.Contains(r.Campaigns, m.Campaign)) &&
		(m.Label.Name == "" || labelled && value == m.Label.Value) && fits(m.Substrate, r.Substrate) &&
		fits(m.MeteringBasis, r.MeteringBasis) && fits(m.Completion, r.Completion)
}

// weight orders matches by what they name: the right before all else.
func (m *Match) weight() (w int) {
	for _, name := range []string{m.RightID, m.BasisID, m.Campaign, m.Label.Name, m.Substrate, m.MeteringBasis, m.Completion} {
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

// InForce reports whether the rule is in force at any moment of the period from ≤ moment < to. A rule
// with an empty window never is.
func (r *Rule) InForce(from, to time.Time) bool {
	if r.EffectiveFrom.After(from) {
		from = r.EffectiveFrom
	}
	if !r.EffectiveUntil.IsZero() && r.EffectiveUntil.Before(to) {
		to = r.EffectiveUntil
	}
	return from.Before(to)
}

// Fault is an invalid field of a rule.
type Fault struct{ Field, Message string }

func (f *Fault) Error() string { return f.Field + " " + f.Message }

// Faults is the error of an invalid rule. It has at least one element.
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

// err returns f as an error, or nil if f is empty.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Check returns the Faults of a rule that can't rate receipts, or nil.
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
	if len(r.Currency) != 3 || strings.Trim(r.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" { // a code may be withdrawn after it was sealed
		f.add("currency", "must be three capital letters")
	}
	switch never := r.Retired && r.EffectiveUntil.Equal(r.EffectiveFrom); {
	case r.EffectiveFrom.IsZero():
		f.add("effectiveFrom", "is missing")
	case !r.EffectiveUntil.IsZero() && !r.EffectiveUntil.After(r.EffectiveFrom) && !never:
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
	if r.TimeZone == "" || len(r.TimeZone) > calendar.MaxZone { // whether a machine knows it is found when a month is reached
		f.add("timeZone", "must be 1 to %d bytes", calendar.MaxZone)
	}
	f = append(f, r.tierFaults()...)
	return append(f, r.shareFaults()...)
}

func (r *Rule) tierFaults() (f Faults) {
	if len(r.Tiers) > MaxTiers {
		f.add("tiers", "must be at most %d", MaxTiers)
		return f
	}
	if known := r.TiersMode == Graduated || r.TiersMode == Volume; known != (len(r.Tiers) > 0) || !known && r.TiersMode != "" {
		f.add("tiersMode", "must be GRADUATED or VOLUME, for a rule with tiers")
	}
	least := int64(1)
	for i, t := range r.Tiers {
		if t.Above < least || t.Above > MaxAbove {
			f.add(fmt.Sprintf("tiers[%d].above", i), "must be within 1 and 2^53, and must be above that of the tier before")
		}
		if t.Price < 0 {
			f.add(fmt.Sprintf("tiers[%d].price", i), "must not be negative")
		}
		least = max(least, t.Above+1)
	}
	return f
}

func (r *Rule) shareFaults() (f Faults) {
	if len(r.Shares) == 0 || len(r.Shares) > MaxShares {
		f.add("shares", "must be 1 to %d", MaxShares)
		return f // don't list the faults of a list that is far too long
	}
	seen, sum := map[string]bool{}, int64(0)
	for i, s := range r.Shares {
		if s.CounterpartyID == "" || seen[s.CounterpartyID] {
			f.add(fmt.Sprintf("shares[%d].counterpartyId", i), "must name a counterparty that no other share names")
		}
		seen[s.CounterpartyID] = true
		if s.Bps < 1 || s.Bps > Whole {
			f.add(fmt.Sprintf("shares[%d].bps", i), "must be within 1 and %d", Whole)
			continue
		}
		sum += s.Bps
	}
	if f == nil && sum != Whole {
		f.add("shares", "must add up to %d basis points, not %d", Whole, sum)
	}
	return f
}

// record is a settlement rule in the form of its event and of packs, member by member.
type record struct {
	Cap            *string `json:"cap"`
	CreatedAt      string  `json:"createdAt"`
	Currency       string  `json:"currency"`
	EffectiveFrom  string  `json:"effectiveFrom"`
	EffectiveUntil *string `json:"effectiveUntil"`
	ID             string  `json:"id"`
	Match          struct {
		BasisID    *string `json:"basisId"`
		Campaign   *string `json:"campaign"`
		Completion *string `json:"completion"`
		Label      *struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"label"`
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
	State string `json:"state"`
	Tiers []struct {
		Above int64  `json:"above"`
		Price string `json:"price"`
	} `json:"tiers"`
	TiersMode *string `json:"tiersMode"`
	TimeZone  string  `json:"timeZone"`
	Unit      string  `json:"unit"`
	UpdatedAt string  `json:"updatedAt"`
}

// ParseRule parses the record of a settlement rule: RFC 8785 text with exactly the members of the
// format (see sealer). It checks the rule too. If members have the right types but wrong values,
// the error is Faults with all of them, including those of Check.
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
	// A missing member, or a form that is not canonical, makes the texts differ.
	again, err := json.Marshal(in)
	if err == nil {
		err = (*jsontext.Value)(&again).Canonicalize()
	}
	if err != nil || string(again) != string(text) {
		return r, errors.Join(err, errors.New("not the canonical form of a rule"))
	}
	r, faults := in.rule()
	return r, append(faults, r.faults()...).err()
}

// rule returns the rule of a record, and the faults of members that can't be parsed.
func (in *record) rule() (r Rule, f Faults) {
	moment := func(field, s string) time.Time {
		const layout = "2006-01-02T15:04:05.000Z"
		at, err := time.Parse(layout, s)
		if err != nil || at.Format(layout) != s || at.Year() < 1970 {
			f.add(field, "%q is not a time in 1970 or later", s)
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
		f.canonical(field, *s, m, err)
		return &m
	}
	moment("createdAt", in.CreatedAt)
	moment("updatedAt", in.UpdatedAt)
	r = Rule{ID: in.ID, Unit: Unit(in.Unit), Currency: in.Currency, EffectiveFrom: moment("effectiveFrom", in.EffectiveFrom), Retired: in.State == "RETIRED", Priority: in.Priority}
	if in.EffectiveUntil != nil {
		r.EffectiveUntil = moment("effectiveUntil", *in.EffectiveUntil)
	}
	m := &in.Match
	r.Match = Match{
		RightID: name("match.rightId", m.RightID), BasisID: name("match.basisId", m.BasisID), Campaign: name("match.campaign", m.Campaign),
		Substrate: name("match.substrate", m.Substrate), MeteringBasis: name("match.meteringBasis", m.MeteringBasis), Completion: name("match.completion", m.Completion),
	}
	if m.Label != nil {
		r.Match.Label = Label{name("match.label.name", &m.Label.Name), m.Label.Value}
	}
	for _, s := range in.Shares {
		r.Shares = append(r.Shares, Share{s.CounterpartyID, s.Bps})
	}
	for i, t := range in.Tiers {
		price, err := ParsePrice(t.Price)
		f.canonical(fmt.Sprintf("tiers[%d].price", i), t.Price, price, err)
		r.Tiers = append(r.Tiers, Tier{t.Above, price})
	}
	r.TiersMode, r.TimeZone = Mode(name("tiersMode", in.TiersMode)), in.TimeZone
	price, err := ParsePrice(in.Price)
	f.canonical("price", in.Price, price, err)
	r.Price, r.Minimum, r.Cap = price, money("minimum", in.Minimum), money("cap", in.Cap)
	if in.Revision < 0 || in.Revision > 1<<53 {
		f.add("revision", "must be within 0 and 2^53")
	}
	if in.State != "ACTIVE" && in.State != "RETIRED" {
		f.add("state", "must be ACTIVE or RETIRED")
	}
	return r, f
}

// canonical adds a fault if a decimal could not be parsed or its text is not canonical.
func (f *Faults) canonical(field, text string, read fmt.Stringer, err error) {
	switch {
	case err != nil:
		f.add(field, "%v", err)
	case read.String() != text:
		f.add(field, "%q is not the canonical form of %s", text, read)
	}
}

package settle

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer/calendar"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
)

// Rule is the record of a settlement rule. The rule's event holds its canonical text, and every
// later pack of the tenant repeats it. Package sealer documents the format, sealer/rate the
// meaning.
type Rule struct {
	ID             string        `json:"id" db:"rule_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	Match          Match         `json:"match" db:"matches,moves"`
	Unit           rate.Unit     `json:"unit" db:"unit,moves" enum:"EVENT,MS,SECOND,IMPRESSION,CPM" doc:"What the price applies to."`
	Price          string        `json:"price" decimal:"38,9" db:"price,moves" doc:"Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a month."`
	Tiers          []Tier        `json:"tiers" db:"tiers,moves" doc:"Prices for more units in a month, by rising volume; empty: there is one price."`
	TiersMode      *rate.Mode    `json:"tiersMode" db:"tiers_mode,moves" enum:"GRADUATED,VOLUME" doc:"GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the highest tier that is reached is for all units of the month. Null without tiers."`
	TimeZone       string        `json:"timeZone" db:"time_zone,moves" doc:"The IANA time zone of the calendar months to which tiers, minimum and cap belong."`
	Currency       string        `json:"currency" db:"currency,moves" doc:"A code of ISO 4217."`
	Minimum        *string       `json:"minimum" decimal:"38,6" db:"minimum,moves" doc:"Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in force."`
	Cap            *string       `json:"cap" decimal:"38,6" db:"cap,moves" doc:"Decimal with at most six fractional digits: the largest amount of a calendar month."`
	Shares         []Share       `json:"shares" db:"shares,moves" doc:"How its amounts are divided: 10,000 basis points in total."`
	EffectiveFrom  store.Instant `json:"effectiveFrom" db:"effective_from,moves" doc:"A receipt is rated by the rules in force when it was rendered."`
	EffectiveUntil store.Instant `json:"effectiveUntil" db:"effective_until,moves" nullable:"true" doc:"Exclusive; null is open. Equal to effectiveFrom if the rule was retired before it began: it never was in force."`
	Priority       int64         `json:"priority" db:"priority,moves" doc:"If several rules fit a receipt, the one with the highest priority rates it; then the most specific one; then the one with the lowest id."`
	State          State         `json:"state" db:"state,moves" enum:"ACTIVE,RETIRED"`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`
}

// Match selects the receipts of a rule; a null field matches any.
type Match struct {
	RightID       *string `json:"rightId" doc:"Receipts on this right."`
	BasisID       *string `json:"basisId" doc:"Receipts on rights under this basis."`
	Campaign      *string `json:"campaign" doc:"Receipts on rights whose scope lists this campaign."`
	Label         *Label  `json:"label" doc:"Receipts on rights whose scope has this label."`
	Substrate     *string `json:"substrate" doc:"Receipts on this substrate."`
	MeteringBasis *string `json:"meteringBasis" doc:"Receipts metered at this tier."`
	Completion    *string `json:"completion" doc:"Receipts of videos that were played exactly this far."`
}

// Label is a label in the scope of a right.
type Label struct {
	_     struct{} `nullable:"true"`
	Name  string   `json:"name" doc:"Its name."`
	Value string   `json:"value" doc:"Its value."`
}

// Tier is a price for units above a volume of a calendar month.
type Tier struct {
	Above int64  `json:"above" doc:"The price is for units above so many in the month."`
	Price string `json:"price" doc:"Decimal price of one unit, with at most nine fractional digits."`
}

// Share is a counterparty's part of a rule's amounts.
type Share struct {
	CounterpartyID string `json:"counterpartyId" doc:"The counterparty."`
	Bps            int64  `json:"bps" doc:"Basis points: 10,000 are the whole."`
}

// Action moves a rule.
type Action string

// The actions.
const (
	Change Action = "change"
	Retire Action = "retire"
)

var transitions = store.Steps[Action, State]{
	Change: {From: store.From(Active), Event: ruleChanged},
	// Retiring again changes nothing.
	Retire: {From: store.From(Active, Retired), To: Retired, Event: ruleRetired},
}

// meteringBases are the tiers that a rule may name: receipts of other tiers are not billed.
var meteringBases = []string{gate.BasisGross.String(), gate.BasisViewable.String(), gate.BasisAudible.String(), gate.BasisDelivered.String()}

// locate sets the tenant's time zone, unless the rule has one.
func (r *Rule) locate(ctx context.Context, q store.Querier) (err error) {
	if r.TimeZone == "" {
		r.TimeZone, err = tenant.TimeZone(ctx, q, r.TenantID)
	}
	return err
}

// settle completes a requested rule, with a new id.
func (r *Rule) settle(now store.Instant) {
	r.ID, r.State, r.CreatedAt, r.UpdatedAt = api.NewID(api.PrefixRule, now.Time), Active, now, now
	if r.EffectiveFrom.IsZero() {
		r.EffectiveFrom = now
	}
	r.normalize()
}

// normalize brings the rule into canonical form: decimals without redundant zeros, no substrate
// instead of ANY, empty lists instead of null, and GRADUATED as the mode of tiers. It leaves invalid decimals for faults
// to report.
func (r *Rule) normalize() {
	if price, err := rate.ParsePrice(r.Price); err == nil {
		r.Price = price.String()
	}
	for i, t := range r.Tiers {
		if price, err := rate.ParsePrice(t.Price); err == nil {
			r.Tiers[i].Price = price.String()
		}
	}
	switch {
	case r.Tiers == nil:
		r.Tiers = []Tier{}
	case len(r.Tiers) > 0 && r.TiersMode == nil:
		r.TiersMode = new(rate.Graduated)
	}
	for _, amount := range []**string{&r.Minimum, &r.Cap} {
		if *amount == nil {
			continue
		}
		if m, err := rate.ParseMoney(**amount); err == nil {
			*amount = new(m.String())
		}
	}
	if s := r.Match.Substrate; s != nil && *s == gate.Any.String() {
		r.Match.Substrate = nil
	}
	if r.Shares == nil {
		r.Shares = []Share{}
	}
}

// faults lists the invalid fields of a settled rule, each once.
func (r *Rule) faults(ctx context.Context, q store.Querier) (faults []api.ValidationError, err error) {
	add := func(field, message string) {
		if !slices.ContainsFunc(faults, func(known api.ValidationError) bool { return known.Field == field }) {
			faults = append(faults, api.ValidationError{Field: field, Message: message})
		}
	}
	if err := r.Match.check(ctx, q, r.TenantID, add); err != nil {
		return nil, err
	}
	if !rate.IsCurrency(r.Currency) {
		add("currency", rate.NoCurrency)
	}
	if _, err := calendar.Zone(r.TimeZone); err != nil {
		add("timeZone", err.Error())
	}
	err = r.readable()
	rated, ok := errors.AsType[rate.Faults](err)
	if err != nil && !ok {
		return nil, err
	}
	for _, f := range rated {
		add(f.Field, f.Message)
	}
	if len(r.Shares) > rate.MaxShares {
		return faults, nil
	}
	for i, s := range r.Shares {
		field := fmt.Sprintf("shares[%d].counterpartyId", i)
		payee, err := counterparties.Find(ctx, q, r.TenantID, s.CounterpartyID)
		switch {
		case err != nil && !store.IsNone(err):
			return nil, err
		case err != nil || payee.State != Active:
			add(field, "is not an active counterparty of this tenant")
		case payee.Currency != r.Currency && rate.IsCurrency(r.Currency):
			add(field, "is paid in "+payee.Currency+", not in the rule's "+r.Currency)
		}
	}
	return faults, nil
}

// readable fails for a rule that rating can't read: its event would stop the tenant from sealing.
func (r *Rule) readable() error {
	text, err := canonical.JSON(r)
	if err == nil {
		_, err = rate.ParseRule(text)
	}
	return err
}

// check adds the invalid fields of a match. Rights and bases are never deleted, so a match that
// passes stays valid.
func (m *Match) check(ctx context.Context, q store.Querier, tenantID string, add func(field, message string)) error {
	if m.RightID != nil {
		if _, err := right.Find(ctx, q, tenantID, *m.RightID); store.IsNone(err) {
			add("match.rightId", "is not a right of this tenant")
		} else if err != nil {
			return err
		}
	}
	if m.BasisID != nil {
		if _, err := right.FindBasis(ctx, q, tenantID, *m.BasisID); store.IsNone(err) {
			add("match.basisId", "is not a basis of this tenant")
		} else if err != nil {
			return err
		}
	}
	if m.Substrate != nil {
		if _, ok := gate.ParseSubstrate(*m.Substrate); !ok {
			add("match.substrate", "is not a substrate")
		}
	}
	if m.MeteringBasis != nil && !slices.Contains(meteringBases, *m.MeteringBasis) {
		add("match.meteringBasis", "must be gross, viewable, audible or delivered")
	}
	if m.Completion != nil {
		if c, ok := gate.ParseCompletion(*m.Completion); !ok || c == gate.CompletionNone {
			add("match.completion", "must be started, first_quartile, midpoint, third_quartile or complete")
		}
	}
	return nil
}

// bounds reports whether the rule adjusts months.
func (r *Rule) bounds() bool { return r.Minimum != nil || r.Cap != nil || len(r.Tiers) > 0 }

// moves refuses a change by which a rule would adjust a month twice, in two zones or currencies.
func (r *Rule) moves(requested *Rule) error {
	refuse := func(field, was string) error {
		return api.InvalidField(field, "can't change from "+was+", because the rule has tiers, a minimum or a cap, which were perhaps applied to a month: retire the rule, and make another one from the next month on")
	}
	switch {
	case !r.bounds():
	case r.TimeZone != requested.TimeZone:
		return refuse("timeZone", r.TimeZone)
	case r.Currency != requested.Currency:
		return refuse("currency", r.Currency)
	}
	return nil
}

// replace overwrites the fields that a caller may set, and reports whether any changed.
func (r *Rule) replace(requested *Rule) (changed bool) {
	was := *r
	r.Match, r.Unit, r.Price, r.Currency, r.Shares = requested.Match, requested.Unit, requested.Price, requested.Currency, requested.Shares
	r.Minimum, r.Cap, r.Tiers, r.TiersMode, r.TimeZone = requested.Minimum, requested.Cap, requested.Tiers, requested.TiersMode, requested.TimeZone
	r.EffectiveFrom, r.EffectiveUntil, r.Priority = requested.EffectiveFrom, requested.EffectiveUntil, requested.Priority
	return !reflect.DeepEqual(*r, was)
}

// retire ends the rule's window now, unless it ended earlier. The window of a rule that has not begun
// becomes empty, so it never is in force: it rates nothing, and its minimum is not billed.
func (r *Rule) retire(now store.Instant) {
	end := now
	if end.Before(r.EffectiveFrom.Time) {
		end = r.EffectiveFrom
	}
	if r.EffectiveUntil.IsZero() || end.Before(r.EffectiveUntil.Time) {
		r.EffectiveUntil = end
	}
}

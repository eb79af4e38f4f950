package settle

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"muniment/control/right"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Rule is the record of a settlement rule. Its canonical text is what its event holds
// and what every later pack of the tenant repeats; the format is in the manual of packs
// (see sealer), its meaning in control/settle/rate.
type Rule struct {
	ID             string        `json:"id" db:"rule_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	Match          Match         `json:"match" db:"matches,moves"`
	Unit           rate.Unit     `json:"unit" db:"unit,moves" enum:"EVENT,MS,SECOND,IMPRESSION,CPM"`
	Price          string        `json:"price" db:"price,moves" doc:"Decimal, of one unit; at most nine digits behind the point."`
	Currency       string        `json:"currency" db:"currency,moves" doc:"Three capital letters."`
	Minimum        *string       `json:"minimum" db:"minimum,moves" doc:"Decimal, of at most six digits behind the point: the least that a statement has for the rule."`
	Cap            *string       `json:"cap" db:"cap,moves" doc:"Decimal, of at most six digits behind the point: the most that a statement has for the rule."`
	Shares         []Share       `json:"shares" db:"shares,moves" doc:"Of 10,000 basis points together."`
	EffectiveFrom  store.Instant `json:"effectiveFrom" db:"effective_from,moves" doc:"A receipt is rated by the rules of the moment in which it was rendered."`
	EffectiveUntil store.Instant `json:"effectiveUntil" db:"effective_until,moves" nullable:"true" doc:"Exclusive; null is open."`
	Priority       int64         `json:"priority" db:"priority,moves" doc:"Of several rules that fit a receipt the highest priority rates it, then the most specific one, then the lowest id."`
	State          State         `json:"state" db:"state,moves" enum:"ACTIVE,RETIRED"`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`
}

// Match names what a rule is for; null is any.
type Match struct {
	RightID       *string `json:"rightId" doc:"Receipts on this right."`
	BasisID       *string `json:"basisId" doc:"Receipts on rights under this basis."`
	Substrate     *string `json:"substrate" doc:"Receipts on this substrate."`
	MeteringBasis *string `json:"meteringBasis" doc:"Receipts metered at this tier."`
	Completion    *string `json:"completion" doc:"Receipts of videos that were played so far."`
}

// Share is a counterparty's part of what a rule makes.
type Share struct {
	CounterpartyID string `json:"counterpartyId" doc:"Who gets it."`
	Bps            int64  `json:"bps" doc:"Basis points: 10,000 are all."`
}

// Action moves a rule.
type Action string

// The actions.
const (
	Change Action = "change"
	Retire Action = "retire"
)

var transitions = store.Steps[Action, State]{
	Change: {From: store.From(Active), Event: "settlement_rule.changed"},
	// Retiring again changes nothing.
	Retire: {From: store.From(Active, Retired), To: Retired, Event: "settlement_rule.retired"},
}

// meteringBases are the tiers that a rule may be for: nothing is billed on the others.
var meteringBases = []string{gate.BasisGross.String(), gate.BasisViewable.String(), gate.BasisAudible.String(), gate.BasisDelivered.String()}

// settle makes a rule of what was asked for, under an id of its own.
func (r *Rule) settle(now store.Instant) {
	r.ID, r.State, r.CreatedAt, r.UpdatedAt = api.NewID(api.PrefixRule, now.Time), Active, now, now
	if r.EffectiveFrom.IsZero() {
		r.EffectiveFrom = now
	}
	r.normalize()
}

// normalize writes the rule in its one form: a price and amounts without needless zeros, no
// substrate for any, and a list of no shares. What is no decimal stays, and is a fault later.
func (r *Rule) normalize() {
	if price, err := rate.ParsePrice(r.Price); err == nil {
		r.Price = price.String()
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

// last is the last moment that records can hold.
var last = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)

// faults are all that is wrong with a settled rule of the tenant, one a field.
func (r *Rule) faults(ctx context.Context, q store.Querier) (faults []api.ValidationError, err error) {
	add := func(field, message string) {
		if !slices.ContainsFunc(faults, func(known api.ValidationError) bool { return known.Field == field }) {
			faults = append(faults, api.ValidationError{Field: field, Message: message})
		}
	}
	if err := r.Match.check(ctx, q, r.TenantID, add); err != nil {
		return nil, err
	}
	err = r.readable()
	rated, ok := errors.AsType[rate.Faults](err)
	if err != nil && !ok {
		return nil, err
	}
	for _, f := range rated {
		add(f.Field, f.Message)
	}
	if !r.EffectiveFrom.Before(last) { // it could not be retired
		add("effectiveFrom", "must be before "+sealer.FormatTime(last))
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
			add(field, "is no active counterparty of this tenant")
		case payee.Currency != r.Currency && rate.IsCurrency(r.Currency):
			add(field, "is paid in "+payee.Currency+", not in the rule's "+r.Currency)
		}
	}
	return faults, nil
}

// readable fails for a rule that rating could not read: its event would keep the tenant from
// sealing.
func (r *Rule) readable() error {
	text, err := sealer.Canonical(r)
	if err == nil {
		_, err = rate.ParseRule(text)
	}
	return err
}

// check adds what is wrong with the names of a match. A right and a basis are the tenant's; as
// neither is ever deleted they stay so.
func (m *Match) check(ctx context.Context, q store.Querier, tenantID string, add func(field, message string)) error {
	if m.RightID != nil {
		if _, err := right.Find(ctx, q, tenantID, *m.RightID); store.IsNone(err) {
			add("match.rightId", "is no right of this tenant")
		} else if err != nil {
			return err
		}
	}
	if m.BasisID != nil {
		if _, err := right.FindBasis(ctx, q, tenantID, *m.BasisID); store.IsNone(err) {
			add("match.basisId", "is no basis of this tenant")
		} else if err != nil {
			return err
		}
	}
	if m.Substrate != nil {
		if _, ok := gate.ParseSubstrate(*m.Substrate); !ok {
			add("match.substrate", "is no substrate")
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

// replace puts what a caller may choose in the place of what r has, and says whether that
// makes a difference.
func (r *Rule) replace(asked *Rule) (changed bool) {
	was := *r
	r.Match, r.Unit, r.Price, r.Currency, r.Shares = asked.Match, asked.Unit, asked.Price, asked.Currency, asked.Shares
	r.Minimum, r.Cap = asked.Minimum, asked.Cap
	r.EffectiveFrom, r.EffectiveUntil, r.Priority = asked.EffectiveFrom, asked.EffectiveUntil, asked.Priority
	return !reflect.DeepEqual(*r, was)
}

// retire ends the rule's window at a moment, unless it has ended sooner. A window holds one
// millisecond at least, which is all that is left of one that has not begun.
func (r *Rule) retire(now store.Instant) {
	end := now
	if first := store.At(r.EffectiveFrom.Add(time.Millisecond)); end.Before(first.Time) {
		end = first
	}
	if r.EffectiveUntil.IsZero() || end.Before(r.EffectiveUntil.Time) {
		r.EffectiveUntil = end
	}
}

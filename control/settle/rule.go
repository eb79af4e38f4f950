package settle

import (
	"errors"
	"slices"

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
	Unit           rate.Unit     `json:"unit" db:"unit,moves" enum:"EVENT,MS,SECOND"`
	Price          string        `json:"price" db:"price,moves" doc:"Decimal, of one unit; at most nine digits behind the point."`
	Currency       string        `json:"currency" db:"currency,moves" doc:"Three capital letters."`
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
	RightID       *string `json:"rightId"`
	BasisID       *string `json:"basisId"`
	Substrate     *string `json:"substrate"`
	MeteringBasis *string `json:"meteringBasis"`
}

// Share is a counterparty's part of what a rule makes.
type Share struct {
	CounterpartyID string `json:"counterpartyId"`
	Bps            int64  `json:"bps" doc:"Basis points: 10,000 are all."`
}

// meteringBases are the tiers that a rule may be for: nothing is billed on the others.
var meteringBases = []string{gate.BasisGross.String(), gate.BasisViewable.String(), gate.BasisAudible.String(), gate.BasisDelivered.String()}

// spell puts the rule into its one spelling: a price without needless zeros, no
// substrate for any, and a list of no shares.
func (r *Rule) spell() error {
	price, err := rate.ParsePrice(r.Price)
	if err != nil {
		return api.InvalidField("price", err.Error())
	}
	r.Price = price.String()
	if s := r.Match.Substrate; s != nil && *s == gate.Any.String() {
		r.Match.Substrate = nil
	}
	if r.Shares == nil {
		r.Shares = []Share{}
	}
	return nil
}

// check is VALIDATION_FAILED for a rule that can't be rated by.
func (r *Rule) check() error {
	m := &r.Match
	switch {
	case m.RightID != nil && !api.IsID(api.PrefixRight, *m.RightID):
		return api.InvalidField("match.rightId", "must be the id of a right")
	case m.BasisID != nil && !api.IsID(api.PrefixBasis, *m.BasisID):
		return api.InvalidField("match.basisId", "must be the id of a basis")
	case m.MeteringBasis != nil && !slices.Contains(meteringBases, *m.MeteringBasis):
		return api.InvalidField("match.meteringBasis", "must be gross, viewable, audible or delivered")
	}
	if m.Substrate != nil {
		if _, ok := gate.ParseSubstrate(*m.Substrate); !ok {
			return api.InvalidField("match.substrate", "is no substrate")
		}
	}
	text, err := sealer.Canonical(r)
	if err == nil {
		_, err = rate.ParseRule(text)
	}
	if fault, ok := errors.AsType[*rate.Fault](err); ok {
		return api.InvalidField(fault.Field, fault.Message)
	}
	return err
}

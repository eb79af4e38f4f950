package settle

import (
	"muniment/control/store"
)

// Counterparty is the record of somebody who gets a share of what is settled.
type Counterparty struct {
	ID       string `json:"id" db:"counterparty_id"`
	TenantID string `json:"-" db:"tenant_id"`
	// Name is that of a business or a pseudonym, not a person's: it stands in an event.
	Name string `json:"name" db:"name,moves" doc:"Kept in the audit log for good: no place for personal data."`
	// OrgID is the organisation that it is in this service, if it is one.
	OrgID *string `json:"orgId" db:"org_id,moves"`
	Kind  Kind    `json:"kind" db:"kind,moves" enum:"RIGHTS_HOLDER,PUBLISHER,PLATFORM,AGENCY,OTHER"`
	// PayoutRef and TaxID may be personal data: they stand in no event.
	PayoutRef *string       `json:"payoutRef" db:"payout_ref,moves"`
	Currency  string        `json:"currency" db:"currency,moves" doc:"That it is paid in: three capital letters."`
	TaxID     *string       `json:"taxId" db:"tax_id,moves"`
	State     State         `json:"state" db:"state,moves" enum:"ACTIVE,INACTIVE"`
	CreatedAt store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision  int64         `json:"revision" db:"revision,moves"`
}

// Kind is what a counterparty is to the tenant.
type Kind string

// The kinds.
const (
	RightsHolder Kind = "RIGHTS_HOLDER"
	Publisher    Kind = "PUBLISHER"
	Platform     Kind = "PLATFORM"
	Agency       Kind = "AGENCY"
	Other        Kind = "OTHER"
)

var kinds = []Kind{RightsHolder, Publisher, Platform, Agency, Other}

// State is that of a counterparty or of a rule.
type State string

// The states: Inactive is of counterparties, Retired of rules.
const (
	Active   State = "ACTIVE"
	Inactive State = "INACTIVE"
	Retired  State = "RETIRED"
)

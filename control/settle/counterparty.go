package settle

import (
	"strings"
	"unicode"

	"fmt"
	"slices"

	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/api"
)

// Counterparty is the record of an organisation or person that gets a share of what is settled.
type Counterparty struct {
	ID       string `json:"id" db:"counterparty_id"`
	TenantID string `json:"-" db:"tenant_id"`
	// Name is that of a business or a pseudonym, not a person's: it stands in an event.
	Name string `json:"name" db:"name,moves" doc:"Kept in the audit log for good: no place for personal data."`
	// OrgID is the organisation that it is in this service, if it is one.
	OrgID *string `json:"orgId" db:"org_id,moves" doc:"The organisation that it is in this service, if it is one."`
	Kind  Kind    `json:"kind" db:"kind,moves" enum:"RIGHTS_HOLDER,PUBLISHER,PLATFORM,AGENCY,OTHER"`
	// PayoutRef and TaxID may be personal data: they stand in no event.
	PayoutRef *string       `json:"payoutRef" db:"payout_ref,moves" doc:"Where it is paid, as your payment system names it. In no event."`
	Currency  string        `json:"currency" db:"currency,moves" doc:"That it is paid in: three capital letters."`
	TaxID     *string       `json:"taxId" db:"tax_id,moves" doc:"In no event."`
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

// maxText bounds a counterparty's texts, in bytes.
const maxText = 256

// faults are all that is wrong with what a caller may choose.
func (c *Counterparty) faults() (faults []api.ValidationError) {
	add := func(field, message string) {
		faults = append(faults, api.ValidationError{Field: field, Message: message})
	}
	for _, text := range []struct {
		field string
		value *string
	}{{"name", &c.Name}, {"payoutRef", c.PayoutRef}, {"taxId", c.TaxID}} {
		if v := text.value; v != nil && (*v == "" || len(*v) > maxText || !store.Storable(*v) || strings.ContainsFunc(*v, unicode.IsControl)) {
			add(text.field, fmt.Sprintf("must be UTF-8 without control characters, of 1 to %d bytes", maxText))
		}
	}
	if !slices.Contains(kinds, c.Kind) {
		add("kind", "must be RIGHTS_HOLDER, PUBLISHER, PLATFORM, AGENCY or OTHER")
	}
	if c.OrgID != nil && !api.IsOrgID(*c.OrgID) {
		add("orgId", "must be the id of an organisation")
	}
	if !rate.IsCurrency(c.Currency) {
		add("currency", "must be three capital letters")
	}
	return faults
}

// replace puts what a caller may choose in the place of what c has, and says whether that
// makes a difference.
func (c *Counterparty) replace(asked *Counterparty) (changed bool) {
	was := *c
	c.Name, c.OrgID, c.Kind, c.PayoutRef, c.Currency, c.TaxID = asked.Name, asked.OrgID, asked.Kind, asked.PayoutRef, asked.Currency, asked.TaxID
	return c.Name != was.Name || c.Kind != was.Kind || c.Currency != was.Currency ||
		!same(c.OrgID, was.OrgID) || !same(c.PayoutRef, was.PayoutRef) || !same(c.TaxID, was.TaxID)
}

// same says whether two optional texts are the same.
func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

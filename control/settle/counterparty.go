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

// Counterparty is the record of an organisation or person that gets a share of settled amounts.
type Counterparty struct {
	ID       string `json:"id" db:"counterparty_id"`
	TenantID string `json:"-" db:"tenant_id"`
	// Name is a business name or a pseudonym, never a person's name: events contain it.
	Name string `json:"name" db:"name,moves" doc:"Kept in the audit log permanently: no place for personal data."`
	// OrgID is the counterparty's organisation in this service, if it has one.
	OrgID *string `json:"orgId" db:"org_id,moves" doc:"The counterparty's organisation in this service, if it has one."`
	Kind  Kind    `json:"kind" db:"kind,moves" enum:"RIGHTS_HOLDER,PUBLISHER,PLATFORM,AGENCY,OTHER" doc:"The counterparty's role."`
	// PayoutRef and TaxID may be personal data, so no event contains them.
	PayoutRef *string       `json:"payoutRef" db:"payout_ref,moves" doc:"The payment destination, as your payment system names it. Never written to events."`
	Currency  string        `json:"currency" db:"currency,moves" doc:"The currency of its payments, a code of ISO 4217."`
	TaxID     *string       `json:"taxId" db:"tax_id,moves" doc:"Never written to events."`
	State     State         `json:"state" db:"state,moves" enum:"ACTIVE,INACTIVE"`
	CreatedAt store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision  int64         `json:"revision" db:"revision,moves"`
}

// Kind is the role of a counterparty.
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

// State is the state of a counterparty or a rule.
type State string

// The states. Only counterparties become Inactive, only rules Retired.
const (
	Active   State = "ACTIVE"
	Inactive State = "INACTIVE"
	Retired  State = "RETIRED"
)

// maxText bounds a counterparty's texts, in bytes.
const maxText = 256

// faults lists every invalid field that a caller may set.
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
		add("currency", rate.NoCurrency)
	}
	return faults
}

// replace overwrites the fields that a caller may set, and reports whether any changed.
func (c *Counterparty) replace(requested *Counterparty) (changed bool) {
	was := *c
	c.Name, c.OrgID, c.Kind, c.PayoutRef, c.Currency, c.TaxID = requested.Name, requested.OrgID, requested.Kind, requested.PayoutRef, requested.Currency, requested.TaxID
	return c.Name != was.Name || c.Kind != was.Kind || c.Currency != was.Currency ||
		!same(c.OrgID, was.OrgID) || !same(c.PayoutRef, was.PayoutRef) || !same(c.TaxID, was.TaxID)
}

// same reports whether two optional texts are equal.
func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

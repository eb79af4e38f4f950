package settle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/rate"
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
	// Private is personal data, so no event contains it.
	Private   `db:"*"`
	Currency  string `json:"currency" db:"currency,moves" doc:"The currency of its payments, a code of ISO 4217."`
	Terms     `db:"*"`
	State     State         `json:"state" db:"state,moves" enum:"ACTIVE,INACTIVE"`
	CreatedAt store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision  int64         `json:"revision" db:"revision,moves"`
}

// Private is what is private of a counterparty. Papers show it, and keep what they have shown.
type Private struct {
	LegalName *string `json:"legalName" db:"legal_name,moves" doc:"Its name on papers; null: name. Never written to events."`
	Address   *string `json:"address" db:"address,moves" doc:"Its postal address on papers, in lines. Never written to events."`
	TaxID     *string `json:"taxId" db:"tax_id,moves" doc:"Its tax number on papers. Never written to events."`
	Email     *string `json:"email" db:"email,moves" doc:"Where it gets papers. Never written to events."`
	PayoutRef *string `json:"payoutRef" db:"payout_ref,moves" doc:"The payment destination, as your payment system names it. Never written to events."`
}

// Terms are the terms on which a counterparty is paid.
type Terms struct {
	TaxBps        int64  `json:"taxBps" db:"tax_bps,moves" doc:"The tax on what it gets, in hundredths of a per cent: 1900 is 19 %."`
	ReverseCharge bool   `json:"reverseCharge" db:"reverse_charge,moves" doc:"Whether the recipient of its services owes the tax instead; papers say so."`
	PaymentDays   *int64 `json:"paymentDays" db:"payment_days,moves" doc:"How many days after the issue of a paper its amount is due; null: as many as the issuer's."`
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

// maxText bounds a counterparty's texts, in bytes, maxAddress its address.
const maxText, maxAddress = 256, 1024

// MaxPaymentDays bounds the time in which a paper is due.
const MaxPaymentDays = 365

// faults lists every invalid field that a caller may set.
func (c *Counterparty) faults() (faults []api.ValidationError) {
	add := func(field, message string) {
		faults = append(faults, api.ValidationError{Field: field, Message: message})
	}
	for _, text := range []struct {
		field string
		value *string
	}{{"name", &c.Name}, {"payoutRef", c.PayoutRef}, {"taxId", c.TaxID}, {"legalName", c.LegalName}} {
		if message := Line(text.value, maxText); message != "" {
			add(text.field, message)
		}
	}
	if message := Lines(c.Address, maxAddress); message != "" {
		add("address", message)
	}
	if message := Email(c.Email, maxText); message != "" {
		add("email", message)
	}
	if c.TaxBps < 0 || c.TaxBps > rate.Whole {
		add("taxBps", fmt.Sprintf("must be 0 to %d", rate.Whole))
	} else if c.ReverseCharge && c.TaxBps > 0 {
		add("taxBps", "must be 0 with reverseCharge: the other side owes the tax")
	}
	if d := c.PaymentDays; d != nil && (*d < 0 || *d > MaxPaymentDays) {
		add("paymentDays", fmt.Sprintf("must be 0 to %d", MaxPaymentDays))
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

// deceives reports whether a character does something else than to be shown: controls, marks of writing
// direction, breaks. Joiners belong to letters.
func deceives(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d'
}

// Line returns what is wrong with an optional text of one line; empty: nothing.
func Line(text *string, most int) string {
	if text != nil && (*text == "" || len(*text) > most || !store.Storable(*text) || strings.ContainsFunc(*text, deceives)) {
		return fmt.Sprintf("must be UTF-8 without control characters, of 1 to %d bytes", most)
	}
	return ""
}

// Email is Line for an e-mail address.
func Email(text *string, most int) string {
	if message := Line(text, most); message != "" || text == nil {
		return message
	}
	if len(*text) < 3 || !strings.Contains((*text)[1:len(*text)-1], "@") {
		return "is not an e-mail address"
	}
	return ""
}

// Lines is Line for a text that may have several.
func Lines(text *string, most int) string {
	if text == nil {
		return ""
	}
	if one := strings.ReplaceAll(*text, "\n", " "); Line(&one, most) != "" {
		return fmt.Sprintf("must be UTF-8 without control characters but line feeds, of 1 to %d bytes", most)
	}
	return ""
}

// replace overwrites the fields that a caller may set, and reports whether any changed.
func (c *Counterparty) replace(requested *Counterparty) (changed bool) {
	was := *c
	c.Name, c.OrgID, c.Kind, c.Private, c.Currency, c.Terms = requested.Name, requested.OrgID, requested.Kind, requested.Private, requested.Currency, requested.Terms
	return !reflect.DeepEqual(*c, was)
}

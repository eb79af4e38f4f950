package dsar

import (
	"slices"

	"muniment.example/control/challenge"
	"muniment.example/control/dispute"
	"muniment.example/control/erasure"
	"muniment.example/control/ingest"
	"muniment.example/control/member"
	"muniment.example/control/offer"
	"muniment.example/control/payable"
	"muniment.example/control/payeelink"
	"muniment.example/control/proof"
	"muniment.example/control/right"
	"muniment.example/control/settle"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/control/webhook"
	"muniment.example/gateway/api"
)

// configuration is the sections with a tenant's records that are about no person.
var configuration = slices.Concat(tenant.Sections, right.Sections, offer.Sections, challenge.Sections, dispute.Sections, ingest.Sections, settle.Sections, statement.Sections, payable.Sections, payeelink.Sections, proof.Sections, webhook.Sections, erasure.Sections, member.Sections)

// The other sections, which this package reads by itself, with the scopes that they need in an export of the tenant.
var (
	deliveries    = store.Section{Name: "deliveries", Scope: api.AuditRead, Row: deliveryRow{}}
	events        = store.Section{Name: "events", Scope: api.AuditRead, Row: eventRow{}}
	quarantined   = store.Section{Name: "quarantined", Scope: api.AuditRead, Row: quarantinedRow{}}
	heldRows      = store.Section{Name: "heldRows", Scope: api.DeliveryWrite, Row: ingest.HeldPerson{}}
	rejectedPlays = store.Section{Name: "rejectedPlays", Scope: api.DeliveryWrite, Row: ingest.RejectedPlay{}}
	dsarJobs      = store.Section{Name: "dsarJobs", Scope: api.AuditRead, Row: View{}}
	mentions      = store.Section{Name: "mentions", Scope: api.AuditRead, Row: store.Mention{}}
)

// sections returns the sections of an export of a kind.
func (k Kind) sections() []store.Section {
	switch k {
	case TenantFull:
		return append([]store.Section{heldRows, dsarJobs, rejectedPlays, deliveries, events, quarantined}, configuration...)
	case TenantSlice:
		return []store.Section{right.Rights, heldRows, deliveries, events}
	default:
		return []store.Section{heldRows, dsarJobs, mentions, deliveries, events, quarantined}
	}
}

// shows reports whether the job's export has a section: of a person all, of the tenant what its requester may read.
func (j *Job) shows(s store.Section) bool {
	if j.Scope.Kind == DataSubject {
		return true
	}
	scopes, err := api.ParseScopes(j.Scopes)
	return err == nil && scopes.Allows(s.Scope)
}

// readableBy returns a 403 to a caller who lacks the scope of something that is in the job's bundle.
func (j *Job) readableBy(held api.Scopes) error {
	for _, s := range j.Scope.Kind.sections() {
		if j.Scope.Kind != DataSubject && j.shows(s) && !held.Allows(s.Scope) {
			return api.Missing(s.Scope, held)
		}
	}
	return nil
}

// section begins a section, unless the export leaves it out.
func (c *collection) section(s store.Section) (begun bool, err error) {
	if !c.job.shows(s) {
		c.leave(s)
		return false, nil
	}
	return true, c.begin(s.Name, s.Row)
}

// whole reports whether the export leaves nothing out but erasures, which name nobody.
func (c *collection) whole() bool {
	for _, s := range TenantFull.sections() {
		if s.Scope != api.Wildcard && !c.job.shows(s) {
			return false
		}
	}
	return true
}

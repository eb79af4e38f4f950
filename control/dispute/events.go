package dispute

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about disputes.
var (
	disputeEvents     = &store.Noun{Name: "dispute", Scope: api.DisputesRead}
	eventOpened       = disputeEvents.Kind("dispute.opened", "A dispute was opened: its deliveries are held out of settlement.", Dispute{}, eventExtras{})
	eventInvestigated = disputeEvents.Kind("dispute.investigation_started", "The investigation of a dispute began.", Dispute{}, eventExtras{})
	eventResponded    = disputeEvents.Kind("dispute.responded", "The other side of a dispute responded.", Dispute{}, eventExtras{})
	eventResolved     = disputeEvents.Kind("dispute.resolved", "A dispute was resolved.", Dispute{}, eventExtras{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{disputeEvents}

// eventExtras is what an event of a dispute has besides its record.
type eventExtras struct {
	store.Acting
	Rendered
}

// SchemaName returns the schema name in the OpenAPI document.
func (eventExtras) SchemaName() string { return "DisputeActing" }

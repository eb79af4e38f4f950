package ingest

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about mappings, which delivery:write reads.
var (
	mappingEvents = &store.Noun{Name: "mapping", Scope: api.DeliveryWrite}
	eventCreated  = mappingEvents.Kind("mapping.created", "A vendor's id was mapped.", Mapping{})
	eventRetired  = mappingEvents.Kind("mapping.retired", "A mapping was retired.", Mapping{})
)

// The event about rejected plays, which delivery:write reads, too.
var (
	rejectedEvents = &store.Noun{Name: "rejected_play", Scope: api.DeliveryWrite}
	eventDismissed = rejectedEvents.Kind("rejected_play.dismissed", "Rejected plays of players were dismissed, and so deleted.", Dismissed{})
)

// The events about held rows.
var (
	heldEvents   = &store.Noun{Name: "held_row", Scope: api.DeliveryWrite}
	eventExpired = heldEvents.Kind("held_row.expired", "A row was held until its play was too long ago to be delivered.", ExpiredRow{})
)

// ExpiredRow is the data of a row's expiry. Of what the caller wrote into the row it has the play time
// alone, because the log is kept for good.
type ExpiredRow struct {
	ID       string         `json:"id" doc:"The held row."`
	Reason   api.HeldReason `json:"reason" enum:"UNMAPPED,RIGHT_SUSPENDED" doc:"What it waited for."`
	RightID  *string        `json:"rightId" doc:"The right that it waited for; null if it waited for a mapping."`
	PlayedAt store.Instant  `json:"playedAt" doc:"When the content was played."`
}

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{mappingEvents, heldEvents, rejectedEvents}

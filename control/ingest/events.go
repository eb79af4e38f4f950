package ingest

import (
	"muniment/control/store"
	"muniment/gateway/api"
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

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{mappingEvents, rejectedEvents}

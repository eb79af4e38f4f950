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

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{mappingEvents}

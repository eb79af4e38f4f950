package right

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about bases and rights.
var (
	basisEvents  = &store.Noun{Name: "basis", Scope: api.RightsRead}
	basisCreated = basisEvents.Kind("basis.created", "A legal basis was recorded.", Basis{})

	rightEvents    = &store.Noun{Name: "right", Scope: api.RightsRead}
	eventIssued    = rightEvents.Kind("right.issued", "A right was issued, by a request or by accepting an offer.", Right{})
	eventSuspended = rightEvents.Kind("right.suspended", "A right was suspended.", Right{})
	eventResumed   = rightEvents.Kind("right.resumed", "A suspended right was resumed.", Right{})
	eventRevoked   = rightEvents.Kind("right.revoked", "A right was revoked, by a request or because a challenge was upheld.", Right{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{basisEvents, rightEvents}

package challenge

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about challenges.
var (
	challengeEvents = &store.Noun{Name: "challenge", Scope: api.ChallengesRead}
	eventOpened     = challengeEvents.Kind("challenge.opened", "A right was challenged.", Challenge{}, store.Acting{})
	eventUpheld     = challengeEvents.Kind("challenge.upheld", "A challenge was upheld, which revoked the right.", Challenge{}, store.Acting{})
	eventOverturned = challengeEvents.Kind("challenge.overturned", "A challenge was not upheld.", Challenge{}, store.Acting{})
	eventWithdrawn  = challengeEvents.Kind("challenge.withdrawn", "A challenge was withdrawn.", Challenge{}, store.Acting{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{challengeEvents}

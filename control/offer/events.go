package offer

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about offers.
var (
	offerEvents    = &store.Noun{Name: "offer", Scope: api.OffersRead}
	eventProposed  = offerEvents.Kind("offer.proposed", "An offer was made, also as a counter-offer.", Offer{}, store.Acting{})
	eventCountered = offerEvents.Kind("offer.countered", "An offer was answered by a counter-offer.", Offer{}, store.Acting{})
	eventWithdrawn = offerEvents.Kind("offer.withdrawn", "An offer was withdrawn.", Offer{}, store.Acting{})
	eventRejected  = offerEvents.Kind("offer.rejected", "An offer was rejected.", Offer{}, store.Acting{})
	eventAccepted  = offerEvents.Kind("offer.accepted", "An offer was accepted, which issued a right.", Offer{}, store.Acting{})
	eventExpired   = offerEvents.Kind("offer.expired", "The time of an offer was over.", Offer{}, store.Acting{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{offerEvents}

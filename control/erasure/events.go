package erasure

import (
	"muniment.example/control/store"
	"muniment.example/sealer"
)

// The events about erasures. No operation reads erasures but by audit:read.
var (
	subjectEvents = &store.Noun{Name: "subject"}
	eventErased   = subjectEvents.Kind(sealer.TypeErased, "The data of a person is erased from now on.", Erasure{}, notes{})

	erasureEvents  = &store.Noun{Name: "erasure"}
	eventCompleted = erasureEvents.Kind("erasure.completed", "The data of a person was erased.", Erasure{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{subjectEvents, erasureEvents}

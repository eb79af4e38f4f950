package access

import "muniment.example/control/store"

// The events about applications.
var (
	accessEvents   = &store.Noun{Name: "access", System: true}
	eventApplied   = accessEvents.Kind("access.applied", "Somebody applied for a key of the sandbox.")
	eventConfirmed = accessEvents.Kind("access.confirmed", "An applicant confirmed the address.")
	eventApproved  = accessEvents.Kind("access.approved", "An operator approved an application, or its mail was sent again.")
	eventRefused   = accessEvents.Kind("access.refused", "An operator refused an application.")
	eventActivated = accessEvents.Kind("access.activated", "The applicant got the key.")
	eventExpired   = accessEvents.Kind("access.expired", "The time of an application was over.")
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{accessEvents}

package signing

import "muniment.example/control/store"

// The events about signing keys.
var (
	keyEvents     = &store.Noun{Name: "key", System: true}
	eventEnrolled = keyEvents.Kind("key.enrolled", "A signing key came into use.")
	eventRotated  = keyEvents.Kind("key.rotated", "A signing key was replaced by another.")
	eventRecalled = keyEvents.Kind("key.recalled", "A node was asked to replace its signing key.")
	eventRetired  = keyEvents.Kind("key.retired", "A signing key is no longer used.")
	eventRevoked  = keyEvents.Kind("key.revoked", "A signing key was revoked.")
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{keyEvents}

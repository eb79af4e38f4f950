package node

import "muniment.example/control/store"

// The events about nodes.
var (
	nodeEvents    = &store.Noun{Name: "node", System: true}
	eventInvited  = nodeEvents.Kind("node.invited", "A node was invited to join.")
	eventJoined   = nodeEvents.Kind("node.joined", "A node joined.")
	eventRecalled = nodeEvents.Kind("node.recalled", "A node was asked to leave.")
	eventExpelled = nodeEvents.Kind("node.expelled", "A node was removed permanently.")
	eventUnbarred = nodeEvents.Kind("node.unbarred", "The name of a removed node may be used again.")

	spoolEvents    = &store.Noun{Name: "spool", System: true}
	eventAbandoned = spoolEvents.Kind("spool.abandoned", "The records in a node's spool were given up as lost.")
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{nodeEvents, spoolEvents}

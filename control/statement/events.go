package statement

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about statements.
var (
	statementEvents = &store.Noun{Name: "statement", Scope: api.SettlementRead}
	eventCreated    = statementEvents.Kind("statement.created", "A statement was drafted.", Statement{})
	eventDiscarded  = statementEvents.Kind("statement.discarded", "A draft of a statement was discarded.", Statement{})
	eventIssued     = statementEvents.Kind("statement.issued", "A statement was issued.", Statement{})
	eventVoided     = statementEvents.Kind("statement.voided", "A statement was voided.", Statement{})
	eventPaid       = statementEvents.Kind("statement.paid", "A part of a statement was paid, taken back or set off.", Statement{})
	eventSettled    = statementEvents.Kind("statement.settled", "A statement was paid in full.", Statement{})
	eventReopened   = statementEvents.Kind("statement.reopened", "A payment of a statement that was paid in full was taken back, so something is open again.", Statement{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{statementEvents}

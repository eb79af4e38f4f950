package settle

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about counterparties and settlement rules.
var (
	counterpartyEvents = &store.Noun{Name: "counterparty", Scope: api.SettlementRead}
	eventCreated       = counterpartyEvents.Kind("counterparty.created", "A counterparty was recorded. What is private of it is left out.", Counterparty{})
	eventChanged       = counterpartyEvents.Kind("counterparty.changed", "A counterparty was changed. What is private of it is left out.", Counterparty{})
	eventDeactivated   = counterpartyEvents.Kind("counterparty.deactivated", "A counterparty was deactivated. What is private of it is left out.", Counterparty{})

	ruleEvents  = &store.Noun{Name: "settlement_rule", Scope: api.SettlementRead}
	ruleCreated = ruleEvents.Kind("settlement_rule.created", "A settlement rule was created.", Rule{})
	ruleChanged = ruleEvents.Kind("settlement_rule.changed", "A settlement rule was changed.", Rule{})
	ruleRetired = ruleEvents.Kind("settlement_rule.retired", "A settlement rule was retired.", Rule{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{counterpartyEvents, ruleEvents}

package settle

import "muniment.example/control/store"

// private are the columns of which nothing is shown publicly. Payments and papers use them as they are.
var private = []string{"payout_ref", "tax_id", "legal_name", "address", "email"}

// Tables lists this package's tables.
var Tables = store.Tables{
	{Name: "settlement_rules", Public: []string{"matches.campaign", "matches.label"}},
	{Name: "counterparties", Public: []string{"name"}, Personal: &store.Personal{Kind: "counterparty", Key: []string{"counterparty_id"}, Text: private, Emptied: private,
		Parties: [][]string{{"legal_name", "address", "tax_id", "email", "payout_ref"}}}},
}

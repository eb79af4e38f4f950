package settle

import "muniment/control/store"

// Tables lists this package's tables.
var Tables = store.Tables{
	{Name: "settlement_rules", Public: []string{"matches.campaign", "matches.label"}},
	{Name: "counterparties", Public: []string{"name"}, Personal: &store.Personal{Kind: "counterparty", Key: []string{"counterparty_id"}, Text: []string{"payout_ref", "tax_id", "legal_name", "address", "email"},
		Parties: [][]string{{"legal_name", "address", "tax_id", "email", "payout_ref"}}}},
}

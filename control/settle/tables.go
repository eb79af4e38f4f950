package settle

import "muniment/control/store"

// Tables are those of this package.
var Tables = store.Tables{
	{Name: "settlement_rules"},
	{Name: "counterparties", Person: []string{"payout_ref", "tax_id"}},
}

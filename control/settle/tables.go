package settle

import "muniment/control/store"

// Tables lists this package's tables.
var Tables = store.Tables{
	{Name: "settlement_rules"},
	{Name: "counterparties", Person: []string{"payout_ref", "tax_id"}},
}

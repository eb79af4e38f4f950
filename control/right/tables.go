package right

import "muniment/control/store"

// Tables lists this package's tables. Nodes get the rights, with their
// newest suspensions.
var Tables = store.Tables{
	{Name: "right_moves"},
	{Name: "rights", Feed: "right_id", Public: []string{"scope", "state_reason"}},
	{Name: "bases", Public: []string{"title", "jurisdiction", "reference"}},
}

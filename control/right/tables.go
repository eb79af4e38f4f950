package right

import "muniment.example/control/store"

// ScopeNames are the names in a scope that callers don't choose, as store.Table has them: labels have any names,
// and so have the keys of their own and what these hold.
var ScopeNames = map[string][]string{"scope": known}

// Tables lists this package's tables. Nodes get the rights, with their
// newest suspensions.
var Tables = store.Tables{
	{Name: "right_moves"},
	{Name: "rights", Feed: "right_id", Public: []string{"scope", "state_reason"}, Names: ScopeNames},
	{Name: "bases", Public: []string{"title", "jurisdiction", "reference"}},
}

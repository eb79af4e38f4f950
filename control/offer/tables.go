package offer

import (
	"muniment.example/control/right"
	"muniment.example/control/store"
)

// Tables lists this package's tables.
var Tables = store.Tables{{Name: "offers", Public: []string{"scope", "terms_ref", "counter_terms_ref", "state_reason"}, Names: right.ScopeNames}}

package erasure

import "muniment.example/control/store"

// Tables lists this package's tables.
var Tables = store.Tables{
	{Name: "erasures"},
	{Name: "tombstones", Outlives: "what was erased stays erased, whatever is loaded"},
	{Name: "subject_key", Outlives: "all tenants share it"},
}

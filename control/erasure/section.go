package erasure

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Sections are the data of this package in an export of the tenant.
var Sections = []store.Section{erasures.Section("erasures", api.Wildcard)}

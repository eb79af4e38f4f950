package access

import "muniment/control/store"

// Tables are those of this package. Its rows belong to the system's tenant, which is never dropped.
var Tables = store.Tables{
	{Name: "access_tokens"},
	{Name: "access_requests", Person: []string{"email"}, Text: []string{"organisation", "purpose"}},
	{Name: "access_applications", Person: []string{"email"}, Text: []string{"organisation", "purpose"}},
}

package access

import "muniment.example/control/store"

// Tables are those of this package. Its rows belong to the system's tenant, which is never dropped.
var Tables = store.Tables{
	{Name: "access_tokens"},
	{Name: "access_requests", Personal: &store.Personal{Kind: "accessRequest", Key: []string{"request_id"}, Person: []string{"email"}, Text: []string{"organisation", "purpose"}}},
	{Name: "access_applications", Personal: &store.Personal{Kind: "accessApplication", Key: []string{"application_id"}, Person: []string{"email"}, Text: []string{"organisation", "purpose"}}},
}

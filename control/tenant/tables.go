package tenant

import "muniment.example/control/store"

// Tables are the tables of this package.
var Tables = store.Tables{
	{Name: "api_keys", Feed: "key_id", Public: []string{"label"}},
	{Name: "developers", Personal: &store.Personal{Kind: "developer", Key: []string{"developer_id"}, Person: []string{"email"}}},
	{Name: "tenants"},
}

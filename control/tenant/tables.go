package tenant

import "muniment/control/store"

// Tables are those of this package. Nodes get the keys.
var Tables = store.Tables{
	{Name: "api_keys", Feed: "key_id"},
	{Name: "developers", Person: []string{"email"}},
	{Name: "tenants"},
}

package tenant

import "muniment/control/store"

// Tables are the tables of this package.
var Tables = store.Tables{
	{Name: "api_keys", Feed: "key_id"},
	{Name: "developers", Person: []string{"email"}},
	{Name: "tenants"},
}

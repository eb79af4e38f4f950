package sandbox

import "muniment/control/store"

// Tables are those of this package. Windows and what was logged are forgotten in time.
var Tables = store.Tables{
	{Name: "sandbox_tenants"},
	{Name: "sandbox_windows", Outlives: "an address is no tenant's"},
	{Name: "sandbox_log", Outlives: "the log keeps what it holds of a tenant"},
	{Name: "sandbox_secret", Outlives: "all visitors share it"},
}

package webhook

import "muniment/control/store"

// Tables lists this package's tables. A receiver's response may name a person, so it is kept only as
// long as the delivery, and an erasure removes it.
var Tables = store.Tables{
	{Name: "webhook_deliveries", Related: []string{"attempts"}, EraseText: erase},
	{Name: "webhooks"},
	{Name: "webhook_cursors", Outlives: "it belongs to no tenant"},
}

package webhook

import "muniment.example/control/store"

// Tables lists this package's tables. A receiver's response may name a person, so it is kept only as
// long as the delivery, and an erasure removes it.
var Tables = store.Tables{
	{Name: "webhook_deliveries", Personal: &store.Personal{
		Kind: "webhookDelivery", Key: []string{"delivery_id"}, JSON: []string{"attempts.bodyExcerpt"}, Also: "claim = claim + 1", Before: discardRunning, Large: true,
	}},
	{Name: "webhooks", Public: []string{"url", "description"}},
	{Name: "webhook_budgets"},
	{Name: "webhook_hosts", Outlives: "a host belongs to no tenant"},
	{Name: "webhook_cursors", Outlives: "it belongs to no tenant"},
}

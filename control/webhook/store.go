package webhook

import (
	"context"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

var webhooks = store.Records[Webhook]{Noun: "webhook", Table: "webhooks"}

// Sections are the data of this package in an export of the tenant: no secrets.
var Sections = []store.Section{webhooks.Section("webhooks", api.WebhooksRead)}

// list lists the tenant's webhooks, newest first.
func list(ctx context.Context, q store.Querier, tenantID string, s store.Slice) (page []Webhook, next string, err error) {
	return webhooks.Page(ctx, q, tenantID, store.Where{}, s)
}

// remove deletes a webhook's row.
func remove(ctx context.Context, tx *store.Tx, w *Webhook) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2`, w.TenantID, w.ID); err != nil {
		return fmt.Errorf("cannot delete the webhook %s: %w", w.ID, err)
	}
	return nil
}

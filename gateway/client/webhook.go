package client

import (
	"context"
	"iter"
	"net/http"
)

// Webhooks are URLs to which events are sent. VerifyWebhook verifies what they receive.
type Webhooks struct{ c *Client }

// Webhooks are URLs to which events are sent.
func (c *Client) Webhooks() Webhooks { return Webhooks{c} }

// Create makes a webhook. Its secret is in the result, and nowhere else.
func (w Webhooks) Create(ctx context.Context, webhook NewWebhook) (*CreatedWebhook, error) {
	return post[CreatedWebhook](ctx, w.c, "/v1/webhooks", webhook)
}

// List iterates over the webhooks, newest first.
func (w Webhooks) List(ctx context.Context) iter.Seq2[Webhook, error] {
	return list[Webhook](ctx, w.c, "/v1/webhooks", "webhooks", nil)
}

// Get returns a webhook.
func (w Webhooks) Get(ctx context.Context, webhookID string) (*Webhook, error) {
	return record[Webhook](ctx, w.c, http.MethodGet, at("/v1/webhooks", webhookID), "webhook", nil)
}

// Change changes a webhook.
func (w Webhooks) Change(ctx context.Context, webhookID string, change WebhookChange) (*Webhook, error) {
	return record[Webhook](ctx, w.c, http.MethodPatch, at("/v1/webhooks", webhookID), "webhook", change)
}

// Delete ends a webhook.
func (w Webhooks) Delete(ctx context.Context, webhookID string) (*Webhook, error) {
	return record[Webhook](ctx, w.c, http.MethodDelete, at("/v1/webhooks", webhookID), "webhook", nil)
}

// RotateSecret makes a new secret; the old one signs beside it for a day.
func (w Webhooks) RotateSecret(ctx context.Context, webhookID string) (*RotatedWebhook, error) {
	return post[RotatedWebhook](ctx, w.c, at("/v1/webhooks", webhookID, "rotate-secret"), nil)
}

// Test sends an event of its own to a webhook.
func (w Webhooks) Test(ctx context.Context, webhookID string) (*WebhookDelivery, error) {
	return record[WebhookDelivery](ctx, w.c, http.MethodPost, at("/v1/webhooks", webhookID, "test"), "delivery", nil)
}

// Deliveries iterates over what was sent to a webhook, in a state, or all if that is empty, newest
// first.
func (w Webhooks) Deliveries(ctx context.Context, webhookID, state string) iter.Seq2[WebhookDelivery, error] {
	return list[WebhookDelivery](ctx, w.c, at("/v1/webhooks", webhookID, "deliveries"), "deliveries", inState(state))
}

// Resend sends a delivery again, under its id.
func (w Webhooks) Resend(ctx context.Context, webhookID, deliveryID string) (*WebhookDelivery, error) {
	return record[WebhookDelivery](ctx, w.c, http.MethodPost, at("/v1/webhooks", webhookID, "deliveries", deliveryID, "resend"), "delivery", nil)
}

// Recover sends what a webhook has not received of a stretch of time.
func (w Webhooks) Recover(ctx context.Context, webhookID string, what NewWebhookRecovery) (*WebhookRecovery, error) {
	return record[WebhookRecovery](ctx, w.c, http.MethodPost, at("/v1/webhooks", webhookID, "recover"), "recovery", what)
}

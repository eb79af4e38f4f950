package client

import (
	"context"
	"iter"
	"net/http"
	"time"
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

// Webhook is a URL to which events are sent.
type Webhook struct {
	Record
	// What it is for.
	Description string `json:"description"`
	// The types of events that are sent.
	Events []string `json:"events"`
	// When attempts began to fail, since the last that did not; null while they don't.
	FailingSince time.Time `json:"failingSince"`
	// WaitsUntil is until when its messages wait for the limit that WaitReason names; zero and empty
	// if they don't.
	WaitsUntil time.Time `json:"waitsUntil"`
	WaitReason string    `json:"waitReason"`
	// While it is PAUSED events wait; while it is DISABLED none are queued. One of ACTIVE, PAUSED,
	// DISABLED.
	State string `json:"state"`
	// Why the service has paused or disabled it; null if it has not.
	StateReason string `json:"stateReason"`
	// The key under which events are sent.
	KeyID string `json:"keyId"`
	// Where events are sent.
	URL string `json:"url"`
}

// NewWebhook asks for a webhook.
type NewWebhook struct {
	// What it is for. Kept in the audit log for good: no place for personal data.
	Description string `json:"description,omitempty"`
	// Types of events, or all of a noun. delivery.recorded has to be named, and comes in batches.
	Events []string `json:"events"`
	// Where events are sent: https, without user info and fragment. Kept in the audit log for good: no
	// place for secrets.
	URL string `json:"url"`
}

// WebhookChange is what changes of a webhook; what is left out stays.
type WebhookChange struct {
	// Another description; one that is empty has to be given as such.
	Description *string `json:"description,omitempty"`
	// Other types of events.
	Events []string `json:"events,omitempty"`
	// Another state. One of ACTIVE, PAUSED, DISABLED.
	State string `json:"state,omitempty"`
	// Another URL.
	URL string `json:"url,omitempty"`
}

// CreatedWebhook is a new webhook. Its secret is shown only here.
type CreatedWebhook struct {
	// What receivers verify signatures of the kind v1 by; it can't be shown again.
	Secret  string  `json:"secret"`
	Webhook Webhook `json:"webhook"`
	// What receivers verify signatures of the kind v1a by, whpk_ and base64, the current key first.
	VerifyingKeys []string `json:"verifyingKeys"`
}

// RotatedWebhook is a webhook with its new secret, which is shown only here.
type RotatedWebhook struct {
	// Until when the secret before signs as well.
	PreviousUntil time.Time `json:"previousUntil"`
	// The new secret; it can't be shown again.
	Secret  string  `json:"secret"`
	Webhook Webhook `json:"webhook"`
	// What receivers verify signatures of the kind v1a by, whpk_ and base64, the current key first.
	VerifyingKeys []string `json:"verifyingKeys"`
}

// WebhookDelivery is a request to a webhook, with its attempts.
type WebhookDelivery struct {
	// The attempts, the oldest first; of many the last 20.
	Attempts  []WebhookAttempt `json:"attempts"`
	CreatedAt time.Time        `json:"createdAt"`
	// The event's time; of a batch that of the first.
	EventAt time.Time `json:"eventAt"`
	// How many events are sent.
	EventCount int64 `json:"eventCount"`
	// The event that is sent; of a batch the first.
	EventID string `json:"eventId"`
	// The type of the event, or of all in the batch.
	EventType string `json:"eventType"`
	// The header webhook-id of each attempt.
	ID string `json:"id"`
	// When the next attempt is due; null if there is none, or while the event is on its way into the
	// log.
	NextAttemptAt time.Time `json:"nextAttemptAt"`
	// FAILED once no attempt is left. One of PENDING, DELIVERED, FAILED.
	State     string    `json:"state"`
	UpdatedAt time.Time `json:"updatedAt"`
	// The webhook's id.
	WebhookID string `json:"webhookId"`
}

// WebhookAttempt is one attempt.
type WebhookAttempt struct {
	// When it began.
	At time.Time `json:"at"`
	// What the receiver's answer began with, at most 1 KiB; null if there was none.
	BodyExcerpt string `json:"bodyExcerpt"`
	// How long it took, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// Why there was no answer; null if there was one.
	Error string `json:"error"`
	// The status that the receiver answered with; null if it did not.
	Status int64 `json:"status"`
}

// NewWebhookRecovery asks to send again what failed.
type NewWebhookRecovery struct {
	// Count only.
	DryRun bool `json:"dryRun,omitempty"`
	// Events of this time or later.
	Since time.Time `json:"since"`
	// Exclusive; absent: until now.
	Until time.Time `json:"until,omitzero"`
}

// WebhookRecovery is how much is sent again.
type WebhookRecovery struct {
	// How many deliveries are due to be sent.
	Count int64 `json:"count"`
	// They were counted only.
	DryRun bool `json:"dryRun"`
	// There are more than could be counted in 5 seconds.
	More bool `json:"more"`
}

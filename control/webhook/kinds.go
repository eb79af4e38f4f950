package webhook

import (
	"slices"
	"strings"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// A webhook's own events.
var (
	webhookEvents  = &store.Noun{Name: "webhook", Scope: api.WebhooksRead}
	eventCreated   = webhookEvents.Kind("webhook.created", "A webhook was created.", Webhook{})
	eventChanged   = webhookEvents.Kind("webhook.changed", "A webhook was changed, paused or resumed.", Webhook{})
	eventDeleted   = webhookEvents.Kind("webhook.deleted", "A webhook was deleted.", Webhook{})
	eventRotated   = webhookEvents.Kind("webhook.secret_rotated", "The secret of a webhook was replaced.", Webhook{})
	eventDisabled  = webhookEvents.Kind("webhook.disabled", "The service disabled a webhook.", Webhook{})
	eventPaused    = webhookEvents.Kind("webhook.paused", "The service paused a webhook, because the key under which it sends was revoked or has expired.", Webhook{})
	eventTested    = webhookEvents.Kind("webhook.tested", "A test event was requested; it goes to that webhook, whatever its kinds.", WebhookSent{})
	eventRecovered = webhookEvents.Kind("webhook.recovered", "What a webhook had not received was queued.", WebhookRecovered{})
	eventResent    = webhookEvents.Kind("webhook.resent", "A delivery of a webhook was queued again.", WebhookSent{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{webhookEvents}

// WebhookSent is the data of webhook.tested and webhook.resent.
type WebhookSent struct {
	WebhookID  string `json:"webhookId" doc:"The webhook's id."`
	DeliveryID string `json:"deliveryId" doc:"The delivery."`
}

// WebhookRecovered is the data of webhook.recovered.
type WebhookRecovered struct {
	WebhookID string        `json:"webhookId" doc:"The webhook's id."`
	Since     store.Instant `json:"since" doc:"Events at this time or later."`
	Until     store.Instant `json:"until" nullable:"true" doc:"Exclusive; null: until then."`
}

// TypeDelivery is the one type that must be named in full: neither "delivery.*" nor "*" includes it,
// as there are millions of these events.
const TypeDelivery = sealer.TypeDelivery

// all names every kind, and allOf ends the name for every kind of a noun.
const all, allOf = "*", ".*"

// covers reports whether a filter names several kinds, of which a type is one.
func covers(filter, eventType string) bool {
	noun, several := strings.CutSuffix(filter, allOf)
	return filter == all || several && strings.HasPrefix(eventType, noun+".")
}

// chosen returns the kinds that a filter names, delivery.recorded among them; none for a filter that
// names nothing.
func chosen(kinds store.Kinds, filter string) (some store.Kinds) {
	for _, k := range kinds.OfTenants() {
		if filter == k.Type || covers(filter, k.Type) {
			some = append(some, k)
		}
	}
	return some
}

// Filters returns what a webhook may name as its events: *, each kind, and each noun with .*.
func Filters(kinds store.Kinds) []string {
	names := []string{all}
	for _, k := range kinds.OfTenants() {
		names = append(names, k.Type, k.Name+allOf)
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// distinct sorts the filters and removes those that another one covers.
func distinct(filters []string) []string {
	filters = slices.Compact(slices.Sorted(slices.Values(filters)))
	return slices.DeleteFunc(filters, func(f string) bool {
		return f != TypeDelivery && slices.ContainsFunc(filters, func(other string) bool { return other != f && covers(other, f) })
	})
}

package webhook

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const read, write = route.Scope(api.WebhooksRead), route.Scope(api.WebhooksWrite)
	route.Add(a, route.Operation{ID: "create-webhook", Method: http.MethodPost, Path: "/v1/webhooks", Tag: "Webhooks", Access: write,
		Summary:     "Send events to a URL; the secret is shown only once",
		Effects:     []route.Effect{sends},
		Description: "The webhook remembers the key: if it is revoked or expires, and no successor of it is in force, the webhook becomes `PAUSED` with the reason `KEY_REVOKED`.\n\n" + messages}, s.post)
	route.Add(a, route.Operation{ID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tag: "Webhooks", Access: read,
		Summary: "List the webhooks, newest first"}, s.getAll)
	route.Add(a, route.Operation{ID: "get-webhook", Method: http.MethodGet, Path: "/v1/webhooks/{webhookId}", Tag: "Webhooks", Access: read,
		Summary: "Get a webhook"}, s.get)
	route.Add(a, route.Operation{ID: "change-webhook", Method: http.MethodPatch, Path: "/v1/webhooks/{webhookId}", Tag: "Webhooks", Access: write,
		Summary: "Change, pause or resume a webhook", Effects: []route.Effect{sendsElsewhere},
		Description: "Absent fields don't change. Deliveries that wait while it is `PAUSED` or `DISABLED` are sent when it is `ACTIVE` again. " +
			"The webhook remembers the key that sets `url` or `events`; one that is `PAUSED` with the reason `KEY_REVOKED` remembers the key that sets it to `ACTIVE`."}, s.patch)
	route.Add(a, route.Operation{ID: "delete-webhook", Method: http.MethodDelete, Path: "/v1/webhooks/{webhookId}", Tag: "Webhooks", Access: write,
		Summary: "Delete a webhook with its waiting deliveries"}, s.delete)
	route.Add(a, route.Operation{ID: "rotate-webhook-secret", Method: http.MethodPost, Path: "/v1/webhooks/{webhookId}/rotate-secret", Tag: "Webhooks", Access: write,
		Summary:     "Rotate a webhook's secret; the new one is shown only once",
		Effects:     []route.Effect{signs},
		Description: "For a day the previous secret signs as well, as another signature in the same header. At most 5 earlier secrets sign at a time."}, s.postRotate)
	route.Add(a, route.Operation{ID: "test-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{webhookId}/test", Tag: "Webhooks", Access: write,
		Summary:     "Send a test event",
		Description: "The event `webhook.tested` is sent like any other, whatever types the webhook has. Its delivery shows the result."}, s.postTest)
	route.Add(a, route.Operation{ID: "recover-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{webhookId}/recover", Tag: "Webhooks", Access: write, Heavy: true,
		Summary: "Send everything that a webhook has not received", Errors: []int{http.StatusServiceUnavailable},
		Description: "Deliveries of the period's events that have `FAILED` are sent again under their ids, and events that were never queued, for example while the webhook was `DISABLED`, are sent now. " +
			"Events whose deliveries are no longer kept are sent once more. With `dryRun` the deliveries are only counted. " +
			"Receipts that were never queued are left out: `GET /v1/receipts` lists them.", Effects: []route.Effect{sends}}, s.postRecover)
	route.Add(a, route.Operation{ID: "list-webhook-deliveries", Method: http.MethodGet, Path: "/v1/webhooks/{webhookId}/deliveries", Tag: "Webhooks", Access: read,
		Summary:     "List a webhook's deliveries, newest first",
		Description: "`DELIVERED` deliveries are kept for 7 days, others for 30."}, s.getDeliveries)
	route.Add(a, route.Operation{ID: "resend-webhook-delivery", Method: http.MethodPost, Path: "/v1/webhooks/{webhookId}/deliveries/{deliveryId}/resend", Tag: "Webhooks", Access: write,
		Summary: "Send a delivery again now, under its id, with a new schedule of attempts", Effects: []route.Effect{sends}}, s.postResend)
}

// The effects of operations on webhooks: entitled checks them.
var (
	sends          = route.Effect{Does: "sends events to a URL", Needs: needs}
	signs          = route.Effect{Does: "shows the secret by which receivers know events", Needs: needs}
	sendsElsewhere = route.Effect{Does: "sends events to a URL, if it sets `url` or `events`, or `state` to `ACTIVE`", Needs: needs}
)

// needs is the same as the catalogue of events says.
const needs = "`audit:read`, or for each kind of event the scope that `x-event-kinds` has for it"

// messages describes the requests that receivers get.
const messages = "Each event is a POST of `{\"type\", \"timestamp\", \"tenantId\", \"webhookId\", \"data\": {\"event\"}}`, where `event` is the same text as in proof packs and names no person; " +
	"for `delivery.recorded`, `data` has `events` instead, up to 500. The headers follow the Standard Webhooks specification: `webhook-id` is the delivery's id, the same in every attempt; " +
	"`webhook-timestamp` is the time of the attempt in seconds, while `timestamp` is the event's time; `webhook-signature` has signatures of `{webhook-id}.{webhook-timestamp}.{body}`, separated by spaces:\n\n" +
	"- `v1,` and the base64 of an HMAC-SHA256. Its key is the decoded base64 after `whsec_` in the secret. After a rotation there are two; one of them has to be valid.\n" +
	"- `v1a,` and the base64 of an Ed25519 signature by a key of the purpose `webhook_signing` in `/.well-known/muniment/keys.json`. This key signs for all webhooks, so compare `webhookId` with your own.\n\n" +
	"A 2xx response within 15 seconds accepts a delivery. After any other result, including a redirect, it is retried after 5 s, 5 and 30 min, 2, 5, 10 and 10 h, or later if `Retry-After` says so, by at most 10 h; then it is `FAILED`. " +
	"410, five days of failures, or more than 100,000 waiting deliveries make the webhook `DISABLED`.\n\n" +
	"A host agrees to messages by copying the request's header `webhook-challenge` to a response. All hosts of a domain that have not, or not for 30 days, get 60 messages and 1 MiB an hour, from all tenants together; other hosts get 1 GiB an hour from a tenant; " +
	"beyond that messages wait, and `waitReason` of the webhook says why. A delivery that has waited for 28 hours is `FAILED`.\n\n" +
	"Each event is sent at least once: ignore a `webhook-id` that you have already accepted. Up to 16 requests run at once, so events arrive only roughly in the order of the log."

// The responses about webhooks.
type (
	// WebhookData is the response about one webhook.
	WebhookData struct {
		Webhook Webhook `json:"webhook"`
	}
	// WebhookList is one page of webhooks.
	WebhookList struct {
		Webhooks   []Webhook `json:"webhooks" doc:"The webhooks of this page."`
		NextCursor *string   `json:"nextCursor"`
	}
	// CreatedWebhook shows the secret.
	CreatedWebhook struct {
		Webhook       Webhook  `json:"webhook"`
		Secret        string   `json:"secret" doc:"The secret with which receivers verify v1 signatures; it can't be shown again."`
		VerifyingKeys []string `json:"verifyingKeys" doc:"The public keys with which receivers verify v1a signatures, as libraries of Standard Webhooks take them, the current one first: whpk_ and the base64 of publicKey of each key of the purpose webhook_signing in /.well-known/muniment/keys.json that is not revoked."`
	}
	// RotatedWebhook shows the new secret.
	RotatedWebhook struct {
		Webhook       Webhook       `json:"webhook"`
		Secret        string        `json:"secret" doc:"The new secret; it can't be shown again."`
		VerifyingKeys []string      `json:"verifyingKeys" doc:"The public keys with which receivers verify v1a signatures, the current one first; a rotation of the secret does not change them."`
		PreviousUntil store.Instant `json:"previousUntil" doc:"Until when the previous secret signs as well."`
	}
)

// NewWebhook is the body of a request for a webhook.
type NewWebhook struct {
	URL         string   `json:"url" minLength:"1" maxLength:"2048" doc:"Where events are sent: https, without user info and fragment; http leads to a loopback address alone that the operator allows by --webhook-allow. Kept in the audit log permanently: no place for secrets." example:"https://receiver.example/muniment"`
	Events      []string `json:"events" minItems:"1" maxItems:"50" maxLength:"64" doc:"Kinds of events such as offer.accepted, all kinds of a noun, such as right.*, or all kinds, *. x-event-kinds in this document lists them with the scopes of which the calling key needs one. Only its full name selects delivery.recorded, which is sent in batches." example:"[\"right.*\",\"offer.accepted\"]"`
	Description *string  `json:"description,omitempty" nullable:"true" maxLength:"256" doc:"What it is for. Kept in the audit log permanently: no place for personal data."`
}

type newWebhookInput struct{ Body NewWebhook }

func (s *Service) post(ctx context.Context, in *newWebhookInput) (CreatedWebhook, error) {
	caller := auth.PrincipalFrom(ctx)
	requested := Webhook{TenantID: caller.TenantID, URL: in.Body.URL, Events: in.Body.Events}
	if in.Body.Description != nil {
		requested.Description = *in.Body.Description
	}
	keys, err := s.verifyingKeys(ctx)
	if err != nil {
		return CreatedWebhook{}, err
	}
	made, err := s.create(ctx, requested, caller)
	return CreatedWebhook{made, made.Secret, keys}, err
}

func (s *Service) getAll(ctx context.Context, in *struct{ route.Page }) (WebhookList, error) {
	slice, err := in.Slice()
	if err != nil {
		return WebhookList{}, err
	}
	page, next, err := list(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, slice)
	return WebhookList{page, in.Next(next)}, err
}

type webhookInput struct {
	WebhookID string `path:"webhookId"`
}

func (s *Service) get(ctx context.Context, in *webhookInput) (WebhookData, error) {
	w, err := webhooks.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.WebhookID)
	if err != nil {
		return WebhookData{}, err
	}
	return WebhookData{*w}, nil
}

// WebhookChange is the body of a change.
type WebhookChange struct {
	URL         *string  `json:"url,omitempty" minLength:"1" maxLength:"2048" doc:"Another URL."`
	Events      []string `json:"events,omitempty" minItems:"1" maxItems:"50" maxLength:"64" doc:"New kinds of events."`
	Description *string  `json:"description,omitempty" maxLength:"256" doc:"New description."`
	State       *State   `json:"state,omitempty" enum:"ACTIVE,PAUSED,DISABLED" doc:"New state."`
}

type changeInput struct {
	WebhookID string `path:"webhookId"`
	Body      WebhookChange
}

func (s *Service) patch(ctx context.Context, in *changeInput) (WebhookData, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body
	w, err := s.change(ctx, caller.TenantID, in.WebhookID, caller, func(next *Webhook) {
		if requested.URL != nil {
			next.URL = *requested.URL
		}
		if requested.Events != nil {
			next.Events = requested.Events
		}
		if requested.Description != nil {
			next.Description = *requested.Description
		}
		if requested.State != nil {
			next.State = *requested.State
		}
	})
	return WebhookData{w}, err
}

func (s *Service) delete(ctx context.Context, in *webhookInput) (WebhookData, error) {
	caller := auth.PrincipalFrom(ctx)
	gone, err := s.remove(ctx, caller.TenantID, in.WebhookID, store.ByKey(caller.ID))
	return WebhookData{gone}, err
}

func (s *Service) postRotate(ctx context.Context, in *webhookInput) (RotatedWebhook, error) {
	caller := auth.PrincipalFrom(ctx)
	keys, err := s.verifyingKeys(ctx)
	if err != nil {
		return RotatedWebhook{}, err
	}
	w, err := s.rotate(ctx, caller.TenantID, in.WebhookID, caller)
	if err != nil {
		return RotatedWebhook{}, err
	}
	return RotatedWebhook{w, w.Secret, keys, w.Replaced[0].Until}, nil
}

// The responses about deliveries.
type (
	// DeliveryData is the response about one delivery.
	DeliveryData struct {
		Delivery Delivery `json:"delivery"`
	}
	// DeliveryList is one page of deliveries.
	DeliveryList struct {
		Deliveries []Delivery `json:"deliveries" doc:"The deliveries of this page."`
		NextCursor *string    `json:"nextCursor"`
	}
	// RecoveryData is the response to a recovery.
	RecoveryData struct {
		Recovery Recovery `json:"recovery"`
	}
)

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (Delivery) SchemaName() string     { return "WebhookDelivery" }
func (Attempt) SchemaName() string      { return "WebhookAttempt" }
func (DeliveryData) SchemaName() string { return "WebhookDeliveryData" }
func (DeliveryList) SchemaName() string { return "WebhookDeliveryList" }
func (Recovery) SchemaName() string     { return "WebhookRecovery" }
func (RecoveryData) SchemaName() string { return "WebhookRecoveryData" }
func (NewRecovery) SchemaName() string  { return "NewWebhookRecovery" }

func (s *Service) postTest(ctx context.Context, in *webhookInput) (DeliveryData, error) {
	caller := auth.PrincipalFrom(ctx)
	d, err := s.test(ctx, caller.TenantID, in.WebhookID, store.ByKey(caller.ID))
	return DeliveryData{d}, err
}

// NewRecovery is the body of a request for a recovery.
type NewRecovery struct {
	Since  route.Time  `json:"since" doc:"Only events at this time or later."`
	Until  *route.Time `json:"until,omitempty" nullable:"true" doc:"Exclusive; absent: until now."`
	DryRun *bool       `json:"dryRun,omitempty" nullable:"true" doc:"Count only."`
}

type recoverInput struct {
	WebhookID string `path:"webhookId"`
	Body      NewRecovery
}

func (s *Service) postRecover(ctx context.Context, in *recoverInput) (body RecoveryData, err error) {
	caller := auth.PrincipalFrom(ctx)
	span := recoveryPeriod{WebhookID: in.WebhookID}
	if span.Since, err = route.Given("since", &in.Body.Since); err != nil {
		return body, err
	}
	if span.Until, err = route.Given("until", in.Body.Until); err != nil {
		return body, err
	}
	if !span.Until.IsZero() && !span.Since.Before(span.Until.Time) {
		return body, api.InvalidField("until", "must be after since")
	}
	body.Recovery, err = s.recover(ctx, caller.TenantID, span, in.Body.DryRun != nil && *in.Body.DryRun, caller)
	return body, err
}

type deliveriesInput struct {
	route.Page
	WebhookID string `path:"webhookId"`
	State     string `query:"state" enum:"PENDING,DELIVERED,FAILED" doc:"Only deliveries in this state."`
}

func (s *Service) getDeliveries(ctx context.Context, in *deliveriesInput) (body DeliveryList, err error) {
	slice, err := in.Slice()
	if err != nil {
		return body, err
	}
	if _, err := webhooks.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.WebhookID); err != nil {
		return body, err
	}
	page, next, err := listDeliveries(ctx, s.db.Read(), in.WebhookID, in.State, slice)
	return DeliveryList{page, in.Next(next)}, err
}

func (s *Service) postResend(ctx context.Context, in *struct {
	WebhookID  string `path:"webhookId"`
	DeliveryID string `path:"deliveryId"`
}) (DeliveryData, error) {
	caller := auth.PrincipalFrom(ctx)
	d, err := s.resend(ctx, caller.TenantID, in.WebhookID, in.DeliveryID, caller)
	return DeliveryData{d}, err
}

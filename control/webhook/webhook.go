// Package webhook sends events to other systems: a webhook is a URL to which a tenant's events are
// sent, signed, until its receiver accepts them.
//
// # Subscriptions
//
// A webhook names kinds of events, such as "right.revoked", all kinds of a noun, such as "right.*",
// or all kinds, "*". While it is ACTIVE, events are queued and sent; while it is PAUSED, they are queued
// only; while it is DISABLED, neither. The URL is https, or http to this
// machine if the operator allows that, without user info and fragment. Whether a
// connection is allowed is decided by the resolved address (Egress), so changing a DNS name gains
// nothing. Of attempts that lead to what only an operator allows, such as private addresses, tenants
// see status and time alone, and nothing more is kept.
//
// A secret is whsec_ and the base64 of 32 random bytes, and is shown once. A secret that was replaced
// signs too, for a day after that, however often secrets are rotated meanwhile. The database has secrets in plain text, because HMAC needs
// them: a reader of the database can forge v1 signatures, but not v1a. No event and no log has them.
//
// URL and description are in audit events, which are never erased.
//
// # Scopes
//
// A kind of event goes only to whom the scopes of an API key admit to it (store.Kind.Allows): the
// key needs audit:read, or the scope that reads the noun. This is checked of the calling key when it
// creates a webhook, sets its URL or kinds, sets it to ACTIVE, recovers, or sends a delivery again.
// It is checked once more before each attempt, of the key that the webhook remembers: the one that
// last set its URL or kinds. A delivery to which that key has no scope becomes FAILED: it waits from
// before the URL or the kinds were set. In rotations the successor takes the key's place. If the key
// is revoked, or has expired, and no successor is in force, the webhook becomes PAUSED with the
// reason KEY_REVOKED: with the revocation, or before the next attempt. Its events wait until a key
// with the scopes sets it to ACTIVE, which it then remembers instead.
//
// # Deliveries
//
// One control process reads the log, with a cursor for each partition (QueueJob). It writes new
// deliveries and the cursor in one transaction, so no event is missed if a process is killed or
// unavailable. As clocks differ, a webhook may get events of up to a minute before its creation. Each
// event of a webhook is a delivery (Delivery). Receipts are sent in batches of up to 500, to webhooks
// that name delivery.recorded. A delivery stores the positions of its events, not the events: each
// attempt reads them from the log, or later from the warehouse, without their private parts. The body
// is {type, timestamp, tenantId, webhookId, data}; data has event, or for a batch events, byte for
// byte as they were sealed. One v1a key signs for all webhooks, so a receiver has to compare
// webhookId with its own.
//
// Every process makes attempts (Run). An attempt is claimed for 30 seconds; if its process dies, the
// delivery is sent again under the same id. So each event is sent at least once, roughly in the order
// of the log: receivers that need the order compare times or revisions. A webhook has one attempt at
// a time, or up to 16 while its receiver succeeds. Receivers of one tenant don't delay other tenants,
// because the limits leave most slots free (workers).
//
// A 2xx response accepts a delivery. After any other result, including a redirect, it is retried: 8
// attempts within 28 hours, later if Retry-After says so; then it is FAILED. A webhook becomes
// DISABLED, with the event webhook.disabled, if its receiver responds 410, if a delivery becomes
// FAILED and all attempts have failed for 5 days, or if more than 100,000 deliveries wait. Once it is
// ACTIVE again, it may work off what waited then, unless still more is queued. FAILED and never
// queued events can be recovered on request (RecoverJob), up to the 100,000 that may wait.
//
// # Budgets
//
// Nobody can have the service flood a third party. A host agrees to get messages by an echo: each
// attempt has a challenge, a header with random bytes, which the host agrees to by the same header in
// a response, for 30 days. Hosts that an operator allows have agreed. The hosts of a registered
// domain that have not agreed get 60 messages and 1 MiB an hour, from all tenants and processes
// together. To any other host a tenant sends 1 GiB an hour, however many webhooks, retries and
// requests to send again lead there. A message beyond that is not lost: its webhook waits until there is
// enough, and its record says why. A delivery that has waited for 28 hours is FAILED.
package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Webhook is the record of a webhook.
type Webhook struct {
	ID           string        `json:"id" db:"webhook_id"`
	TenantID     string        `json:"-" db:"tenant_id"`
	URL          string        `json:"url" db:"url,moves" doc:"Where events are sent."`
	Events       []string      `json:"events" db:"events,moves" doc:"The kinds of events that are sent."`
	Description  string        `json:"description" db:"description,moves" doc:"What it is for."`
	KeyID        string        `json:"keyId" db:"key_id,moves" doc:"The key, or the member, under whom events are sent: the one that last set url or events, or that resumed the webhook after the end of that key or a change of that member. A key's successors in rotations take its place."`
	State        State         `json:"state" db:"state,moves" enum:"ACTIVE,PAUSED,DISABLED" doc:"While it is PAUSED, events wait; while it is DISABLED, none are queued."`
	StateReason  *string       `json:"stateReason" db:"state_reason,moves" doc:"Why the service paused or disabled it; null if it did not."`
	Secret       string        `json:"-" db:"secret,moves"`
	Replaced     []oldSecret   `json:"-" db:"replaced_secrets,moves"` // newest first
	Backlog      int64         `json:"-" db:"backlog,moves"`          // what waited when it was last enabled
	FailingSince store.Instant `json:"failingSince" db:"failing_since" nullable:"true" doc:"The first failure since the last successful attempt; null while attempts succeed."`
	WaitsUntil   store.Instant `json:"waitsUntil" db:"waits_until" nullable:"true" doc:"Until when its messages wait, because the limit that waitReason names is reached; null if they don't."`
	WaitReason   *string       `json:"waitReason" db:"wait_reason" doc:"The limit for which its messages wait, and what ends it; null if they don't."`
	CreatedAt    store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt    store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision     int64         `json:"revision" db:"revision,moves"`
}

// State is the state of a webhook.
type State string

// The states.
const (
	Active   State = "ACTIVE"
	Paused   State = "PAUSED"
	Disabled State = "DISABLED"
)

const (
	// maxWebhooks bounds the webhooks of a tenant: an event may be sent to all of them.
	maxWebhooks = 100
	// maxURL, maxDescription and maxEventType bound texts in bytes, maxEvents a list.
	maxURL, maxDescription, maxEventType, maxEvents = 2048, 256, 64, 50
	// overlap is how long a replaced secret signs, and maxReplaced how many may at a time.
	overlap, maxReplaced = 24 * time.Hour, 5
	// secretPrefix and secretBytes are the form of a secret.
	secretPrefix, secretBytes = "whsec_", 32
)

// check returns VALIDATION_FAILED if a field that a caller may set is invalid. The schema refuses an
// empty URL; here it stands for one that is not set.
func (w *Webhook) check(cfg *Config) error {
	var faults []api.ValidationError
	if why := cfg.Egress.refuses(w.URL); w.URL != "" && why != "" {
		faults = append(faults, api.ValidationError{Field: "url", Message: why})
	}
	for i, f := range w.Events {
		if len(chosen(cfg.Kinds, f)) == 0 {
			faults = append(faults, route.UnknownKind(fmt.Sprintf("events[%d]", i), f, Filters(cfg.Kinds)))
		}
	}
	if len(w.Description) > maxDescription || !store.Storable(w.Description) {
		faults = append(faults, api.ValidationError{Field: "description", Message: fmt.Sprintf("must be UTF-8 without U+0000, at most %d bytes", maxDescription)})
	}
	if len(faults) > 0 {
		return api.Invalid(faults...)
	}
	return nil
}

// Wants reports whether events of a type are sent to the webhook.
func (w *Webhook) Wants(eventType string) bool {
	return slices.ContainsFunc(w.Events, func(f string) bool { return f == eventType || eventType != TypeDelivery && covers(f, eventType) })
}

func newSecret() string {
	var random [secretBytes]byte
	rand.Read(random[:]) // never fails: crypto/rand crashes the process instead
	return secretPrefix + base64.StdEncoding.EncodeToString(random[:])
}

// oldSecret is a secret that was replaced. It signs before Until.
type oldSecret struct {
	Secret string        `json:"secret"`
	Until  store.Instant `json:"until"`
}

// rotate replaces the signing secret with a new one. STATE_CONFLICT: too many replaced ones still sign.
func (w *Webhook) rotate(now time.Time) error {
	signing := slices.DeleteFunc(slices.Clone(w.Replaced), func(o oldSecret) bool { return !now.Before(o.Until.Time) })
	if len(signing) >= maxReplaced {
		return api.Conflict(fmt.Sprintf("%d earlier secrets still sign: the next rotation is possible at %s", maxReplaced, signing[len(signing)-1].Until))
	}
	w.Replaced = slices.Insert(signing, 0, oldSecret{w.Secret, store.At(now.Add(overlap))})
	w.Secret = newSecret()
	return nil
}

// secrets returns the secrets that sign at a moment, newest first.
func (w *Webhook) secrets(now time.Time) []string {
	all := []string{w.Secret}
	for _, o := range w.Replaced {
		if now.Before(o.Until.Time) {
			all = append(all, o.Secret)
		}
	}
	return all
}

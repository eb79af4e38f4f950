// Package webhook sends events to other systems: a webhook is a URL to which a tenant's events are
// sent, signed, until its receiver accepts them.
//
// # Subscriptions
//
// A webhook names types of events, "right.revoked" or all of a noun, "right.*". It is ACTIVE,
// PAUSED, while events queue up and wait, or DISABLED: then none are queued. The URL is https,
// without user info and fragment. Where it may lead is decided when it is dialled, by the
// address itself (Egress): a name that leads elsewhere later gains nothing.
//
// A secret is whsec_ and the base64 of 32 random bytes, and is shown once. After a rotation
// the one before signs beside it for a day. Secrets are in the database in plain text,
// because HMAC needs them whole: a reader of the database can forge signatures of the kind v1,
// but not of v1a. They are in no event and in no log.
//
// URL and description stand in the audit log for good.
//
// # Deliveries
//
// One control process looks through the log, behind a cursor of each partition (QueueJob): what
// it finds for webhooks and its position are written in one transaction, so no event is missed,
// whichever process is killed or unavailable. A webhook may be sent events of up to a minute before it was made, as clocks
// differ. Each event of a webhook is a delivery (Delivery). Receipts come in batches of up to
// 500, to webhooks that name delivery.recorded. A delivery holds where its events stand, and
// not the events: they are read from the log, and later from the warehouse, for each attempt,
// without their private parts. The body is {type, timestamp, tenantId, webhookId, data}; data
// has event, or of a batch events, byte for byte as they were sealed. All webhooks are signed by
// one key for v1a, so a receiver has to compare webhookId with its own.
//
// Every process makes attempts (Run). One is claimed for 30 seconds; when its process dies the
// same is sent again under the same id. So each event is sent at least once, in about the order
// in which it happened: receivers that mind compare times or revisions. A webhook has one attempt
// at hand, and up to 16 while its own receiver answers; one that fails has one at a time. What
// receivers of one tenant do keeps no other tenant waiting, as each leaves most places free.
//
// 2xx takes a delivery. Anything else, a redirect too, is tried again, 8 times within 28 hours,
// later if Retry-After says so, and then FAILED. A receiver that answers 410, or that has
// taken nothing for 5 days although it was tried, or for which more than 100,000 deliveries
// wait, has its webhook DISABLED, with the event webhook.disabled. What was FAILED or
// never queued is recovered on request (RecoverJob).
package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
)

// Webhook is the record of a webhook.
type Webhook struct {
	ID             string        `json:"id" db:"webhook_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	URL            string        `json:"url" db:"url,moves" doc:"Where events are sent."`
	Events         []string      `json:"events" db:"events,moves" doc:"The types of events that are sent."`
	Description    string        `json:"description" db:"description,moves" doc:"What it is for."`
	State          State         `json:"state" db:"state,moves" enum:"ACTIVE,PAUSED,DISABLED" doc:"While it is PAUSED events wait; while it is DISABLED none are queued."`
	StateReason    *string       `json:"stateReason" db:"state_reason,moves" doc:"Why the service has disabled it; null if it has not."`
	Secret         string        `json:"-" db:"secret,moves"`
	PreviousSecret string        `json:"-" db:"previous_secret,moves"`
	PreviousUntil  store.Instant `json:"-" db:"previous_until,moves"`
	FailingSince   store.Instant `json:"failingSince" db:"failing_since" nullable:"true" doc:"When attempts began to fail, since the last that did not; null while they don't."`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`
}

// State is the state of a webhook.
type State string

// The states.
const (
	Active   State = "ACTIVE"
	Paused   State = "PAUSED"
	Disabled State = "DISABLED"
)

// Types of a webhook's own events.
const (
	eventCreated   = "webhook.created"
	eventChanged   = "webhook.changed"
	eventDeleted   = "webhook.deleted"
	eventRotated   = "webhook.secret_rotated"
	eventDisabled  = "webhook.disabled"
	eventTested    = "webhook.tested"
	eventRecovered = "webhook.recovered"
	eventResent    = "webhook.resent"
)

const (
	// maxWebhooks bounds the webhooks of a tenant: an event may be sent to all of them.
	maxWebhooks = 100
	// maxURL, maxDescription and maxEventType bound texts in bytes, maxEvents a list.
	maxURL, maxDescription, maxEventType, maxEvents = 2048, 256, 64, 50
	// overlap is how long the secret before a rotation signs on.
	overlap = 24 * time.Hour
	// secretPrefix and secretBytes are the form of a secret.
	secretPrefix, secretBytes = "whsec_", 32
)

// check says what is wrong with what a caller may choose.
func (w *Webhook) check(egress *Egress) error {
	var faults []api.ValidationError
	if why := egress.refuses(w.URL); why != "" {
		faults = append(faults, api.ValidationError{Field: "url", Message: why})
	}
	if len(w.Description) > maxDescription || !store.Storable(w.Description) {
		faults = append(faults, api.ValidationError{Field: "description", Message: fmt.Sprintf("must be UTF-8 without U+0000, of at most %d bytes", maxDescription)})
	}
	if len(faults) > 0 {
		return api.Invalid(faults...)
	}
	return nil
}

// distinct sorts the filters and leaves out what another one says as well.
func distinct(filters []string) []string {
	filters = slices.Compact(slices.Sorted(slices.Values(filters)))
	return slices.DeleteFunc(filters, func(f string) bool {
		noun, _, _ := strings.Cut(f, ".")
		return f != TypeDelivery && !strings.HasSuffix(f, ".*") && slices.Contains(filters, noun+".*")
	})
}

// TypeDelivery is the one type that has to be named: "delivery.*" leaves it out, as there are
// millions.
const TypeDelivery = "delivery.recorded"

// Wants says whether events of a type are sent to it.
func (w *Webhook) Wants(kind string) bool {
	noun, _, _ := strings.Cut(kind, ".")
	return slices.Contains(w.Events, kind) || kind != TypeDelivery && slices.Contains(w.Events, noun+".*")
}

func newSecret() string {
	var random [secretBytes]byte
	rand.Read(random[:]) // never fails: crypto/rand crashes the process instead
	return secretPrefix + base64.StdEncoding.EncodeToString(random[:])
}

// rotate puts a new secret in the place of the one that signs.
func (w *Webhook) rotate(now time.Time) {
	w.PreviousSecret, w.PreviousUntil = w.Secret, store.At(now.Add(overlap))
	w.Secret = newSecret()
}

// secrets are those that sign at a moment, the newest first.
func (w *Webhook) secrets(now time.Time) []string {
	if w.PreviousSecret != "" && now.Before(w.PreviousUntil.Time) {
		return []string{w.Secret, w.PreviousSecret}
	}
	return []string{w.Secret}
}

package webhook

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// Delivery is the record of what is sent to one webhook: an event, or a batch of them.
type Delivery struct {
	ID            string        `json:"id" doc:"The value of the header webhook-id of each attempt."`
	WebhookID     string        `json:"webhookId" doc:"The webhook's id."`
	EventID       string        `json:"eventId" doc:"The event that is sent; for a batch, the first one."`
	EventType     string        `json:"eventType" doc:"The type of the event, or of all events in the batch."`
	EventAt       store.Instant `json:"eventAt" doc:"The event's time; for a batch, the time of the first event."`
	EventCount    int           `json:"eventCount" doc:"How many events are sent."`
	State         DeliveryState `json:"state" enum:"PENDING,DELIVERED,FAILED" doc:"FAILED after the last attempt."`
	Attempts      []Attempt     `json:"attempts" doc:"The last 20 attempts, oldest first."`
	NextAttemptAt store.Instant `json:"nextAttemptAt" nullable:"true" doc:"When the next attempt is due; null if there is none, or while the event is not in the log yet."`
	CreatedAt     store.Instant `json:"createdAt"`
	UpdatedAt     store.Instant `json:"updatedAt"`

	tenantID    string
	logged      bool
	first, last sealer.Position // once it is logged
	tries       int
	claim       int64
}

// Attempt is the record of one attempt.
type Attempt struct {
	At          store.Instant `json:"at" doc:"When it began."`
	Status      *int          `json:"status" doc:"The status of the receiver's response; null if there was none."`
	DurationMs  int64         `json:"durationMs" doc:"How long it took, in milliseconds."`
	Error       *string       `json:"error" doc:"Why there was no response; null if there was one. Without details, if it leads to what only --webhook-allow admits."`
	BodyExcerpt *string       `json:"bodyExcerpt" doc:"The beginning of the response's body, at most 1 KiB; null if there was none, or if it came from what only --webhook-allow admits."`
}

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states.
const (
	Pending   DeliveryState = "PENDING"
	Delivered DeliveryState = "DELIVERED"
	Failed    DeliveryState = "FAILED"
)

// delays are between the attempts of a delivery: 8 attempts within 27 hours and 35 minutes.
var delays = [...]time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour}

const (
	// longestDelay bounds a receiver's Retry-After.
	longestDelay = 10 * time.Hour
	// keepAttempts is how many attempts of a delivery are kept, and maxExcerpt how many bytes of each
	// response.
	keepAttempts, maxExcerpt = 20, 1024
	// failFor is how long attempts must fail until the webhook is disabled.
	failFor = 5 * 24 * time.Hour
	// keepDelivered and keepOthers are how long deliveries are kept after their last change.
	keepDelivered, keepOthers = 7 * 24 * time.Hour, 30 * 24 * time.Hour
)

// outcome is the result of an attempt.
type outcome struct {
	attempt    Attempt
	retryAfter time.Duration // the receiver's Retry-After
	private    atomic.Bool   // it leads where only the operator allows webhooks to lead
	agreed     bool          // the host has echoed the challenge, or the operator allows it
	held       *hold         // why there was no attempt; nil if there was
	lost       bool          // neither log nor warehouse has the event any more, or the webhook's key may not get it
}

// taken reports whether the receiver accepted the delivery.
func (o *outcome) taken() bool {
	return o.attempt.Status != nil && *o.attempt.Status >= 200 && *o.attempt.Status < 300
}

// gone reports whether the receiver wants no more deliveries.
func (o *outcome) gone() bool { return o.attempt.Status != nil && *o.attempt.Status == 410 }

// after returns the delivery with the outcome of an attempt.
func (d Delivery) after(o *outcome, now time.Time) Delivery {
	d.Attempts = append(d.Attempts[max(0, len(d.Attempts)+1-keepAttempts):], o.attempt)
	d.tries++
	d.UpdatedAt, d.NextAttemptAt = store.At(now), store.Instant{}
	switch {
	case o.taken():
		d.State = Delivered
	case d.tries > len(delays) || o.lost:
		d.State = Failed
	default:
		d.NextAttemptAt = store.At(now.Add(max(jittered(delays[d.tries-1]), later(min(o.retryAfter, longestDelay)))))
	}
	return d
}

// waiting returns the delivery after a hold: it goes on waiting, unless it has waited for too long.
func (d Delivery) waiting(h *hold, now time.Time) Delivery {
	if now.Sub(d.UpdatedAt.Time) < longestWait {
		d.NextAttemptAt = store.At(h.until)
		return d
	}
	return d.after(&outcome{attempt: Attempt{At: store.At(now), Error: &h.reason}, lost: true}, now)
}

// jittered varies d by up to a tenth, so that deliveries that failed together are not retried
// together.
func jittered(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5) }

// later is a time that a receiver asks for, and up to a tenth more: it asks all deliveries that it refuses for the
// same.
func later(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

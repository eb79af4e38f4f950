package webhook

import (
	"math/rand/v2"
	"time"

	"muniment/control/store"
	"muniment/sealer"
)

// Delivery is the record of what is sent to one webhook: an event, or a batch of them.
type Delivery struct {
	ID            string        `json:"id" doc:"The header webhook-id of each attempt."`
	WebhookID     string        `json:"webhookId" doc:"The webhook's id."`
	EventID       string        `json:"eventId" doc:"The event that is sent; of a batch the first."`
	EventType     string        `json:"eventType" doc:"The type of the event, or of all in the batch."`
	EventAt       store.Instant `json:"eventAt" doc:"The event's time; of a batch that of the first."`
	EventCount    int           `json:"eventCount" doc:"How many events are sent."`
	State         DeliveryState `json:"state" enum:"PENDING,DELIVERED,FAILED" doc:"FAILED once no attempt is left."`
	Attempts      []Attempt     `json:"attempts" doc:"The attempts, the oldest first; of many the last 20."`
	NextAttemptAt store.Instant `json:"nextAttemptAt" nullable:"true" doc:"When the next attempt is due; null if there is none, or while the event is on its way into the log."`
	CreatedAt     store.Instant `json:"createdAt"`
	UpdatedAt     store.Instant `json:"updatedAt"`

	tenantID    string
	logged      bool
	first, last sealer.Position // once it is logged
	tries       int
	claim       int64
}

// Attempt is how one attempt went.
type Attempt struct {
	At          store.Instant `json:"at" doc:"When it began."`
	Status      *int          `json:"status" doc:"The status that the receiver answered with; null if it did not."`
	DurationMs  int64         `json:"durationMs" doc:"How long it took, in milliseconds."`
	Error       *string       `json:"error" doc:"Why there was no answer; null if there was one."`
	BodyExcerpt *string       `json:"bodyExcerpt" doc:"What the receiver's answer began with, at most 1 KiB; null if there was none."`
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
	// keepAttempts is how many attempts of a delivery are kept, and maxExcerpt how many bytes
	// of each answer.
	keepAttempts, maxExcerpt = 20, 1024
	// failFor is after how long without a success a webhook is disabled.
	failFor = 5 * 24 * time.Hour
	// keepDelivered and keepOthers are how long deliveries are kept after their last change.
	keepDelivered, keepOthers = 7 * 24 * time.Hour, 30 * 24 * time.Hour
)

// outcome is how an attempt ended.
type outcome struct {
	attempt    Attempt
	retryAfter time.Duration // the receiver's Retry-After
	lost       bool          // neither log nor warehouse has the event any more
}

// taken says whether the receiver accepted it.
func (o *outcome) taken() bool {
	return o.attempt.Status != nil && *o.attempt.Status >= 200 && *o.attempt.Status < 300
}

// gone says whether the receiver wants no more.
func (o *outcome) gone() bool { return o.attempt.Status != nil && *o.attempt.Status == 410 }

// after is the delivery as an attempt leaves it.
func (d Delivery) after(o outcome, now time.Time) Delivery {
	d.Attempts = append(d.Attempts[max(0, len(d.Attempts)+1-keepAttempts):], o.attempt)
	d.tries++
	d.UpdatedAt, d.NextAttemptAt = store.At(now), store.Instant{}
	switch {
	case o.taken():
		d.State = Delivered
	case d.tries > len(delays) || o.lost:
		d.State = Failed
	default:
		d.NextAttemptAt = store.At(now.Add(max(jittered(delays[d.tries-1]), min(o.retryAfter, longestDelay))))
	}
	return d
}

// jittered is up to a tenth more or less, so that what failed together is not tried together.
func jittered(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5) }

package api

import "time"

// Refusals of a request for its Idempotency-Key. They are shared: copy before changing
// (From does).
var (
	// ErrIdempotencyKey refuses a header that holds no key, or several.
	ErrIdempotencyKey = &Error{Code: BadRequest, Message: "the header Idempotency-Key must be 1 to 255 visible ASCII characters"}
	// ErrKeyReused refuses a request that differs from the first one with the key.
	ErrKeyReused = Conflict("this Idempotency-Key was used with another body")
	// ErrKeyBusy refuses a request while an earlier one with the key is being answered.
	ErrKeyBusy = &Error{
		Code: StateConflict, Message: "an earlier request with this Idempotency-Key is still being answered", RetryAfter: time.Second,
	}
)

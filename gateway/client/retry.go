package client

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// RetryPolicy says how often and when a request is made again. It is, if
//
//   - no answer came, or it broke off;
//   - the status is 408, 425, 429 or from 500 on;
//   - the status is 409 with Retry-After: an earlier attempt with the same Idempotency-Key is
//     still being answered.
//
// The pause is random, up to a bound that doubles with each attempt, and at least half of that;
// where the service says Retry-After, it is that and a little more. A call ends with its context.
type RetryPolicy struct {
	// Attempts of a call, the first included. Default 5; 1 tries nothing again.
	Attempts int
	// FirstDelay is the bound of the first pause. Default 500 ms.
	FirstDelay time.Duration
	// MaxDelay is the bound of all pauses. Default 30 s.
	MaxDelay time.Duration
	// MaxRetryAfter is the longest Retry-After that a call waits for: one that is asked to wait
	// longer ends with the answer. Default 2 minutes.
	MaxRetryAfter time.Duration
}

func (p *RetryPolicy) validate() error {
	if p.Attempts < 0 || p.FirstDelay < 0 || p.MaxDelay < 0 || p.MaxRetryAfter < 0 {
		return errors.New("a field of Retry is negative")
	}
	return nil
}

func (p *RetryPolicy) filled() RetryPolicy {
	return RetryPolicy{
		Attempts: cmp.Or(p.Attempts, 5), FirstDelay: cmp.Or(p.FirstDelay, 500*time.Millisecond),
		MaxDelay: cmp.Or(p.MaxDelay, 30*time.Second), MaxRetryAfter: cmp.Or(p.MaxRetryAfter, 2*time.Minute),
	}
}

// delay is the pause after attempt, counted from 0, if the service asks for one of after.
func (p *RetryPolicy) delay(attempt int, after time.Duration) time.Duration {
	bound := p.MaxDelay
	if attempt < 30 && p.FirstDelay <= p.MaxDelay>>attempt {
		bound = p.FirstDelay << attempt
	}
	half := max(bound/2, 1)
	jitter := rand.N(half) + 1
	if after > 0 {
		return after + min(jitter, after/4+time.Millisecond)
	}
	return half + jitter
}

// wait returns false if the context ends first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// again runs attempts until one succeeds or none may follow.
func (c *caller) again(ctx context.Context, attempt func() error) error {
	for n := 0; ; n++ {
		err := attempt()
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.passing() || ctx.Err() != nil || n+1 >= c.retry.Attempts || e.RetryAfter > c.retry.MaxRetryAfter {
			return err
		}
		d := c.retry.delay(n, e.RetryAfter)
		if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
			return err // says more than that the time is over
		}
		if !wait(ctx, d) {
			return err
		}
	}
}

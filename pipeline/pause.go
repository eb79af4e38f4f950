package pipeline

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pause waits for d, and returns ctx's error if that is done before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Jittered is d and up to half as long again, so that processes that an engine failed together don't come back
// together.
func Jittered(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

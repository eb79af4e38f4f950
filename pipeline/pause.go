package pipeline

import (
	"context"
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

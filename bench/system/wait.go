package system

import (
	"context"
	"time"

	"muniment.example/pipeline"
)

// Until calls done until it returns true or an error, or ctx ends: at first every few milliseconds, and
// later every 100.
func Until(ctx context.Context, done func() (bool, error)) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if yes, err := done(); yes || err != nil {
			return err
		}
		if err := pipeline.Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// Every calls f at once and then after each pause, until ctx is done.
func Every(ctx context.Context, pause time.Duration, f func() error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if err := f(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

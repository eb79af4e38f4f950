package control

import (
	"context"
	"time"
)

// Job is what a room does by itself, again and again, as long as Run runs. Any number of
// processes may do it at once.
type Job struct {
	// Name says in the log what fails.
	Name string
	// Every is the time between two beginnings; more than 0.
	Every time.Duration
	// Do does what there is to do by now, and returns soon once its context is done.
	Do func(context.Context) error
}

// repeat does a job until ctx is done. While it fails it is tried again, and told once.
func (c *Control) repeat(ctx context.Context, j Job) error {
	ticker := time.NewTicker(j.Every)
	defer ticker.Stop()
	for failing := false; ; {
		err := j.Do(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			c.cfg.Logger.Error("a job failed; it is tried again", "job", j.Name, "err", err)
		case err == nil && failing:
			c.cfg.Logger.Info("a job works again", "job", j.Name)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

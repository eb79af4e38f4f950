package control

import (
	"context"
	"time"
)

// Sweep is periodic work of a service: it does what there is to do by now. Any number of processes
// do it at once, so each of its changes has to look again whether there is something to do. What
// has to be done once, and finished, is a job.
type Sweep struct {
	// Name says in the log what fails.
	Name string
	// Every is the time between two beginnings; more than 0.
	Every time.Duration
	// Do does what there is to do by now, and returns soon once its context is done.
	Do func(context.Context) error
}

// repeat runs a sweep until ctx is done. A failure is logged once and retried.
func (c *Control) repeat(ctx context.Context, s Sweep) error {
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for failing := false; ; {
		err := s.Do(ctx)
		if ctx.Err() != nil {
			return nil
		}
		failing = c.logFailing(failing, err, "sweep", s.Name)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// logFailing logs that something begins to fail, or works again.
func (c *Control) logFailing(failing bool, err error, what, name string) bool {
	switch {
	case err != nil && !failing:
		c.cfg.Logger.Error("a "+what+" failed, retrying", what, name, "err", err)
	case err == nil && failing:
		c.cfg.Logger.Info("a "+what+" works again", what, name)
	}
	return err != nil
}

package process

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// retryPause is between two tries to reach an engine.
	retryPause = 250 * time.Millisecond
	// checkPause is between two checks inside the process.
	checkPause = 5 * time.Millisecond
)

// Awaited is a check for /readyz: what a process waits for before it serves.
type Awaited struct{ reason atomic.Pointer[error] }

// NewAwaited is a check that fails by first, until something else is missing.
func NewAwaited(first error) *Awaited {
	a := new(Awaited)
	a.reason.Store(&first)
	return a
}

// Ready returns what is missing, as of the last try.
func (a *Awaited) Ready(context.Context) error { return *a.reason.Load() }

// Note keeps what is missing.
func (a *Awaited) Note(what string, err error) {
	err = fmt.Errorf("waiting for %s: %w", what, err)
	a.reason.Store(&err)
}

// Retry calls do again as long as its error is temporary: the engine can't be reached. It logs
// the first of these errors, and keeps the last for /readyz.
func (a *Awaited) Retry(ctx context.Context, logger *slog.Logger, engine string, temporary func(error) bool, do func() error) error {
	tick := time.NewTicker(retryPause)
	defer tick.Stop()
	for logged := false; ; logged = true {
		err := do()
		if err == nil || !temporary(err) {
			return err
		}
		a.Note(engine, err)
		if !logged {
			logger.Info("waiting for an engine", "engine", engine, "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Until waits until check passes, and keeps its last error for /readyz.
func (a *Awaited) Until(ctx context.Context, what string, check func() error) error {
	tick := time.NewTicker(checkPause)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		a.Note(what, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

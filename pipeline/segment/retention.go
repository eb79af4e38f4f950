package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muniment.example/sealer"
)

// LeastKeep is the least that a Retention keeps: responses to idempotent retries are
// rendered from the log for 24 hours, and clocks may differ by less than one more.
const LeastKeep = 25 * time.Hour

// Retention removes the oldest segments of a log, once all their records are loaded and
// older than Keep. It ends a segment after a 24th of that, so that no loaded record stays
// for longer than Kept. What is not loaded stays however old it is: if the warehouse is
// away the disk fills up, and no record is lost.
type Retention struct {
	Log *Log
	// Keep is how long a record is kept after it was written; at least LeastKeep.
	Keep time.Duration
	// Loaded is the position up to which all records are durable in the warehouse;
	// ok is false while there is none. After an error it is called again.
	Loaded func(ctx context.Context) (next sealer.Position, ok bool, err error)
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger logs what was removed, and failures; default none.
	Logger *slog.Logger
}

// Kept is how long a record stays at most, up to a minute more, in a log whose Retention keeps
// records for so long.
func Kept(keep time.Duration) time.Duration { return keep + keep/24 }

// Run removes what may go, at once and then again and again, until ctx is done.
// It fails only for a wrong field.
func (r Retention) Run(ctx context.Context) error {
	switch {
	case r.Log == nil || r.Loaded == nil:
		return errors.New("cannot retain the log: Log or Loaded is missing")
	case r.Keep < LeastKeep:
		return fmt.Errorf("cannot retain the log: Keep %v is below %v", r.Keep, LeastKeep)
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		removed, err := r.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			r.Logger.Error("cannot remove old segments", "err", err)
		case removed > 0:
			first, _, _ := r.Log.Bounds(ctx, 0)
			r.Logger.Info("removed old segments of the log", "segments", removed, "first", first.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *Retention) once(ctx context.Context) (removed int, err error) {
	next, ok, err := r.Loaded(ctx)
	if err != nil || !ok {
		return 0, err
	}
	r.Log.EndBefore(r.Now().Add(-r.Keep / 24))
	return r.Log.Retain(next, r.Now().Add(-r.Keep))
}

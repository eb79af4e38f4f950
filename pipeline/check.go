package pipeline

import (
	"context"
	"log/slog"
)

// Check returns the error with which Run would end at once, so that a process can refuse to
// start before it serves anything: ErrGap names what the log no longer holds for this
// warehouse, ErrLogBehind means that the warehouse is of another log. A warehouse that is
// merely behind is no error.
func (l *Loader) Check(ctx context.Context) error {
	quiet := Loader{cfg: l.cfg, log: slog.New(slog.DiscardHandler)}
	_, _, err := quiet.start(ctx)
	return err
}

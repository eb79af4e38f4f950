package pipeline

import (
	"context"
	"log/slog"
)

// Check returns the error for which Run would end at once, so that a start can be
// refused before anything is served: ErrGap names what the log no longer holds for
// this warehouse, ErrLogBehind says that the warehouse is of another log. A
// warehouse that is merely behind is none.
func (l *Loader) Check(ctx context.Context) error {
	quiet := Loader{cfg: l.cfg, log: slog.New(slog.DiscardHandler)}
	_, _, err := quiet.start(ctx)
	return err
}

package system

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// UntilInterrupted is for commands that start servers and remove their folders. Its context ends
// with SIGINT and SIGTERM, and when a write to out fails, as in muniment demo | head.
// out is standard output.
func UntilInterrupted() (ctx context.Context, out io.Writer, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, unread := context.WithCancelCause(ctx)
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe fails instead
	return ctx, &watchedOut{os.Stdout, unread}, stop
}

// watchedOut ends a context when a write fails.
type watchedOut struct {
	io.Writer
	failed context.CancelCauseFunc
}

func (w *watchedOut) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		w.failed(err)
	}
	return n, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
)

// newLogger writes to standard error; a server's first line names its addresses.
func newLogger(form string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if form == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// doubleProcs gives Go twice as many Ps as there are processors, unless the environment
// says how many; it returns the number of processors. A blocked fdatasync holds a P until
// the runtime takes it back: with one P a processor a gateway would stand still meanwhile.
func doubleProcs() (processors int) {
	processors = runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * processors)
	}
	return processors
}

// stopped makes a success of a server's error if it was told to stop while it
// started.
func stopped(ctx context.Context, logger *slog.Logger, started bool, err error) error {
	if err == nil || ctx.Err() == nil || started && !errors.Is(err, context.Canceled) {
		return err
	}
	logger.Info("muniment was stopped while it started", "err", err)
	return nil
}

// parts run beside what a process serves, and end after it.
type parts struct {
	ctx    context.Context
	halt   context.CancelFunc
	all    sync.WaitGroup
	failed chan<- error
}

// newParts makes parts that go on when ctx ends, until stop. A part that ends with an
// error before that is told to failed.
func newParts(ctx context.Context, failed chan<- error) *parts {
	p := &parts{failed: failed}
	p.ctx, p.halt = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

func (p *parts) run(name string, work func(context.Context) error) {
	p.all.Go(func() {
		if err := work(p.ctx); err != nil && p.ctx.Err() == nil {
			p.failed <- fmt.Errorf("%s stopped: %w", name, err)
		}
	})
}

// stop returns once all have ended.
func (p *parts) stop() {
	p.halt()
	p.all.Wait()
}

// untilFailed is a context that also ends, for that cause, with the first error that
// comes through failed.
func untilFailed(ctx context.Context, failed <-chan error) (context.Context, context.CancelFunc) {
	serving, fail := context.WithCancelCause(ctx)
	go func() {
		select {
		case err := <-failed:
			fail(err)
		case <-serving.Done():
		}
	}()
	return serving, func() { fail(nil) }
}

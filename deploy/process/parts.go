package process

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// Parts are background tasks of a process, and end after its listeners.
type Parts struct {
	ctx  context.Context
	halt context.CancelFunc
	all  sync.WaitGroup
	fail context.CancelCauseFunc
}

// Parts makes parts that go on after a signal, until the process closes what it opened
// after them. One that ends with an error before that ends the process.
func (p *Process) Parts() *Parts {
	made := NewParts(p.Ctx, p.Fail)
	p.AtEnd(made.Stop)
	return made
}

// NewParts makes parts that go on when ctx is done, until Stop. One that ends with an error before that calls fail.
func NewParts(ctx context.Context, fail context.CancelCauseFunc) *Parts {
	p := &Parts{fail: fail}
	p.ctx, p.halt = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

// Run starts a part. name stands in the error with which it ends the process.
func (p *Parts) Run(name string, work func(context.Context) error) {
	p.all.Go(func() {
		if err := work(p.ctx); err != nil && p.ctx.Err() == nil {
			p.fail(fmt.Errorf("%s stopped: %w", name, err))
		}
	})
}

// Serve answers on a port.
func (p *Parts) Serve(on *Port, handler http.Handler) {
	p.Run("the listener for "+on.name, func(ctx context.Context) error { return Serve(ctx, secured(on.Listener, on.TLS), handler) })
}

// Stop returns once all have ended. It may be called again.
func (p *Parts) Stop() error {
	p.halt()
	p.all.Wait()
	return nil
}

package gateway

import (
	"context"
	"time"
)

// deadline is a context that ends after a time, and can be used again: one timer
// serves all requests of a delivery's life, where context.WithTimeout would make
// a context, a timer and a channel for each.
type deadline struct {
	timer *time.Timer
	done  chan struct{}
	at    time.Time
}

var _ context.Context = (*deadline)(nil)

func (d *deadline) begin(after time.Duration) {
	d.at = time.Now().Add(after)
	if d.timer == nil {
		done := make(chan struct{})
		d.done, d.timer = done, time.AfterFunc(after, func() { close(done) })
		return
	}
	d.timer.Reset(after)
}

// end stops the clock. A deadline that has passed is not used again.
func (d *deadline) end() {
	if !d.timer.Stop() {
		d.timer, d.done = nil, nil
	}
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }
func (d *deadline) Done() <-chan struct{}       { return d.done }
func (d *deadline) Value(any) any               { return nil }

func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

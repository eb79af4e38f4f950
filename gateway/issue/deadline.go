package issue

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines hands out contexts that end after a time, or up to a sixteenth of it
// later: those that begin close to each other are one and the same, where
// context.WithTimeout would make a context, a timer and a channel for each request.
type deadlines struct {
	after time.Duration
	last  atomic.Pointer[deadline]
}

// deadline is a context without a parent, used by several requests.
type deadline struct {
	at     time.Time
	shared time.Time // it is handed out until then
	done   chan struct{}
}

var _ context.Context = (*deadline)(nil)

// begin returns a context that begins now, which the caller has just read from the clock.
func (d *deadlines) begin(now time.Time) *deadline {
	last := d.last.Load()
	if last != nil && now.Before(last.shared) {
		return last
	}
	slack := d.after / 16
	next := &deadline{at: now.Add(d.after + slack), shared: now.Add(slack), done: make(chan struct{})}
	if !d.last.CompareAndSwap(last, next) {
		return d.begin(now) // another request has just made one
	}
	time.AfterFunc(d.after+slack, func() { close(next.done) })
	return next
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

package playground

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"muniment.example/gateway/api"
)

const (
	// queued is how many events a reader may be behind.
	queued = 128 // more than one run of the demo delivers
	// heartbeat is how often something is sent: the gateway gives up on silence after a minute,
	// and balancers may sooner.
	heartbeat = 10 * time.Second
	// writeTimeout is how long a reader may leave what was sent unread.
	writeTimeout = 10 * time.Second
	// longest is how long a stream lasts.
	longest = 15 * time.Minute
	// leastRetry is how many seconds a browser waits before it begins a stream again.
	leastRetry = 5
)

// stream is what one reader has of a tenant.
type stream struct {
	tenantID, address string

	queue chan []byte
	ended chan struct{} // closed with reason set
	once  sync.Once
	// reason is for who has seen ended closed.
	reason string
}

func newStream(tenantID, address string) *stream {
	return &stream{tenantID: tenantID, address: address, queue: make(chan []byte, queued), ended: make(chan struct{})}
}

// put queues an event. A stream whose queue is full ends.
func (s *stream) put(event []byte) {
	select {
	case s.queue <- event:
	default:
		s.end(endSlow)
	}
}

// end ends the stream, for the first reason that is given.
func (s *stream) end(reason string) {
	s.once.Do(func() {
		s.reason = reason
		close(s.ended)
	})
}

// serve writes what is queued until the stream ends, or the reader is gone. dropped says whether
// the tenant is.
func (s *stream) serve(ctx context.Context, to io.Writer, dropped func() bool) {
	w := newEventWriter(to)
	defer w.release()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	expired := time.NewTimer(longest)
	defer expired.Stop()
	var backoff api.Backoff // streams that end together must not begin again together
	if !w.write(fmt.Appendf(nil, "retry: %d\n\n", 1000*backoff.Seconds(leastRetry, "", time.Now()))) {
		return
	}
	for {
		select {
		case <-s.ended: // before what is still queued
			w.write(event("end", map[string]string{"reason": s.reason}))
			return
		default:
		}
		ok := true
		select {
		case <-ctx.Done():
			return
		case <-s.ended:
		case <-expired.C:
			s.end(endExpired)
		case e := <-s.queue:
			ok = w.write(e)
		case <-beat.C:
			if dropped() {
				s.end(endDropped)
			}
			ok = w.write([]byte(":\n\n"))
		}
		if !ok {
			return
		}
	}
}

// eventWriter sends each event at once.
type eventWriter struct {
	to         io.Writer
	connection *http.ResponseController // nil where there is none
}

func newEventWriter(to io.Writer) *eventWriter {
	w := &eventWriter{to: to}
	if answer, ok := to.(http.ResponseWriter); ok {
		w.connection = http.NewResponseController(answer)
	}
	return w
}

// write says whether the reader is still there.
func (w *eventWriter) write(event []byte) bool {
	if w.connection != nil { // what has no deadlines waits for nothing
		_ = w.connection.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	if _, err := w.to.Write(event); err != nil {
		return false
	}
	return w.connection == nil || w.connection.Flush() == nil
}

// release takes the deadline from a connection that may serve another request.
func (w *eventWriter) release() {
	if w.connection != nil {
		_ = w.connection.SetWriteDeadline(time.Time{})
	}
}

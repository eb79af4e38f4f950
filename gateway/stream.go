package gateway

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"
)

// heldAnswer is the longest answer of control that is read at once, in bytes, so that
// control's connection is free before the client has read a byte.
const heldAnswer = 64 << 10

// relayed is the body of a long answer of control on its way to a client. Close releases control's
// connection and the request's place.
type relayed struct {
	begun []byte // of the body, read already and not yet handed on
	resp  *fasthttp.Response
	at    place
	pace  *pace // nil: control sets the pace
}

func (r *relayed) Read(b []byte) (n int, err error) {
	if err := r.pace.taken(time.Now()); err != nil {
		return 0, err
	}
	if len(r.begun) > 0 {
		n = copy(b, r.begun)
		r.begun = r.begun[n:]
	} else if s := r.resp.BodyStream(); s != nil {
		n, err = s.Read(b)
	} else {
		err = io.EOF
	}
	r.pace.hand(n, time.Now())
	return n, err
}

func (r *relayed) Close() error {
	err := r.resp.CloseBodyStream()
	fasthttp.ReleaseResponse(r.resp)
	r.at.release()
	return err
}

var errSlowReader = errors.New("the client reads too slowly")

// pace is how fast a client takes a long answer. Time in which control is silent does not count.
// A nil pace has no limit.
type pace struct {
	least  int // bytes per second
	window time.Duration

	bytes    int64         // taken in this window
	waited   time.Duration // for the client, in this window
	handed   int           // bytes that the client is taking
	handedAt time.Time
}

// hand begins to wait for the client to take n bytes.
func (p *pace) hand(n int, now time.Time) {
	if p != nil {
		p.handed, p.handedAt = n, now
	}
}

// taken notes that the client has taken what was handed to it. The error ends the answer: within the
// last window the client has taken less than the least rate.
func (p *pace) taken(now time.Time) error {
	if p == nil || p.handedAt.IsZero() {
		return nil
	}
	p.bytes += int64(p.handed)
	p.waited += now.Sub(p.handedAt)
	if p.waited < p.window {
		return nil
	}
	if float64(p.bytes) < float64(p.least)*p.waited.Seconds() {
		return errSlowReader
	}
	p.bytes, p.waited = 0, 0
	return nil
}

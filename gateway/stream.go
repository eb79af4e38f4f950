package gateway

import (
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
)

// heldAnswer is the longest answer of control that is read at once, in bytes, so that
// control's connection is free before the client has read a byte.
const heldAnswer = 64 << 10

var errStreamsBusy = &api.Error{Code: api.RateLimited, Message: "too many long answers are being read by this tenant, or, without a key, from this address", RetryAfter: time.Second}

// streams limits the answers of control that are streamed. The client sets their pace, so
// without a limit a few slow readers would hold every connection to control, and block
// revocations.
type streams struct {
	most, mostOfOne int

	mu   sync.Mutex
	held map[string]int // by tenant, or by address where there is no key
	all  int
}

func newStreams(most int) *streams {
	return &streams{most: most, mostOfOne: max(1, most/16), held: map[string]int{}}
}

// take admits one more stream to a tenant or an address; release must follow if it did.
func (s *streams) take(to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most || s.held[to] >= s.mostOfOne {
		return false
	}
	s.all++
	s.held[to]++
	return true
}

func (s *streams) release(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.held[to]--; s.held[to] == 0 {
		delete(s.held, to)
	}
}

// relayed is the body of control's answer on its way to a client. Close releases control's
// connection.
type relayed struct {
	resp    *fasthttp.Response
	streams *streams
	to      string
}

func (r *relayed) Read(b []byte) (int, error) {
	if s := r.resp.BodyStream(); s != nil {
		return s.Read(b)
	}
	return 0, io.EOF
}

func (r *relayed) Close() error {
	err := r.resp.CloseBodyStream()
	fasthttp.ReleaseResponse(r.resp)
	r.streams.release(r.to)
	return err
}

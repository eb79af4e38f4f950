package gateway

import (
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
)

// heldAnswer is the longest answer of control that is read at once, so that
// control's connection is free again before the client has read a byte.
const heldAnswer = 64 << 10

var errStreamsBusy = &api.Error{Code: api.RateLimited, Message: "too many long answers are being read from this address", RetryAfter: time.Second}

// streams bounds the answers of control that are handed on while they are being
// read. Their pace is the client's, so without a bound a few slow readers would
// hold every connection to control, revocations included.
type streams struct {
	most, perAddress int

	mu   sync.Mutex
	held map[netip.Addr]int
	all  int
}

func newStreams(most int) *streams {
	return &streams{most: most, perAddress: max(1, most/16), held: map[netip.Addr]int{}}
}

// take admits one more stream to an address; release must follow when it did.
func (s *streams) take(to netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most || s.held[to] >= s.perAddress {
		return false
	}
	s.all++
	s.held[to]++
	return true
}

func (s *streams) release(to netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.held[to]--; s.held[to] == 0 {
		delete(s.held, to)
	}
}

// relayed is the body of control's answer on its way to a client. Close gives
// control's connection back.
type relayed struct {
	resp    *fasthttp.Response
	streams *streams
	to      netip.Addr
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

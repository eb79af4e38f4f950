package playground

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

// How many streams there may be at a time: of a visitor, of an address, and in all. Each is a third of the reads of the
// sandbox that a gateway forwards at a time, of an address and in all.
const (
	mostOfVisitor = 2
	mostOfAddress = 8
	mostStreams   = 64
)

// Why a stream ends.
const (
	endDropped  = "DROPPED"
	endSlow     = "SLOW"
	endDraining = "DRAINING"
	endExpired  = "EXPIRED"
)

// Feed hands on what is delivered for visitors to the streams that watch their tenants. It keeps
// nothing: what nobody watches is gone. It never blocks, and is safe for concurrent use.
type Feed struct {
	mu       sync.Mutex
	draining bool
	watched  map[string][]*stream // by tenant
	from     map[string]int       // how many, by address
	all      int
}

// NewFeed returns a feed that nobody watches.
func NewFeed() *Feed { return &Feed{watched: map[string][]*stream{}, from: map[string]int{}} }

// Watch returns deliver such that what comes of each delivery is seen by who watches its tenant.
func (f *Feed) Watch(deliver sandbox.Deliver) sandbox.Deliver {
	return func(ctx context.Context, tenantID, keyID string, body []byte) ([]byte, error) {
		answer, err := deliver(ctx, tenantID, keyID, body)
		if f.watches(tenantID) {
			f.publish(tenantID, seen(body, answer, err))
		}
		return answer, err
	}
}

// receiptEvent is the data of an event "receipt".
type receiptEvent struct {
	RightID string          `json:"rightId"`
	Data    json.RawMessage `json:"data"` // of POST /v1/delivery
}

// refusalEvent is the data of an event "refusal".
type refusalEvent struct {
	RightID    string          `json:"rightId"`
	Status     int             `json:"status"`
	Error      api.Code        `json:"error"`
	Message    string          `json:"message"`
	Violations json.RawMessage `json:"violations,omitempty"`
}

// seen is the event of a delivery; nil for one that could not be decided.
func seen(body, answer []byte, err error) []byte {
	var sent struct {
		RightID string `json:"rightId"`
	}
	_ = json.Unmarshal(body, &sent) // what is no delivery names no right
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return event("refusal", refusalEvent{sent.RightID, refused.GetStatus(), refused.Code, refused.Message, refused.Violations})
	}
	var envelope struct{ Data json.RawMessage }
	if err != nil || json.Unmarshal(answer, &envelope) != nil {
		return nil
	}
	return event("receipt", receiptEvent{sent.RightID, envelope.Data})
}

// event is the text of a server-sent event. JSON has no line breaks outside of strings, and in
// strings they are escaped.
func event(name string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		return nil
	}
	return append(append([]byte("event: "+name+"\ndata: "), text...), "\n\n"...)
}

func (f *Feed) watches(tenantID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watched[tenantID]) > 0
}

func (f *Feed) publish(tenantID string, event []byte) {
	if event == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range f.watched[tenantID] {
		st.put(event)
	}
}

// Dropped ends the streams of a tenant that is gone.
func (f *Feed) Dropped(tenantID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range f.watched[tenantID] {
		st.end(endDropped)
	}
}

// Run ends all streams when ctx is done, and lets none begin from then on.
func (f *Feed) Run(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = true
	for _, of := range f.watched {
		for _, st := range of {
			st.end(endDraining)
		}
	}
	return nil
}

// open begins a stream; close must follow.
func (f *Feed) open(tenantID, address string) (*stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.draining:
		return nil, api.Unavailable(api.Draining, "the service is stopping", time.Second)
	case len(f.watched[tenantID]) >= mostOfVisitor:
		return nil, busy("this visitor already watches two streams: close another tab of the playground")
	case f.from[address] >= mostOfAddress:
		return nil, busy("this address already watches eight streams")
	case f.all >= mostStreams:
		return nil, busy("too many visitors are watching: try again later")
	}
	st := newStream(tenantID, address)
	f.watched[tenantID] = append(f.watched[tenantID], st)
	f.from[address]++
	f.all++
	return st, nil
}

func busy(message string) error {
	return &api.Error{Code: api.RateLimited, Message: message, RetryAfter: heartbeat}
}

// close forgets a stream.
func (f *Feed) close(st *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rest []*stream
	for _, other := range f.watched[st.tenantID] {
		if other != st {
			rest = append(rest, other)
		}
	}
	if f.watched[st.tenantID] = rest; len(rest) == 0 {
		delete(f.watched, st.tenantID)
	}
	if f.from[st.address]--; f.from[st.address] == 0 {
		delete(f.from, st.address)
	}
	f.all--
}

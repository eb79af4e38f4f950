package control

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// inProcess is the key of who asks from within this process. No request from outside
// has a value of it.
type inProcess struct{}

// Ask has a request answered as if its caller had sent it with a key: the same door,
// the same checks, the same answer. An error means that there was no whole answer.
func (c *Control) Ask(ctx context.Context, caller auth.Principal, method, target string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(context.WithValue(ctx, inProcess{}, caller), method, target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("cannot ask for %s %s: %w", method, target, err)
	}
	if x, ok := exchangeOf(ctx); ok {
		r.Header.Set(api.HeaderRequestID, x.requestID)
	}
	h := &heard{header: http.Header{}}
	c.door.ServeHTTP(h, r)
	return max(h.status, http.StatusOK), h.body.Bytes(), nil
}

// heard keeps an answer in memory.
type heard struct {
	header http.Header
	status int // 0: not written yet
	body   bytes.Buffer
}

func (h *heard) Header() http.Header { return h.header }

func (h *heard) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *heard) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

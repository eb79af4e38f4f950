package control

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// inProcess is the context key of a caller within this process. Requests from outside never have it.
type inProcess struct{}

// Call serves a request as if the caller had sent it with its API key, with the same checks and the
// same response. An error means that there was no complete response.
func (c *Control) Call(ctx context.Context, caller auth.Principal, method, target string, body []byte) (status int, response []byte, err error) {
	r, err := c.within(ctx, caller, method, target, body)
	if err != nil {
		return 0, nil, err
	}
	h := &recorded{header: http.Header{}}
	c.callers.ServeHTTP(h, r)
	return max(h.status, http.StatusOK), h.body.Bytes(), nil
}

// Serve is Call for a response of any length: w gets it while it is made. Headers that w has stay, unless the response
// has them, too.
func (c *Control) Serve(w http.ResponseWriter, ctx context.Context, caller auth.Principal, method, target string) error {
	r, err := c.within(ctx, caller, method, target, nil)
	if err != nil {
		return err
	}
	c.callers.ServeHTTP(w, r)
	return nil
}

// within is a request of a caller within this process, under the id of the request that ctx belongs to.
func (c *Control) within(ctx context.Context, caller auth.Principal, method, target string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(context.WithValue(ctx, inProcess{}, caller), method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot request %s %s: %w", method, target, err)
	}
	if x, ok := exchangeOf(ctx); ok {
		r.Header.Set(api.HeaderRequestID, x.requestID)
	}
	return r, nil
}

// recorded keeps a response in memory.
type recorded struct {
	header http.Header
	status int // 0: not written yet
	body   bytes.Buffer
}

func (h *recorded) Header() http.Header { return h.header }

func (h *recorded) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *recorded) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

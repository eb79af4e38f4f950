package control

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

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
	return c.record(r)
}

// record serves a request into memory.
func (c *Control) record(r *http.Request) (status int, response []byte, err error) {
	h := &responseRecorder{header: http.Header{}}
	c.callers.ServeHTTP(h, r)
	return max(h.status, http.StatusOK), h.body.Bytes(), nil
}

// CallOnce is Call with an Idempotency-Key, which holds for the caller and the operation. It should be one that nobody
// can guess: the response is kept encrypted under it. Once begun, the request runs to its end, for up to callAge, even if
// ctx has ended: who sends it again with the key gets the response.
func (c *Control) CallOnce(ctx context.Context, caller auth.Principal, key, method, target string, body []byte) (status int, response []byte, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callAge)
	defer cancel()
	r, err := c.within(ctx, caller, method, target, body)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set(api.HeaderIdempotencyKey, key)
	return c.record(r)
}

// callAge limits the time of a request that does not end with the one that it belongs to.
const callAge = 30 * time.Second

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

// within is a request of a caller within this process, under the id and the address of the request that ctx
// belongs to: a link in its response leads where that request came.
func (c *Control) within(ctx context.Context, caller auth.Principal, method, target string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(context.WithValue(ctx, inProcess{}, caller), method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot request %s %s: %w", method, target, err)
	}
	if x, ok := exchangeOf(ctx); ok {
		r.Header.Set(api.HeaderRequestID, x.requestID)
		r.Host = x.host
		if x.scheme != "" {
			r.Header.Set(api.HeaderForwardedProto, x.scheme)
		}
	}
	return r, nil
}

// responseRecorder keeps a response in memory.
type responseRecorder struct {
	header http.Header
	status int // 0: not written yet
	body   bytes.Buffer
}

func (h *responseRecorder) Header() http.Header { return h.header }

func (h *responseRecorder) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *responseRecorder) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

package gateway

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

const (
	contentJSON  = "application/json"
	contentLines = "application/x-ndjson"
	contentForm  = "application/x-www-form-urlencoded" // what curl says of a body, whatever it is
)

// answer puts data into the success envelope. The delivery has its own renderer.
func answer[T any](ctx *fasthttp.RequestCtx, data T) error {
	body, err := json.Marshal(api.OK(data))
	if err != nil {
		return err
	}
	markJSON(ctx)
	ctx.SetBody(body)
	return nil
}

var (
	headerSniffing = []byte(fasthttp.HeaderXContentTypeOptions)
	noSniffing     = []byte("nosniff")
)

// markJSON says that an answer is JSON, whatever a browser would make of it.
func markJSON(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType(contentJSON)
	ctx.Response.Header.SetCanonical(headerSniffing, noSniffing)
}

// The header's name as it is sent: SetCanonical does not change its case.
var headerRequestID = []byte(api.HeaderRequestID)

// nameRequest gives the answer the caller's request id, or a new one.
func nameRequest(ctx *fasthttp.RequestCtx) {
	if id := ctx.Request.Header.Peek(api.HeaderRequestID); api.Printable(id, api.MaxRequestID) {
		ctx.Response.Header.SetCanonical(headerRequestID, id)
		return
	}
	var buf [20]byte
	ctx.Response.Header.SetCanonical(headerRequestID, appendRequestID(buf[:0]))
}

// appendRequestID appends a new one.
func appendRequestID(dst []byte) []byte {
	dst = append(dst, "req_"...)
	for n, i := rand.Uint64(), 0; i < 16; n, i = n>>4, i+1 {
		dst = append(dst, "0123456789abcdef"[n&0xf])
	}
	return dst
}

// refuse answers with the error envelope. An error that callers may not see is
// logged here and nowhere else.
func (g *Gateway) refuse(ctx *fasthttp.RequestCtx, err error) {
	e := api.From(err)
	e.RequestID = string(ctx.Response.Header.Peek(api.HeaderRequestID))
	if e.GetStatus() == fasthttp.StatusInternalServerError {
		if suppressed, due := g.faults.due(time.Now()); due {
			g.logger.Error("cannot answer a request", "requestId", e.RequestID, "err", err, "suppressed", suppressed)
		}
	}
	status, body := g.render(ctx, e)
	if s := g.backoff.Seconds(e.RetryAfterSeconds(), e.Reason, time.Now()); s > 0 {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(s))
	}
	if e.GetStatus() == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
	}
	ctx.SetStatusCode(status)
	markJSON(ctx)
	ctx.SetBody(body)
}

// faultEvery is the least time between two log lines on faults of the gateway's own: a caller
// who can cause faults must not fill the log. The metrics count every fault.
const faultEvery = time.Second

// faults knows when a fault was logged last, and how many were not since.
type faults struct{ last, suppressed atomic.Int64 }

func (f *faults) due(now time.Time) (suppressed int64, due bool) {
	last := f.last.Load()
	if now.UnixNano()-last < int64(faultEvery) || !f.last.CompareAndSwap(last, now.UnixNano()) {
		f.suppressed.Add(1)
		return 0, false
	}
	return f.suppressed.Swap(0), true
}

// render returns an error as it is sent: in the contract's envelope, unless the path has its own.
func (g *Gateway) render(ctx *fasthttp.RequestCtx, e *api.Error) (status int, body []byte) {
	if g.cfg.RenderError != nil {
		path := string(ctx.Request.URI().PathOriginal())
		if decoded, err := url.PathUnescape(path); err == nil { // as control reads it
			path = decoded
		}
		if status, body, ok := g.cfg.RenderError(path, e); ok {
			return status, body
		}
	}
	body, err := e.Body()
	if err != nil {
		body = []byte(`{"ok":false,"error":"INTERNAL_ERROR","message":"internal error","contractVersion":"` + api.ContractVersion + `"}` + "\n")
	}
	return e.GetStatus(), body
}

package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
)

const contentJSON = "application/json"

// answer puts data into the success envelope. The delivery has its own renderer.
func answer[T any](ctx *fasthttp.RequestCtx, data T) error {
	body, err := json.Marshal(api.OK(data))
	if err != nil {
		return err
	}
	ctx.SetContentType(contentJSON)
	ctx.SetBody(body)
	return nil
}

// nameRequest gives the answer the caller's request id, or a new one.
func nameRequest(ctx *fasthttp.RequestCtx) {
	if id := ctx.Request.Header.Peek(api.HeaderRequestID); api.Printable(id, api.MaxRequestID) {
		ctx.Response.Header.SetBytesV(api.HeaderRequestID, id)
		return
	}
	var buf [20]byte
	id := append(buf[:0], "req_"...)
	for n, i := rand.Uint64(), 0; i < 16; n, i = n>>4, i+1 {
		id = append(id, "0123456789abcdef"[n&0xf])
	}
	ctx.Response.Header.SetBytesV(api.HeaderRequestID, id)
}

// refuse answers with the error envelope. An error that callers may not see is
// logged here and nowhere else.
func (g *Gateway) refuse(ctx *fasthttp.RequestCtx, err error) {
	e := api.From(err)
	e.RequestID = string(ctx.Response.Header.Peek(api.HeaderRequestID))
	if e.GetStatus() == fasthttp.StatusInternalServerError {
		g.logger.Error("cannot answer a request", "requestId", e.RequestID, "err", err)
	}
	body, err := json.Marshal(e)
	if err != nil {
		body = []byte(`{"ok":false,"error":"INTERNAL_ERROR","message":"internal error","contractVersion":"` + api.ContractVersion + `"}`)
	}
	if s := e.RetryAfterSeconds(); s > 0 {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(s))
	}
	if e.GetStatus() == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
	}
	ctx.SetStatusCode(e.GetStatus())
	ctx.SetContentType(contentJSON)
	ctx.SetBody(body)
}

// refuseUnread answers a request that fasthttp could not read; the connection is
// closed behind it. The error's own text may quote headers and is not shown.
func (g *Gateway) refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	lingerOn(ctx)
	ctx.Response.Reset()
	nameRequest(ctx)
	e := &api.Error{Code: api.BadRequest, Message: "this is not one well-formed HTTP/1.1 request"}
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		e = api.TooLarge("the body is larger than this route takes")
	case errors.As(err, &small):
		e.HTTPStatus, e.Message = fasthttp.StatusRequestHeaderFieldsTooLarge, "the headers are larger than 8 KiB"
	case errors.As(err, &network) && network.Timeout():
		e.HTTPStatus, e.Message = fasthttp.StatusRequestTimeout, "the request did not arrive in time"
	}
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte{'?'})
	g.refuse(ctx, e)
	g.metrics.observe(routeOf(path), ctx.Response.StatusCode(), 0)
}

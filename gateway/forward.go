package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"

	"muniment/gateway/api"
)

const reachControl = "reach control"

var (
	errControlAway = api.Unavailable(api.ControlUnavailable, "the control service can't be reached", time.Second)
	errControlBusy = api.Unavailable(api.Overloaded, "the control service has too many requests in hand", time.Second)
	errBadHost     = &api.Error{Code: api.BadRequest, Message: "the Host header, or the host of an absolute URI, is missing or malformed"}
	errBadPath     = &api.Error{Code: api.BadRequest, Message: "the path of the URI is missing or malformed"}
)

// unreachable is a failure to open a connection to control.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

func (g *Gateway) newControlClient() *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr: "control",
		Dial: func(string) (net.Conn, error) {
			c, err := g.cfg.DialControl()
			if err != nil {
				return nil, unreachable{err}
			}
			return &controlConn{Conn: c, silence: g.cfg.ControlTimeout}, nil
		},
		MaxConns: g.cfg.MaxForwards + g.streams.most,
		// Below any server's own idle timeout, so that a request does not meet a
		// connection that is being closed.
		MaxIdleConnDuration:           5 * time.Second,
		StreamResponseBody:            true,
		DisablePathNormalizing:        true,
		NoDefaultUserAgentHeader:      true,
		DisableHeaderNamesNormalizing: true,
		SecureErrorLogMessage:         true,
	}
}

// controlConn bounds the silence between two reads instead of the whole answer,
// which may be a stream.
type controlConn struct {
	net.Conn
	silence time.Duration
}

func (c *controlConn) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// forward hands the request to control and hands its answer back.
func (g *Gateway) forward(ctx *fasthttp.RequestCtx) error {
	defer g.forwards.Add(-1)
	if g.forwards.Add(1) > int64(g.cfg.MaxForwards) {
		return errControlBusy
	}
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	if err := g.prepare(ctx, req); err != nil {
		fasthttp.ReleaseResponse(resp)
		return err
	}
	if err := g.control.Do(req, resp); err != nil {
		fasthttp.ReleaseResponse(resp)
		if !connectionFailed(err) {
			return fmt.Errorf("cannot forward a request: %w", err)
		}
		g.controlTrouble.Begins(g.logger, reachControl, err)
		return errControlAway
	}
	g.controlTrouble.Ends(g.logger, reachControl)
	return g.relay(ctx, resp)
}

// connectionFailed tells a failure of the connection to control, be it to open, read or
// write it, from a message that can't be sent or understood.
func connectionFailed(err error) bool {
	var dial unreachable
	var network interface{ Timeout() bool } // of package net and of fasthttp
	return errors.As(err, &dial) || errors.As(err, &network) || errors.Is(err, fasthttp.ErrConnectionClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// hopByHop headers belong to one connection (RFC 9110, section 7.6.1). Length and
// coding of the body are set anew.
func hopByHop(name string) bool {
	switch strings.ToLower(name) {
	case "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
		"transfer-encoding", "upgrade", "content-length", "expect":
		return true
	}
	return false
}

// claimedOrigin headers say where a request comes from. A caller's own word for it
// is worth nothing: see originOf.
func claimedOrigin(name string) bool {
	name = strings.ToLower(name)
	return name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-")
}

// named says whether the Connection header lists the name.
func named(connection, name string) bool {
	for option := range strings.SplitSeq(connection, ",") {
		if strings.EqualFold(strings.TrimSpace(option), name) {
			return true
		}
	}
	return false
}

// prepare copies the request as control shall see it. The error is 400, for what control's
// server would refuse before a handler is reached, and without the envelope.
func (g *Gateway) prepare(ctx *fasthttp.RequestCtx, req *fasthttp.Request) error {
	from, to := &ctx.Request.Header, &req.Header
	to.DisableNormalizing()
	to.SetMethodBytes(from.Method())
	// Set, not parsed: a path that begins with // would be read as a host.
	uri := fasthttp.URI{DisablePathNormalizing: true}
	uri.SetHostBytes(ctx.Host())
	uri.SetPathBytes(ctx.Request.URI().PathOriginal())
	uri.SetQueryStringBytes(ctx.Request.URI().QueryString())
	if len(uri.Host()) == 0 || !httpguts.ValidHostHeader(string(uri.Host())) {
		return errBadHost
	}
	target := string(uri.RequestURI())
	if _, err := url.ParseRequestURI(target); err != nil || target[0] != '/' && target != "*" {
		return errBadPath
	}
	req.SetURI(&uri)
	connection := string(from.Peek(fasthttp.HeaderConnection))
	for k, v := range from.All() {
		name := string(k)
		if hopByHop(name) || claimedOrigin(name) || named(connection, name) || strings.EqualFold(name, fasthttp.HeaderHost) ||
			strings.EqualFold(name, api.HeaderRequestID) {
			continue
		}
		to.AddBytesKV(k, v)
	}
	to.Set(forwardedFor, originOf(ctx, g.cfg.TrustedProxies))
	to.Set(api.HeaderForwardedProto, schemeOf(ctx, g.cfg.TrustedProxies))
	to.SetBytesV(api.HeaderRequestID, ctx.Response.Header.Peek(api.HeaderRequestID))
	req.SetBodyRaw(ctx.Request.Body())
	return nil
}

// relay turns control's answer into ours. A short body is read at once; a long one
// is streamed, at the client's pace.
func (g *Gateway) relay(ctx *fasthttp.RequestCtx, resp *fasthttp.Response) error {
	if resp.BodyStream() == nil { // HEAD, 204, 304: nothing follows the header
		defer fasthttp.ReleaseResponse(resp)
		g.relayHeader(ctx, resp)
		if n := resp.Header.ContentLength(); n > 0 {
			ctx.Response.Header.SetContentLength(n)
		}
		return nil
	}
	body := &relayed{resp: resp, streams: g.streams, to: string(resp.Header.Peek(api.HeaderTenant))}
	if body.to == "" {
		body.to = subnet(ctx.RemoteAddr()).String()
	}
	if n := resp.Header.ContentLength(); n >= 0 && n <= heldAnswer {
		defer fasthttp.ReleaseResponse(resp)
		if err := g.relayHeld(ctx, resp, n); err != nil {
			return errors.Join(err, resp.CloseBodyStream())
		}
		g.relayHeader(ctx, resp)
		return resp.CloseBodyStream()
	}
	if !g.streams.take(body.to) {
		return errors.Join(errStreamsBusy, resp.CloseBodyStream())
	}
	g.relayHeader(ctx, resp)
	var stream io.ReadCloser = body
	if bytes.HasPrefix(resp.Header.ContentType(), []byte("text/event-stream")) {
		stream = g.endless(stream)
		ctx.Response.ImmediateHeaderFlush = true
	}
	ctx.SetBodyStream(stream, max(resp.Header.ContentLength(), -1))
	return nil
}

func (g *Gateway) relayHeld(ctx *fasthttp.RequestCtx, resp *fasthttp.Response, n int) error {
	if n == 0 {
		return nil
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(resp.BodyStream(), text); err != nil {
		g.controlTrouble.Begins(g.logger, reachControl, err)
		return errControlAway
	}
	ctx.SetBody(text)
	return nil
}

func (g *Gateway) relayHeader(ctx *fasthttp.RequestCtx, resp *fasthttp.Response) {
	to := &ctx.Response.Header
	ctx.SetStatusCode(resp.StatusCode())
	connection := string(resp.Header.Peek(fasthttp.HeaderConnection))
	for k, v := range resp.Header.All() {
		name := string(k)
		if hopByHop(name) || named(connection, name) || strings.EqualFold(name, api.HeaderRequestID) || strings.EqualFold(name, fasthttp.HeaderDate) ||
			strings.EqualFold(name, api.HeaderTenant) {
			continue
		}
		if strings.EqualFold(name, fasthttp.HeaderContentType) {
			to.SetContentTypeBytes(v)
			continue
		}
		to.AddBytesKV(k, v)
	}
}

// endless lets a stream without an end of its own end when the gateway drains.
func (g *Gateway) endless(body io.ReadCloser) io.ReadCloser {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(g.draining, func() { pw.Close() })
	go func() {
		defer stop()
		defer body.Close()
		_, err := io.Copy(pw, body)
		pw.CloseWithError(err)
	}()
	return pr
}

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
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline/trace"
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

// proxy forwards requests to control. It stays with one address until that fails. A request that surely did not
// reach control, or that control has not begun, goes to the next address, and so does a GET or HEAD if its
// connection breaks: of no other method is a request sent twice. Control may record a GET before it answers, such as
// a download; so each address gets one at most twice.
type proxy struct {
	cfg      *Config
	draining context.Context        // done when answers that have no end of their own must end
	clients  []*fasthttp.HostClient // by address
	current  api.Current            // of clients
	inHand   atomic.Int64           // requests of tenants that control is answering
	trouble  issue.Outage
	limited  *limited

	// strangers are callers without a key but those of pages, the console, downloads and the sandbox: their answers are
	// short, like those of the console to who has no session.
	strangers, pages, console, downloads, visitors, tenants *callers

	sessions sessions
}

// kinds are the kinds of callers.
func (p *proxy) kinds() []*callers {
	return []*callers{p.strangers, p.pages, p.console, p.downloads, p.visitors, p.tenants}
}

func newProxy(cfg *Config, draining context.Context, l *limited) *proxy {
	p := &proxy{
		cfg: cfg, draining: draining, limited: l,
		strangers: newCallers(cfg.MaxStreams, cfg.MaxStreams/8, "too many requests without a key are in hand, or too many from this address"),
		pages:     newCallers(cfg.MaxStreams, cfg.MaxStreams/8, "too many requests for pages are in hand, or too many from this address"),
		console:   newCallers(cfg.MaxStreams, cfg.MaxStreams/8, "too many requests for the console are in hand, or too many from this address"),
		downloads: newCallers(cfg.MaxStreams, cfg.MaxStreams/8, "too many downloads by links are in hand, or too many from this address"),
		visitors:  newCallers(cfg.MaxStreams, cfg.MaxStreams/8, "too many requests to the sandbox are in hand, or too many from this address"),
		tenants:   newCallers(cfg.MaxForwards+cfg.MaxStreams, cfg.MaxStreams/4, "too many requests of tenants are in hand, or too many of this one"),
	}
	conns := 0
	for _, kind := range p.kinds() {
		conns += kind.places.most // a request with a place has a connection
	}
	p.current = api.NewCurrent(len(cfg.DialControl))
	for _, dial := range cfg.DialControl {
		p.clients = append(p.clients, newControlClient(dial, conns, cfg.ControlTimeout))
	}
	return p
}

// newControlClient makes a client of one address.
func newControlClient(dial func() (net.Conn, error), conns int, silence time.Duration) *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr: "control",
		Dial: func(string) (net.Conn, error) {
			c, err := dial()
			if err != nil {
				return nil, unreachable{err}
			}
			return &controlConn{Conn: c, silence: silence}, nil
		},
		RetryIfErr: func(req *fasthttp.Request, _ int, err error) (resetTimeout, retry bool) {
			return false, retriable(req, err)
		},
		// The second is for a connection that control has closed meanwhile.
		MaxIdemponentCallAttempts: 2,

		MaxConns: conns,
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

// controlConn bounds each write, and the silence between two reads instead of the whole answer,
// which may be a stream. A write that fails is not reported until a read fails, too: a server that
// answers early may have stopped to read the request. An end within an answer is never io.EOF: fasthttp takes
// that for the end of a body in chunks.
type controlConn struct {
	net.Conn
	silence time.Duration
	unsent  error // of the first write that failed
	answers bool  // something of the answer was read
}

func (c *controlConn) Write(b []byte) (int, error) {
	c.answers = false
	if c.unsent == nil {
		c.unsent = c.Conn.SetWriteDeadline(time.Now().Add(c.silence))
	}
	if c.unsent == nil {
		_, c.unsent = c.Conn.Write(b)
	}
	return len(b), nil
}

func (c *controlConn) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	switch {
	case n == 0 && c.unsent != nil:
		err = c.unsent
	case n == 0 && c.answers && err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	c.answers = c.answers || n > 0
	return n, err
}

// forward sends the request of an owner of places to control and relays its answer. Whether there is a place
// is decided before: what control has answered is never refused.
func (p *proxy) forward(ctx *fasthttp.RequestCtx, at place, span *trace.Span) error {
	if at.callers == p.tenants {
		defer p.inHand.Add(-1)
		if p.inHand.Add(1) > int64(p.cfg.MaxForwards) {
			return errControlBusy
		}
	}
	if own, err := at.take(ctx.Method()); err != nil {
		if own { // else others may be the cause
			p.count(at, limitRequests)
		}
		return err
	}
	streamed := false
	defer func() {
		if !streamed { // also if it panics
			at.release()
		}
	}()
	var err error
	streamed, err = p.exchange(ctx, at, span)
	return err
}

// count counts a refusal, if it is a tenant's.
func (p *proxy) count(at place, by limit) {
	if at.tenant != "" {
		p.limited.add(at.tenant, by)
	}
}

// exchange sends a request that has a place, and relays the answer; one that is streamed releases the place at its end.
func (p *proxy) exchange(ctx *fasthttp.RequestCtx, at place, span *trace.Span) (streamed bool, err error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	if err := p.prepare(ctx, req); err != nil {
		fasthttp.ReleaseResponse(resp)
		return false, err
	}
	if p.cfg.Tracer != nil {
		passTrace(ctx, req, span)
	}
	if err := p.send(req, resp); err != nil {
		fasthttp.ReleaseResponse(resp)
		if !connectionFailed(err) {
			return false, fmt.Errorf("cannot forward a request: %w", err)
		}
		p.trouble.Begins(p.cfg.Logger, reachControl, err)
		return false, errControlAway
	}
	p.trouble.Ends(p.cfg.Logger, reachControl)
	p.sessions.learn(&ctx.Request.Header, said(resp, api.HeaderSession))
	if resp.StatusCode() == fasthttp.StatusTooManyRequests {
		p.count(at, limitControl)
	}
	return p.relay(ctx, resp, at)
}

// send sends a request to the current address, and to the others as long as that may not do it twice.
func (p *proxy) send(req *fasthttp.Request, resp *fasthttp.Response) (err error) {
	tried := 0
	for i := range p.current.Order() {
		tried++
		err = p.clients[i].Do(req, resp)
		notBegun := err == nil && saysNotBegun(resp)
		if err == nil && !notBegun || err != nil && !connectionFailed(err) {
			break
		}
		p.current.Failed(i)
		if tried == len(p.clients) || err != nil && !retriable(req, err) {
			break
		}
		if err := resp.CloseBodyStream(); err != nil {
			return err
		}
		resp.Reset()
	}
	return err
}

// saysNotBegun says whether control has not begun the request that it answers.
func saysNotBegun(resp *fasthttp.Response) bool {
	return resp.StatusCode() == fasthttp.StatusServiceUnavailable && said(resp, api.HeaderNotBegun) != ""
}

// said is what control says to the gateway by a header, empty for nothing. Names of headers come as they were sent, and a proxy
// may have spelt them in another way.
func said(resp *fasthttp.Response, header string) string {
	for k, v := range resp.Header.All() {
		if len(v) > 0 && strings.EqualFold(view(k), header) {
			return string(v)
		}
	}
	return ""
}

// retriable says whether a request whose connection has failed may be sent again: it surely was not sent, or it is a
// GET or HEAD, and has not waited for an answer.
func retriable(req *fasthttp.Request, err error) bool {
	var dial unreachable
	if errors.As(err, &dial) {
		return true
	}
	var slow interface{ Timeout() bool }
	return (req.Header.IsGet() || req.Header.IsHead()) && !(errors.As(err, &slow) && slow.Timeout())
}

// connectionFailed says whether opening, reading or writing the connection to control has
// failed. Other errors are of a message that can't be sent or understood.
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

// claimedOrigin headers say where a request comes from. A caller may write anything there:
// see originOf.
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

// prepare copies the request as control is to receive it. The error is 400, for requests that
// control's server would refuse before a handler is reached, without the envelope.
func (p *proxy) prepare(ctx *fasthttp.RequestCtx, req *fasthttp.Request) error {
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
	to.Set(forwardedFor, originOf(ctx, p.cfg.TrustedProxies))
	to.Set(api.HeaderForwardedProto, schemeOf(ctx, p.cfg.TrustedProxies))
	to.SetBytesV(api.HeaderRequestID, ctx.Response.Header.Peek(api.HeaderRequestID))
	req.SetBodyRaw(ctx.Request.Body())
	return nil
}

// relay copies control's answer. One of up to heldAnswer bytes is read at once; a longer one is streamed,
// at the client's pace, and so are events.
func (p *proxy) relay(ctx *fasthttp.RequestCtx, resp *fasthttp.Response, at place) (streamed bool, err error) {
	if resp.BodyStream() == nil { // HEAD, 204, 304: nothing follows the header
		defer fasthttp.ReleaseResponse(resp)
		p.relayHeader(ctx, resp)
		if n := resp.Header.ContentLength(); n > 0 {
			ctx.Response.Header.SetContentLength(n)
		}
		return false, nil
	}
	events := bytes.HasPrefix(resp.Header.ContentType(), []byte("text/event-stream"))
	body := &relayed{resp: resp, at: at}
	if length := resp.Header.ContentLength(); !events && length <= heldAnswer { // it is negative if it is not known
		text, err := io.ReadAll(io.LimitReader(resp.BodyStream(), heldAnswer+1))
		if err != nil {
			p.trouble.Begins(p.cfg.Logger, reachControl, err)
			err = errControlAway
		}
		if err != nil || len(text) <= heldAnswer {
			defer fasthttp.ReleaseResponse(resp)
			if err == nil {
				p.relayHeader(ctx, resp)
				ctx.SetBody(text)
			}
			return false, errors.Join(err, resp.CloseBodyStream())
		}
		body.begun = text
	}
	p.relayHeader(ctx, resp)
	var stream io.ReadCloser = body
	if events {
		stream = p.endless(stream)
		ctx.Response.ImmediateHeaderFlush = true
	} else {
		body.pace = &pace{least: p.cfg.LeastRate, window: p.cfg.RateWindow}
	}
	ctx.SetBodyStream(stream, max(resp.Header.ContentLength(), -1))
	return true, nil
}

// isInner says whether a header of control's is for the gateway alone.
func isInner(name string) bool {
	return strings.EqualFold(name, api.HeaderNotBegun) || strings.EqualFold(name, api.HeaderSession)
}

func (p *proxy) relayHeader(ctx *fasthttp.RequestCtx, resp *fasthttp.Response) {
	to := &ctx.Response.Header
	ctx.SetStatusCode(resp.StatusCode())
	connection := string(resp.Header.Peek(fasthttp.HeaderConnection))
	for k, v := range resp.Header.All() {
		name := string(k)
		if hopByHop(name) || named(connection, name) || strings.EqualFold(name, api.HeaderRequestID) || strings.EqualFold(name, fasthttp.HeaderDate) || isInner(name) {
			continue
		}
		if strings.EqualFold(name, fasthttp.HeaderContentType) {
			to.SetContentTypeBytes(v)
			continue
		}
		to.AddBytesKV(k, v)
	}
}

// endless ends a stream that has no end of its own when the gateway drains.
func (p *proxy) endless(body io.ReadCloser) io.ReadCloser {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(p.draining, func() { pw.Close() })
	go func() {
		defer stop()
		defer body.Close()
		_, err := io.Copy(pw, body)
		pw.CloseWithError(err)
	}()
	return pr
}

package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

const (
	maxHeaderBytes = 8 << 10
	maxHeaders     = 100
	// bodyStep is how many bytes a body's memory grows by at first, keepBody the most that is
	// kept for the next request, and keepBatch the most for batches.
	bodyStep  = 8 << 10
	keepBody  = maxDeliveryBody
	keepBatch = 1 << 20
)

// headerReceived keeps fasthttp from reading, or asking for, the body of a message
// that will be refused for its framing. receive meets the fault again: where no length
// is left it looks at the raw headers. Of a chunked body fasthttp reads one byte.
func headerReceived(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	path, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	switch {
	case framingFault(h, routeOf(path)) != nil:
		h.Del(fasthttp.HeaderTransferEncoding)
		h.Del(fasthttp.HeaderExpect)
		h.SetContentLength(0)
	case h.ContentLength() == -1: // fasthttp's own word for the chunked coding
		h.SetContentLength(chunked)
		c.MaxRequestBodySize = 1
	}
	readExpectation(h)
	return c
}

var continueExpected = []byte("100-continue")

// readExpectation spells a valid Expect header as fasthttp reads it, and removes one without effect:
// of HTTP/1.0, or where no body follows.
func readExpectation(h *fasthttp.RequestHeader) {
	switch expect := h.Peek(fasthttp.HeaderExpect); {
	case len(expect) == 0:
	case !h.IsHTTP11() || h.ContentLength() <= 0:
		h.Del(fasthttp.HeaderExpect)
	case bytes.EqualFold(expect, continueExpected):
		h.SetBytesV(fasthttp.HeaderExpect, continueExpected)
	}
}

var (
	errProtocol = &api.Error{Code: api.BadRequest, Message: "the protocol must be HTTP/1.0 or HTTP/1.1"}
	errCoding   = &api.Error{Code: api.BadRequest, Message: "this transfer coding is not accepted; send one Content-Length or, in HTTP/1.1, one Transfer-Encoding: chunked"}
	errLengths  = &api.Error{Code: api.BadRequest, Message: "a message with a transfer coding must not have a Content-Length"}
	errFolded   = &api.Error{Code: api.BadRequest, Message: "folded headers are not accepted"}
	errSpaced   = &api.Error{Code: api.BadRequest, Message: "the name of a header holds a space"}
	errHeaders  = &api.Error{Code: api.BadRequest, Message: "more than 100 headers"}
	errTooLarge = api.TooLarge("the body is larger than this route takes")

	transferEncoding = []byte(fasthttp.HeaderTransferEncoding + ":")
	contentLength    = []byte(fasthttp.HeaderContentLength + ":")
	lineFeed         = []byte{'\n'}
)

// framingFault refuses what fasthttp lets pass although two servers may read it
// differently, and bodies that are too long. It looks at the headers as they came.
func framingFault(h *fasthttp.RequestHeader, r route) *api.Error {
	lines, codings, sized, folded, spaced := 0, 0, false, false, false
	for raw := h.RawHeaders(); len(raw) > 0; lines++ {
		if isNamed(raw, transferEncoding) {
			codings++
		}
		sized = sized || isNamed(raw, contentLength)
		folded = folded || raw[0] == ' ' || raw[0] == '\t'
		spaced = spaced || bytes.IndexByte(raw[:max(0, bytes.IndexByte(raw, ':'))], ' ') >= 0
		raw = nextLine(raw)
	}
	switch {
	case string(h.Protocol()) != "HTTP/1.1" && string(h.Protocol()) != "HTTP/1.0":
		return errProtocol
	case folded:
		return errFolded
	case spaced:
		return errSpaced
	case codings > 0 && sized:
		return errLengths
	case codings > 0 && (codings > 1 || !onlyChunked(h)):
		return errCoding
	case lines > maxHeaders+1: // the blank line is one more
		return errHeaders
	case announced(h) > r.bodyLimit():
		return errTooLarge
	}
	return nil
}

// onlyChunked says whether the first transfer coding is chunked alone, in HTTP/1.1, and no line of
// the headers ends with LF alone, which another server may take for a part of a value.
func onlyChunked(h *fasthttp.RequestHeader) bool {
	raw := h.RawHeaders()
	if string(h.Protocol()) != "HTTP/1.1" || bytes.Count(raw, lineFeed) != bytes.Count(raw, []byte("\r\n")) {
		return false
	}
	for !isNamed(raw, transferEncoding) {
		raw = nextLine(raw)
	}
	value := raw[len(transferEncoding) : len(raw)-len(nextLine(raw))]
	return bytes.EqualFold(bytes.Trim(value, " \t\r\n"), []byte("chunked"))
}

// announced is the length of the body by its header, which headerReceived may have
// set to 0.
func announced(h *fasthttp.RequestHeader) int {
	if n := h.ContentLength(); n != 0 {
		return n
	}
	line := h.RawHeaders()
	for !isNamed(line, contentLength) {
		if line = nextLine(line); len(line) == 0 {
			return 0
		}
	}
	line = line[len(contentLength) : len(line)-len(nextLine(line))]
	n, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil {
		return 0 // fasthttp has read it as a number, so it is none that was changed
	}
	return n
}

// nextLine is what comes behind the first line.
func nextLine(raw []byte) []byte {
	_, next, _ := bytes.Cut(raw, lineFeed)
	return next
}

// isNamed says whether the first line begins with the name, in any case.
func isNamed(raw, name []byte) bool {
	return len(raw) >= len(name) && raw[0]|0x20 == name[0]|0x20 && bytes.EqualFold(raw[:len(name)], name)
}

// arrival is the memory of one request's body, reused for others. It grows with what has
// arrived, not with what was announced: otherwise a connection could take the memory of the
// longest body for one byte. fasthttp itself holds the first 8 KiB.
type arrival struct {
	body     []byte
	unpacked []byte // of a batch
	keep     int    // bytes of each that are kept for the next one
	room     int    // bytes of body's memory that the allowance has counted
	one      [1]byte
	// opened is called before the body takes more memory, until it says that it is done: of a body that
	// holds the key with which it is sent. Nil for all others.
	opened func(a *arrival, more int) (done bool, err error)
	allowance
}

// forget releases what belongs to one request.
func (a *arrival) forget() {
	a.allowance.end()
	for _, b := range []*[]byte{&a.body, &a.unpacked} {
		if cap(*b) > a.keep {
			*b = nil
		}
		*b = (*b)[:0]
	}
	a.room, a.opened = 0, nil
}

// framing refuses a request before its body is read.
func framing(ctx *fasthttp.RequestCtx, r route) error {
	switch length := ctx.Request.Header.ContentLength(); {
	case length == chunked: // headerReceived has found no fault
	case length > r.bodyLimit(): // fasthttp may have made another path of it
		return errTooLarge
	case length > 0: // headerReceived has found no fault, or it would be 0
	default:
		if fault := framingFault(&ctx.Request.Header, r); fault != nil {
			return fault
		}
		if announced(&ctx.Request.Header) > 0 { // headerReceived has refused it, by the path as it came
			return errTooLarge
		}
	}
	return nil
}

// receive reads the whole body, of at most limit bytes, within the connection's read deadline, and
// makes it the request's own until the handler returns. A body that came in chunks then has a length.
func (a *arrival) receive(ctx *fasthttp.RequestCtx, limit int) error {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil
	}
	if length := ctx.Request.Header.ContentLength(); length != chunked {
		if err := a.fill(stream, length, length); err != nil {
			return err
		}
	} else {
		if err := a.receiveChunks(stream, limit); err != nil {
			return err
		}
		ctx.Request.Header.SetContentLength(len(a.body))
	}
	ctx.Request.SetBodyRaw(a.body)
	return nil
}

// fill reads more bytes of a body that will have most bytes at most.
func (a *arrival) fill(from io.Reader, more, most int) error {
	for end := len(a.body) + more; len(a.body) < end; {
		have := len(a.body)
		if have == a.room {
			step := min(most-have, max(bodyStep, have))
			if err := a.open(step); err != nil {
				return err
			}
			if err := a.take(step); err != nil {
				return err
			}
			a.room += step
			a.body = slices.Grow(a.body, step)
		}
		n, err := from.Read(a.body[have:min(a.room, end)])
		a.body = a.body[:have+n]
		if err != nil && len(a.body) < end {
			return cutShort(err)
		}
	}
	return nil
}

// open looks at what has arrived of a body that holds its own key, before more does.
func (a *arrival) open(more int) error {
	if a.opened == nil {
		return nil
	}
	done, err := a.opened(a, more)
	if done {
		a.opened = nil
	}
	return err
}

// cutShort is the error of a request that could not be read to its end.
func cutShort(err error) *api.Error {
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	e := &api.Error{Code: api.BadRequest, Message: "this is not one well-formed HTTP/1.1 request"}
	switch {
	case errors.As(err, &small):
		e.HTTPStatus, e.Message = fasthttp.StatusRequestHeaderFieldsTooLarge, "the headers are larger than 8 KiB"
	case errors.As(err, &network) && network.Timeout():
		e.HTTPStatus, e.Message = fasthttp.StatusRequestTimeout, "the request did not arrive in time"
	}
	return e
}

// refuseUnread answers a request that fasthttp could not read. The error's own text
// may quote headers and is not shown.
func (g *Gateway) refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	ctx.Response.Reset()
	nameRequest(ctx)
	closeBehind(ctx)
	r := unreadRoute(err)
	if r == toBeacon {
		g.metrics.beacons[beaconMalformed].Inc()
		answerPixel(ctx)
	} else {
		g.refuse(ctx, cutShort(err))
	}
	g.metrics.observe(r, ctx.Response.StatusCode(), 0, nil)
	g.logRequest(ctx, r, 0)
}

// unreadRoute recognizes a beacon's request by its beginning, which fasthttp's error quotes: the
// request itself is gone.
func unreadRoute(err error) route {
	_, quoted, _ := strings.Cut(err.Error(), `contents: "`)
	if _, target, _ := strings.Cut(quoted, " "); strings.HasPrefix(target, api.PathBeacon) {
		return toBeacon
	}
	return toControl
}

// closeBehind makes the answer the connection's last: unread input of the request may follow.
func closeBehind(ctx *fasthttp.RequestCtx) {
	lingerOn(ctx)
	ctx.SetConnectionClose()
}

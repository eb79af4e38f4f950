package gateway

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

// coding is a content coding in which batches are taken.
type coding uint8

const (
	gzipped coding = iota
	zstandard
	codings
)

// unpacker is a decoder that is reused.
type unpacker interface {
	io.Reader
	Reset(io.Reader) error
}

// newUnpacker makes a decoder that takes no more memory than a batch may have.
func (c coding) newUnpacker() any {
	if c == gzipped {
		return new(gzip.Reader)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxBatchBody), zstd.WithDecoderMaxMemory(maxBatchBody))
	if err != nil {
		panic(err) // an option is out of its bounds
	}
	return d
}

var (
	errCodingUnknown = &api.Error{Code: api.BadRequest, HTTPStatus: fasthttp.StatusUnsupportedMediaType, Message: "the Content-Encoding must be gzip, zstd, or absent"}
	errUnreadable    = &api.Error{Code: api.BadRequest, Message: "the body can't be decoded by its Content-Encoding"}
	errUnpacked      = api.TooLarge("the body is larger than 8 MiB when it is unpacked")
)

// text returns the body of a batch, unpacked.
func (g *Gateway) text(ctx *fasthttp.RequestCtx, a *arrival) ([]byte, error) {
	encodings := ctx.Request.Header.PeekAll(fasthttp.HeaderContentEncoding)
	if len(encodings) == 0 {
		return a.body, nil
	}
	var c coding
	switch name := strings.ToLower(string(encodings[0])); {
	case len(encodings) > 1:
		return nil, errCodingUnknown
	case name == "identity":
		return a.body, nil
	case name == "gzip", name == "x-gzip": // which are one (RFC 9110, section 8.4.1.3)
		c = gzipped
	case name == "zstd":
		c = zstandard
	default:
		return nil, errCodingUnknown
	}
	from := g.unpacker[c].Get().(unpacker)
	defer func() {
		_ = from.Reset(bytes.NewReader(nil)) // releases the body
		g.unpacker[c].Put(from)
	}()
	if err := from.Reset(bytes.NewReader(a.body)); err != nil {
		return nil, errUnreadable
	}
	err := a.unpack(from)
	return a.unpacked, err
}

// unpack reads a body to its end, or to the longest that a batch may be.
func (a *arrival) unpack(from io.Reader) error {
	for {
		have := len(a.unpacked)
		if have == cap(a.unpacked) {
			a.unpacked = slices.Grow(a.unpacked, min(maxBatchBody+1-have, max(4*bodyStep, have)))
		}
		n, err := from.Read(a.unpacked[have:cap(a.unpacked)])
		a.unpacked = a.unpacked[:have+n]
		if len(a.unpacked) > maxBatchBody {
			return errUnpacked
		}
		if err := a.take(n); err != nil {
			return err
		}
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
			return errUnpacked
		case err != nil:
			return errUnreadable
		}
	}
}

package gateway

import (
	"io"
	"math"

	"golang.org/x/net/http/httpguts"

	"muniment.example/gateway/api"
)

const (
	// chunked is the Content-Length that stands for the chunked coding while the body is unread:
	// no body may be as long. It makes fasthttp pass on the body's bytes as they come, so that
	// only receiveChunks reads the coding.
	chunked = math.MaxInt
	// maxChunkDigits bounds the length of a chunk, leading zeros included: 64 bits.
	maxChunkDigits = 16
	// maxTrailerBytes bounds all trailers of a body, which are dropped.
	maxTrailerBytes = 8 << 10
)

var (
	errChunk = &api.Error{Code: api.BadRequest, Message: "the chunked body is malformed: a chunk is its length in at most 16 hexadecimal digits, CR LF, as many bytes, CR LF; " +
		"chunk extensions are not accepted"}
	errTrailer = &api.Error{Code: api.BadRequest, Message: "the trailers of the chunked body are malformed, or longer than 8 KiB"}
)

// receiveChunks reads a body in the chunked coding (RFC 9112, section 7.1) to its last byte and no
// further: what follows is the connection's next request. It drops trailers. After an error the
// connection must be closed: where the next request begins is not known.
func (a *arrival) receiveChunks(from io.Reader, limit int) error {
	for {
		size, err := a.chunkSize(from)
		switch {
		case err != nil:
			return err
		case size == 0:
			return a.skipTrailers(from)
		case size > uint64(limit-len(a.body)):
			return errTooLarge
		}
		if err := a.fill(from, int(size), limit); err != nil {
			return err
		}
		if err := a.skip(from, "\r\n", errChunk); err != nil {
			return err
		}
	}
}

// chunkSize reads the line with a chunk's length.
func (a *arrival) chunkSize(from io.Reader) (size uint64, err error) {
	for digits := 0; ; digits++ {
		b, err := a.next(from)
		if err != nil {
			return 0, err
		}
		if b == '\r' && digits > 0 {
			return size, a.skip(from, "\n", errChunk)
		}
		digit, ok := hexDigit(b)
		if !ok || digits == maxChunkDigits {
			return 0, errChunk
		}
		size = size<<4 | digit
	}
}

func hexDigit(b byte) (value uint64, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return uint64(b - '0'), true
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return uint64(b|0x20-'a') + 10, true
	}
	return 0, false
}

// skipTrailers reads the lines behind the last chunk, to the empty one. Each has to be a header's, so
// that no request is taken for one.
func (a *arrival) skipTrailers(from io.Reader) error {
	named, length := false, 0 // of the line
	for range maxTrailerBytes {
		b, err := a.next(from)
		switch {
		case err != nil:
			return err
		case b == '\r' && (named || length == 0):
			if err := a.skip(from, "\n", errTrailer); err != nil || length == 0 {
				return err
			}
			named, length = false, 0
			continue
		case b == ':' && length > 0:
			named = true
		case b < ' ' && b != '\t', b == 0x7f, !named && !httpguts.IsTokenRune(rune(b)):
			return errTrailer
		}
		length++
	}
	return errTrailer
}

// skip reads text, which must be next.
func (a *arrival) skip(from io.Reader, text string, fault error) error {
	for i := range len(text) {
		b, err := a.next(from)
		if err != nil {
			return err
		}
		if b != text[i] {
			return fault
		}
	}
	return nil
}

// next reads one byte: fasthttp has a buffer below.
func (a *arrival) next(from io.Reader) (byte, error) {
	for {
		n, err := from.Read(a.one[:])
		if n == 1 {
			return a.one[0], nil
		}
		if err != nil {
			return 0, cutShort(err)
		}
	}
}

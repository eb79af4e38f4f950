package sealer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdStart begins a file that is compressed with zstd (RFC 8878).
var zstdStart = []byte{0x28, 0xb5, 0x2f, 0xfd}

// maxWindowBytes is how far back a compressed file may refer, and so what reading it needs in
// memory: as much as any reader of the content coding has to provide (RFC 9659).
const maxWindowBytes = 8 << 20

// Uncompressed reads a file that may be compressed with zstd, as a download is if its reader
// accepts that. The caller bounds what is read of it.
func Uncompressed(r *bufio.Reader) (*bufio.Reader, error) {
	start, err := r.Peek(len(zstdStart))
	if err != nil || !bytes.Equal(start, zstdStart) {
		return r, nil // whatever it is, its reader says so
	}
	in, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(unpacked{in}, 1<<16), nil
}

// unpacked names what is wrong with the compression.
type unpacked struct{ io.Reader }

func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: zstd: %w", ErrNotCanonical, err)
	}
	return n, err
}

package upload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// content is a file's, unpacked.
type content struct {
	io.Reader
	file  *os.File
	count *counter
	zstd  *zstd.Decoder // nil unless it is packed so
}

// counter counts what was read of a file, as it lies on the disk.
type counter struct {
	from io.Reader
	n    atomic.Int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// mostWindow bounds the window of a zstd stream to what the zstd tool accepts by default.
const mostWindow = 128 << 20

// byteOrderMark begins the text files of some systems.
var byteOrderMark = []byte("\ufeff")

// openContent opens a file that may be packed by gzip or zstd, which its first bytes say. A byte order mark
// of UTF-8 is none of its content.
func openContent(path string) (*content, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read it: %w", err)
	}
	c := &content{file: f, count: &counter{from: f}}
	raw := bufio.NewReaderSize(c.count, 256<<10)
	start, err := raw.Peek(4)
	switch {
	case err != nil && err != io.EOF:
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		c.Reader, err = gzip.NewReader(raw)
	case bytes.Equal(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		c.zstd, err = zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostWindow))
		c.Reader = c.zstd
	default:
		c.Reader, err = raw, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read it: %w", err), f.Close())
	}
	unpacked := bufio.NewReaderSize(c.Reader, 64<<10)
	if start, _ := unpacked.Peek(len(byteOrderMark)); bytes.Equal(start, byteOrderMark) {
		_, _ = unpacked.Discard(len(byteOrderMark))
	}
	c.Reader = unpacked
	return c, nil
}

// read is how much of the file was read, packed as it is.
func (c *content) read() int64 { return c.count.n.Load() }

// Close closes the file.
func (c *content) Close() error {
	if c.zstd != nil {
		c.zstd.Close()
	}
	return c.file.Close()
}

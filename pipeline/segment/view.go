package segment

import (
	"errors"
	"io"
	"slices"
)

// view reads a file through a buffer that moves along with the reader.
type view struct {
	file  File
	limit int64 // nothing stands from here on
	ahead int   // bytes to read at once, at least

	buf []byte // the file's bytes from at
	at  int64
}

// errNoGroup: the bytes at a place are not a whole and sound group.
var errNoGroup = errors.New("no group with matching checksums")

// bytes returns n bytes at pos, valid until the next call; io.ErrUnexpectedEOF
// when the file, or the view's limit, ends before.
func (v *view) bytes(pos int64, n int) ([]byte, error) {
	if int64(n) > v.limit-pos {
		return nil, io.ErrUnexpectedEOF
	}
	if pos < v.at || pos+int64(n) > v.at+int64(len(v.buf)) {
		if err := v.load(pos, n); err != nil {
			return nil, err
		}
	}
	from := pos - v.at
	return v.buf[from : from+int64(n) : from+int64(n)], nil
}

func (v *view) load(pos int64, n int) error {
	want := int(min(int64(max(n, v.ahead)), v.limit-pos))
	v.buf, v.at = slices.Grow(v.buf[:0], want)[:want], pos
	if _, err := v.file.ReadAt(v.buf, pos); err != nil {
		v.forget()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}

// forget drops the buffer: the next call reads the file.
func (v *view) forget() { v.buf = v.buf[:0] }

// header reads the header of the group at pos; errNoGroup if none is there or
// its body would not end within the view.
func (v *view) header(pos int64, salt uint64) (groupHeader, error) {
	b, err := v.bytes(pos, groupHeaderSize)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errNoGroup
	}
	if err != nil {
		return groupHeader{}, err
	}
	h, ok := parseGroupHeader(b, salt)
	if !ok || h.size() > v.limit-pos {
		return h, errNoGroup
	}
	return h, nil
}

// group reads the whole group at pos and checks its records; raw is header and
// body, valid until the next call.
func (v *view) group(pos int64, salt uint64) (h groupHeader, raw []byte, err error) {
	if h, err = v.header(pos, salt); err != nil {
		return h, nil, err
	}
	raw, err = v.bytes(pos, int(h.size()))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return h, nil, errNoGroup
	case err != nil:
		return h, nil, err
	case !checkBody(raw[groupHeaderSize:], h.count):
		return h, nil, errNoGroup
	}
	return h, raw, nil
}

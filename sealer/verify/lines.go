package verify

import (
	"bufio"
	"bytes"
	"io"

	"muniment.example/sealer/pack"
)

// lineEnds reads a file that is no bundle as it was before a program changed its line ends: CRLF is read as a newline, and at
// the end there is one newline in a file of lines, and none in others, whatever the file has there. Nothing that is signed or
// hashed has a CRLF, or depends on the end of its file. It reads what a file that is compressed holds.
type lineEnds struct {
	in    io.Reader
	r     *bufio.Reader // of what in holds; nil before the first read
	lined bool
	out   []byte // what comes next, behind newlines
	// newlines come next. held is how many were read, and come if anything does behind them.
	newlines, held int
	err            error
}

// startsOfLines are how files begin that are lines, and begin as an object does.
var startsOfLines = []string{`{"checkpoint":"`, `{"after":[`, `{"adjustments":[`}

func (l *lineEnds) begin() {
	if l.r, l.err = pack.Uncompressed(bufio.NewReaderSize(l.in, 1<<16)); l.err != nil {
		return
	}
	start, _ := l.r.Peek(longestStart) // what comes next meets the same error
	l.lined = !bytes.HasPrefix(start, []byte("{"))
	for _, s := range startsOfLines {
		l.lined = l.lined || bytes.HasPrefix(start, []byte(s))
	}
}

func (l *lineEnds) Read(p []byte) (n int, err error) {
	if l.r == nil && l.err == nil {
		l.begin()
	}
	for l.newlines == 0 && len(l.out) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.next()
	}
	for n < len(p) && l.newlines > 0 {
		p[n] = '\n'
		n, l.newlines = n+1, l.newlines-1
	}
	if l.newlines == 0 {
		copied := copy(p[n:], l.out)
		n, l.out = n+copied, l.out[copied:]
	}
	return n, nil
}

// next reads a line, or a part of a long one.
func (l *lineEnds) next() {
	part, err := l.r.ReadSlice('\n')
	text, ended := bytes.CutSuffix(part, []byte("\n"))
	switch {
	case ended:
		text = bytes.TrimSuffix(text, []byte("\r"))
	case err == bufio.ErrBufferFull && bytes.HasSuffix(text, []byte("\r")):
		_ = l.r.UnreadByte() // a newline may be behind it; it can't fail behind a read
		text = text[:len(text)-1]
	}
	if len(text) > 0 {
		l.newlines, l.held, l.out = l.held, 0, text
	}
	switch {
	case ended:
		l.held++
	case err == io.EOF && len(text) == 0:
		if l.err = err; l.lined {
			l.newlines = 1
		}
	case err == io.EOF, err == bufio.ErrBufferFull:
	default:
		l.err = err
	}
}

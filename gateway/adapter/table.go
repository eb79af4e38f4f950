package adapter

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/text/encoding/unicode"
)

// table is the lines of a text whose cells a separator parts (RFC 4180): a cell may stand in quotation
// marks, in which two mean one. In a cell that does not begin with a quotation mark, quotation marks are text.
type table struct {
	text      string // that is left
	separator byte
	line      int // at which it begins
	cells     []string
}

// separators are what may part cells, in the order in which they are tried.
var separators = []byte{',', ';', '\t'}

var errQuote = errors.New(`extraneous or missing " in quoted-field`)

// next returns the cells of the next line that holds anything, and where it begins; io.EOF at the end.
// The list is valid until the following call.
func (t *table) next() (cells []string, line int, err error) {
	for len(t.text) > 0 {
		line = t.line
		cells, size, err := t.record()
		t.line += strings.Count(t.text[:size], "\n")
		t.text = t.text[size:]
		if err != nil {
			return nil, line, err
		}
		if t.cells = cells; len(cells) > 1 || cells[0] != "" {
			return cells, line, nil
		}
	}
	return nil, t.line, io.EOF
}

// record takes the first record apart, and says how long it is.
func (t *table) record() (cells []string, size int, err error) {
	if cells = t.cells[:0]; cells == nil {
		first, _, _ := strings.Cut(t.text, "\n")
		cells = make([]string, 0, strings.Count(first, string(t.separator))+1)
	}
	for rest := t.text; ; {
		cell, n, err := t.cell(rest)
		if err != nil {
			return nil, len(t.text), err
		}
		cells, rest, size = append(cells, cell), rest[n:], size+n
		if len(rest) == 0 {
			return cells, size, nil
		}
		rest, size = rest[1:], size+1
		if t.text[size-1] == '\n' {
			return cells, size, nil
		}
	}
}

// cell reads one, up to the separator or the line feed behind it.
func (t *table) cell(text string) (cell string, size int, err error) {
	if len(text) == 0 || text[0] != '"' {
		for size < len(text) && text[size] != t.separator && text[size] != '\n' {
			size++
		}
		if size == len(text) || text[size] == '\n' {
			return strings.TrimSuffix(text[:size], "\r"), size, nil
		}
		return text[:size], size, nil
	}
	for size = 1; ; size++ {
		end := strings.IndexByte(text[size:], '"')
		if end < 0 {
			return "", 0, errQuote
		}
		if size += end + 1; size == len(text) || text[size] != '"' {
			break
		}
	}
	cell = text[1 : size-1]
	if strings.Contains(cell, `"`) {
		cell = strings.ReplaceAll(cell, `""`, `"`)
	}
	switch rest := text[size:]; {
	case len(rest) == 0, rest[0] == t.separator, rest[0] == '\n':
		return cell, size, nil
	case rest[0] == '\r' && (len(rest) == 1 || rest[1] == '\n'):
		return cell, size + 1, nil
	}
	return "", 0, errQuote
}

// utf8Of is a text in UTF-8 that may be in UTF-16, as spreadsheets write it. A text in another encoding
// stays as it is: what of it is used must be UTF-8.
func utf8Of(text []byte) []byte {
	if order, ok := UTF16(text); ok {
		text, _ = unicode.UTF16(order, unicode.UseBOM).NewDecoder().Bytes(text) // half a pair is U+FFFD
	}
	return text
}

// UTF16 reports whether a text that begins so is in UTF-16, with its byte order mark or without, and in
// which order its bytes are.
func UTF16(start []byte) (unicode.Endianness, bool) {
	switch {
	case bytes.HasPrefix(start, []byte{0xff, 0xfe}), len(start) > 3 && start[0] != 0 && start[1] == 0 && start[3] == 0:
		return unicode.LittleEndian, true
	case bytes.HasPrefix(start, []byte{0xfe, 0xff}), len(start) > 3 && start[0] == 0 && start[1] != 0 && start[2] == 0:
		return unicode.BigEndian, true
	}
	return unicode.BigEndian, false
}

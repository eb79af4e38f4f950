package upload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"muniment.example/gateway/adapter"
)

// pieces are the parts of a document, XML elements or the lines of a table, that become rows by its
// format. The others are not sent.
func (u *Uploader) pieces(f *file, format adapter.Format, from io.Reader) *source {
	query := u.query(f.format)
	p := &pieces{format: format, header: headerOf(query), options: []byte(query.Encode())}
	s := &source{most: maxRows, mediaType: "application/octet-stream", query: query, body: p.document, placed: piecePlaces}
	s.rows = func(yield func(row, error) bool) {
		p.yield = yield
		in := inUTF8(from)
		start, err := in.Peek(512)
		if err == nil || err == io.EOF {
			if text := bytes.TrimLeft(start, " \t\r\n"); len(text) > 0 && text[0] == '<' {
				err = p.elements(in)
			} else {
				err = p.lines(in)
			}
		}
		if err != nil && err != errEnough {
			yield(row{}, err)
		}
	}
	return s
}

type pieces struct {
	format     adapter.Format
	header     adapter.Header
	options    []byte
	yield      func(row, error) bool
	head, tail []byte // of each document
	parts      int64
}

// document is one that has the parts.
func (p *pieces) document(dst []byte, rows []row) []byte {
	dst = append(dst, p.head...)
	for i := range rows {
		dst = append(dst, rows[i].text...)
	}
	return append(dst, p.tail...)
}

// add hands out a part, if it becomes a row.
func (p *pieces) add(text []byte, place string) error {
	r := row{index: p.parts, text: text, place: place, sum: sumOf(p.options, p.head, text)}
	p.parts++
	for range p.format.Rows(p.header, p.document(nil, []row{r})) {
		return visited(p.yield(r, nil))
	}
	return nil
}

// elements cuts XML at its elements that are rows.
func (p *pieces) elements(from io.Reader) error {
	p.head, p.tail = []byte("<stats>"), []byte("</stats>")
	var text []byte
	for ended := false; ; {
		start, end := adapter.NextElement(text)
		if end > 0 { // it is made one that needs no end
			part := append(bytes.Clone(bytes.TrimRight(text[start:end], "/>")), "/>"...)
			if err := p.add(part, "stat["+strconv.FormatInt(p.parts, 10)+"]"); err != nil {
				return err
			}
			text = text[end:]
			continue
		}
		switch text = text[start:]; {
		case ended && len(text) > 0:
			return errors.New("it is cut off: the plays before that were sent")
		case ended && p.parts == 0:
			return errors.New("it holds no <stat>")
		case ended:
			return nil
		case len(text) > maxRecord:
			return fmt.Errorf("a tag of it is longer than %d bytes", maxRecord)
		}
		text = slices.Grow(text, 64<<10)
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err != nil && err != io.EOF {
			return unread(err)
		}
		ended = err == io.EOF
	}
}

// lines cuts a table at its records.
func (p *pieces) lines(from *bufio.Reader) error {
	in := &recordReader{in: from, separator: ','}
	header, _, err := in.next()
	if err == io.EOF {
		return errors.New("it is empty")
	} else if err != nil {
		return fmt.Errorf("its header can't be read: %w", err)
	}
	p.head = header
	for {
		text, line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if err := p.add(text, "line "+strconv.Itoa(line)); err != nil {
			return err
		}
	}
}

var partOfBody = regexp.MustCompile(`"(line \d+|stat\[\d+\])`)

// piecePlaces names the place of the file in place of that of the body.
func piecePlaces(rows []row, i int, text json.RawMessage) json.RawMessage {
	return partOfBody.ReplaceAll(text, []byte(`"`+rows[i].place))
}

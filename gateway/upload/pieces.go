package upload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"muniment/gateway/adapter"
)

// pieces are documents of which not every part becomes a row, XML elements or a table: each piece is a
// document of its own, and its results are told together.
func (u *Uploader) pieces(f *file, from io.Reader) *source {
	query := u.query(f.format)
	options := []byte(query.Encode())
	s := &source{most: 1, mediaType: "application/octet-stream", query: query, placed: piecePlaces,
		body: func(dst []byte, rows []row) []byte { return append(dst, rows[0].text...) }}
	s.rows = func(yield func(row, error) bool) {
		in := inUTF8(from)
		start, err := in.Peek(512)
		if err != nil && err != io.EOF {
			yield(row{}, unread(err))
			return
		}
		p := &piece{yield: yield, options: options}
		if text := bytes.TrimLeft(start, " \t\r\n"); len(text) > 0 && text[0] == '<' {
			err = p.elements(in)
		} else {
			err = p.lines(in)
		}
		if err == nil {
			err = p.end()
		}
		if err != nil && err != errEnough {
			yield(row{}, err)
		}
	}
	return s
}

// piece is the document that is put together.
type piece struct {
	yield      func(row, error) bool
	options    []byte
	head, tail []byte

	text  []byte
	first int // which part of the file it begins with, from 0, or which line
	parts int
	total int
}

// add adds a part, behind which the piece may be full.
func (p *piece) add(part []byte, place int) error {
	if p.parts > 0 && (p.parts == maxRows || len(p.text)+len(part) > cutAt) {
		if err := p.end(); err != nil {
			return err
		}
	}
	if p.parts == 0 {
		p.text, p.first = append([]byte(nil), p.head...), place
	}
	p.text = append(p.text, part...)
	p.parts++
	p.total++
	return nil
}

func (p *piece) end() error {
	if p.parts == 0 {
		return nil
	}
	r := row{index: int64(p.total - p.parts), text: append(p.text, p.tail...), document: true, line: p.first}
	r.sum = sumOf(p.options, r.text)
	p.text, p.parts = nil, 0
	return visited(p.yield(r, nil))
}

// elements cuts XML at its elements that are rows.
func (p *piece) elements(from io.Reader) error {
	p.head, p.tail = []byte("<stats>"), []byte("</stats>")
	var text []byte
	for ended := false; ; {
		start, end := adapter.NextElement(text)
		if end > 0 { // it is made one that needs no end
			part := append(bytes.TrimRight(text[start:end], "/>"), "/>"...)
			if err := p.add(bytes.Clone(part), p.total); err != nil {
				return err
			}
			text = text[end:]
			continue
		}
		switch text = text[start:]; {
		case ended && len(text) > 0:
			return errors.New("it is cut off: the plays before that were sent")
		case ended && p.total == 0:
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
func (p *piece) lines(from io.Reader) error {
	in, header, err := recordsOf(from)
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
		if err := p.add(text, line); err != nil {
			return err
		}
	}
}

var partOfBody = regexp.MustCompile(`"(line |stat\[)(\d+)`)

// piecePlaces names the place of the file in place of that of the piece.
func piecePlaces(rows []row, _ int, text json.RawMessage) json.RawMessage {
	return partOfBody.ReplaceAllFunc(text, func(found []byte) []byte {
		parts := partOfBody.FindSubmatch(found)
		n, err := strconv.Atoi(string(parts[2]))
		if err != nil {
			return found
		}
		if n += rows[0].line; parts[1][0] == 'l' { // the header is the piece's line 1
			n -= 2
		}
		return append(append([]byte{'"'}, parts[1]...), strconv.Itoa(n)...)
	})
}

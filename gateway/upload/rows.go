package upload

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/adapter"
)

// row is one of a file.
type row struct {
	index int64
	text  []byte
	// sum is of all that the service makes the row of. A row with another sum is another row.
	sum uint64
	// line of the file where it begins, of CSV.
	line int
	// fault is why it can't be sent.
	fault string
	// settled, if it is set, is called when the service has said what becomes of it.
	settled func(taken bool)

	// Of a part of a vendor's document: its place, the list that it stands in, and what stands beside that.
	list, besideName, place string
	beside                  jsontext.Value
	// Of a session: its events, in place of a text, and how many bytes they have.
	events  []event
	size    int
	session string // its name
}

// source is the rows of a file, and how they are sent.
type source struct {
	// rows ends with the first error.
	rows iter.Seq2[row, error]
	// most is how many make a batch.
	most int
	// body appends the body that has these rows.
	body      func(dst []byte, rows []row) []byte
	mediaType string
	query     url.Values
	// placed, if it is set, names the places of the file in an error of a row that names those of the body.
	placed func(rows []row, i int, text json.RawMessage) json.RawMessage
}

// source is how a file of its format is read.
func (u *Uploader) source(f *file, from io.Reader) (*source, error) {
	switch f.format {
	case formatLines:
		return lines(from), nil
	case formatJSON:
		return list(f.path, from), nil
	}
	format, known := adapter.Lookup(f.format, "")
	switch {
	case !known:
		return nil, fmt.Errorf("the format %q is unknown: it must be ndjson, json, or one of %s", f.format, strings.Join(adapter.Names(), ", "))
	case format.Kind() == adapter.Table:
		return u.records(f, from)
	case format.Kind() == adapter.Lines, format.Kind() == adapter.Events:
		return u.logs(f, format, from)
	case format.Kind() == adapter.Elements:
		return u.pieces(f, format, from), nil
	}
	return u.values(f, format, from), nil
}

// sumOf hashes parts with their lengths, so that different parts can't have one sum.
func sumOf(parts ...[]byte) uint64 {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write(part)
	}
	return max(1, binary.BigEndian.Uint64(h.Sum(nil))) // 0 is no row's
}

// readable reports whether text is JSON. It accepts duplicate names, for which the service refuses the row.
func readable(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true))
}

const (
	notJSON = "it is not one JSON value in UTF-8"
	// mostRow leaves room in a body for what stands around a row.
	mostRow = maxBody - 1024
	tooLong = "it is longer than a batch may be, which is 8 MiB"
)

// lines are JSON values, a row a line; empty lines are none.
func lines(from io.Reader) *source {
	return &source{most: maxRows, body: jsonBody(nil), mediaType: "application/json", rows: func(yield func(row, error) bool) {
		in := bufio.NewReaderSize(from, 64<<10)
		for index := int64(0); ; {
			text, err := line(in, maxBody)
			if text = bytes.TrimSpace(text); len(text) > 0 {
				r := row{index: index, text: text, sum: sumOf(nil, text)}
				switch {
				case len(text) > mostRow:
					r.text, r.fault = nil, tooLong
				case !readable(text):
					r.text, r.fault = nil, notJSON
				}
				if !yield(r, nil) {
					return
				}
				index++
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(row{}, unread(err))
				return
			}
		}
	}}
}

// line reads to the next line feed, and keeps as much as limit of it.
func line(in *bufio.Reader, limit int) (text []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part[:min(len(part), limit-len(text))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

func unread(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is cut off: the rows before that were sent")
	}
	return fmt.Errorf("cannot read on: %w", err)
}

// jsonBody writes the bodies of rows that are JSON.
func jsonBody(vendor jsontext.Value) func([]byte, []row) []byte {
	return func(dst []byte, rows []row) []byte {
		dst = append(dst, '{')
		if vendor != nil {
			dst = append(append(append(dst, `"vendor":`...), vendor...), ',')
		}
		dst = append(dst, `"rows":[`...)
		for i := range rows {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, rows[i].text...)
		}
		return append(dst, `]}`...)
	}
}

// query is the parameters of a format.
func (u *Uploader) query(format string) url.Values {
	q := url.Values{"format": {format}}
	for name, values := range u.cfg.Options {
		q[name] = values
	}
	return q
}

// rejected is the result of a row that was not sent.
func (r *row) rejected() []result {
	why, err := json.Marshal(map[string]string{"error": "BAD_REQUEST", "message": r.fault})
	if err != nil { // of two texts
		why = nil
	}
	return []result{{Index: r.index, Row: sumText(r.sum), Status: statusRejected, Error: why}}
}

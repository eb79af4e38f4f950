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

	"github.com/go-json-experiment/json/jsontext"
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
	// document says that it stands for all rows of a document.
	document bool
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
}

// source is how a file of its format is read.
func (u *Uploader) source(f *file, from io.Reader) *source {
	switch f.format {
	case formatLines:
		return lines(from)
	case formatJSON:
		return list(f.path, from)
	case formatCSV:
		return u.records(from)
	}
	return u.document(f.format, from)
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
	tooLong = "it is longer than a batch may be, which is 8 MiB"
)

var byteOrderMark = []byte("\ufeff")

// lines are JSON values, a row a line; empty lines are none.
func lines(from io.Reader) *source {
	return &source{most: maxRows, body: jsonBody(nil), mediaType: "application/json", rows: func(yield func(row, error) bool) {
		in := bufio.NewReaderSize(from, 64<<10)
		for index := int64(0); ; {
			text, err := line(in, maxBody)
			if index == 0 {
				text = bytes.TrimPrefix(text, byteOrderMark)
			}
			if text = bytes.TrimSpace(text); len(text) > 0 {
				r := row{index: index, text: text, sum: sumOf(nil, text)}
				switch {
				case len(text) > maxBody-1024:
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

// document is the whole file in a format of the service's: it is not taken apart here.
func (u *Uploader) document(format string, from io.Reader) *source {
	query := u.query(format)
	return &source{most: 1, mediaType: "application/octet-stream", query: query,
		body: func(dst []byte, rows []row) []byte { return append(dst, rows[0].text...) },
		rows: func(yield func(row, error) bool) {
			text, err := io.ReadAll(io.LimitReader(from, maxBody+1))
			switch {
			case err != nil:
				yield(row{}, unread(err))
			case len(text) > maxBody:
				yield(row{}, errors.New("a document can't be cut, and it is longer than a batch may be, which is 8 MiB"))
			default:
				yield(row{text: text, sum: sumOf([]byte(query.Encode()), text), document: true}, nil)
			}
		}}
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

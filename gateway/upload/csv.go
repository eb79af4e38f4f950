package upload

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	// maxRecord bounds what is read in search of a closing quotation mark.
	maxRecord = 1 << 20
	// maxCells bounds what the service has to take apart of one body.
	maxCells = 1 << 17
)

// records are the lines of a CSV file with a header line, which each batch begins with.
func (u *Uploader) records(from io.Reader) *source {
	query := u.query(formatCSV)
	s := &source{mediaType: "text/csv", query: query}
	s.rows = func(yield func(row, error) bool) {
		in := &recordReader{in: bufio.NewReaderSize(from, 64<<10)}
		header, _, err := in.next()
		if err == io.EOF {
			yield(row{}, errors.New("it has no header line"))
			return
		}
		header = bytes.TrimPrefix(header, byteOrderMark)
		var columns int
		if err == nil {
			columns, err = cells(header)
		}
		if err != nil {
			yield(row{}, fmt.Errorf("its header can't be read: %w", err))
			return
		}
		s.most = max(1, min(maxRows, maxCells/columns))
		s.body = func(dst []byte, rows []row) []byte {
			dst = append(dst, header...)
			for i := range rows {
				dst = append(dst, rows[i].text...)
			}
			return dst
		}
		options := []byte(query.Encode())
		for index := int64(0); ; index++ {
			text, line, err := in.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(row{}, fmt.Errorf("line %d: %w", line, err))
				return
			}
			r := row{index: index, text: text, sum: sumOf(options, header, text), line: line}
			if _, err := cells(text); err != nil {
				r.text, r.fault = nil, fmt.Sprintf("line %d: %v", line, err)
			}
			if !yield(r, nil) {
				return
			}
		}
	}
	return s
}

// recordReader takes a CSV file apart into the texts of its records, each with what ends its
// line. Empty lines are none.
type recordReader struct {
	in   *bufio.Reader
	line int // behind what was read
}

// next returns the next record and the line where it begins.
func (r *recordReader) next() (text []byte, at int, err error) {
	for {
		r.line++
		at, text = r.line, nil
		var q quotes
		for {
			part, err := line(r.in, maxRecord+1)
			text = append(text, part...)
			q.read(part)
			if len(text) > maxRecord {
				return nil, at, fmt.Errorf("it is longer than %d bytes: a quotation mark may not be closed", maxRecord)
			}
			if err != nil && err != io.EOF {
				return nil, at, unread(err)
			}
			if err == io.EOF && len(text) == 0 {
				return nil, at, io.EOF
			}
			if err == io.EOF || !q.within {
				break
			}
			r.line++
		}
		if !bytes.HasSuffix(text, []byte{'\n'}) {
			text = append(text, '\n') // the last line of the file
		}
		if len(text) > 2 || text[0] != '\n' && text[0] != '\r' {
			return text, at, nil
		}
	}
}

// quotes is where in a record its reader is.
type quotes struct {
	within bool // quotation marks
	inCell bool // behind a cell's first byte
}

// read goes on over the next part, which doesn't end between two marks that mean one.
func (q *quotes) read(part []byte) {
	for i := 0; i < len(part); i++ {
		switch c := part[i]; {
		case q.within && c == '"' && i+1 < len(part) && part[i+1] == '"':
			i++
		case q.within && c == '"':
			q.within = false
		case !q.within && c == '"' && !q.inCell:
			q.within = true
		}
		q.inCell = q.within || part[i] != ','
	}
}

// cells counts those of a record, and says what is wrong with it.
func cells(text []byte) (int, error) {
	if !utf8.Valid(text) {
		return 0, errors.New("it is not UTF-8")
	}
	in := csv.NewReader(bytes.NewReader(text))
	in.FieldsPerRecord = -1
	record, err := in.Read()
	var fault *csv.ParseError
	if errors.As(err, &fault) {
		return 0, fault.Err
	}
	return len(record), err
}

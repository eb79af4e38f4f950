package upload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"muniment.example/gateway/adapter"
)

const (
	// maxRecord bounds what is read in search of a closing quotation mark.
	maxRecord = 1 << 20
	// maxCells bounds what the service has to take apart of one body.
	maxCells = 1 << 17
)

// table is a CSV file that is to be cut: what only the whole of it shows, and its header line.
type table struct {
	*adapter.TableOf
	header []byte
	query  url.Values
}

// readTable reads a file once, for what it shows of its separators and dates.
func (u *Uploader) readTable(f *file) (t *table, err error) {
	content, err := openContent(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	in, header, err := recordsOf(content)
	if err == io.EOF {
		return nil, errors.New("it has no header line")
	} else if err != nil {
		return nil, fmt.Errorf("its header can't be read: %w", err)
	}
	t = &table{header: header}
	if t.TableOf, err = adapter.ReadTable(headerOf(u.query(f.format)), header); err != nil {
		return nil, err
	}
	in.separator = t.Separator()
	for {
		text, line, err := in.next()
		if err == io.EOF {
			t.query = t.Options()
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		_ = t.Learn(text) // what is wrong with it is reported when it is sent
	}
}

// inUTF8 is a text that may be in UTF-16.
func inUTF8(from io.Reader) *bufio.Reader {
	raw := bufio.NewReaderSize(from, 64<<10)
	if start, _ := raw.Peek(4); len(start) > 1 {
		if order, ok := adapter.UTF16(start); ok {
			return bufio.NewReaderSize(transform.NewReader(raw, unicode.UTF16(order, unicode.UseBOM).NewDecoder()), 64<<10)
		}
	}
	return raw
}

// recordsOf begins to read a CSV file.
func recordsOf(from io.Reader) (in *recordReader, header []byte, err error) {
	in = &recordReader{in: inUTF8(from), separator: ','}
	header, _, err = in.next()
	return in, header, err
}

// records are the lines of a CSV file with a header line, which each batch begins with.
func (u *Uploader) records(f *file, from io.Reader) (*source, error) {
	t, err := u.readTable(f)
	if err != nil {
		return nil, err
	}
	s := &source{mediaType: "text/csv", query: t.query, most: max(1, min(maxRows, maxCells/t.Columns())), placed: recordPlaces}
	s.body = func(dst []byte, rows []row) []byte {
		dst = append(dst, t.header...)
		for i := range rows {
			dst = append(dst, rows[i].text...)
		}
		return dst
	}
	s.rows = func(yield func(row, error) bool) {
		in, _, err := recordsOf(from)
		if err != nil {
			yield(row{}, unread(err))
			return
		}
		in.separator = t.Separator()
		options := []byte(t.query.Encode())
		for index := int64(0); ; index++ {
			text, line, err := in.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(row{}, fmt.Errorf("line %d: %w", line, err))
				return
			}
			r := row{index: index, text: text, sum: sumOf(options, t.header, text), line: line}
			if err := t.Learn(text); err != nil {
				r.text, r.fault = nil, fmt.Sprintf("line %d: %v", line, err)
			}
			if !yield(r, nil) {
				return
			}
		}
	}
	return s, nil
}

// lineOfBody is how the service names a line of a body, in what JSON says of an error.
var lineOfBody = regexp.MustCompile(`"line (\d+)`)

// recordPlaces names the line of the file in place of that of the body.
func recordPlaces(rows []row, i int, text json.RawMessage) json.RawMessage {
	return lineOfBody.ReplaceAll(text, []byte(`"line `+strconv.Itoa(rows[i].line)))
}

// recordReader takes a CSV file apart into the texts of its records, each with what ends its
// line. Empty lines are none.
type recordReader struct {
	in        *bufio.Reader
	separator byte
	line      int // behind what was read
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
			q.read(part, r.separator)
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
func (q *quotes) read(part []byte, separator byte) {
	for i := 0; i < len(part); i++ {
		switch c := part[i]; {
		case q.within && c == '"' && i+1 < len(part) && part[i+1] == '"':
			i++
		case q.within && c == '"':
			q.within = false
		case !q.within && c == '"' && !q.inCell:
			q.within = true
		}
		q.inCell = q.within || part[i] != separator
	}
}

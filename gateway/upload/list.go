package upload

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/api"
)

// list is one JSON document: the rows, or an object of rows and the vendor of all.
func list(path string, from io.Reader) *source {
	s := &source{most: maxRows, mediaType: "application/json"}
	s.rows = func(yield func(row, error) bool) {
		vendor, err := vendorOf(path) // which may stand behind the rows
		if err != nil {
			yield(row{}, err)
			return
		}
		s.body = jsonBody(vendor)
		index := int64(0)
		_, err = walk(from, func(raw jsontext.Value) bool {
			r := row{index: index, sum: sumOf(vendor, raw)}
			if r.text = bytes.Clone(raw); len(raw) > mostRow {
				r.text, r.fault = nil, tooLong
			}
			index++
			return yield(r, nil)
		})
		if err != nil && err != errEnough {
			yield(row{}, err)
		}
	}
	return s
}

// vendorOf is that of all rows, as JSON; nil if the document names none.
func vendorOf(path string) (jsontext.Value, error) {
	from, err := openContent(path)
	if err != nil {
		return nil, err
	}
	vendor, err := walk(from, nil)
	return vendor, errors.Join(err, from.Close())
}

var (
	errEnough = errors.New("enough")
	errNoList = errors.New(`it is neither a list of rows nor an object that has them, {"rows": […]}; if it has a row a line, name the --format ndjson`)
)

// walk reads a document, calls visit with each row until it returns false, and returns the
// vendor. With a nil visit it reads the document to its end.
func walk(from io.Reader, visit func(jsontext.Value) bool) (vendor jsontext.Value, err error) {
	d := jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true))
	rows := func() error {
		if d.PeekKind() != jsontext.KindBeginArray {
			return errNoList
		}
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		for d.PeekKind() != jsontext.KindEndArray {
			raw, err := d.ReadValue()
			if err != nil {
				return err
			}
			if visit != nil && !visit(raw) {
				return errEnough
			}
		}
		_, err := d.ReadToken()
		return err
	}
	seen := false
	if d.PeekKind() == jsontext.KindBeginObject {
		if _, err = d.ReadToken(); err != nil {
			return nil, unreadJSON(err)
		}
		for err == nil && d.PeekKind() != jsontext.KindEndObject {
			var name jsontext.Token
			if name, err = d.ReadToken(); err != nil {
				break
			}
			switch name.String() {
			case "rows":
				if seen {
					return nil, errors.New("it has two lists of rows")
				}
				seen, err = true, rows()
			case "vendor":
				var raw jsontext.Value
				raw, err = d.ReadValue()
				vendor = bytes.Clone(raw)
			default:
				if meant := api.IngestBatchNames.Meant([]byte(name.String())); meant != "" {
					return nil, fmt.Errorf("its field %q %s", name.String(), api.Misspelt(meant))
				}
				err = d.SkipValue()
			}
		}
		if err == nil {
			_, err = d.ReadToken()
		}
	} else {
		seen, err = true, rows()
	}
	if err == nil && !seen {
		err = errNoList
	}
	if err == nil {
		if _, err = d.ReadToken(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = errors.New("there is more after its end")
		}
	}
	return vendor, unreadJSON(err)
}

// unreadJSON says of a fault of the syntax that the document has one.
func unreadJSON(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	return err
}

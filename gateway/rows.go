package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
)

const (
	maxVendor   = 512      // bytes
	mostMembers = 64       // of a body
	maxMember   = 64 << 10 // bytes of one, but for the rows
)

var (
	errNotJSON     = &api.Error{Code: api.BadRequest, Message: "the body is not one JSON value in UTF-8"}
	errTooDeep     = &api.Error{Code: api.BadRequest, Message: "the body nests deeper than 32 levels"}
	errManyMembers = api.InvalidField("body", fmt.Sprintf("has more than %d members", mostMembers))
	errTooManyRows = api.InvalidField("rows", fmt.Sprintf("are more than %d: send them in several batches", issue.MostRows))
)

// readJSON reads {"vendor"?, "rows": […]}. The rows are parts of text; each is JSON, possibly
// with names that are given twice. Other members are limited in number and size, as a search for
// such names takes many times the memory of a text.
func readJSON(text []byte, b *issue.Batch) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)) // a Buffer is read in place
	if d.PeekKind() != jsontext.KindBeginObject {
		if d.SkipValue() != nil || !atEnd(d) {
			return errNotJSON
		}
		return api.InvalidField("body", "must be an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return errNotJSON
	}
	var faults []api.ValidationError
	fault := func(field, message string) {
		faults = append(faults, api.ValidationError{Field: field, Message: message})
	}
	seen, misspelt := map[string]bool{}, false
	for count := 0; d.PeekKind() != jsontext.KindEndObject; count++ {
		token, err := d.ReadToken()
		if err != nil {
			return errNotJSON
		}
		if count == mostMembers {
			return errManyMembers
		}
		name := token.String()
		if seen[name] {
			fault(name, "is given twice")
		}
		seen[name] = true
		switch {
		case name == "rows" && d.PeekKind() == jsontext.KindBeginArray:
			if err := readList(d, text, b); err == errTooManyRows {
				fault(errTooManyRows.Field, errTooManyRows.ValidationErrors[0].Message)
			} else if err != nil {
				return errNotJSON
			}
			continue
		case name == "rows":
			fault(name, "must be a list")
		}
		value, err := d.ReadValue()
		switch {
		case err != nil:
			return errNotJSON
		case issue.TooDeep(value):
			return errTooDeep
		case len(value) > maxMember:
			fault(name, fmt.Sprintf("must be at most %d KiB", maxMember>>10))
		case !value.IsValid(): // the strict check also finds names given twice
			fault(name, "holds a name that is given twice")
		case name == "vendor":
			if b.Vendor, err = readVendor(value); err != nil {
				fault(name, err.Error())
			}
		case name != "rows":
			if meant := api.IngestBatchNames.Meant([]byte(name)); meant != "" {
				misspelt = true
				fault(name, api.Misspelt(meant))
			}
		}
	}
	if _, err := d.ReadToken(); err != nil || !atEnd(d) {
		return errNotJSON
	}
	if !seen["rows"] && !misspelt {
		fault("rows", "is missing")
	}
	if len(faults) > 0 {
		return api.Invalid(faults...)
	}
	return nil
}

// readList reads the list of rows to its end, even if it is too long.
func readList(d *jsontext.Decoder, text []byte, b *issue.Batch) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; d.PeekKind() != jsontext.KindEndArray; n++ {
		raw, err := d.ReadValue()
		if err != nil {
			return err
		}
		if end := d.InputOffset(); n < issue.MostRows {
			b.Rows = append(b.Rows, issue.Row{JSON: text[end-int64(len(raw)) : end]})
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if n > issue.MostRows {
		return errTooManyRows
	}
	return nil
}

func readVendor(value jsontext.Value) (string, error) {
	if value.Kind() == jsontext.KindNull {
		return "", nil
	}
	if value.Kind() != jsontext.KindString {
		return "", errors.New("must be a string or null")
	}
	vendor, err := jsontext.AppendUnquote(nil, value)
	switch {
	case err != nil:
		return "", err
	case len(vendor) == 0:
		return "", errors.New("must not be empty")
	case len(vendor) > maxVendor:
		return "", fmt.Errorf("must be at most %d bytes", maxVendor)
	}
	return string(vendor), nil
}

func atEnd(d *jsontext.Decoder) bool {
	_, err := d.ReadToken()
	return err == io.EOF
}

// readLines reads a body with a row on each line. It skips empty lines.
func readLines(text []byte, b *issue.Batch) error {
	for number := 1; len(text) > 0; number++ {
		var line []byte
		line, text, _ = bytes.Cut(text, lineFeed)
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true)) {
			return &api.Error{Code: api.BadRequest, Field: "rows", Message: fmt.Sprintf("line %d is not one JSON value in UTF-8", number)}
		}
		if len(b.Rows) == issue.MostRows {
			return errTooManyRows
		}
		b.Rows = append(b.Rows, issue.Row{JSON: line})
	}
	return nil
}

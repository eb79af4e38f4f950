package upload

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// batch is rows of one file that are sent together.
type batch struct {
	file   *file
	source *source
	rows   []row
	size   int
	bytes  int64 // of the file, as it lies on the disk, that end with it
}

func (b *batch) add(r row) {
	b.rows = append(b.rows, r)
	b.size += len(r.text) + 1
}

// answer is that to a batch, as far as it is kept.
type answer struct {
	Data struct {
		Results []struct {
			Index   int64
			Status  string
			Receipt *struct{ ReceiptID string }
			HeldID  string
			Error   json.RawMessage
		}
	}
}

// results are the lines of a batch that was answered: of each row, or of a document's.
func (b *batch) results(a *answer) ([]result, error) {
	given := a.Data.Results
	document := b.rows[0].document
	if !document && len(given) != len(b.rows) {
		return nil, fmt.Errorf("the service answered %d rows with %d results", len(b.rows), len(given))
	}
	lines := make([]result, len(given))
	for i, g := range given {
		of := &b.rows[0]
		index, rows := int64(i), int64(len(given))
		if !document {
			of = &b.rows[i]
			index, rows = of.index, 0
		}
		switch {
		case g.Index != int64(i):
			return nil, fmt.Errorf("the service answered row %d with the result of row %d", i, g.Index)
		case g.Status != statusAccepted && g.Status != statusDuplicate && g.Status != statusRejected && g.Status != statusUnmapped:
			return nil, fmt.Errorf("the service answered a row with the status %.40q", g.Status)
		}
		lines[i] = result{Index: index, Row: sumText(of.sum), Status: g.Status, HeldID: g.HeldID, Error: of.placed(g.Error), Rows: rows}
		if g.Receipt != nil {
			lines[i].ReceiptID = g.Receipt.ReceiptID
		}
	}
	return lines, nil
}

// lineOfBody is how the service names a line of a CSV body, in what JSON says of an error.
var lineOfBody = regexp.MustCompile(`"line \d+`)

// placed is an error that names the line of the file in place of that of the body.
func (r *row) placed(text json.RawMessage) json.RawMessage {
	if r.line == 0 || text == nil {
		return text
	}
	return lineOfBody.ReplaceAll(text, []byte(`"line `+strconv.Itoa(r.line)))
}

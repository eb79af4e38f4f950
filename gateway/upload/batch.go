package upload

import (
	"encoding/json"
	"fmt"
	"slices"
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
	b.size += r.bytes() + 1
}

// bytes is how long the row is in a body.
func (r *row) bytes() int { return max(len(r.text), r.size) }

// answer is that to a batch, as far as it is kept.
type answer struct {
	Data struct {
		Results []struct {
			Index              int64
			Status             string
			RowID              string
			Receipt, Signature json.RawMessage
			HeldID, Reason     string
			Error              json.RawMessage
		}
		Warnings []string
	}
}

// results are the lines of a batch that was answered, in the order of its rows.
func (b *batch) results(a *answer) ([]result, error) {
	given := a.Data.Results
	if len(given) != len(b.rows) {
		return nil, fmt.Errorf("the service answered %d rows with %d results", len(b.rows), len(given))
	}
	lines := make([]result, len(given))
	for i, g := range given {
		of := &b.rows[i]
		switch {
		case g.Index != int64(i):
			return nil, fmt.Errorf("the service answered row %d with the result of row %d", i, g.Index)
		case !slices.Contains([]string{statusAccepted, statusDuplicate, statusRejected, statusUnmapped, statusHeld}, g.Status):
			return nil, fmt.Errorf("the service answered a row with the status %.40q", g.Status)
		}
		if b.source.placed != nil && g.Error != nil {
			g.Error = b.source.placed(b.rows, i, g.Error)
		}
		lines[i] = result{Index: of.index, Row: sumText(of.sum), Status: g.Status, RowID: g.RowID, HeldID: g.HeldID, Reason: g.Reason, Error: g.Error,
			Receipt: g.Receipt, Signature: g.Signature}
		if lines[i].Session = of.session; g.RowID == "" {
			lines[i].RowID = of.session
		}
		var receipt struct{ ReceiptID string }
		if g.Receipt != nil && json.Unmarshal(g.Receipt, &receipt) == nil {
			lines[i].ReceiptID = receipt.ReceiptID
		}
	}
	return lines, nil
}

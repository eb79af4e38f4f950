package table

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"muniment.example/control/route"
)

// csvWriter is RFC 4180 with a header line. Null is an empty text, a list its JSON.
type csvWriter struct {
	w       *csv.Writer
	columns []Column
	cells   []string
}

func newCSV(w io.Writer, columns []Column) *csvWriter {
	s := &csvWriter{w: csv.NewWriter(w), columns: columns, cells: make([]string, len(columns))}
	for i, c := range columns {
		s.cells[i] = c.Name
	}
	_ = s.w.Write(s.cells) // s.w keeps the error
	return s
}

func (s *csvWriter) Write(cells []any) error {
	for i, cell := range cells {
		switch cell := cell.(type) {
		case string:
			if _, number := unscaled(cell, s.columns[i].Scale); s.columns[i].Type == Document {
				cell = route.InertJSON(cell)
			} else if s.columns[i].Type != Decimal || !number { // a debt is a number that begins with a sign
				cell = route.Inert(cell)
			}
			s.cells[i] = cell
		case int64:
			s.cells[i] = strconv.FormatInt(cell, 10)
		case float64:
			s.cells[i] = strconv.FormatFloat(cell, 'f', -1, 64)
		case bool:
			s.cells[i] = strconv.FormatBool(cell)
		case time.Time:
			s.cells[i] = momentOf(s.columns[i].Type, cell)
		case []string:
			s.cells[i] = route.Visible(string(appendList(nil, cell)))
		default:
			s.cells[i] = ""
		}
	}
	return s.w.Write(s.cells)
}

func (s *csvWriter) Close() error {
	s.w.Flush()
	return s.w.Error()
}

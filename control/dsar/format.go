package dsar

import (
	"io"
	"reflect"
	"slices"
	"strings"

	"muniment.example/control/table"
)

// sectionWriter writes the rows of one section in a format.
type sectionWriter struct {
	w       table.Writer
	columns []column
	cells   []any
}

func (f Format) extension() string { return "." + strings.ToLower(string(f)) }

// section begins a section whose rows have the type of like; bom says that a CSV file begins with a
// byte order mark. Columns are sorted by name but in CSV, which has the order of the type.
func (f Format) section(w io.Writer, like any, bom bool) *sectionWriter {
	s := &sectionWriter{columns: columnsOf(like)}
	if f != CSV {
		slices.SortFunc(s.columns, func(a, b column) int { return strings.Compare(a.Name, b.Name) })
	}
	columns := make([]table.Column, len(s.columns))
	for i, c := range s.columns {
		columns[i] = c.Column
	}
	s.w, s.cells = table.Format(strings.ToLower(string(f))).New(w, columns, bom), make([]any, len(columns))
	return s
}

func (s *sectionWriter) row(row any) (err error) {
	v := reflect.ValueOf(row)
	for i := range s.columns {
		if s.cells[i], err = s.columns[i].cell(v); err != nil {
			return err
		}
	}
	return s.w.Write(s.cells)
}

// close ends the section; it does not close the writer underneath.
func (s *sectionWriter) close() error { return s.w.Close() }

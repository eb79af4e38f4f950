package dsar

import (
	"bufio"
	"encoding/csv"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"muniment.example/control/route"
	"muniment.example/sealer"
)

// sectionWriter writes the rows of one section in a format.
type sectionWriter interface {
	row(row any) error
	// close ends the section; it does not close the writer underneath.
	close() error
}

func (f Format) extension() string { return "." + strings.ToLower(string(f)) }

// section begins a section whose rows have the type of like; bom says that a CSV file begins with a
// byte order mark.
func (f Format) section(w io.Writer, like any, bom bool) sectionWriter {
	columns := columnsOf(like)
	switch f {
	case CSV:
		if bom {
			w = &marked{to: w}
		}
		return newCSV(w, columns)
	case Parquet:
		return newParquet(w, columns)
	}
	slices.SortFunc(columns, func(a, b column) int { return strings.Compare(a.name, b.name) })
	return &jsonSection{w: bufio.NewWriterSize(w, 1<<16), columns: columns, list: f == JSON}
}

// jsonSection writes each row as a line of RFC 8785 JSON. A list has brackets on their own lines.
type jsonSection struct {
	w       *bufio.Writer
	columns []column // sorted by name
	line    []byte
	list    bool
	begun   bool
}

func (s *jsonSection) row(row any) error {
	s.line = s.line[:0]
	switch {
	case s.list && s.begun:
		s.line = append(s.line, ",\n"...)
	case s.list:
		s.line = append(s.line, "[\n"...)
	}
	s.begun = true
	v := reflect.ValueOf(row)
	for i := range s.columns {
		cell, err := s.columns[i].cell(v)
		if err != nil {
			return err
		}
		s.line = append(sealer.AppendString(append(s.line, "{,"[min(i, 1)]), s.columns[i].name), ':')
		switch cell := cell.(type) {
		case string:
			if s.columns[i].sort == document {
				s.line = append(s.line, cell...)
			} else {
				s.line = sealer.AppendString(s.line, cell)
			}
		case int64:
			s.line = strconv.AppendInt(s.line, cell, 10)
		case float64:
			s.line = sealer.AppendNumber(s.line, cell)
		case bool:
			s.line = strconv.AppendBool(s.line, cell)
		default:
			s.line = append(s.line, "null"...)
		}
	}
	s.line = append(s.line, '}')
	if !s.list {
		s.line = append(s.line, '\n')
	}
	_, err := s.w.Write(s.line)
	return err
}

func (s *jsonSection) close() error {
	switch {
	case s.list && s.begun:
		s.w.WriteString("\n]\n")
	case s.list:
		s.w.WriteString("[\n]\n")
	}
	return s.w.Flush()
}

// marked puts a byte order mark before what is written.
type marked struct {
	to    io.Writer
	begun bool
}

func (m *marked) Write(p []byte) (int, error) {
	if !m.begun {
		m.begun = true
		if _, err := io.WriteString(m.to, route.ByteOrderMark); err != nil {
			return 0, err
		}
	}
	return m.to.Write(p)
}

// csvSection is RFC 4180 with a header line. Null is an empty text.
type csvSection struct {
	w       *csv.Writer
	columns []column
	cells   []string
}

func newCSV(w io.Writer, columns []column) *csvSection {
	s := &csvSection{w: csv.NewWriter(w), columns: columns, cells: make([]string, len(columns))}
	for i, c := range columns {
		s.cells[i] = c.name
	}
	_ = s.w.Write(s.cells) // s.w keeps the error
	return s
}

func (s *csvSection) row(row any) error {
	v := reflect.ValueOf(row)
	for i := range s.columns {
		cell, err := s.columns[i].cell(v)
		if err != nil {
			return err
		}
		switch cell := cell.(type) {
		case string:
			s.cells[i] = route.Inert(cell)
		case int64:
			s.cells[i] = strconv.FormatInt(cell, 10)
		case float64:
			s.cells[i] = strconv.FormatFloat(cell, 'f', -1, 64)
		case bool:
			s.cells[i] = strconv.FormatBool(cell)
		default:
			s.cells[i] = ""
		}
	}
	return s.w.Write(s.cells)
}

func (s *csvSection) close() error {
	s.w.Flush()
	return s.w.Error()
}

// rowsAGroup is how many rows Parquet holds in memory; bytesAGroup ends a group of long rows sooner.
const (
	rowsAGroup  = 10_000
	bytesAGroup = 16 << 20
)

// parquetSection has a column for each member, all of them optional.
type parquetSection struct {
	w       *parquet.GenericWriter[any]
	columns []column // in the order of the schema
	cells   parquet.Row
	rows    int
	bytes   int
}

func newParquet(w io.Writer, columns []column) *parquetSection {
	group := parquet.Group{}
	byName := map[string]column{}
	// The library's default level has a window of 32 MiB.
	options := []parquet.WriterOption{parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest})}
	for _, c := range columns {
		var node parquet.Node
		switch c.sort {
		case text:
			node = parquet.String()
		case integer:
			node = parquet.Leaf(parquet.Int64Type)
		case number:
			node = parquet.Leaf(parquet.DoubleType)
		case boolean:
			node = parquet.Leaf(parquet.BooleanType)
		case document:
			node = parquet.JSON()
		}
		group[c.name], byName[c.name] = parquet.Optional(node), c
		options = append(options, parquet.SkipPageBounds(c.name)) // the bounds are whole texts, held in memory to the end of the file
	}
	schema := parquet.NewSchema("row", group)
	s := &parquetSection{w: parquet.NewGenericWriter[any](w, append(options, schema)...)}
	for _, path := range schema.Columns() {
		s.columns = append(s.columns, byName[path[0]])
	}
	s.cells = make(parquet.Row, len(s.columns))
	return s
}

func (s *parquetSection) row(row any) error {
	v := reflect.ValueOf(row)
	for i := range s.columns {
		cell, err := s.columns[i].cell(v)
		if err != nil {
			return err
		}
		s.bytes += 16
		switch cell := cell.(type) {
		case string:
			s.bytes += len(cell)
			s.cells[i] = parquet.ByteArrayValue([]byte(cell)).Level(0, 1, i)
		case int64:
			s.cells[i] = parquet.Int64Value(cell).Level(0, 1, i)
		case float64:
			s.cells[i] = parquet.DoubleValue(cell).Level(0, 1, i)
		case bool:
			s.cells[i] = parquet.BooleanValue(cell).Level(0, 1, i)
		default:
			s.cells[i] = parquet.NullValue().Level(0, 0, i)
		}
	}
	if _, err := s.w.WriteRows([]parquet.Row{s.cells}); err != nil {
		return err
	}
	if s.rows++; s.rows < rowsAGroup && s.bytes < bytesAGroup {
		return nil
	}
	s.rows, s.bytes = 0, 0
	return s.w.Flush()
}

func (s *parquetSection) close() error { return s.w.Close() }

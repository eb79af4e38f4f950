package table

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"muniment.example/sealer/canonical"
)

// jsonWriter writes each row as a line of JSON: with columns sorted by name, as RFC 8785 has it. A list
// has brackets on their own lines.
type jsonWriter struct {
	w       *bufio.Writer
	columns []Column
	line    []byte
	list    bool
	begun   bool
}

func newJSON(w io.Writer, columns []Column, list bool) *jsonWriter {
	return &jsonWriter{w: bufio.NewWriterSize(w, 1<<16), columns: columns, list: list}
}

func (s *jsonWriter) Write(cells []any) error {
	s.line = s.line[:0]
	switch {
	case s.list && s.begun:
		s.line = append(s.line, ",\n"...)
	case s.list:
		s.line = append(s.line, "[\n"...)
	}
	s.begun = true
	for i, cell := range cells {
		s.line = append(canonical.AppendString(append(s.line, "{,"[min(i, 1)]), s.columns[i].Name), ':')
		switch cell := cell.(type) {
		case string:
			if s.columns[i].Type == Document {
				s.line = append(s.line, cell...)
			} else {
				s.line = canonical.AppendString(s.line, cell)
			}
		case int64:
			s.line = strconv.AppendInt(s.line, cell, 10)
		case float64:
			s.line = canonical.AppendNumber(s.line, cell)
		case bool:
			s.line = strconv.AppendBool(s.line, cell)
		case time.Time:
			s.line = canonical.AppendString(s.line, momentOf(s.columns[i].Type, cell))
		case []string:
			s.line = appendList(s.line, cell)
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

func (s *jsonWriter) Close() error {
	switch {
	case s.list && s.begun:
		s.w.WriteString("\n]\n")
	case s.list:
		s.w.WriteString("[\n]\n")
	}
	return s.w.Flush()
}

// appendList appends a JSON list of strings.
func appendList(line []byte, list []string) []byte {
	line = append(line, '[')
	for i, text := range list {
		if i > 0 {
			line = append(line, ',')
		}
		line = canonical.AppendString(line, text)
	}
	return append(line, ']')
}

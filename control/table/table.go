// Package table writes rows of typed columns as files that other programs read: CSV, JSON lines, a
// JSON list, and Parquet.
//
// All formats have the same rows. Parquet has types for them: a moment is TIMESTAMP in milliseconds,
// UTC; a day is DATE; a decimal is DECIMAL, never a floating-point number; a document is JSON. The
// text formats have RFC 3339 in UTC for moments, and decimals as texts. CSV is RFC 4180, null is an
// empty cell, an apostrophe keeps a text from being a formula, and what a terminal would obey is escaped (route.Inert).
//
// A writer holds a row in memory and, of Parquet, a row group: at most some 16 MiB. Rows are written
// as they come; a file that Close has not ended is not whole, and Parquet then has no footer.
package table

import (
	"io"
	"math/big"
	"strings"
	"time"

	"muniment.example/control/route"
	"muniment.example/sealer/canonical"
)

// Type is the type of a column. The cells of a row have the Go type named beside it, or are nil where
// the column is Optional.
type Type int

// The types.
const (
	Text     Type = iota // string
	Integer              // int64
	Number               // float64
	Boolean              // bool
	Document             // string: a JSON text
	Moment               // time.Time, in whole milliseconds
	Day                  // time.Time, of which only the date in UTC counts
	Decimal              // string: a decimal with at most Column.Scale fractional digits
	Texts                // []string, which may be empty, never nil
	Decimals             // []string of decimals, likewise
)

// Column of a table.
type Column struct {
	Name string
	Type Type
	// Precision and Scale are of decimals: how many digits, and how many of them are fractional.
	Precision, Scale int
	// Optional says that cells may be nil.
	Optional bool
}

// Writer writes the rows of a table. It belongs to one goroutine.
type Writer interface {
	// Write adds a row, with a cell for each column.
	Write(cells []any) error
	// Close ends the table. It does not close what is written to.
	Close() error
}

// Format is a format of files.
type Format string

// The formats. JSON is a list with a row on each line.
const (
	CSV     Format = "csv"
	NDJSON  Format = "ndjson"
	JSON    Format = "json"
	Parquet Format = "parquet"
)

// The media types of files.
const (
	TypeCSV     = "text/csv"
	TypeNDJSON  = "application/x-ndjson"
	TypeParquet = "application/vnd.apache.parquet"
)

// MediaType is the media type of the format's files.
func (f Format) MediaType() string {
	switch f {
	case CSV:
		return TypeCSV
	case Parquet:
		return TypeParquet
	case NDJSON:
		return TypeNDJSON
	}
	return "application/json"
}

// New begins a table. The order of the columns is that of the file. bom says that CSV begins with a
// byte order mark.
func (f Format) New(w io.Writer, columns []Column, bom bool) Writer {
	switch f {
	case CSV:
		if bom {
			w = &markedWriter{to: w}
		}
		return newCSV(w, columns)
	case Parquet:
		return newParquet(w, columns)
	}
	return newJSON(w, columns, f == JSON)
}

// markedWriter puts a byte order mark before what is written.
type markedWriter struct {
	to    io.Writer
	begun bool
}

func (m *markedWriter) Write(p []byte) (int, error) {
	if !m.begun {
		m.begun = true
		if _, err := io.WriteString(m.to, route.ByteOrderMark); err != nil {
			return 0, err
		}
	}
	return m.to.Write(p)
}

// momentOf is the text of a moment or a day.
func momentOf(kind Type, t time.Time) string {
	if kind == Day {
		return t.UTC().Format(time.DateOnly)
	}
	return canonical.FormatTime(t)
}

// unscaled returns a decimal times 10^scale. ok is false if the text is no decimal, or has more
// fractional digits.
func unscaled(text string, scale int) (n *big.Int, ok bool) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, part, point := strings.Cut(digits, ".")
	if whole == "" || point && part == "" || len(part) > scale || strings.Trim(whole+part, "0123456789") != "" {
		return nil, false
	}
	if n, ok = new(big.Int).SetString(whole+part+strings.Repeat("0", scale-len(part)), 10); ok && negative {
		n.Neg(n)
	}
	return n, ok
}

package table

import (
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowsAGroup is how many rows Parquet holds in memory; bytesAGroup ends a group of long rows sooner.
const (
	rowsAGroup  = 50_000
	bytesAGroup = 16 << 20
)

// wide are the bytes of a decimal of more than 18 digits; narrow is the largest precision of one that
// an INT64 holds.
const (
	wide   = 16
	narrow = 18
)

// orderedGroup is a group whose fields have the order of the columns, not that of their names.
type orderedGroup struct {
	parquet.Group
	columns []Column
}

// Fields implements parquet.Node.
func (g orderedGroup) Fields() []parquet.Field {
	byName := map[string]parquet.Field{}
	for _, f := range g.Group.Fields() {
		byName[f.Name()] = f
	}
	fields := make([]parquet.Field, len(g.columns))
	for i, c := range g.columns {
		fields[i] = byName[c.Name]
	}
	return fields
}

type parquetWriter struct {
	w       *parquet.GenericWriter[any]
	columns []Column
	row     parquet.Row
	rows    int
	bytes   int
}

func newParquet(w io.Writer, columns []Column) *parquetWriter {
	group := parquet.Group{}
	// The library's default level has a window of 32 MiB.
	options := []parquet.WriterOption{parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest})}
	for _, c := range columns {
		node := c.node()
		switch c.Type { // the bounds of texts are whole texts, held in memory to the end of the file
		case Text, Document:
			options = append(options, parquet.SkipPageBounds(c.Name))
		case Texts, Decimals:
			options = append(options, parquet.SkipPageBounds(c.Name, "list", "element"))
		}
		if c.Optional {
			node = parquet.Optional(node)
		}
		group[c.Name] = node
	}
	schema := parquet.NewSchema("row", orderedGroup{group, columns})
	return &parquetWriter{w: parquet.NewGenericWriter[any](w, append(options, schema)...), columns: columns}
}

func (c *Column) node() parquet.Node {
	switch c.Type {
	case Integer:
		return parquet.Leaf(parquet.Int64Type)
	case Number:
		return parquet.Leaf(parquet.DoubleType)
	case Boolean:
		return parquet.Leaf(parquet.BooleanType)
	case Document:
		return parquet.JSON()
	case Moment:
		return parquet.Timestamp(parquet.Millisecond)
	case Day:
		return parquet.Date()
	case Decimal:
		return c.decimal()
	case Texts:
		return parquet.List(parquet.String())
	case Decimals:
		return parquet.List(c.decimal())
	}
	return parquet.String()
}

func (c *Column) decimal() parquet.Node {
	if c.Precision > narrow {
		return parquet.Decimal(c.Scale, c.Precision, parquet.FixedLenByteArrayType(wide))
	}
	return parquet.Decimal(c.Scale, c.Precision, parquet.Int64Type)
}

func (s *parquetWriter) Write(cells []any) error {
	s.row = s.row[:0]
	for i, cell := range cells {
		if err := s.add(i, cell); err != nil {
			return fmt.Errorf("column %s: %w", s.columns[i].Name, err)
		}
	}
	if _, err := s.w.WriteRows([]parquet.Row{s.row}); err != nil {
		return err
	}
	if s.rows++; s.rows < rowsAGroup && s.bytes < bytesAGroup {
		return nil
	}
	s.rows, s.bytes = 0, 0
	return s.w.Flush()
}

// add adds a cell to the row.
func (s *parquetWriter) add(i int, cell any) error {
	c, level := &s.columns[i], 0
	s.bytes += 16
	if c.Optional {
		level = 1
	}
	list, isList := cell.([]string)
	switch {
	case cell == nil && !c.Optional:
		return fmt.Errorf("a cell is nil")
	case cell == nil || isList && len(list) == 0:
		if isList {
			s.row = append(s.row, parquet.NullValue().Level(0, level, i))
		} else {
			s.row = append(s.row, parquet.NullValue().Level(0, 0, i))
		}
		return nil
	case isList:
		for n, text := range list {
			value, err := c.value(text)
			if err != nil {
				return err
			}
			s.bytes += 16 + len(text)
			s.row = append(s.row, value.Level(min(n, 1), level+1, i))
		}
		return nil
	}
	if text, ok := cell.(string); ok {
		s.bytes += len(text)
	}
	value, err := c.value(cell)
	if err == nil {
		s.row = append(s.row, value.Level(0, level, i))
	}
	return err
}

// value is the value of a cell, or of an element of a list.
func (c *Column) value(cell any) (v parquet.Value, err error) {
	switch cell := cell.(type) {
	case string:
		if c.Type == Decimal || c.Type == Decimals {
			return c.decimalOf(cell)
		}
		return parquet.ByteArrayValue([]byte(cell)), nil
	case int64:
		return parquet.Int64Value(cell), nil
	case float64:
		return parquet.DoubleValue(cell), nil
	case bool:
		return parquet.BooleanValue(cell), nil
	case time.Time:
		if c.Type == Day {
			return parquet.Int32Value(int32(cell.UTC().Truncate(24*time.Hour).Unix() / (24 * 60 * 60))), nil
		}
		return parquet.Int64Value(cell.UnixMilli()), nil
	}
	return v, fmt.Errorf("a cell is of the type %T", cell)
}

func (c *Column) decimalOf(text string) (v parquet.Value, err error) {
	n, ok := unscaled(text, c.Scale)
	if !ok || n.CmpAbs(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.Precision)), nil)) >= 0 {
		return v, fmt.Errorf("%q is no decimal of %d digits, of which %d are fractional", text, c.Precision, c.Scale)
	}
	if c.Precision <= narrow {
		return parquet.Int64Value(n.Int64()), nil
	}
	if n.Sign() < 0 { // two's complement
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), 8*wide))
	}
	return parquet.FixedLenByteArrayValue(n.FillBytes(make([]byte, wide))), nil
}

func (s *parquetWriter) Close() error { return s.w.Close() }

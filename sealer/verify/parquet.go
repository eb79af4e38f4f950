package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// parquetMagic begins and ends a Parquet file.
const parquetMagic = "PAR1"

// maxParquetFooter bounds the memory for a footer, which lists the columns of each group of rows.
const maxParquetFooter = 64 << 20

// errFooter says that a footer is not one value of Thrift's compact protocol, or states no rows.
var errFooter = errors.New("no Parquet file: its footer can't be read")

// parquetRows returns how many rows a Parquet file of size bytes states (num_rows of FileMetaData, see
// parquet.thrift of the Apache Parquet format). It reads the footer alone.
func parquetRows(file io.ReaderAt, size int64) (int64, error) {
	const ends = int64(2*len(parquetMagic) + 4) // of a file without a row or a footer
	if size < ends {
		return 0, errors.New("no Parquet file: it is too short")
	}
	var start [4]byte
	var end [8]byte
	if _, err := file.ReadAt(start[:], 0); err != nil {
		return 0, err
	}
	if _, err := file.ReadAt(end[:], size-int64(len(end))); err != nil {
		return 0, err
	}
	if string(start[:]) != parquetMagic || string(end[4:]) != parquetMagic {
		return 0, errors.New("no Parquet file: it neither begins nor ends as one")
	}
	length := int64(binary.LittleEndian.Uint32(end[:4]))
	if length > min(size-ends, maxParquetFooter) {
		return 0, fmt.Errorf("no Parquet file: its footer has %d bytes", length)
	}
	footer := make([]byte, length)
	if _, err := file.ReadAt(footer, size-int64(len(end))-length); err != nil {
		return 0, err
	}
	return rowsOfFooter(footer)
}

// numRows is the id of num_rows in FileMetaData.
const numRows = 3

func rowsOfFooter(footer []byte) (int64, error) {
	t := thrift{rest: footer}
	for id := int64(0); ; {
		kind := t.field(&id)
		switch {
		case t.bad || kind == thriftStop:
			return 0, errFooter
		case id == numRows && kind == thriftI64:
			rows := t.zigzag()
			if t.bad || rows < 0 {
				return 0, errFooter
			}
			return rows, nil
		}
		t.skip(kind, 0)
	}
}

// Types of Thrift's compact protocol, as they stand in the headers of fields and lists.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
	thriftUUID
)

// maxThriftDepth bounds how deeply values are nested. Parquet's metadata have less than ten levels.
const maxThriftDepth = 32

// thrift reads values of Thrift's compact protocol, until bad. Each value takes at least a byte, so lists
// can't be longer than what is left.
type thrift struct {
	rest []byte
	bad  bool
}

func (t *thrift) take(n uint64) []byte {
	if t.bad || n > uint64(len(t.rest)) {
		t.bad, t.rest = true, nil
		return nil
	}
	taken := t.rest[:n]
	t.rest = t.rest[n:]
	return taken
}

func (t *thrift) byte() byte {
	if b := t.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (t *thrift) varint() uint64 {
	v, n := binary.Uvarint(t.rest)
	if n <= 0 {
		t.take(uint64(len(t.rest)) + 1)
		return 0
	}
	t.take(uint64(n))
	return v
}

func (t *thrift) zigzag() int64 {
	v := t.varint()
	return int64(v>>1) ^ -int64(v&1)
}

// field reads the header of a struct's next field: its type, and its id, which is relative to the last one's.
func (t *thrift) field(id *int64) (kind byte) {
	b := t.byte()
	if kind = b & 0xf; kind == thriftStop {
		return thriftStop
	}
	if delta := b >> 4; delta != 0 {
		*id += int64(delta)
	} else {
		*id = t.zigzag()
	}
	return kind
}

// skip reads a value and drops it.
func (t *thrift) skip(kind byte, depth int) {
	if depth > maxThriftDepth {
		t.bad = true
	}
	if t.bad {
		return
	}
	switch kind {
	case thriftTrue, thriftFalse: // of a field: its header is its value
	case thriftByte:
		t.take(1)
	case thriftI16, thriftI32, thriftI64:
		t.varint()
	case thriftDouble:
		t.take(8)
	case thriftUUID:
		t.take(16)
	case thriftBinary:
		t.take(t.varint())
	case thriftList, thriftSet:
		b := t.byte()
		n := uint64(b >> 4)
		if n == 15 {
			n = t.varint()
		}
		t.elements(n, depth, b&0xf)
	case thriftMap:
		if n := t.varint(); n > 0 {
			b := t.byte()
			t.elements(n, depth, b>>4, b&0xf)
		}
	case thriftStruct:
		for id := int64(0); ; {
			inner := t.field(&id)
			if t.bad || inner == thriftStop {
				return
			}
			t.skip(inner, depth+1)
		}
	default:
		t.bad = true
	}
}

// elements skips n elements of a list, or pairs of a map. A boolean among them is a byte.
func (t *thrift) elements(n uint64, depth int, kinds ...byte) {
	for ; n > 0 && !t.bad; n-- {
		for _, kind := range kinds {
			if kind == thriftTrue || kind == thriftFalse {
				kind = thriftByte
			}
			t.skip(kind, depth+1)
		}
	}
}

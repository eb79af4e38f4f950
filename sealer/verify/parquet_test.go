package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// parquetOf is a file of n rows, as a library writes it, in groups of ten.
func parquetOf(t testing.TB, n int) []byte {
	type row struct {
		ID    string            `parquet:"id"`
		At    int64             `parquet:"at,timestamp(millisecond)"`
		Even  bool              `parquet:"even"`
		Share *float64          `parquet:"share,optional"`
		Names []string          `parquet:"names,list"`
		More  map[string]string `parquet:"more"`
	}
	var text bytes.Buffer
	w := parquet.NewGenericWriter[row](&text, parquet.MaxRowsPerRowGroup(10), parquet.KeyValueMetadata("made", "here"))
	for i := range n {
		_, err := w.Write([]row{{ID: fmt.Sprint(i), At: int64(i), Even: i%2 == 0, Names: []string{"a", "b"}, More: map[string]string{"k": "v"}}})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return text.Bytes()
}

// TestParquetRows: as many rows as the library finds, whatever a file's columns and groups are; and of a file that
// is cut or altered anywhere, an error or a number, never a panic.
func TestParquetRows(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 64, 1000} {
		text := parquetOf(t, n)
		rows, err := parquetRows(bytes.NewReader(text), int64(len(text)))
		require.NoError(t, err)
		require.EqualValues(t, n, rows)
	}
	text := parquetOf(t, 25)
	for i := range text {
		_, err := parquetRows(bytes.NewReader(text[:i]), int64(i))
		require.Error(t, err, "cut to %d bytes", i)
		altered := bytes.Clone(text)
		altered[i] ^= 0xff
		_, _ = parquetRows(bytes.NewReader(altered), int64(len(altered)))
	}
}

// TestHostileFooters: a footer of values that claim to be long, deep or of no known type is refused at once.
func TestHostileFooters(t *testing.T) {
	for name, footer := range map[string][]byte{
		"empty":                   {},
		"no rows":                 {thriftStop},
		"rows of another type":    {0x35, 2, thriftStop},
		"rows below zero":         {0x36, 1, thriftStop},
		"an unknown type":         {0x1e},
		"a text of 2^63 bytes":    {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"a list of 2^63 booleans": {0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"a map of 2^63 structs":   {0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0xcc},
		"a number without an end": {0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"structs within structs":  bytes.Repeat([]byte{0x1c}, 1<<20),
		"lists within lists":      bytes.Repeat([]byte{0x19}, 1<<20),
	} {
		_, err := rowsOfFooter(footer)
		require.Error(t, err, name)
	}
	long := append([]byte("PAR1PAR1PAR1"), binary.LittleEndian.AppendUint32(nil, 1<<31)...)
	long = append(long, "PAR1"...)
	_, err := parquetRows(bytes.NewReader(long), int64(len(long)))
	require.ErrorContains(t, err, "footer")
}

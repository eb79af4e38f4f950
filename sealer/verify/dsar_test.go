package verify

import (
	"archive/zip"
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/dsar"
)

// TestForeignSectionIsNotParsed: what does not have the hash that was signed may be made to harm its
// reader.
func TestForeignSectionIsNotParsed(t *testing.T) {
	var text bytes.Buffer
	w := zip.NewWriter(&text)
	section, err := w.CreateHeader(&zip.FileHeader{Name: "events.parquet", Method: zip.Store})
	require.NoError(t, err)
	_, err = section.Write([]byte("PAR1 is no Parquet file PAR1"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	file := bytes.NewReader(text.Bytes())
	r, err := zip.NewReader(file, file.Size())
	require.NoError(t, err)
	want := dsar.File{Name: "events.parquet", PackedSHA256: "of another file"}
	got, err := readSection(file, r.File[0], "PARQUET", want.PackedSHA256)
	require.NoError(t, err)
	require.NotEqual(t, want, got)
	_, err = readSection(file, r.File[0], "PARQUET", got.PackedSHA256)
	require.Error(t, err, "it is parsed")
}

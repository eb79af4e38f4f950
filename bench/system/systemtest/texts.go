package systemtest

import (
	"database/sql"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// StoredTexts are an event and its private part, as the embedded warehouse has them.
type StoredTexts struct{ Event, Private string }

// TextsIn reads all texts in a file of the embedded warehouse, also of a running service: those of
// deliveries are compressed there.
func TextsIn(t *testing.T, file string) (list []StoredTexts) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	require.NoError(t, err)
	defer db.Close()
	// One statement, as texts move from block to block.
	rows, err := db.QueryContext(t.Context(), `SELECT 0, event, private FROM texts UNION ALL SELECT texts, events, private FROM text_blocks`)
	if err != nil && strings.Contains(err.Error(), "no such table") {
		return nil // it is being made
	}
	require.NoError(t, err)
	defer rows.Close()
	decoder, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer decoder.Close()
	for rows.Next() {
		var n int
		var event, private []byte
		require.NoError(t, rows.Scan(&n, &event, &private))
		if n == 0 {
			list = append(list, StoredTexts{string(event), string(private)})
			continue
		}
		events, parts := unpackedTexts(t, decoder, event, n), unpackedTexts(t, decoder, private, n)
		for i := range n {
			list = append(list, StoredTexts{events[i], parts[i]})
		}
	}
	require.NoError(t, rows.Err())
	return list
}

// unpackedTexts are the n texts of a frame: their lengths, increased by one, and then the texts.
func unpackedTexts(t *testing.T, decoder *zstd.Decoder, frame []byte, n int) []string {
	t.Helper()
	list, lengths := make([]string, n), make([]uint64, n)
	if frame == nil {
		return list
	}
	raw, err := decoder.DecodeAll(frame, nil)
	require.NoError(t, err)
	for i := range lengths {
		length, used := binary.Uvarint(raw)
		require.Positive(t, used)
		lengths[i], raw = max(length, 1)-1, raw[used:]
	}
	for i, length := range lengths {
		list[i], raw = string(raw[:length]), raw[length:]
	}
	require.Empty(t, raw)
	return list
}

// textsHold reports whether a text is in those of a warehouse's file; false for any other file.
func textsHold(t *testing.T, file, text string) bool {
	if filepath.Base(file) != "warehouse.db" {
		return false
	}
	for _, one := range TextsIn(t, file) {
		if strings.Contains(one.Event, text) || strings.Contains(one.Private, text) {
			return true
		}
	}
	return false
}

package clickhouse

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
)

// files are those of a database in which a text stands. The server is on this machine, or the
// test is skipped.
func files(tb testing.TB, w *Warehouse, text string) (list []string) {
	tb.Helper()
	folders, err := collect(tb.Context(), w.servers, func(scan func(...any) error) (paths []string, err error) {
		err = scan(&paths)
		return paths, err
	}, `SELECT data_paths FROM system.tables WHERE database = currentDatabase() AND notEmpty(data_paths)`)
	require.NoError(tb, err)
	for _, paths := range folders {
		for _, folder := range paths {
			if _, err := os.Stat(folder); err != nil {
				tb.Skipf("SKIPPED: the files of the server can't be read: %v", err)
			}
			require.NoError(tb, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return ignoreGone(err)
				}
				b, err := os.ReadFile(path)
				if bytes.Contains(b, []byte(text)) {
					list = append(list, path)
				}
				return ignoreGone(err)
			}))
		}
	}
	return list
}

// ignoreGone passes over what the server has removed meanwhile.
func ignoreGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// TestEraseLeavesNoByte in the tables' files, which are not compressed here: in parts that
// were merged, in the one that was inserted last, and of a quarantined record.
func TestEraseLeavesNoByte(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	for table, column := range map[string]string{"private_parts": "private", "set_aside": "record"} {
		require.NoError(t, w.conn.Exec(t.Context(), `ALTER TABLE `+table+` MODIFY COLUMN `+column+` String CODEC(NONE)`))
	}
	key := pipeline.SubjectKey{4}
	require.NoError(t, w.Erase(t.Context(), key, nil))
	const subject, marker, n = "ada@example.org", "telemetry-of-ada", 300
	var rows []pipeline.Row
	for i := range int64(n) {
		who, telemetry := subject, fmt.Sprintf(`{"beamId":"%s","n":%d}`, strings.Repeat(marker, 1+int(i%50)*40), i)
		if i%3 > 0 {
			who, telemetry = "bob", `{"beamId":"bobs"}`
		}
		rows = append(rows, conform.Shown("tnt_a", i, who, telemetry))
	}
	load := func(from, to int64, quarantined ...pipeline.Quarantined) {
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(from), Rows: rows[from:to], Quarantined: quarantined, Next: conform.Place(to)}))
	}
	forged := pipeline.Quarantined{Position: conform.Place(n), TenantID: "tnt_a", Record: rows[0].Private}
	load(0, 100)
	load(100, 200)
	require.NoError(t, w.conn.Exec(t.Context(), `OPTIMIZE TABLE private_parts FINAL`))
	load(200, n, forged)
	require.NotEmpty(t, files(t, w, subject))
	require.NotEmpty(t, files(t, w, marker))

	stones := []pipeline.Tombstone{{TenantID: "tnt_a", SubjectHash: key.Hash("tnt_a", subject), Until: rows[n-1].At}}
	require.NoError(t, w.Erase(t.Context(), key, stones))
	require.Empty(t, files(t, w, subject))
	require.Empty(t, files(t, w, marker))
	require.NotEmpty(t, files(t, w, "bobs"))
	load(0, n, forged)
	require.Empty(t, files(t, w, marker), "loaded again")
}

// TestEraseWhatAKilledLoadLeft: a Load that did not know of a tombstone was cut off behind its
// inserts, and is repeated by one that does.
func TestEraseWhatAKilledLoadLeft(t *testing.T) {
	cfg := fresh(t, stacktest.ClickHouse(t))
	w, other := mustOpen(t, cfg), mustOpen(t, cfg)
	key := pipeline.SubjectKey{4}
	require.NoError(t, w.Erase(t.Context(), key, nil))
	row := conform.Shown("tnt_a", 0, "ada", `{}`)
	b := pipeline.Batch{Partition: 3, From: row.Position, Rows: []pipeline.Row{row}, Next: row.Position.Next()}
	stones := []pipeline.Tombstone{{TenantID: "tnt_a", SubjectHash: key.Hash("tnt_a", "ada"), Until: row.At}}
	require.NoError(t, other.Erase(t.Context(), key, stones))
	parts, _, err := leaveOut(pipeline.NewErased(key, nil), b.Rows, nil)
	require.NoError(t, err)
	require.NoError(t, insert(t.Context(), w.servers, "private_parts", privateColumns, parts))
	require.NoError(t, w.Load(t.Context(), b))
	n, err := w.CountSubject(t.Context(), "tnt_a", key.Hash("tnt_a", "ada"))
	require.NoError(t, err)
	require.Zero(t, n)
}

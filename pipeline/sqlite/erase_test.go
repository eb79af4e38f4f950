package sqlite

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
)

// files are those of a folder in which a text stands.
func files(tb testing.TB, folder, text string) (list []string) {
	tb.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(tb, err)
	for _, file := range all {
		b, err := os.ReadFile(file)
		require.NoError(tb, err)
		if bytes.Contains(b, []byte(text)) {
			list = append(list, filepath.Base(file))
		}
	}
	return list
}

// TestEraseLeavesNoByte in the file and its write-ahead log, wherever the private parts stood:
// small, of many pages, compressed in a block, replaced by a copy at a lower position, and retracted.
func TestEraseLeavesNoByte(t *testing.T) {
	folder := t.TempDir()
	w := mustOpen(t, filepath.Join(folder, "warehouse.db"))
	key := pipeline.SubjectKey{4}
	require.NoError(t, w.Erase(t.Context(), key, nil))
	const subject, marker = "ada@example.org", "telemetry-of-ada"
	random := rand.New(rand.NewPCG(1, 2))
	var rows []pipeline.Row
	for i := range int64(300) {
		telemetry := fmt.Sprintf(`{"beamId":"%s","n":%d}`, noise(random, int(i%50)*600)+marker, i)
		if i%3 == 0 {
			rows = append(rows, conform.Shown("tnt_a", i+1, subject, telemetry))
		} else {
			rows = append(rows, conform.Shown("tnt_a", i+1, "bob", `{"beamId":"bobs"}`))
		}
		if i%10 == 1 { // it is in no block
			rows[i] = conform.Shown("tnt_a", i+1, subject, telemetry)
			rows[i].Type, rows[i].Delivery = "basis.changed", nil
		}
	}
	load := func(from int64, rows ...pipeline.Row) {
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(from), Rows: rows, Next: rows[len(rows)-1].Position.Next()}))
	}
	load(1, rows...)
	moved := rows[3]
	moved.Position = conform.Place(0)
	load(0, moved)
	require.NotEmpty(t, files(t, folder, subject))
	require.NotEmpty(t, files(t, folder, marker))
	stood := traces{}
	stood.note(t, w, subject)

	until := rows[len(rows)-1].At
	stones := []pipeline.Tombstone{{TenantID: "tnt_a", SubjectHash: key.Hash("tnt_a", subject), Until: until}}
	require.NoError(t, w.Erase(t.Context(), key, stones))
	load(0, append([]pipeline.Row{moved}, rows...)...)
	require.Empty(t, files(t, folder, subject))
	require.Empty(t, files(t, folder, marker))
	require.Greater(t, len(stood[subject]), 20)
	stood.requireNone(t, w, folder, subject)
	n, err := w.CountSubject(t.Context(), "tnt_a", key.Hash("tnt_a", "bob"))
	require.NoError(t, err)
	require.EqualValues(t, 180, n.PrivateParts)
	require.NoError(t, w.Close())
	require.Empty(t, files(t, folder, marker), "after a checkpoint")
}

// TestEraseDelaysNoLoad: while a query still reads what was in the file, rows are loaded.
func TestEraseDelaysNoLoad(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	key := pipeline.SubjectKey{4}
	require.NoError(t, w.Erase(t.Context(), key, nil))
	load := func(offset int64) {
		row := conform.Shown("tnt_a", offset, "ada", `{}`)
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 3, From: row.Position, Rows: []pipeline.Row{row}, Next: row.Position.Next()}))
	}
	load(0)
	// Whoever waited for the query as a statement may would wait for an hour.
	_, err := w.write.ExecContext(t.Context(), `PRAGMA busy_timeout(3600000)`)
	require.NoError(t, err)
	question, err := w.read.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, question.QueryRow(`SELECT COUNT(*) FROM texts`).Scan(new(int)))
	done := make(chan error)
	go func() {
		done <- w.Erase(t.Context(), key, []pipeline.Tombstone{{TenantID: "tnt_a", SubjectHash: key.Hash("tnt_a", "ada"), Until: conform.Shown("tnt_a", 99, "ada", `{}`).At}})
	}()
	waittest.Until(t, func() bool {
		n, err := w.CountSubject(t.Context(), "tnt_a", key.Hash("tnt_a", "ada"))
		return err == nil && n.PrivateParts == 0
	})
	for n := range int64(20) {
		load(n + 1)
	}
	require.NoError(t, question.Rollback())
	require.NoError(t, <-done)
}

// TestEraseWaitsForAnswers: a running query may still read what was in the file.
func TestEraseWaitsForAnswers(t *testing.T) {
	folder := t.TempDir()
	w := mustOpen(t, filepath.Join(folder, "warehouse.db"))
	key := pipeline.SubjectKey{4}
	require.NoError(t, w.Erase(t.Context(), key, nil))
	row := conform.Shown("tnt_a", 0, "ada@example.org", `{}`)
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 3, From: row.Position, Rows: []pipeline.Row{row}, Next: row.Position.Next()}))
	question, err := w.read.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	var n int
	require.NoError(t, question.QueryRow(`SELECT COUNT(*) FROM texts`).Scan(&n))
	done := make(chan error)
	go func() {
		done <- w.Erase(t.Context(), key, []pipeline.Tombstone{{TenantID: "tnt_a", SubjectHash: key.Hash("tnt_a", "ada@example.org"), Until: row.At.Add(time.Hour)}})
	}()
	waittest.Until(t, func() bool {
		one, err := w.Event(t.Context(), "tnt_a", row.EventID)
		return err == nil && len(one.Private) == 0
	})
	require.NoError(t, question.Rollback())
	require.NoError(t, <-done)
	require.Empty(t, files(t, folder, "ada@example.org"))
}

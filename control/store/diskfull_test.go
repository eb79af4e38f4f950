package store

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// TestFullDisk lets the database grow no more: changes are refused as a whole and
// by an error, reads go on, and so do changes once there is space.
func TestFullDisk(t *testing.T) {
	var said bytes.Buffer
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "control.db"), Logger: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	defer db.Close()
	limit := func(pages string) {
		_, err := db.write.ExecContext(t.Context(), "PRAGMA max_page_count = "+pages)
		require.NoError(t, err)
	}
	large := event("tnt_a", strings.Repeat("x", 100_000))
	emit := func(e sealer.Event) error {
		return db.Change(t.Context(), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, e) })
	}
	limit("1") // SQLite takes the present size
	for range 3 {
		refused, ok := errors.AsType[*api.Error](emit(large))
		require.True(t, ok)
		require.Equal(t, 503, refused.GetStatus())
		require.Equal(t, api.StorageFull, refused.Reason)
		require.Positive(t, refused.RetryAfterSeconds())
	}
	pending, err := db.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending)
	_, ok := errors.AsType[*api.Error](db.Change(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO nowhere VALUES (1)")
		return err
	}))
	require.False(t, ok, "another failure is no full disk")
	require.NotContains(t, said.String(), "again", "nor does it prove that there is space")
	require.NoError(t, emit(event("tnt_a", "small")), "what fits is taken")
	require.Error(t, emit(large))
	limit("1000000")
	require.NoError(t, emit(large))
	require.Equal(t, 2, strings.Count(said.String(), "the disk is full"), said.String())
	require.Equal(t, 2, strings.Count(said.String(), "has space for changes again"))
}

// wholeLog takes all records at once.
type wholeLog struct{ faultyLog }

func (l *wholeLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

// TestRelayCopiesNothingWhileRowsStay has the outbox refuse to be cleared.
func TestRelayCopiesNothingWhileRowsStay(t *testing.T) {
	db, log := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db")), new(wholeLog)
	for _, subject := range []string{"rgh_a", "rgh_b"} {
		db.mustEmit(t, "tnt_a", subject)
	}
	trigger := func(sql string) {
		_, err := db.write.ExecContext(t.Context(), sql)
		require.NoError(t, err)
	}
	trigger(`CREATE TRIGGER stays BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'no space'); END`)
	for range 3 {
		_, err := db.Outbox.relay(t.Context(), log)
		require.ErrorContains(t, err, "no space")
	}
	require.Len(t, log.records, 2)
	trigger(`DROP TRIGGER stays`)
	db.mustEmit(t, "tnt_a", "rgh_c")
	for range 2 {
		_, err := db.Outbox.relay(t.Context(), log)
		require.NoError(t, err)
	}
	require.Len(t, log.records, 3)
	pending, err := db.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending)
}

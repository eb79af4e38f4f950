package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// fullDB is a database that may not grow any more, as on a full disk, unless its reserve
// was released.
type fullDB struct {
	*DB
	t       *testing.T
	reserve string // the file
	lifts   bool   // releasing it frees space
}

func newFullDB(t *testing.T) *fullDB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control.db")
	db, err := Open(t.Context(), Config{Path: path, Reserve: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	f := &fullDB{DB: db, t: t, reserve: filepath.Join(filepath.Dir(path), "reserve"), lifts: true}
	for _, sql := range []string{`DELETE FROM probe`, `VACUUM`} { // no page is free
		_, err := db.write.ExecContext(t.Context(), sql)
		require.NoError(t, err)
	}
	f.limit(1) // SQLite takes the present size
	return f
}

func (f *fullDB) limit(pages int) {
	_, err := f.write.ExecContext(f.t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages))
	require.NoError(f.t, err)
}

// long emits an event for which there is no space.
func (f *fullDB) long(record func(context.Context, func(*Tx) error) error, subject string) error {
	return record(f.t.Context(), func(tx *Tx) error {
		if _, err := os.Stat(f.reserve); f.lifts && errors.Is(err, os.ErrNotExist) {
			_, err := tx.ExecContext(f.t.Context(), "PRAGMA max_page_count = 1000000")
			require.NoError(f.t, err)
		}
		if _, err := tx.Revision(f.t.Context()); err != nil {
			return err
		}
		return tx.Emit(f.t.Context(), suspended, event("tnt_a", subject+strings.Repeat("x", 100_000)))
	})
}

func (f *fullDB) refusal(err error) *api.Error {
	f.t.Helper()
	refused, ok := errors.AsType[*api.Error](err)
	require.True(f.t, ok, "%v", err)
	require.Equal(f.t, 503, refused.GetStatus())
	require.Equal(f.t, api.StorageFull, refused.Reason)
	return refused
}

// leases says whether nodes get any.
func (f *fullDB) leases() bool {
	f.t.Helper()
	_, err := f.Feed.Changes(f.t.Context(), api.FeedRequest{After: 1})
	if err != nil {
		f.refusal(err)
	}
	return err == nil
}

// TestStopSpendsTheReserve: a stop is recorded on a full disk, and nothing else until
// there is space for the reserve again.
func TestStopSpendsTheReserve(t *testing.T) {
	f := newFullDB(t)
	info, err := os.Stat(f.reserve)
	require.NoError(t, err)
	taken := info.Sys().(*syscall.Stat_t).Blocks * 512
	require.GreaterOrEqual(t, taken, int64(1<<20), "it really occupies the space")

	f.refusal(f.long(f.Change, "issued"))
	require.FileExists(t, f.reserve, "it is for stops alone")
	require.NoError(t, f.Reserved())
	require.NoError(t, f.long(f.Stop, "revoked"))
	require.NoFileExists(t, f.reserve)
	require.True(t, f.leases())
	f.refusal(f.Reserved())
	f.refusal(f.long(f.Change, "issued, as there is space now"))
	require.NoError(t, f.long(f.Stop, "revoked as well"))
	require.NoError(t, f.Change(t.Context(), func(*Tx) error { return nil }), "a change without writes needs no space")
	pending, err := f.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 2, "each stop once")

	f.watch(t.Context())
	require.FileExists(t, f.reserve)
	require.NoError(t, f.Reserved())
	require.NoError(t, f.long(f.Change, "issued"))
}

// TestNoLeaseWhileAStopIsUnrecorded: when not even the reserve helps, nodes are to stop
// signing until a stop can be recorded.
func TestNoLeaseWhileAStopIsUnrecorded(t *testing.T) {
	f := newFullDB(t)
	f.lifts = false
	require.True(t, f.leases())
	refused := f.refusal(f.long(f.Stop, "revoked"))
	require.Contains(t, refused.Message, "this process gives no node a lease")
	require.False(t, f.leases())
	f.refusal(f.long(f.Stop, "revoked"))
	f.watch(t.Context())
	require.False(t, f.leases(), "there is still no space")
	require.NoError(t, f.Change(t.Context(), func(*Tx) error { return nil }))
	require.False(t, f.leases(), "a change of nothing proves nothing")
	f.limit(1_000_000)
	f.watch(t.Context())
	require.True(t, f.leases())

	f.limit(1)
	f.refusal(f.long(f.Stop, "revoked"))
	require.False(t, f.leases())
	f.limit(1_000_000)
	require.NoError(t, f.long(f.Stop, "revoked"))
	require.False(t, f.leases(), "one that succeeds proves nothing about the other")
	f.watch(t.Context())
	require.True(t, f.leases())
}

// TestWhoIsRefusedStopsNobody: only the disk takes the leases away.
func TestWhoIsRefusedStopsNobody(t *testing.T) {
	f := newFullDB(t)
	conflict := api.Conflict("the right is REVOKED")
	require.ErrorIs(t, f.Stop(t.Context(), func(*Tx) error { return conflict }), conflict)
	gone, leave := context.WithCancel(t.Context())
	require.ErrorIs(t, f.Stop(gone, func(tx *Tx) error {
		leave()
		_, err := tx.ExecContext(gone, `SELECT 1`)
		return err
	}), context.Canceled)
	require.Error(t, f.Stop(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO nowhere VALUES (1)`)
		return err
	}))
	require.FileExists(t, f.reserve)
	require.True(t, f.leases())
}

// fullLog has no space while a file is there.
type fullLog struct {
	faultyLog
	until string
}

func (l *fullLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if _, err := os.Stat(l.until); err == nil {
		return sealer.Position{}, fmt.Errorf("log is full: %w", &os.PathError{Op: "fallocate", Path: "x.seg", Err: syscall.ENOSPC})
	}
	return l.faultyLog.Append(ctx, r)
}

func (l *fullLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

// TestRelaySpendsTheReserve: the event of a stop needs another segment of the log.
func TestRelaySpendsTheReserve(t *testing.T) {
	f := newFullDB(t)
	f.limit(1_000_000)
	log := &fullLog{until: f.reserve}
	require.NoError(t, f.long(f.Change, "issued"))
	_, err := f.Outbox.relay(t.Context(), log)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.FileExists(t, f.reserve, "what is no stop can wait")
	require.NoError(t, f.long(f.Stop, "revoked"))
	_, err = f.Outbox.relay(t.Context(), log)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoFileExists(t, f.reserve)
	_, err = f.Outbox.relay(t.Context(), log)
	require.NoError(t, err)
	require.Len(t, log.records, 2)
}

// TestNoRoomForTheReserve: a disk that is too small for it takes stops alone.
func TestNoRoomForTheReserve(t *testing.T) {
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "control.db"), Reserve: 1 << 60})
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Reserved(), "a start uses what there is")
	db.watch(t.Context())
	require.Error(t, db.Reserved())
	require.NoError(t, db.Stop(t.Context(), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, event("tnt_a", "revoked")) }))
}

// TestTwoStopsSpendTheReserve: the second one finds it spent, and space.
func TestTwoStopsSpendTheReserve(t *testing.T) {
	f := newFullDB(t)
	second := false
	err := f.Stop(t.Context(), func(tx *Tx) error {
		if !second {
			second = true
			released, err := f.DB.reserve.Release() // as another stop does at this moment
			require.NoError(t, err)
			require.True(t, released)
			_, err = tx.ExecContext(t.Context(), "PRAGMA max_page_count = 1")
			require.NoError(t, err)
			return tx.Emit(t.Context(), suspended, event("tnt_a", strings.Repeat("x", 100_000)))
		}
		_, err := tx.ExecContext(t.Context(), "PRAGMA max_page_count = 1000000")
		require.NoError(t, err)
		return tx.Emit(t.Context(), suspended, event("tnt_a", strings.Repeat("x", 100_000)))
	})
	require.NoError(t, err)
	require.True(t, f.leases())
}

// TestKeysTakeNothingOfTheReserve: what is left of the disk is for stops, not for answers
// to retries.
func TestKeysTakeNothingOfTheReserve(t *testing.T) {
	f := newFullDB(t)
	f.limit(1_000_000)
	before, _, err := f.Attempts.Begin(t.Context(), KeyedRequest{TenantID: "tnt_a", KeyHash: "before", RequestHash: "r"})
	require.NoError(t, err)
	_, err = f.DB.reserve.Release()
	require.NoError(t, err)
	_, _, err = f.Attempts.Begin(t.Context(), KeyedRequest{TenantID: "tnt_a", KeyHash: "after", RequestHash: "r"})
	f.refusal(err)
	f.refusal(f.Attempts.Keep(t.Context(), before, "answer"))
}

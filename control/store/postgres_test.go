package store

import (
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// onPostgres skips a test that is about several processes on one database, unless
// there is a server.
func onPostgres(t *testing.T) {
	t.Helper()
	stacktest.Postgres(t)
}

// TestUnreachable: an error says which database it is about, and no password.
func TestUnreachable(t *testing.T) {
	for url, name := range map[string]string{
		"postgres://muniment:secret@127.0.0.1:1/rights?sslmode=disable": "database rights on 127.0.0.1:1: ",
		"postgres://muniment:secret@127.0.0.1:port/rights":              "database by its URL: ",
	} {
		_, err := Open(t.Context(), Config{URL: url})
		require.ErrorContains(t, err, "cannot open control's "+name)
		require.NotContains(t, err.Error(), "secret")
	}
}

// TestProcessesTakeTurns has three processes publish at once, and follows the feed
// at each: a reader that has seen a revision has seen every one below. That is so
// whatever the database would do by itself.
func TestProcessesTakeTurns(t *testing.T) {
	onPostgres(t)
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) { processesTakeTurns(t, isolation) })
	}
}

func processesTakeTurns(t *testing.T, isolation string) {
	dir := t.TempDir()
	stacktest.Both(t)
	_, at := storetest.Place(t, dir)
	at += "&default_transaction_isolation=" + url.PathEscape(isolation)
	const each = 20
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		db := mustOpenAt(t, Config{URL: at})
		writing.Go(func() {
			for range each {
				db.mustPublish(t, api.NewID(api.PrefixRight, now), api.RightSuspended)
			}
		})
		reading.Go(func() {
			for last := int64(0); ; {
				f, err := db.Feed.Changes(t.Context(), api.FeedRequest{After: last})
				require.NoError(t, err)
				require.GreaterOrEqual(t, f.Newest, last)
				for i, c := range f.Changes {
					require.Equal(t, last+int64(i)+1, c.Revision, "a revision was skipped, or came after a higher one")
				}
				last = f.UpTo
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	require.Equal(t, int64(3*each+1), mustOpen(t, dir).mustPublish(t, "rgh_last", api.RightActive))
}

func TestCommitWakesOtherProcesses(t *testing.T) {
	onPostgres(t)
	dir := t.TempDir()
	_, at := storetest.Place(t, dir)
	waiting, writing := mustOpenAt(t, Config{URL: at, pollInterval: time.Hour}), mustOpen(t, dir)
	for range 20 {
		published := writing.mustPublish(t, "rgh_a", api.RightActive)
		for {
			changed := waiting.Changed()
			f, err := waiting.Feed.Changes(t.Context(), api.FeedRequest{})
			require.NoError(t, err)
			if f.Newest == published {
				break
			}
			<-changed
		}
	}
}

// TestStalledChangeLosesItsLock stops a process within a change.
func TestStalledChangeLosesItsLock(t *testing.T) {
	onPostgres(t)
	dir := t.TempDir()
	_, at := storetest.Place(t, dir)
	limit := func(db *DB) (limit string) {
		require.NoError(t, db.write.QueryRowContext(t.Context(), `SHOW idle_in_transaction_session_timeout`).Scan(&limit))
		return limit
	}
	require.Equal(t, "7s", limit(mustOpenAt(t, Config{URL: at + "&idle_in_transaction_session_timeout=7000"})))
	stalled, other := mustOpen(t, dir), mustOpen(t, dir)
	require.Equal(t, "10s", limit(stalled))

	within, goOn, ended := make(chan error), make(chan struct{}), make(chan error)
	go func() {
		ended <- stalled.Change(t.Context(), func(tx *Tx) error {
			_, err := tx.ExecContext(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = '200ms'`) // not to wait for so long
			within <- err
			<-goOn
			_, err = tx.Revision(t.Context())
			return err
		})
	}()
	require.NoError(t, <-within)
	require.Equal(t, int64(1), other.mustPublish(t, "rgh_a", api.RightActive), "after the stalled one lost its lock")
	close(goOn)
	require.Error(t, <-ended, "what it would have changed is not changed")
	require.Equal(t, int64(2), stalled.mustPublish(t, "rgh_a", api.RightActive), "and it goes on with the next change")
}

// TestOneProcessRelays has the relay of a process lose its connection, and one end:
// another takes over, each event is in the log, first copies in order.
func TestOneProcessRelays(t *testing.T) {
	onPostgres(t)
	dir := t.TempDir()
	log := new(faultyLog)
	first, second := mustOpen(t, dir), mustOpen(t, dir)
	var want []string
	emit := func(db *DB) {
		subject := api.NewID(api.PrefixRight, now)
		want = append(want, subject)
		db.mustEmit(t, "tnt_a", subject)
	}
	stopFirst := first.mustRelay(t, log)
	emit(second)
	require.NoError(t, second.Outbox.Drain(t.Context(), "tnt_a"), "the other process relays it")

	stopSecond := second.mustRelay(t, log)
	for range 20 {
		emit(first)
		emit(second)
		_, err := first.write.Exec(`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
			AND ((classid::bigint << 32) | objid::bigint) = $1`, int64(lockRelay))
		require.NoError(t, err)
	}
	require.NoError(t, first.Outbox.Drain(t.Context(), "tnt_a"))
	stopFirst()
	emit(first)
	require.NoError(t, first.Outbox.Drain(t.Context(), "tnt_a"))
	stopSecond()
	require.Equal(t, want, log.subjects(t))
}

// TestRestoreUnderARunningProcess puts an older copy in the place of a database
// that is in use.
func TestRestoreUnderARunningProcess(t *testing.T) {
	onPostgres(t)
	dir := t.TempDir()
	said := new(said)
	_, at := storetest.Place(t, dir)
	running := mustOpenAt(t, Config{URL: at, Logger: slog.New(slog.NewTextHandler(said, nil))})
	running.mustPublish(t, "rgh_a", api.RightActive)
	older := t.TempDir()
	storetest.Copy(t, dir, older)
	waittest.Until(t, func() bool { // its connections were closed for the copy
		return running.Change(t.Context(), func(*Tx) error { return nil }) == nil
	})
	revoked := running.mustPublish(t, "rgh_a", api.RightRevoked)

	storetest.Replace(t, older, dir)
	for range 2 {
		waittest.Until(t, func() bool {
			f, err := running.Feed.Changes(t.Context(), api.FeedRequest{After: revoked})
			require.Error(t, err, "it reported %v", f)
			return errors.Is(err, ErrWentBack)
		})
		_, err := Newest(t.Context(), running, api.Rights, "rgh_a")
		require.ErrorIs(t, err, ErrWentBack, "it would be ACTIVE")
		waittest.Until(t, func() bool { // its connection was closed as well
			err := running.Change(t.Context(), func(*Tx) error { return nil })
			require.Error(t, err)
			return errors.Is(err, ErrWentBack)
		})
		// Also once the older copy has caught up, by a process that has seen nothing newer.
		other := mustOpen(t, dir)
		for range 3 {
			other.mustPublish(t, "rgh_b", api.RightActive)
		}
	}
	require.Equal(t, 1, said.count("level=ERROR"), said)
}

// TestEpochOfAnotherProcess: an epoch that one process begins is not that of the others.
func TestEpochOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	running, accepting := mustOpen(t, dir), mustOpen(t, dir)
	require.NoError(t, accepting.BeginEpoch(t.Context(), Epoch{Incarnation: accepting.NewIncarnation(), Number: 2}, func(*Tx) error { return nil }))
	require.ErrorIs(t, running.Change(t.Context(), func(*Tx) error { return nil }), ErrWentBack)
	require.NoError(t, accepting.Change(t.Context(), func(*Tx) error { return nil }))
}

func TestURLKeepsItsPassword(t *testing.T) {
	for _, bad := range []string{
		"postgres://muniment:hunter2@127.0.0.1:1/x?sslmode=disable",
		"postgres://muniment:hunter2@127.0.0.1:1/x?sslmode=nonsense",
		"postgres://muniment:hunter2@127.0.0.1:1:1/x",
		"muniment:hunter2@host",
	} {
		_, err := Open(t.Context(), Config{URL: bad})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
	for _, none := range []Config{{}, {Path: "a", URL: "b"}} {
		_, err := Open(t.Context(), none)
		require.ErrorContains(t, err, "Path or URL")
	}
}

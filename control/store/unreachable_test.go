package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// wired opens a database through a wire.
func wired(t *testing.T, logger *slog.Logger) (*DB, *storetest.Wire) {
	t.Helper()
	stacktest.Both(t)
	_, at := storetest.Place(t, t.TempDir())
	wire := storetest.NewWire(t, at)
	return mustOpenAt(t, Config{URL: wire.URL, Logger: logger}), wire
}

// said is a log that is read while others write it.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) count(text string) int { return strings.Count(s.String(), text) }

// unavailable asserts a 503 and returns what it says.
func unavailable(t *testing.T, err error) string {
	t.Helper()
	refused, ok := errors.AsType[*api.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, api.DatabaseUnavailable, refused.Reason)
	require.Equal(t, 503, refused.GetStatus())
	require.Equal(t, 1, refused.RetryAfterSeconds())
	return refused.Message
}

// TestWhileTheDatabaseIsAway cuts the wire under a relay, a poll and callers, and
// restores it: everything goes on, and each part has said once that it can't.
func TestWhileTheDatabaseIsAway(t *testing.T) {
	onPostgres(t)
	said := new(said)
	db, wire := wired(t, slog.New(slog.NewTextHandler(said, nil)))
	log := new(faultyLog)
	stop := db.mustRelay(t, log)
	db.mustEmit(t, "tnt_a", "rgh_1")
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a"))
	require.NoError(t, db.Ready(t.Context()))
	waittest.Until(t, func() bool { // it listens
		n, err := One(t.Context(), db.Read(), "the listeners", func(row Row) (n int, err error) { return n, row.Scan(&n) },
			`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND query = $1`, "LISTEN "+channelNotes)
		return err == nil && *n == 1
	})

	wire.Cut()
	for range 20 {
		err := db.Change(t.Context(), func(tx *Tx) error { t.Error("it can't have begun"); return nil })
		require.Contains(t, unavailable(t, err), "nothing was changed")
		_, err = Newest(t.Context(), db, api.Rights, "rgh_a")
		require.True(t, Away(err), "%v", err)
		require.True(t, Away(db.Ready(t.Context())))
		require.True(t, Away(db.Notes.Write(t.Context(), `DELETE FROM node_polls`)))
	}
	_, err := Open(t.Context(), Config{URL: wire.URL})
	unavailable(t, err)

	wire.Restore()
	require.Equal(t, int64(1), db.mustPublish(t, "rgh_a", api.RightActive))
	db.mustEmit(t, "tnt_a", "rgh_2")
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a"))
	require.NoError(t, db.Ready(t.Context()))
	stop()
	require.Equal(t, []string{"rgh_1", "rgh_2"}, log.subjects(t))
	waittest.Until(t, func() bool { return said.count("the database is back") == 1 })
	require.NoError(t, db.Close())
	require.Equal(t, 1, said.count("lost the connection for notifications of the database"), said)
	require.LessOrEqual(t, said.count("cannot relay"), 1, said)
}

// TestLostConnections breaks every connection, as a server does that is restarted, while
// they are in use or were a moment ago: who begins something afterwards notices nothing.
func TestLostConnections(t *testing.T) {
	onPostgres(t)
	db, wire := wired(t, nil)
	count := func(q Querier) (*sql.Rows, error) {
		return q.QueryContext(t.Context(), `SELECT count(*) FROM counters`)
	}
	queried := func(times int) (all []*sql.Rows) { // each on a connection of its own
		for range times {
			rows, err := count(db.Read())
			require.NoError(t, err)
			all = append(all, rows)
		}
		return all
	}
	var viewed func(times int) // likewise
	viewed = func(times int) {
		if times == 0 {
			return
		}
		require.NoError(t, db.View(t.Context(), func(q Querier) error {
			viewed(times - 1)
			rows, err := count(q)
			require.NoError(t, err)
			return rows.Close()
		}))
	}
	closed := func(all []*sql.Rows) {
		for _, rows := range all {
			require.NoError(t, rows.Close())
		}
	}
	write := func() {
		db.mustPublish(t, api.NewID(api.PrefixRight, db.Now()), api.RightActive)
		require.NoError(t, db.Transact(t.Context(), func(*sql.Tx) error { return nil }))
		require.NoError(t, db.Notes.Write(t.Context(), `DELETE FROM node_polls`))
	}
	for _, begin := range []func(){
		func() { closed(queried(readers)) },
		func() { viewed(readers) },
		write,
	} {
		for range 2 { // what was used once, and not again, is looked at before its next use
			closed(queried(readers))
			write()
		}
		err := db.View(t.Context(), func(q Querier) error {
			wire.Cut()
			wire.Restore()
			_, err := count(q)
			return err
		})
		require.True(t, Away(err), "what had begun is lost, and the error says so: %v", err)
		begin()
	}
}

// TestRestartedDatabase ends every connection as a server does that stops.
func TestRestartedDatabase(t *testing.T) {
	onPostgres(t)
	db, _ := wired(t, nil)
	db.mustPublish(t, "rgh_a", api.RightActive)
	_, err := Newest(t.Context(), db, api.Rights, "rgh_a") // a connection that is kept
	require.NoError(t, err)
	other, err := sql.Open("pgx", db.cfg.URL)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.NoError(t, err)
	_, err = Newest(t.Context(), db, api.Rights, "rgh_a")
	require.NoError(t, err)
	require.Equal(t, int64(2), db.mustPublish(t, "rgh_b", api.RightActive))
}

// commitMessage is a commit on the wire, with its length, unlike the name of a setting.
const commitMessage = "\x0bcommit\x00"

// TestCommitInDoubt loses the answer to a commit: the answer says so, and who
// reads finds out.
func TestCommitInDoubt(t *testing.T) {
	onPostgres(t)
	db, wire := wired(t, nil)
	db.mustPublish(t, "rgh_a", api.RightActive)
	wire.CutBehind(commitMessage)
	revoke := func(tx *Tx) error {
		revision, err := tx.Revision(t.Context())
		if err != nil {
			return err
		}
		return Publish(t.Context(), tx, api.Rights, &api.Right{ID: "rgh_a", State: api.RightRevoked, Revision: revision})
	}
	require.Contains(t, unavailable(t, db.Change(t.Context(), revoke)), "read whether it was made")
	committed := func() bool {
		r, err := Newest(t.Context(), db, api.Rights, "rgh_a")
		return err == nil && r.State == api.RightRevoked && r.Revision == 2
	}
	waittest.Until(t, committed, "it was made, once")
	require.Equal(t, int64(3), db.mustPublish(t, "rgh_b", api.RightActive))

	require.NoError(t, db.Transact(t.Context(), seen(t.Context(), "192.0.2.2"))) // so it is connected
	wire.CutBehind(commitMessage)
	require.Contains(t, unavailable(t, db.Transact(t.Context(), seen(t.Context(), "192.0.2.1"))), "read whether it was made")
}

// TestSilent: a connection that broke is not one whose end was waited for in vain.
func TestSilent(t *testing.T) {
	for err, want := range map[error]bool{
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}:  true,
		&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}:                         true,
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}: false,
		&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}:    false,
		io.ErrUnexpectedEOF: false,
	} {
		require.Equal(t, want, silent(fmt.Errorf("cannot query: %w", err)), "%v", err)
	}
}

func TestAwayIsNotWrong(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), sql.ErrNoRows, ErrWentBack, api.Conflict("x"), t.Context().Err()} {
		require.False(t, Unreachable(err), "%v", err)
	}
	require.True(t, Unreachable(io.EOF))
	require.False(t, Away(io.EOF), "of another connection")
}

// TestReadyGauge: it shows an outage before the database could be opened, and one that comes later.
func TestReadyGauge(t *testing.T) {
	onPostgres(t)
	stacktest.Both(t)
	_, at := storetest.Place(t, t.TempDir())
	wire := storetest.NewWire(t, at)
	wire.Cut()
	gauge, release, err := ReadyGauge(Config{URL: wire.URL})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, release()) })
	require.Equal(t, 0., testutil.ToFloat64(gauge))
	for range 2 {
		wire.Restore()
		waittest.Until(t, func() bool { return testutil.ToFloat64(gauge) == 1 })
		wire.Cut()
		require.Equal(t, 0., testutil.ToFloat64(gauge))
	}
}

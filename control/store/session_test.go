package store

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// TestSessions: the settings hold on every connection of every pool, whatever the URL says.
func TestSessions(t *testing.T) {
	onPostgres(t)
	_, at := storetest.Place(t, t.TempDir())
	requireSessions(t, at)
}

func requireSessions(t *testing.T, at string) *DB {
	t.Helper()
	db := mustOpenAt(t, Config{URL: at + "&target_session_attrs=read-write&lock_timeout=4321&synchronous_commit=off"})
	for _, test := range []struct {
		q              Querier
		name, readOnly string
	}{{db.write, "writing", "off"}, {db.read, "reading", "on"}, {db.pg.notes, "notes", "off"}, {db.pg.transactions, "transactions", "off"}} {
		var commit, wait, isolation, readOnly, application string
		require.NoError(t, test.q.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_commit'), current_setting('lock_timeout'),
			current_setting('default_transaction_isolation'), current_setting('transaction_read_only'), current_setting('application_name')`).
			Scan(&commit, &wait, &isolation, &readOnly, &application), test.name)
		require.Equal(t, []string{"remote_apply", "4321ms", "read committed", test.readOnly, "muniment control"}, []string{commit, wait, isolation, readOnly, application}, test.name)
	}
	return db
}

// TestReadOnlyServerIsRefused at start, for its settings have to be changed.
func TestReadOnlyServerIsRefused(t *testing.T) {
	onPostgres(t)
	_, at := storetest.Place(t, t.TempDir())
	at += "&options=-c%20default_transaction_read_only%3Don"
	_, err := Open(t.Context(), Config{URL: at})
	require.ErrorIs(t, err, errReadOnly)
	require.ErrorContains(t, err, "target_session_attrs=read-write")
	require.NotEqual(t, api.DatabaseUnavailable, api.From(err).Reason, "a start does not wait for it")
	_, err = Migrate(t.Context(), Config{URL: at}, false)
	require.ErrorIs(t, err, errReadOnly)
	require.True(t, Unreachable(err), "a running process waits")
}

// pooled is the URL of a test's database behind PgBouncer.
func pooled(t *testing.T, mode, dir string) string {
	t.Helper()
	server, err := url.Parse(stacktest.PgBouncer(t, mode))
	require.NoError(t, err)
	_, at := storetest.Place(t, dir)
	database, err := url.Parse(at)
	require.NoError(t, err)
	server.Path = database.Path
	return server.String()
}

// TestPgBouncerKeepsSessions: in its mode session, all that needs a session works: settings, locks and
// notifications.
func TestPgBouncerKeepsSessions(t *testing.T) {
	dir := t.TempDir()
	at := pooled(t, "session", dir)
	db, other := requireSessions(t, at), mustOpenAt(t, Config{URL: at})
	log := new(faultyLog)
	stop := db.mustRelay(t, log)
	changed := db.Changed()
	other.mustPublish(t, "rgh_a", api.RightActive)
	<-changed
	other.mustEmit(t, "tnt_a", "rgh_a")
	require.NoError(t, other.Outbox.Drain(t.Context(), "tnt_a"))
	release, err := db.LockKeys(t.Context(), "a test")
	require.NoError(t, err)
	release()
	stop()
	_, err = Migrate(t.Context(), Config{URL: at}, false)
	require.NoError(t, err)
}

// TestPgBouncerThatKeepsNoSessionIsRefused, whoever else uses it.
func TestPgBouncerThatKeepsNoSessionIsRefused(t *testing.T) {
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			at := pooled(t, mode, t.TempDir())
			defer keepBusy(t, at)()
			for range 5 {
				_, err := Open(t.Context(), Config{URL: at})
				require.ErrorIs(t, err, errPooled)
				require.ErrorContains(t, err, "use pool_mode=session")
				require.NotEqual(t, api.DatabaseUnavailable, api.From(err).Reason, "a start does not wait")
				_, err = Migrate(t.Context(), Config{URL: at}, false)
				require.ErrorIs(t, err, errPooled)
			}
		})
	}
}

// TestPgBouncerThatKeepsNoSessionMakesNothing: where the database is missing, a pooler is refused before the database
// is made.
func TestPgBouncerThatKeepsNoSessionMakesNothing(t *testing.T) {
	at, err := url.Parse(pooled(t, "transaction", t.TempDir()))
	require.NoError(t, err)
	missing := at.Path[1:] + "_missing"
	at.Path, at.Host = "/"+missing, withoutDatabase(t, missing, at.Host)
	for _, dryRun := range []bool{true, false} {
		_, err = Migrate(t.Context(), Config{URL: at.String()}, dryRun)
		require.ErrorIs(t, err, errPooled)
	}
	conn, err := pgx.Connect(t.Context(), stacktest.Postgres(t))
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var there bool
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, missing).Scan(&there))
	require.False(t, there)
}

// withoutDatabase stands before a pooler and says of a database that there is none, as the server does: PgBouncer 1.18
// says so in a code of its own.
func withoutDatabase(t *testing.T, missing, pooler string) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var clients sync.WaitGroup
	forward := func(client net.Conn) error {
		defer client.Close()
		backend := pgproto3.NewBackend(client, client)
		first, err := backend.ReceiveStartupMessage()
		start, ok := first.(*pgproto3.StartupMessage)
		if err != nil || !ok {
			return err
		}
		if start.Parameters["database"] == missing {
			backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: noSuchDatabase, Message: "there is no database " + missing})
			return backend.Flush()
		}
		server, err := net.Dial("tcp", pooler)
		if err != nil {
			return err
		}
		defer server.Close()
		text, err := start.Encode(nil)
		if err == nil {
			_, err = server.Write(text)
		}
		if err != nil {
			return err
		}
		clients.Go(func() { _, _ = io.Copy(client, server) })
		_, err = io.Copy(server, client)
		return err
	}
	clients.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			clients.Go(func() { _ = forward(client) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); clients.Wait() })
	return ln.Addr().String()
}

// keepBusy has other clients send statements through a pooler, until they are stopped: between two of
// them, as a request to cancel one ends PgBouncer 1.18.
func keepBusy(t *testing.T, at string) (stop func()) {
	t.Helper()
	ended := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		conn, err := pgx.Connect(t.Context(), at)
		require.NoError(t, err)
		clients.Go(func() {
			for {
				select {
				case <-ended:
					_ = conn.Close(t.Context())
					return
				default:
					_, _ = conn.Exec(t.Context(), `SELECT 1`, pgx.QueryExecModeExec)
				}
			}
		})
	}
	return func() { close(ended); clients.Wait() }
}

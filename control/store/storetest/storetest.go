// Package storetest says on which database a test of control runs: on SQLite, or, with
// MUNIMENT_TEST_POSTGRES set to the URL of a server, on a PostgreSQL database of its own. So every
// test of a service runs on both engines.
package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
)

// TB is what Place needs of a *testing.T or a *rapid.T.
type TB interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// Place returns the Path and the URL of a store.Config for the database of dir, one of which is
// empty. The database has the tables of control, and no records. The same dir is the same database:
// opened twice, it is one that two processes share. It is dropped at the end of the test that called
// Place first.
func Place(t TB, dir string) (path, database string) {
	t.Helper()
	server := stacktest.PostgresIfUp()
	if server == "" {
		path = filepath.Join(dir, "control.db")
		require.NoError(t, copyTemplate(path))
		return path, ""
	}
	from, err := templateOn(server)
	require.NoError(t, err)
	return "", create(t, server, dir, " TEMPLATE "+from)
}

// Empty returns the URL of a database of a PostgreSQL server that has no tables yet, otherwise as Place
// does.
func Empty(t TB, server, dir string) (database string) {
	t.Helper()
	return create(t, server, dir, "")
}

func create(t TB, server, dir, with string) (database string) {
	t.Helper()
	err := Administer(server, "CREATE DATABASE "+name(dir)+with)
	if known, ok := errors.AsType[*pgconn.PgError](err); !ok || known.Code != "42P04" { // it is there
		require.NoError(t, err)
		t.Cleanup(func() { drop(t, server, dir) })
	}
	database, err = withDatabase(server, name(dir))
	require.NoError(t, err)
	return database
}

// withDatabase is the URL of another database of a server.
func withDatabase(server, name string) (string, error) {
	at, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	at.Path = "/" + name
	return at.String(), nil
}

// Copy copies the database of a folder for another folder. Open connections may be lost.
func Copy(t TB, from, to string) {
	t.Helper()
	server := stacktest.PostgresIfUp()
	if server == "" {
		text, err := os.ReadFile(filepath.Join(from, "control.db"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, "control.db"), text, 0o600))
		return
	}
	for _, statement := range []string{ // PostgreSQL copies a database only while it has no connections
		"ALTER DATABASE " + name(from) + " ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name(from) + "'",
		"CREATE DATABASE " + name(to) + " TEMPLATE " + name(from),
		"ALTER DATABASE " + name(from) + " ALLOW_CONNECTIONS true",
	} {
		require.NoError(t, Administer(server, statement))
	}
	t.Cleanup(func() { drop(t, server, to) })
}

// Replace restores a copy, on PostgreSQL, over the database that it was made of, also while that is
// open.
func Replace(t TB, older, dir string) {
	t.Helper()
	server := stacktest.PostgresIfUp()
	drop(t, server, dir)
	require.NoError(t, Administer(server, "ALTER DATABASE "+name(older)+" RENAME TO "+name(dir)))
}

func name(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "muniment_test_" + hex.EncodeToString(sum[:8])
}

func drop(t TB, server, dir string) {
	require.NoError(t, Administer(server, "DROP DATABASE IF EXISTS "+name(dir)+" WITH (FORCE)"))
}

// Administer executes a statement in a database of a PostgreSQL server.
func Administer(server, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

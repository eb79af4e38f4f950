package store

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store/storetest"
	"muniment/gateway/api"
)

// TestNewerDatabaseIsRefused: this program would not know what its columns mean. It says who
// does.
func TestNewerDatabaseIsRefused(t *testing.T) {
	path, url := storetest.Place(t, t.TempDir())
	older := Config{Path: path, URL: url, Program: "v1.2.0"}
	db, err := Open(t.Context(), older)
	require.NoError(t, err)
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, $1)`, true)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), `INSERT INTO schema_programs (schema_version, program) VALUES (999, 'v1.3.0')`)
		return err
	}))
	require.NoError(t, db.Close())
	refused := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "schema version 999 is newer than")
		require.ErrorContains(t, err, "v1.3.0 has migrated it")
		require.ErrorContains(t, err, "this is v1.2.0")
		require.ErrorContains(t, err, "restore a backup")
	}
	_, err = Open(t.Context(), older)
	refused(err)
	if url != "" {
		for _, dryRun := range []bool{true, false} {
			_, err = Migrate(t.Context(), older, dryRun)
			refused(err)
		}
	}

	// Nobody may have said which version it was, and later ones may say it elsewhere.
	for _, statement := range []string{`DELETE FROM schema_programs WHERE schema_version = 999`, `DROP TABLE schema_programs`} {
		engine, at := "sqlite", dsn(path, "_txlock", "immediate")
		if url != "" {
			engine, at = "pgx", url
		}
		raw, err := sql.Open(engine, at)
		require.NoError(t, err)
		_, err = raw.Exec(statement)
		require.NoError(t, err)
		require.NoError(t, raw.Close())
		_, err = Open(t.Context(), older)
		require.ErrorContains(t, err, "schema version 999 is newer than")
		require.NotContains(t, err.Error(), "has migrated it")
	}
}

// TestProgramsAreNoted: the one that migrated a schema is remembered, not each that opens it.
func TestProgramsAreNoted(t *testing.T) {
	dir := t.TempDir()
	path, url := storetest.Place(t, dir)
	for _, program := range []string{"", "v1.2.0", "v1.2.1"} { // the first did not say
		db, err := Open(t.Context(), Config{Path: path, URL: url, Program: program})
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	db := mustOpen(t, dir)
	programs, err := List(t.Context(), db.Read(), "the programs", Text, `SELECT program FROM schema_programs`)
	require.NoError(t, err)
	require.Equal(t, []string{"v1.2.0"}, programs)
}

// TestMigrateMakesTheDatabase: a server is all that it needs.
func TestMigrateMakesTheDatabase(t *testing.T) {
	server := os.Getenv("MUNIMENT_TEST_POSTGRES")
	if server == "" {
		t.Skip("needs PostgreSQL")
	}
	at, err := url.Parse(server)
	require.NoError(t, err)
	name := "muniment_test_" + strings.ToLower(api.NewID(api.PrefixEvent, time.Now())[4:])
	at.Path = "/" + name
	t.Cleanup(func() {
		db, err := sql.Open("pgx", server)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
		require.NoError(t, err)
	})
	planned, err := Migrate(t.Context(), Config{URL: at.String()}, true)
	require.NoError(t, err)
	require.NotEmpty(t, planned)
	again, err := Migrate(t.Context(), Config{URL: at.String()}, true)
	require.NoError(t, err)
	require.Equal(t, planned, again, "a dry run makes nothing")
	done, err := Migrate(t.Context(), Config{URL: at.String()}, false)
	require.NoError(t, err)
	require.Equal(t, planned, done)
	done, err = Migrate(t.Context(), Config{URL: at.String()}, false)
	require.NoError(t, err)
	require.Empty(t, done)
}

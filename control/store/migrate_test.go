package store

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// TestNewerDatabaseIsRefused: this program would not know what its columns mean.
func TestNewerDatabaseIsRefused(t *testing.T) {
	stacktest.Both(t)
	path, url := storetest.Place(t, t.TempDir())
	cfg := Config{Path: path, URL: url}
	db, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, $1)`, true)
		return err
	}))
	require.NoError(t, db.Close())
	refused := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "schema version 999 is newer than")
		require.ErrorContains(t, err, "restore a backup")
	}
	_, err = Open(t.Context(), cfg)
	refused(err)
	if url != "" {
		for _, dryRun := range []bool{true, false} {
			_, err = Migrate(t.Context(), cfg, dryRun)
			refused(err)
		}
	}
}

// TestMigrateMakesTheDatabase: a server is all that it needs.
func TestMigrateMakesTheDatabase(t *testing.T) {
	server := stacktest.Postgres(t)
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

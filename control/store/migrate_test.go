package store

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
)

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

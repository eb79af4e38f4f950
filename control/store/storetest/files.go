package storetest

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Analyze makes PostgreSQL gather the statistics of a database, which hold values of the columns.
func Analyze(t TB, database string) {
	t.Helper()
	require.NoError(t, Administer(database, "ANALYZE"))
}

// Files is the folder of a PostgreSQL database's files, once these hold what was committed. The
// write-ahead log is not among them. The server is on this machine.
func Files(t TB, database string) (folder string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, database)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CHECKPOINT")
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(ctx, `SELECT current_setting('data_directory') || '/base/' || oid FROM pg_database WHERE datname = current_database()`).Scan(&folder))
	return folder
}

package clickhouse

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muniment.example/deploy/stack/stacktest"
)

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]Config{
		"URL is empty":            {},
		"URL can't be read":       {URL: "clickhouse://u:s3cret@host:9000/db?dial_timeout=never"},
		"URL names no database":   {URL: "clickhouse://u:s3cret@host:9000"},
		"Timeout is negative":     {URL: "clickhouse://u:s3cret@host:9000/db", Timeout: -time.Second},
		"URL begins with http://": {URL: "http://u:s3cret@host:8123/db", TLS: func(string) *tls.Config { return &tls.Config{} }},
	} {
		_, err := Open(t.Context(), cfg)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "s3cret")
		_, err = Migrate(t.Context(), cfg, true)
		require.ErrorContains(t, err, name)
	}
}

func TestConfigBecomesOptions(t *testing.T) {
	secure := &tls.Config{}
	opt, err := Config{URL: "https://u:p@a:8443,b:8443/db?max_threads=3", TLS: func(string) *tls.Config { return secure }, Cluster: "c"}.options()
	require.NoError(t, err)
	require.Equal(t, clickhouse.HTTP, opt.Protocol)
	require.Equal(t, []string{"a:8443", "b:8443"}, opt.Addr)
	require.Same(t, secure, opt.TLS)
	require.Equal(t, clickhouse.Settings{
		"async_insert": 0, "do_not_merge_across_partitions_select_final": 1, "max_threads": 3,
		"max_partitions_per_insert_block": 0,
		"insert_quorum":                   "auto", "insert_quorum_parallel": 0, "insert_quorum_timeout": int64(60_000),
		"lightweight_deletes_sync": 2, "select_sequential_consistency": 1,
	}, opt.Settings)

	opt, err = Config{URL: "https://u:p@a:8443/db"}.options()
	require.NoError(t, err)
	require.NotNil(t, opt.TLS)

	opt, err = Config{URL: "clickhouse://u:p@a:9000/db"}.options()
	require.NoError(t, err)
	require.Equal(t, clickhouse.Native, opt.Protocol)
	require.Nil(t, opt.TLS)
	require.NotContains(t, opt.Settings, "insert_quorum")
}

// A server that can't be reached is named, its password isn't.
func TestOpenSaysWhatIsAway(t *testing.T) {
	// A port that is taken, and on which no server listens.
	taken, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.CloseOnExec(taken)
	defer unix.Close(taken)
	require.NoError(t, unix.Bind(taken, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(taken)
	require.NoError(t, err)
	address := fmt.Sprint("127.0.0.1:", name.(*unix.SockaddrInet4).Port)
	_, err = Open(t.Context(), Config{URL: "clickhouse://u:s3cret@" + address + "/db", Timeout: 5 * time.Second})
	require.ErrorContains(t, err, address)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestMigrate(t *testing.T) {
	const name = "muniment_migrate"
	cfg := onServer(t, stacktest.ClickHouse(t), name)
	dropped(t, cfg, name)
	all := []string{"0001_warehouse.sql", "0002_views.sql"}

	names, err := Migrate(t.Context(), cfg, true)
	require.NoError(t, err)
	require.Equal(t, all, names)
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "run muniment migrate")
	names, err = Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	require.Equal(t, all, names, "the dry run has made nothing")
	w := mustOpen(t, cfg)
	for _, dryRun := range []bool{true, false} {
		names, err = Migrate(t.Context(), cfg, dryRun)
		require.NoError(t, err)
		require.Empty(t, names)
	}

	// A migration that was cut off after its last statement runs again.
	require.NoError(t, w.conn.Exec(t.Context(), `ALTER TABLE schema_versions DELETE WHERE version_id > 0 SETTINGS mutations_sync = 2`))
	names, err = Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	require.Equal(t, all, names)

	require.NoError(t, w.conn.Exec(t.Context(), `INSERT INTO schema_versions (version_id, is_applied) VALUES (999, 1)`))
	_, err = Migrate(t.Context(), cfg, false)
	require.ErrorContains(t, err, "newer")
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "newer")
}

// On a cluster every table is replicated and every statement runs everywhere.
func TestMigrationsOfACluster(t *testing.T) {
	steps, err := render("the `cluster`")
	require.NoError(t, err)
	files, err := fs.Glob(steps, "*.sql")
	require.NoError(t, err)
	require.Len(t, files, 2)
	texts := querier{cluster: "the `cluster`"}.CreateTable("versions")
	for _, file := range files {
		text, err := fs.ReadFile(steps, file)
		require.NoError(t, err)
		texts += "\n" + string(text)
	}
	var created, replicated int
	for line := range strings.Lines(texts) {
		if strings.HasPrefix(line, "CREATE ") {
			created++
			require.Contains(t, line, " ON CLUSTER `the \\`cluster\\`` ", line)
		}
		if strings.Contains(line, "ENGINE") {
			replicated++
			require.Contains(t, line, "ENGINE = ReplicatedReplacingMergeTree", line)
		}
	}
	require.Equal(t, 14+5, created)
	require.Equal(t, 14, replicated)
}

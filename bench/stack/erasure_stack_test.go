package stack

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/store/storetest"
)

// TestErasureOnTheStack runs the scenario of an erasure on two gateways, two control processes and
// a loader. What is searched are all files of both databases, whose server's write-ahead log is
// its operator's, and the processes' folders and logs, but for the gateways' copies. Kafka loses
// what it holds by its retention, which kafka.Log.Kept has certificates say.
func TestErasureOnTheStack(t *testing.T) {
	t.Parallel()
	service, c := scaledOut(t)
	s := &systemtest.Erasing{Service: service}
	database := filepath.Base(c.ClickHouse)
	uncompressed := func() {
		for _, column := range []string{"private_parts MODIFY COLUMN private", "set_aside MODIFY COLUMN record"} {
			require.NoError(t, systemtest.Query("ALTER TABLE "+database+"."+column+" String CODEC(NONE)"))
		}
	}
	uncompressed()
	analyze := sync.OnceFunc(func() { storetest.Analyze(t, c.Database) }) // it is full by then
	s.Stores = map[string]func(text string) []string{
		"warehouse": func(text string) (files []string) {
			paths, err := systemtest.Selected("SELECT arrayJoin(data_paths) FROM system.tables WHERE database = '" + database + "'")
			require.NoError(t, err)
			for path := range strings.FieldsSeq(paths) {
				files = append(files, systemtest.Holding(t, path, text)...)
			}
			return files
		},
		"database": func(text string) []string {
			analyze()
			return systemtest.Holding(t, storetest.Files(t, c.Database), text)
		},
		"bundles": func(text string) []string { return systemtest.Holding(t, c.Dir, text, "copies") },
	}
	s.Begin()
	copies := func(text string) (in []string) {
		return slices.DeleteFunc(systemtest.Holding(t, c.Dir, text), func(name string) bool { return !strings.Contains(name, "/copies/") })
	}
	require.NotEmpty(t, copies(systemtest.Person))
	done, _ := s.Erase()
	require.NotEmpty(t, copies(systemtest.Person), "the copies are not rewritten")

	require.NoError(t, c.Loaders[0].Stop())
	require.NoError(t, systemtest.Query("DROP DATABASE "+database+" SYNC"))
	systemtest.Command(t, "migrate", "--kafka", c.Engines.Kafka, "--topic", c.Topic, "--partitions", "4", "--replication", "1", "--clickhouse", c.ClickHouse, "--database", c.Database)
	uncompressed()
	require.NoError(t, c.StartLoader(t.Context(), 0))
	waittest.Until(t, func() bool { return s.Metered() == s.Receipts }, "the topic is loaded into a new warehouse")
	s.Nothing("loaded again")
	s.Again(done)
}

package stack

import (
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestMigrate: as an installation types it, with the engines in variables. What an existing topic has
// stays unless a flag says otherwise, and an engine that is away or does not fit keeps the others from
// being changed, but for --only.
func TestMigrate(t *testing.T) {
	t.Parallel()
	e := systemtest.Engines(t)
	name := "muniment_" + strings.ToLower(rand.Text()[:12])
	in := func(engine string) string {
		u, err := url.Parse(engine)
		require.NoError(t, err)
		u.Path = "/" + name
		return u.String()
	}
	vars := map[string]string{
		"MUNIMENT_KAFKA": e.Kafka, "MUNIMENT_TOPIC": name, "MUNIMENT_CLICKHOUSE": in(e.ClickHouse), "MUNIMENT_DATABASE": in(e.Database),
	}
	run := func(args ...string) (said string, err error) {
		cmd := exec.CommandContext(t.Context(), "muniment", append([]string{"migrate"}, args...)...)
		cmd.Env = os.Environ()
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	done := func(args ...string) string {
		t.Helper()
		said, err := run(args...)
		require.NoError(t, err, said)
		return said
	}

	// Each in turn is away: nothing is made in the others.
	all := []string{"postgresql: apply ", "clickhouse: apply ", "kafka: create topic " + name + ": 5 partitions, 1 replicas"}
	create := []string{"--partitions", "5", "--replication", "1", "--retention", "24h"}
	for variable, away := range map[string]string{
		"MUNIMENT_KAFKA": "127.0.0.1:1", "MUNIMENT_CLICKHOUSE": "clickhouse://127.0.0.1:1/" + name, "MUNIMENT_DATABASE": "postgres://u@127.0.0.1:1/" + name,
	} {
		there := vars[variable]
		vars[variable] = away
		said, err := run(create...)
		require.Error(t, err, variable)
		require.Contains(t, said, "nothing was changed")
		vars[variable] = there
		planned := done(append(slices.Clone(create), "--dry-run")...)
		for _, change := range all {
			require.Contains(t, planned, change, "%s was away", variable)
		}
	}
	made := done(create...)
	for _, change := range all {
		require.Contains(t, made, change)
	}
	require.Equal(t, "everything is up to date\n", done())

	// The first command of a runbook, while ClickHouse is away.
	vars["MUNIMENT_CLICKHOUSE"] = "clickhouse://127.0.0.1:1/" + name
	said, err := run("--retention", "720h")
	require.Error(t, err)
	require.Contains(t, said, "nothing was changed")
	require.Equal(t, "kafka: set retention.ms of topic "+name+" to 2592000000 (was 86400000)\n", done("--only", "kafka", "--retention", "720h"))
	vars["MUNIMENT_CLICKHOUSE"] = in(e.ClickHouse)
	require.Equal(t, "everything is up to date\n", done())

	// A topic that does not fit.
	said, err = run("--partitions", "6")
	require.Error(t, err)
	require.Contains(t, said, "nothing was changed")
	require.Contains(t, said, "it has 5 partitions, 6 are declared")
}

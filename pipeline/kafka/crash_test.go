package kafka

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// brokers is a cluster of the test's own, which it may kill.
type ownBrokers struct {
	testing.TB
	env []string
}

// startBrokers starts Apache Kafka on ports from a given one on.
func startBrokers(tb testing.TB, nodes, port int) ownBrokers {
	realBrokers(tb) // or skip
	b := ownBrokers{tb, append(os.Environ(),
		"MUNIMENT_STACK="+tb.TempDir(),
		"MUNIMENT_STACK_CACHE="+os.Getenv("MUNIMENT_TEST_KAFKA_CACHE"),
		"MUNIMENT_KAFKA_PORT="+strconv.Itoa(port),
		"MUNIMENT_KAFKA_NODES="+strconv.Itoa(nodes),
	)}
	require.NotEmpty(tb, os.Getenv("MUNIMENT_TEST_KAFKA_CACHE"), "deploy/stack/kafka.sh env names it")
	tb.Cleanup(func() { b.do("down") })
	b.do("up")
	return b
}

// do runs kafka.sh.
func (b ownBrokers) do(args ...string) string {
	cmd := exec.Command(filepath.Join("..", "..", "deploy", "stack", "kafka.sh"), args...)
	cmd.Env = b.env
	// Files: brokers inherit them, and a pipe would be waited for until they end.
	log, err := os.CreateTemp(b.TempDir(), "")
	require.NoError(b, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	out, readErr := os.ReadFile(log.Name())
	require.NoError(b, readErr)
	require.NoError(b, err, "kafka.sh %s: %s", args, out)
	return string(out)
}

func (b ownBrokers) addresses() []string {
	for line := range strings.Lines(b.do("env")) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "export MUNIMENT_TEST_KAFKA="); ok {
			return strings.Split(list, ",")
		}
	}
	b.Fatal("kafka.sh names no broker")
	return nil
}

// full runs the long forms of tests.
var full = os.Getenv("MUNIMENT_TEST_FULL") != ""

// TestBrokerKilled kills the only broker under load and starts it again, in the full form
// twice. One half of the writers waits for it, the other half has a spool.
func TestBrokerKilled(t *testing.T) {
	victims := []string{"1"}
	if full {
		victims = append(victims, "1")
	}
	testKilled(t, startBrokers(t, 1, 29092), Topic{Replication: 1}, victims)
}

// TestOneOfThreeKilled kills one broker of three, which leads a partition or two: the
// others go on.
func TestOneOfThreeKilled(t *testing.T) {
	if !full {
		t.Skip("three brokers take a minute: with MUNIMENT_TEST_FULL")
	}
	brokers := startBrokers(t, 3, 29192)
	testKilled(t, brokers, Topic{Replication: 3}, []string{"1"})
}

func testKilled(t *testing.T, brokers ownBrokers, topic Topic, victims []string) {
	cfg := freshTopic(t, brokers.addresses(), topic)
	log := mustOpen(t, cfg)
	n := startNode(t, cfg, t.TempDir(), time.Second, 0)
	waiting, stopWaiting := run(t, log, 8, "tnt_waiting_", 5*time.Millisecond)
	spooling, stopSpooling := run(t, n, 8, "tnt_spooling_", 5*time.Millisecond)

	progress := func(records int64) {
		_, before, err := log.Bounds(t.Context(), 0)
		require.NoError(t, err)
		require.NoError(t, log.Wait(t.Context(), sealer.Position{Generation: before.Generation, Offset: before.Offset + records}))
	}
	progress(300)
	for _, victim := range victims {
		brokers.do("kill", victim)
		if topic.Replication > 1 {
			progress(100) // two of three go on
		} else {
			_, end, err := n.spool.Bounds(t.Context(), 0)
			require.NoError(t, err)
			require.NoError(t, n.spool.Wait(t.Context(), sealer.Position{Generation: 1, Offset: end.Offset + 200}))
		}
		brokers.do("up")
		progress(300)
	}
	stopWaiting()
	stopSpooling()
	n.drained(t)
	kept, copies := requireKept(t, log, append(waiting, spooling...))
	_, end, err := n.spool.Bounds(t.Context(), 0)
	require.NoError(t, err)
	t.Logf("%d kills, %d acknowledged, %d of them by the spool: 0 missing, %d copies", len(victims), kept, end.Offset, copies)
}

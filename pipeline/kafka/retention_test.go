package kafka

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/sealer"
)

func testRetentionUsed(t *testing.T, brokers []string) {
	const keep = 3 * time.Second
	cfg := freshTopic(t, brokers, Topic{Partitions: 1, Retention: keep})
	l := mustOpen(t, cfg)
	kept, err := l.Kept(t.Context())
	require.NoError(t, err)
	require.Equal(t, keep+7*24*time.Hour+time.Hour, kept, "a file of Kafka's ends after a week")
	used := func(at sealer.Position) float64 {
		share, err := l.RetentionUsed(t.Context(), at)
		require.NoError(t, err)
		return share
	}
	r := testRecord("tnt_a", 0)
	begun := time.Now()
	old, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	appended := time.Now()
	require.Zero(t, used(old.Next()), "nothing stands there")

	// Between what it was at most and at least, to a 64th.
	waittest.Until(t, func() bool {
		least := float64(time.Since(appended)) / float64(keep)
		share := used(old)
		most := float64(time.Since(begun)) / float64(keep)
		if share < 1 {
			require.GreaterOrEqual(t, share, least-2.0/retentionSteps)
		}
		if math.IsInf(share, 1) {
			require.GreaterOrEqual(t, most, 1.0, "it is gone too early")
		} else {
			require.LessOrEqual(t, share, most)
		}
		return share >= 0.5
	})

	r = testRecord("tnt_a", 1)
	begun = time.Now()
	young, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	share := used(young)
	if most := float64(time.Since(begun)) / float64(keep); most < 1 {
		require.LessOrEqual(t, share, most, "a younger one behind it")
	}
	waittest.Until(t, func() bool { return used(old) >= 1 })

	deleteRecords(t, cfg, 0, young.Next().Offset)
	require.Equal(t, math.Inf(1), used(old), "it is gone")
	require.Equal(t, math.Inf(1), used(young))
	require.Zero(t, used(young.Next()))
}

func TestRetentionUsed(t *testing.T) {
	t.Parallel()
	testRetentionUsed(t, fakeBrokers(t))
}
func TestRetentionUsedOnKafka(t *testing.T) { testRetentionUsed(t, realBrokers(t)) }

// What is kept for ever uses nothing up.
func TestRetentionUsedOfNone(t *testing.T) {
	l := mustOpen(t, freshTopic(t, fakeBrokers(t), Topic{}))
	r := testRecord("tnt_a", 0)
	at, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	l.topic.retention.Store(-1)
	share, err := l.RetentionUsed(t.Context(), at)
	require.NoError(t, err)
	require.Zero(t, share)
}

// A topic that drops records by their size works, and is warned of; how near a record is
// to its end is not known then. migrate mends it.
func testRetentionBySize(t *testing.T, brokers []string) {
	cfg := freshTopic(t, brokers, Topic{Partitions: 1})
	client, transport, err := cfg.mustComplete(t).client()
	require.NoError(t, err)
	defer transport.CloseIdleConnections()
	warned := &logCounter{text: "not set as it should be"}
	watched := cfg
	watched.CheckEvery, watched.Log = 10*time.Millisecond, slog.New(warned)
	l := mustOpen(t, watched)
	r := testRecord("tnt_a", 0)
	at, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	unknown := func() bool {
		used, err := l.RetentionUsed(t.Context(), at)
		require.NoError(t, err)
		return math.IsNaN(used)
	}
	require.False(t, unknown())
	require.Empty(t, warned.said())

	require.NoError(t, alter(t.Context(), client, cfg.Topic, []Change{
		{Setting: settingRetentionBytes, To: "1048576"}, {Setting: settingTimestamp, To: "CreateTime"},
	}, false))
	waittest.Until(t, unknown)
	used, err := l.RetentionUsed(t.Context(), at.Next())
	require.NoError(t, err)
	require.Zero(t, used, "nothing stands there")
	require.NoError(t, l.Ready())
	_, err = l.Append(t.Context(), &r)
	require.NoError(t, err)
	waittest.Until(t, func() bool {
		said := warned.said()
		return strings.Contains(said, "retention.bytes=1048576") && strings.Contains(said, "message.timestamp.type=CreateTime")
	})
	require.LessOrEqual(t, warned.times(), 2, "once for each change")

	_, err = Topic{Partitions: 1, Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	waittest.Until(t, func() bool { return !unknown() })
}

func TestRetentionBySize(t *testing.T)        { testRetentionBySize(t, fakeBrokers(t)) }
func TestRetentionBySizeOnKafka(t *testing.T) { testRetentionBySize(t, realBrokers(t)) }

// logCounter keeps the messages of a log that contain text.
type logCounter struct {
	text string
	mu   sync.Mutex
	all  []string
}

func (h *logCounter) Enabled(context.Context, slog.Level) bool { return true }
func (h *logCounter) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *logCounter) WithGroup(string) slog.Handler            { return h }

func (h *logCounter) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(line, h.text) {
		h.all = append(h.all, line)
	}
	return nil
}

func (h *logCounter) said() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all, "\n")
}

func (h *logCounter) times() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

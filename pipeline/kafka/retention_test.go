package kafka

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

func testRetentionUsed(t *testing.T, brokers []string) {
	const keep = 3 * time.Second
	cfg := freshTopic(t, brokers, Topic{Partitions: 1, Retention: keep})
	l := mustOpen(t, cfg)
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
	require.Eventually(t, func() bool {
		least := float64(time.Since(appended)) / float64(keep)
		share := used(old)
		most := float64(time.Since(begun)) / float64(keep)
		if share < 1 {
			require.GreaterOrEqual(t, share, least-2.0/retentionSteps)
		}
		if !math.IsInf(share, 1) {
			require.LessOrEqual(t, share, most)
		}
		return share >= 0.5
	}, time.Minute, 50*time.Millisecond)

	r = testRecord("tnt_a", 1)
	young, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	require.Less(t, used(young), 0.5, "a younger one behind it")
	require.Eventually(t, func() bool { return used(old) >= 1 }, time.Minute, 50*time.Millisecond)

	deleteRecords(t, cfg, 0, young.Next().Offset)
	require.Equal(t, math.Inf(1), used(old), "it is gone")
	require.Equal(t, math.Inf(1), used(young))
	require.Zero(t, used(young.Next()))
}

func TestRetentionUsed(t *testing.T)        { testRetentionUsed(t, fakeBrokers(t)) }
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

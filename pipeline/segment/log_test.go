package segment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

// farFuture sets no limit by age.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func mustOpen(tb testing.TB, cfg Config) *Log {
	tb.Helper()
	l, err := Open(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { l.Close() })
	return l
}

// record is the n-th record that the tests write; size pads its event.
func record(n, size int) *sealer.Record {
	return &sealer.Record{
		TenantID: "tnt_a",
		EventID:  fmt.Sprintf("evt_%d", n),
		Node:     "nod_1",
		Epoch:    1,
		Seq:      uint64(n),
		Event:    fmt.Appendf(nil, "%0*d", size, n),
	}
}

func appendN(tb testing.TB, l *Log, from, to, size int) {
	tb.Helper()
	for n := from; n < to; n++ {
		at, err := l.Append(context.Background(), record(n, size))
		require.NoError(tb, err)
		require.Equal(tb, int64(n), at.Offset)
	}
}

// readAll scans the whole log and checks that offsets have no gap.
func readAll(tb testing.TB, r pipeline.Reader) []sealer.Entry {
	tb.Helper()
	ctx := context.Background()
	first, end, err := r.Bounds(ctx, 0)
	require.NoError(tb, err)
	var got []sealer.Entry
	require.NoError(tb, r.Scan(ctx, first, end, func(e sealer.Entry) error {
		e.Event = append([]byte(nil), e.Event...)
		got = append(got, e)
		require.Equal(tb, first.Offset+int64(len(got)-1), e.Offset)
		return nil
	}))
	require.Equal(tb, end.Offset-first.Offset, int64(len(got)))
	return got
}

func TestReopenKeepsEverything(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentBytes: leastSegmentBytes}
	for round := range 5 {
		l := mustOpen(t, cfg)
		appendN(t, l, round*20, round*20+20, 300)
		got := readAll(t, l)
		require.Len(t, got, round*20+20)
		for n, e := range got {
			require.Equal(t, *record(n, 300), sealer.Record{
				TenantID: e.TenantID, EventID: e.EventID, Node: e.Node, Epoch: e.Epoch, Seq: e.Seq, Event: e.Event,
			})
			one, err := l.Read(context.Background(), e.Position)
			require.NoError(t, err)
			require.Equal(t, e.Event, one.Event)
		}
		require.NoError(t, l.Close())
	}
}

package segment

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func manyRecords(n, size int) []*sealer.Record {
	rs := make([]*sealer.Record, n)
	for i := range rs {
		rs[i] = &sealer.Record{TenantID: "tnt_a", EventID: fmt.Sprintf("evt_%d", i), Event: make([]byte, size)}
	}
	return rs
}

// TestManyAreOneSync: that is what they come together for. What is more than may be pending
// takes as many as it needs.
func TestManyAreOneSync(t *testing.T) {
	for _, c := range []struct{ pending, syncs int }{{0, 1}, {64 << 10, 10}} {
		fs := newMemFS()
		var syncs atomic.Int64
		log := mustOpen(t, Config{Dir: "log", FS: fs, SegmentBytes: 1 << 20, PendingBytes: c.pending})
		fs.before = func(op, _ string) error {
			if op == "datasync" {
				syncs.Add(1)
			}
			return nil
		}
		at, errs := log.AppendAll(t.Context(), manyRecords(1000, 500))
		for i := range at {
			require.NoError(t, errs[i])
			require.Equal(t, int64(i), at[i].Offset)
		}
		if c.syncs == 1 {
			require.Equal(t, int64(1), syncs.Load())
		} else {
			require.GreaterOrEqual(t, syncs.Load(), int64(c.syncs)/2)
			require.LessOrEqual(t, syncs.Load(), int64(c.syncs))
		}
		require.Len(t, readAll(t, log), 1000)
	}
}

// TestInOrderIsOneSync: those for which a group has no room are left to the caller, so that none is in
// the log whose group was written and not that of the ones before it.
func TestInOrderIsOneSync(t *testing.T) {
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", FS: fs, SegmentBytes: 1 << 20, PendingBytes: 64 << 10})
	full := false
	fs.before = func(op, _ string) error {
		if op == "write" && full {
			full = false // there is space for a next one
			return unix.ENOSPC
		}
		return nil
	}
	rs := manyRecords(1000, 500)
	n, err := log.AppendInOrder(t.Context(), rs)
	require.NoError(t, err)
	require.InDelta(t, (64<<10)/550, n, 20)
	require.Len(t, readAll(t, log), n)

	full = true
	none, err := log.AppendInOrder(t.Context(), rs[n:])
	require.ErrorIs(t, err, pipeline.ErrFull)
	require.Zero(t, none)
	require.Len(t, readAll(t, log), n)
}

// TestManyOfAFailedSync: none of them is promised, nor is any later.
func TestManyOfAFailedSync(t *testing.T) {
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", FS: fs, SegmentBytes: 1 << 20})
	fs.before = func(op, _ string) error {
		if op == "datasync" {
			return unix.EIO
		}
		return nil
	}
	for range 2 {
		at, errs := log.AppendAll(t.Context(), manyRecords(10, 100))
		for i := range errs {
			require.ErrorIs(t, errs[i], pipeline.ErrFailed)
			require.Zero(t, at[i])
		}
	}
	_, _ = log.AppendAll(t.Context(), nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(log.metrics.append)
	measured, err := registry.Gather()
	require.NoError(t, err)
	require.Zero(t, measured[0].GetMetric()[0].GetHistogram().GetSampleCount(), "nothing was made durable")
}

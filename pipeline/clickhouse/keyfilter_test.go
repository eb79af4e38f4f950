package clickhouse

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

func someKeys(from, n int, issued time.Time) (list []keyed) {
	for i := from; i < from+n; i++ {
		list = append(list, keyed{hash: hashOf(fmt.Sprint("key ", i)), at: issued.UnixMilli(), position: at(int64(i))})
	}
	return list
}

func nothing(int64, func(int64, uint64)) error { return nil }

// No key that was loaded is called new, few others are not, and memory keeps to its bound.
func TestFilterIsRight(t *testing.T) {
	const n = 200_000
	for bytes, most := range map[int64]int{64 << 20: n / 10_000, 100_000: n, 1: n} {
		memory, err := newFilterMemory(bytes, nil)
		require.NoError(t, err)
		f := &keyFilter{shared: memory}
		for i := 0; i < n; i += 1000 {
			rows := someKeys(i, 1000, midnight)
			_, err := f.maybe(at(int64(i)), rows, nothing)
			require.NoError(t, err)
			f.loaded(at(int64(i)), at(int64(i+1000)), rows)
		}
		list, err := f.maybe(at(n), someKeys(0, n, midnight), nothing)
		require.NoError(t, err)
		require.Len(t, list, n, "all that were loaded")
		list, err = f.maybe(at(n), someKeys(n, n, midnight), nothing)
		require.NoError(t, err)
		require.LessOrEqual(t, len(list), most, "with %d bytes", bytes)
		require.LessOrEqual(t, memory.bytes.Load(), max(bytes, bytesOfBlock))
		require.EqualValues(t, n, memory.keys.Load())
		f.empty()
		require.Zero(t, memory.bytes.Load())
		require.Zero(t, memory.keys.Load())
	}
}

// A filter is filled where it has a gap, forgets old days, and knows what it forgot.
func TestFilterKnowsItsReach(t *testing.T) {
	memory, err := newFilterMemory(1<<20, nil)
	require.NoError(t, err)
	memory.now = func() time.Time { return midnight.Add(10 * 24 * time.Hour) }
	f := &keyFilter{shared: memory}
	fills := 0
	fill := func(first int64, add func(int64, uint64)) error {
		fills++
		for _, k := range someKeys(0, 10, midnight) {
			add(dayOf(k.at), k.hash)
		}
		return nil
	}
	maybe := func(start sealer.Position, rows []keyed) int {
		list, err := f.maybe(start, rows, fill)
		require.NoError(t, err)
		return len(list)
	}
	require.Equal(t, 10, maybe(at(10), someKeys(0, 20, midnight)))
	f.loaded(at(10), at(20), someKeys(10, 10, midnight))
	require.Equal(t, 20, maybe(at(20), someKeys(0, 30, midnight)))
	require.Equal(t, 1, fills)
	require.Zero(t, maybe(at(20), someKeys(0, 20, midnight.Add(2*24*time.Hour))), "a day later they are new")
	require.Equal(t, 5, maybe(at(20), someKeys(90, 5, midnight.Add(-25*time.Hour))), "before its first day it can't tell")

	maybe(at(21), someKeys(30, 1, midnight))
	require.Equal(t, 2, fills, "another loader has loaded one")
	next := at(5)
	next.Generation++
	maybe(next, someKeys(30, 1, midnight))
	require.Equal(t, 3, fills, "another generation")
	require.Equal(t, 10, maybe(at(3), someKeys(0, 10, midnight)), "a replay needs nothing new")
	require.Equal(t, 3, fills)

	f.loaded(next, next, someKeys(0, 1, midnight.Add(5*24*time.Hour)))
	require.EqualValues(t, 1, memory.keys.Load(), "old days are dropped")

	failing := errors.New("away")
	next.Offset++
	_, err = f.maybe(next, someKeys(0, 1, midnight), func(int64, func(int64, uint64)) error { return failing })
	require.ErrorIs(t, err, failing)
	maybe(next, someKeys(0, 1, midnight))
	require.Equal(t, 4, fills, "what failed is made good")
}

// A node whose clock is a year ahead blinds no filter for a year.
func TestFilterBesideAClockAhead(t *testing.T) {
	memory, err := newFilterMemory(1<<20, nil)
	require.NoError(t, err)
	memory.now = func() time.Time { return midnight }
	f := &keyFilter{shared: memory}
	ahead := someKeys(0, 10, midnight.AddDate(1, 0, 0))
	list, err := f.maybe(at(0), ahead, nothing)
	require.NoError(t, err)
	require.Empty(t, list)
	f.loaded(at(0), at(10), ahead)
	list, err = f.maybe(at(10), someKeys(0, 20, midnight), nothing)
	require.NoError(t, err)
	require.Equal(t, someKeys(0, 10, midnight), list)
}

// What is loaded goes on where a group's first batch begins, be it at position zero.
func TestStartsOfAGroup(t *testing.T) {
	of := func(from, next int64) *pipeline.Batch {
		return &pipeline.Batch{From: sealer.Position{Offset: from}, Next: sealer.Position{Offset: next}}
	}
	begun, err := starts([]*pipeline.Batch{of(0, 5), of(5, 9)}, map[int32]sealer.Position{})
	require.NoError(t, err)
	require.Equal(t, map[int32]sealer.Position{0: {}}, begun)
}

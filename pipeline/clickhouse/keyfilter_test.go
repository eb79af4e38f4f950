package clickhouse

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
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
	const n = 50_000
	for bytes, most := range map[int64]int{64 << 20: n / 10_000, 100_000: n, 1: n} {
		memory, err := newFilterMemory(Config{FilterBytes: bytes}, "keys")
		require.NoError(t, err)
		f := &keyFilter{memory: memory}
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

// Beyond its bound a filter knows less and less, as the package says.
func TestFilterBeyondItsBound(t *testing.T) {
	const blocks = firstBlocks * (1 + 2 + 4 + 8 + 16)
	const room = blocks * keysOfBlock
	bounds := map[int]int{2: room / 100}
	if full {
		bounds = map[int]int{1: room / 5000, 2: room / 100, 4: room / 4}
	}
	for times, most := range bounds {
		memory, err := newFilterMemory(Config{FilterBytes: blocks * bytesOfBlock}, "keys")
		require.NoError(t, err)
		f := &keyFilter{memory: memory}
		_, err = f.maybe(at(0), someKeys(0, 1, time.UnixMilli(0)), func(_ int64, add func(int64, uint64)) error {
			for i := range times * room {
				add(0, hashOf(fmt.Sprint("row ", i)))
			}
			return nil
		})
		require.NoError(t, err)
		list, err := f.maybe(at(0), someKeys(0, room, time.UnixMilli(0)), nothing)
		require.NoError(t, err)
		require.LessOrEqual(t, len(list), most, "%d times as many", times)
	}
}

// However many rows with ids there are, keys have their memory.
func TestIdentitiesTakeNoMemoryOfKeys(t *testing.T) {
	w := &Warehouse{filters: map[filterID]*keyFilter{}}
	for memory, of := range map[**filterMemory]string{&w.ofKeys: "idempotency_keys", &w.ofRows: "row_ids"} {
		var err error
		*memory, err = newFilterMemory(Config{FilterBytes: 1 << 18}, of)
		require.NoError(t, err)
	}
	for partition, days := range []int{0, 1, 2} {
		rows := someKeys(0, 50_000, time.UnixMilli(0))
		_, err := w.filter(int32(partition), true).maybe(at(0), rows, nothing)
		require.NoError(t, err)
		w.filter(int32(partition), true).loaded(at(0), at(50_000), rows)
		issued := midnight.AddDate(0, 0, days)
		keys := w.filter(int32(partition), false)
		_, err = keys.maybe(at(0), someKeys(0, 10_000, issued), nothing)
		require.NoError(t, err)
		keys.loaded(at(0), at(10_000), someKeys(0, 10_000, issued))
		list, err := keys.maybe(at(10_000), someKeys(10_000, 10_000, issued), nothing)
		require.NoError(t, err)
		require.LessOrEqual(t, len(list), 5)
	}
}

// What takes too long to fill takes no memory and calls nothing new, until it is to be
// filled again.
func TestFilterThatCantBeFilled(t *testing.T) {
	memory, err := newFilterMemory(Config{}, "keys")
	require.NoError(t, err)
	f := &keyFilter{memory: memory}
	tooMany := func(_ int64, add func(int64, uint64)) error {
		add(0, 1)
		return errTooMany
	}
	rows := someKeys(0, 10, time.UnixMilli(0))
	for range 2 {
		list, err := f.maybe(at(0), rows, tooMany)
		require.NoError(t, err)
		require.Equal(t, rows, list)
		require.Zero(t, memory.bytes.Load())
		f.loaded(at(0), at(10), rows)
		require.Zero(t, memory.bytes.Load())
		tooMany = func(int64, func(int64, uint64)) error { return errors.New("filled again") }
	}
	list, err := f.maybe(at(20), rows, nothing)
	require.NoError(t, err)
	require.Empty(t, list, "another loader has been there")
}

// A filter is filled where it has a gap, forgets old days, and knows what it forgot.
func TestFilterKnowsItsReach(t *testing.T) {
	memory, err := newFilterMemory(Config{FilterBytes: 1 << 20}, "keys")
	require.NoError(t, err)
	memory.now = func() time.Time { return midnight.Add(10 * 24 * time.Hour) }
	f := &keyFilter{memory: memory}
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
	require.Equal(t, 5, maybe(at(20), someKeys(90, 5, midnight.Add(-25*time.Hour))), "it knows nothing of before its first day")

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
	memory, err := newFilterMemory(Config{FilterBytes: 1 << 20}, "keys")
	require.NoError(t, err)
	memory.now = func() time.Time { return midnight }
	f := &keyFilter{memory: memory}
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

package clickhouse

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// keyFilter is a filter in memory of a partition's newest keys. A look-up of random hashes
// costs the server up to half a millisecond each, and nearly all of them find nothing. The
// filter has every key before the position that it covers, from its first day on. A key that
// it doesn't have is new; all others are looked up. A filter of the identities of rows without
// a day has them as if all were of one day, as they count however old they are.
type keyFilter struct {
	mu     sync.Mutex
	memory *filterMemory
	// covers is behind the last position whose key is in; known once it was filled.
	covers sealer.Position
	filled bool
	first  int64           // day with which it begins
	days   map[int64]*keys // by day of the event
}

const (
	dayMs = int64(24 * time.Hour / time.Millisecond)
	// filterReach is how far before the events that are loaded now a filter begins: the day
	// for which a key counts, and half a day for late events.
	filterReach = dayMs + dayMs/2
	// keysOfBlock is how many keys a block of 512 bits takes before the set grows: then one
	// new key in 100,000 is looked up in vain.
	keysOfBlock = 16
	firstBlocks = 1024
)

// errTooMany: a filter can't be filled in time, and until it is filled again all keys are
// looked up. So a partition's identities, which are never removed, delay no start for long.
var errTooMany = errors.New("too many identities for a filter")

// hashOf is a key's hash, as the column key of idempotency_keys has it.
func hashOf(idempotency string) uint64 { return xxhash.Sum64String(idempotency) }

// firstDay is the first day of a filter for some deliveries: at least half of them are in
// its reach. It is never in the future, or the keys of all other nodes would be looked up
// because of one node whose clock is ahead.
func firstDay(rows []keyed, now time.Time) int64 {
	times := make([]int64, len(rows))
	for i, r := range rows {
		times[i] = r.at
	}
	slices.Sort(times)
	return dayOf(min(times[len(times)/2], now.UnixMilli()) - filterReach)
}

func dayOf(ms int64) int64 { return (ms - (ms%dayMs+dayMs)%dayMs) / dayMs }

// maybe lists those of the rows that may have a key of an earlier event. All loaded rows
// stand before start; fill calls add for each of them from a day on.
func (f *keyFilter) maybe(start sealer.Position, rows []keyed,
	fill func(first int64, add func(day int64, hash uint64)) error) (list []keyed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.filled || start.Compare(f.covers) > 0 {
		f.empty()
		f.first = firstDay(rows, f.memory.now())
		switch err := fill(f.first, f.add); {
		case errors.Is(err, errTooMany):
			f.empty()
			f.first = math.MaxInt64
		case err != nil:
			f.empty()
			return nil, err
		}
		f.covers, f.filled = start, true
	}
	for _, r := range rows {
		if f.may(r) {
			list = append(list, r)
		}
	}
	return list, nil
}

func (f *keyFilter) may(r keyed) bool {
	since := dayOf(r.at - dayMs)
	if since < f.first {
		return true
	}
	for day, keys := range f.days {
		if day >= since && keys.has(r.hash) {
			return true
		}
	}
	return false
}

// loaded adds the keys of rows that were loaded, up to next.
func (f *keyFilter) loaded(start, next sealer.Position, rows []keyed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.filled || start.Compare(f.covers) > 0 {
		f.filled = false // maybe fills it
		return
	}
	if next.Compare(f.covers) > 0 {
		f.covers = next
	}
	if len(rows) == 0 {
		return
	}
	for _, r := range rows {
		f.add(dayOf(r.at), r.hash)
	}
	f.first = max(f.first, firstDay(rows, f.memory.now()))
	for day, keys := range f.days {
		if day < f.first {
			keys.drop(f.memory)
			delete(f.days, day)
		}
	}
}

func (f *keyFilter) add(day int64, hash uint64) {
	if day < f.first {
		return
	}
	if f.days[day] == nil {
		f.days[day] = new(keys)
	}
	f.days[day].add(hash, f.memory)
}

func (f *keyFilter) empty() {
	for _, keys := range f.days {
		keys.drop(f.memory)
	}
	f.days, f.filled = map[int64]*keys{}, false
}

// keys is a growing set of hashes with false positives: a list of Bloom filters, each twice
// as large as the one before it, of which only the last takes more. When the memory is used
// up, the last one takes more than it should.
type keys struct {
	sets []pipeline.Bloom
	left int // how many the last set still takes
	n    int
}

func (k *keys) has(hash uint64) bool {
	return slices.ContainsFunc(k.sets, func(set pipeline.Bloom) bool { return set.Maybe(hash) })
}

func (k *keys) add(hash uint64, memory *filterMemory) {
	if k.left == 0 {
		k.grow(memory)
	}
	k.left = max(k.left-1, 0)
	k.n++
	memory.keys.Add(1)
	k.sets[len(k.sets)-1].Add(hash)
}

func (k *keys) grow(memory *filterMemory) {
	blocks := firstBlocks << len(k.sets)
	switch {
	case memory.reserve(blocks):
	case len(k.sets) > 0:
		return
	default:
		blocks = 1 // the least that a set needs
		memory.bytes.Add(bytesOfBlock)
	}
	k.sets = append(k.sets, make(pipeline.Bloom, blocks))
	k.left = blocks * keysOfBlock
}

func (k *keys) drop(memory *filterMemory) {
	for _, set := range k.sets {
		memory.bytes.Add(-int64(len(set) * bytesOfBlock))
	}
	memory.keys.Add(-int64(k.n))
}

const bytesOfBlock = 64

// filterMemory is the memory of the filters of all partitions: of those of keys, or of those
// of identities.
type filterMemory struct {
	most        int64
	bytes, keys atomic.Int64
	now         func() time.Time

	maybes, misses prometheus.Counter
}

func newFilterMemory(cfg Config, of string) (*filterMemory, error) {
	m := &filterMemory{most: cmp.Or(cfg.FilterBytes, 256<<20), now: time.Now}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "muniment", Subsystem: "clickhouse", Name: name, Help: help, ConstLabels: prometheus.Labels{"of": of}}
	}
	gauge := func(name, help string, of *atomic.Int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return float64(of.Load()) })
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	m.maybes = counter("key_filter_maybe_total", "Idempotency keys, or rows with ids, that the filter may hold, so that they were looked up in the warehouse.")
	m.misses = counter("key_filter_false_total", "Those of them that the warehouse did not have.")
	return m, pipeline.Register(cfg.Registerer, m.maybes, m.misses,
		gauge("key_filter_bytes", "Memory of the filters of idempotency keys, or of rows with ids.", &m.bytes),
		gauge("key_filter_keys", "Idempotency keys, or rows with ids, in the filters.", &m.keys))
}

// count counts keys that were looked up, and those of them that were not found.
func (m *filterMemory) count(looked []keyed, known map[keyID]bool) {
	m.maybes.Add(float64(len(looked)))
	for _, k := range looked {
		if !known[k.keyID] {
			m.misses.Inc()
		}
	}
}

// reserve counts the blocks; it returns false if they exceed the memory.
func (m *filterMemory) reserve(blocks int) bool {
	if m.bytes.Add(int64(blocks)*bytesOfBlock) <= m.most {
		return true
	}
	m.bytes.Add(-int64(blocks) * bytesOfBlock)
	return false
}

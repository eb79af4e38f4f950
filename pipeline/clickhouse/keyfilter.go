package clickhouse

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"

	"muniment/pipeline"
	"muniment/sealer"
)

// A look-up of random hashes costs the server up to half a millisecond each, and nearly
// all of them find nothing. So a filter in memory of a partition's newest keys answers
// first. It says "new" only where it knows: it has every key of the log before the position
// that it covers, from the day on with which it begins; what it may be wrong about it
// calls "maybe", and that is looked up. Another one has the identities of rows without a day:
// they count however old they are, and stand there as if all were of one day.
type keyFilter struct {
	mu     sync.Mutex
	shared *filterMemory
	// covers is behind the last position whose key is in; known once it was filled.
	covers sealer.Position
	filled bool
	first  int64           // day with which it begins
	days   map[int64]*keys // by day of the event
}

const (
	dayMs = int64(24 * time.Hour / time.Millisecond)
	// filterReach is how far before the events that are loaded now a filter begins: the day
	// in which a key counts, and half a one for those that come late.
	filterReach = dayMs + dayMs/2
	// keysOfBlock is how many keys a block of 512 bits takes before the set grows: with as
	// many, one new key in 100,000 is called "maybe".
	keysOfBlock = 16
	firstBlocks = 1024
)

// hashOf is a key's hash, as the column key of idempotency_keys has it.
func hashOf(idempotency string) uint64 { return xxhash.Sum64String(idempotency) }

// begins is the first day of a filter for some deliveries: half of them, at least, are in
// its reach. It is none that is yet to come: a node whose clock is ahead must not have all
// others called "maybe" until then.
func begins(rows []keyed, now time.Time) int64 {
	times := make([]int64, len(rows))
	for i, r := range rows {
		times[i] = r.at
	}
	slices.Sort(times)
	return dayOf(min(times[len(times)/2], now.UnixMilli()) - filterReach)
}

func dayOf(ms int64) int64 { return (ms - (ms%dayMs+dayMs)%dayMs) / dayMs }

// maybe lists those of the rows that may have a key of an earlier event. What was loaded
// before them stands before start; fill calls add for what is loaded, from a day on.
func (f *keyFilter) maybe(start sealer.Position, rows []keyed,
	fill func(first int64, add func(day int64, hash uint64)) error) (list []keyed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.filled || start.Compare(f.covers) > 0 {
		f.empty()
		f.first = begins(rows, f.shared.now())
		if err := fill(f.first, f.add); err != nil {
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

// loaded takes the keys of what was loaded, up to next.
func (f *keyFilter) loaded(start, next sealer.Position, rows []keyed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.filled || start.Compare(f.covers) > 0 {
		f.filled = false // it is filled when there is a key again
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
	f.first = max(f.first, begins(rows, f.shared.now()))
	for day, keys := range f.days {
		if day < f.first {
			keys.drop(f.shared)
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
	f.days[day].add(hash, f.shared)
}

func (f *keyFilter) empty() {
	for _, keys := range f.days {
		keys.drop(f.shared)
	}
	f.days, f.filled = map[int64]*keys{}, false
}

// keys is a growing set of hashes that may take a stranger for a member. It is a list of
// Bloom filters, each twice as large as the one before it, of which only the last
// takes more; where memory has come to its end the last takes more than it should.
type keys struct {
	sets []pipeline.Bloom
	room int // of the last set
	n    int
}

func (k *keys) has(hash uint64) bool {
	return slices.ContainsFunc(k.sets, func(set pipeline.Bloom) bool { return set.Maybe(hash) })
}

func (k *keys) add(hash uint64, shared *filterMemory) {
	if k.room == 0 {
		k.grow(shared)
	}
	k.room = max(k.room-1, 0)
	k.n++
	shared.keys.Add(1)
	k.sets[len(k.sets)-1].Add(hash)
}

func (k *keys) grow(shared *filterMemory) {
	blocks := firstBlocks << len(k.sets)
	switch {
	case shared.take(blocks):
	case len(k.sets) > 0:
		return
	default:
		blocks = 1 // without a bit nothing could be remembered
		shared.bytes.Add(bytesOfBlock)
	}
	k.sets = append(k.sets, make(pipeline.Bloom, blocks))
	k.room = blocks * keysOfBlock
}

func (k *keys) drop(shared *filterMemory) {
	for _, set := range k.sets {
		shared.bytes.Add(-int64(len(set) * bytesOfBlock))
	}
	shared.keys.Add(-int64(k.n))
}

const bytesOfBlock = 64

// filterMemory is what the filters of all partitions share.
type filterMemory struct {
	most        int64
	bytes, keys atomic.Int64
	now         func() time.Time

	maybes, misses prometheus.Counter
}

func newFilterMemory(most int64, registerer prometheus.Registerer) (*filterMemory, error) {
	m := &filterMemory{most: most, now: time.Now}
	gauge := func(name, help string, of *atomic.Int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muniment", Subsystem: "clickhouse", Name: name, Help: help},
			func() float64 { return float64(of.Load()) })
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muniment", Subsystem: "clickhouse", Name: name, Help: help})
	}
	m.maybes = counter("key_filter_maybe_total", "Idempotency keys and rows with ids that the filter could not call new, so that the warehouse was asked.")
	m.misses = counter("key_filter_false_total", "Those of them that the warehouse did not know.")
	return m, pipeline.Register(registerer, m.maybes, m.misses,
		gauge("key_filter_bytes", "Memory of the filters of idempotency keys and rows with ids.", &m.bytes),
		gauge("key_filter_keys", "Idempotency keys and rows with ids in the filters.", &m.keys))
}

// take counts the blocks, unless that would be more than there may be.
func (m *filterMemory) take(blocks int) bool {
	if m.bytes.Add(int64(blocks)*bytesOfBlock) <= m.most {
		return true
	}
	m.bytes.Add(-int64(blocks) * bytesOfBlock)
	return false
}

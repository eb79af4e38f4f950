package kafka

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muniment/sealer"
)

// queue is what waits to be sent to one partition. From the record that finds it idle
// until nothing waits, it is in one pair of hands: it is offered to its broker, or its
// batch is in a request or tried again. So there is one request in flight for it.
type queue struct {
	log       *Log
	partition int32
	failing   bool // the last attempt failed; belongs to whoever has the queue

	mu      sync.Mutex
	busy    bool     // somebody has the queue
	last    int      // items of the batch that was taken last: the next may be as large
	waiting []*batch // the last one takes more records until it is large enough
	refuse  error    // why it takes nothing more
}

// batch is what one request brings to a partition.
type batch struct {
	queue *queue
	whole *batch        // the batch that an item is sent alone from; nil: it isn't
	done  chan struct{} // closed when every item has its at or err

	// These are guarded by queue.mu until done is closed.

	chunks  [][]byte // the records, one behind the other
	items   []item
	size    int
	lastErr error // of the last attempt that failed, of single items too

	// These are of the last attempt, and belong to whoever makes it.

	open []int // the items that it sends
	base int64 // offset of the first of them, if err is nil
	err  error
}

type item struct {
	record
	chain *chain // nil if it stands for itself
	at    sealer.Position
	err   error
}

// chain keeps those in a row from overtaking one that was refused.
type chain struct{ refused atomic.Pointer[error] }

// settled says that the outcome is known: nobody waits any more. No position of a
// topic is zero, for its generation isn't.
func (it *item) settled() bool { return it.err != nil || it.at != (sealer.Position{}) }

func newQueue(l *Log, partition int32) *queue { return &queue{log: l, partition: partition} }

// add puts a record into the last batch. If the queue was idle, the caller has it now
// and offers it. From here on Close waits for the queue: what is added is sent.
func (q *queue) add(r *sealer.Record, size int, c *chain) (p pending, idle bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse != nil {
		return pending{}, false, q.refuse
	}
	var b *batch
	if n := len(q.waiting); n > 0 && q.waiting[n-1].size+size <= q.log.requestBytes() {
		b = q.waiting[n-1]
	} else {
		b = &batch{queue: q, done: make(chan struct{}), size: batchOverhead, items: make([]item, 0, max(1, q.last))}
		q.waiting = append(q.waiting, b)
	}
	b.add(r, size, c)
	if idle = !q.busy; idle {
		q.busy = true
		q.log.senders.Add(1)
	}
	return pending{b, len(b.items) - 1}, idle, nil
}

// chunkBytes is how much memory the records of a batch get at a time, at least.
const chunkBytes = 16 << 10

// chunks is memory for records that nobody uses: it is used again and again, for to
// collect it would cost more than all else that is done with it.
type chunks struct{ pool sync.Pool } // of *[chunkBytes]byte

func (c *chunks) get(size int) []byte {
	if size > chunkBytes {
		return make([]byte, 0, size)
	}
	if used, ok := c.pool.Get().(*[chunkBytes]byte); ok {
		return used[:0]
	}
	return make([]byte, 0, chunkBytes)
}

func (c *chunks) put(all [][]byte) {
	for _, b := range all {
		if cap(b) == chunkBytes {
			c.pool.Put((*[chunkBytes]byte)(b[:chunkBytes]))
		}
	}
}

// add copies a record behind the others. Where the last chunk has no room left it
// begins another: to let it grow would copy all that is in it.
func (b *batch) add(r *sealer.Record, size int, c *chain) {
	last := len(b.chunks) - 1
	if last < 0 || cap(b.chunks[last])-len(b.chunks[last]) < size {
		b.chunks, last = append(b.chunks, b.queue.log.chunks.get(size)), last+1
	}
	it := item{chain: c}
	it.record, b.chunks[last] = appendRecord(b.chunks[last], len(b.items), r)
	b.items = append(b.items, it)
	b.size += size
}

// take cuts the first batch off. Only who has the queue does, and then there is one.
func (q *queue) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.last = len(b.items)
	return b
}

// close has the queue take nothing more.
func (q *queue) close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refuse = why
}

// finish ends a batch: its items have their outcome. It says whether more waits; if not,
// the queue is idle.
func (b *batch) finish() (more bool) {
	q := b.queue
	q.log.queued.Add(int64(batchOverhead - b.size))
	if b.lastErr == nil && b.err == nil {
		q.log.chunks.put(b.chunks) // after a failed attempt the library may still send them
	}
	b.chunks = nil
	close(b.done)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy = len(q.waiting) > 0; !q.busy {
		q.log.senders.Done()
	}
	return q.busy
}

// prepare lists what the next attempt sends: the items without an outcome that somebody
// still waits for. It says whether there are any.
func (b *batch) prepare() bool {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.open = slices.Grow(b.open[:0], len(b.items))
	for i := range b.items {
		it := &b.items[i]
		if it.chain != nil && !it.settled() {
			if refused := it.chain.refused.Load(); refused != nil {
				it.err = *refused
			}
		}
		if !it.settled() {
			b.open = append(b.open, i)
		}
	}
	return len(b.open) > 0
}

// settle gives the items of the last attempt their outcome: an error, or positions from
// first on.
func (b *batch) settle(first sealer.Position, err error) {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	for n, i := range b.open {
		it := &b.items[i]
		switch {
		case it.settled(): // withdrawn meanwhile
		case err != nil:
			it.err = err
			if it.chain != nil {
				it.chain.refused.CompareAndSwap(nil, &err)
			}
		default:
			it.at = first
			it.at.Offset += int64(n)
		}
	}
}

// encode is what the last attempt sends.
func (b *batch) encode(now time.Time) recordSet {
	if len(b.open) == len(b.items) && b.chunks != nil {
		return newRecordSet(len(b.open), now, b.chunks...)
	}
	var buf []byte
	for n, i := range b.open {
		buf = b.items[i].appendAt(buf, n)
	}
	return newRecordSet(len(b.open), now, buf)
}

package kafka

import (
	"slices"
	"sync"
	"sync/atomic"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"muniment.example/sealer"
)

// queue holds the records that wait to be sent to one partition. It has one owner from the
// record that finds it idle until nothing waits: the goroutine that offers it, then the
// broker, then the goroutine that sends its batch. So there is one request in flight for it.
type queue struct {
	log       *Log
	partition int32
	failing   bool // the last attempt failed; the owner's

	mu      sync.Mutex
	busy    bool     // it has an owner
	last    int      // items of the batch that was taken last: the next may be as large
	waiting []*batch // the last one takes more records until it is large enough
	refuse  error    // why it takes nothing more
}

// batch is what one request brings to a partition.
type batch struct {
	queue *queue
	whole *batch        // set if this is one item of that batch, sent alone
	done  chan struct{} // closed when every item has its at or err

	// These are guarded by queue.mu until done is closed.

	chunks  [][]byte // the bytes of the messages
	items   []item
	size    int
	lastErr error // of the last attempt that failed, of single items too

	// These are of the last attempt, and belong to the goroutine that makes it.

	open []int // the items that it sends
	base int64 // offset of the first of them, if err is nil
	err  error
}

type item struct {
	message
	sequence *sequence // nil if it stands for itself
	at       sealer.Position
	err      error
}

// sequence keeps records from overtaking an earlier one that was refused.
type sequence struct{ refused atomic.Pointer[error] }

// refuse keeps the records from being sent that no attempt has taken yet.
func (s *sequence) refuse(why error) { s.refused.CompareAndSwap(nil, &why) }

// settled reports whether the outcome is known. No position of a topic is zero, as its
// generation isn't.
func (it *item) settled() bool { return it.err != nil || it.at != (sealer.Position{}) }

func newQueue(l *Log, partition int32) *queue { return &queue{log: l, partition: partition} }

// add puts a record into the last batch. If the queue was idle, the caller now owns it and
// has to offer it. Close waits until what was added is sent.
func (q *queue) add(r *sealer.Record, size int, s *sequence) (p pending, idle bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse != nil {
		return pending{}, false, q.refuse
	}
	var b *batch
	if n := len(q.waiting); n > 0 && q.waiting[n-1].size+size <= q.log.topic.batchBytes(q.log.cfg) {
		b = q.waiting[n-1]
	} else {
		b = &batch{queue: q, done: make(chan struct{}), size: batchOverhead, items: make([]item, 0, max(1, q.last))}
		q.waiting = append(q.waiting, b)
	}
	b.add(r, size, s)
	if idle = !q.busy; idle {
		q.busy = true
		q.log.senders.Add(1)
	}
	return pending{b, len(b.items) - 1}, idle, nil
}

// chunkBytes is how much memory a batch takes at a time for its records, at least.
const chunkBytes = 16 << 10

// chunks is a pool of memory for records: collecting it as garbage would cost more than
// filling it.
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

// add copies a record behind the others. If it doesn't fit into the last chunk it begins
// another one: growing the chunk would copy all that is in it.
func (b *batch) add(r *sealer.Record, size int, s *sequence) {
	last := len(b.chunks) - 1
	if last < 0 || cap(b.chunks[last])-len(b.chunks[last]) < size {
		b.chunks, last = append(b.chunks, b.queue.log.chunks.get(size)), last+1
	}
	it := item{sequence: s}
	it.message, b.chunks[last] = appendMessage(b.chunks[last], r)
	b.items = append(b.items, it)
	b.size += size
}

// take removes the first batch. Only the owner calls it, and only if there is one.
func (q *queue) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.last = len(b.items)
	return b
}

// close makes the queue refuse further records.
func (q *queue) close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refuse = why
}

// finish ends a batch whose items have their outcome. If more waits it offers the queue
// again, otherwise the queue is idle.
func (b *batch) finish() {
	q := b.queue
	q.log.queued.Add(int64(batchOverhead - b.size))
	if b.lastErr == nil && b.err == nil {
		q.log.chunks.put(b.chunks) // after a failed attempt the library may still send them
	}
	b.chunks = nil
	close(b.done)
	q.mu.Lock()
	q.busy = len(q.waiting) > 0
	more := q.busy
	q.mu.Unlock()
	if more {
		q.offer()
	} else {
		q.log.senders.Done()
	}
}

// prepare sets b.open to what the next attempt sends: the items without an outcome. It
// returns whether there are any.
func (b *batch) prepare() bool {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.open = slices.Grow(b.open[:0], len(b.items))
	for i := range b.items {
		it := &b.items[i]
		if it.sequence != nil && !it.settled() {
			if refused := it.sequence.refused.Load(); refused != nil {
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
		case it.settled(): // its caller has given up
		case err != nil:
			it.err = err
			if it.sequence != nil {
				it.sequence.refuse(err)
			}
		default:
			it.at = first
			it.at.Offset += int64(n)
		}
	}
}

// records is what the last attempt sends.
func (b *batch) records() protocol.RecordSet {
	list := make([]kafkago.Record, len(b.open))
	for n, i := range b.open {
		it := &b.items[i]
		list[n] = kafkago.Record{Key: kafkago.NewBytes(it.key), Value: kafkago.NewBytes(it.value), Headers: it.headers}
	}
	return protocol.RecordSet{Records: kafkago.NewRecordReader(list...)}
}

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"muniment/gateway/api"
)

// cached is a value as the database held it at revision asOf. A right or a key that does
// not exist is never cached: a new one must be usable at once.
type cached[T any] struct {
	value *T
	asOf  int64
}

// recent holds what the cache answered last, for each hash of an id. A hit is a look at
// one slot; in ristretto it is also counted, by a goroutine, for the choice of what to
// evict. Like the cache it may hold old snapshots, and is trusted no more.
type recent[T any] struct {
	slots [1 << 12]atomic.Pointer[found[T]]
}

// found is what stands in a slot of recent. It is immutable.
type found[T any] struct {
	id string
	cached[T]
}

func (r *recent[T]) slot(id string) *atomic.Pointer[found[T]] {
	return &r.slots[maphash.String(idSeed, id)%uint64(len(r.slots))]
}

func (r *recent[T]) get(id string) (c cached[T], ok bool) {
	if f := r.slot(id).Load(); f != nil && f.id == id {
		return f.cached, true
	}
	return c, false
}

// keep owns the id from now on.
func (r *recent[T]) keep(id string, c cached[T]) { r.slot(id).Store(&found[T]{id, c}) }

// floors remembers, for every id that the feed or a read named, a revision at least as
// new as the newest change of it that was seen. It never forgets and has a fixed size: ids share slots,
// and a slot holds the highest of them.
type floors struct {
	slots [1 << 14]atomic.Int64
}

var idSeed = maphash.MakeSeed()

func (f *floors) slot(id string) *atomic.Int64 {
	return &f.slots[maphash.String(idSeed, id)%uint64(len(f.slots))]
}

func (f *floors) raise(id string, revision int64) {
	s := f.slot(id)
	for {
		old := s.Load()
		if old >= revision || s.CompareAndSwap(old, revision) {
			return
		}
	}
}

// covers says whether a record read as of a revision knows the newest change of
// the id that was seen.
func (f *floors) covers(id string, asOf int64) bool { return asOf >= f.slot(id).Load() }

// flights lets one question for an id stand for all that are asked meanwhile.
type flights[T any] struct {
	mu  sync.Mutex
	now map[string]*flight[T]
}

type flight[T any] struct {
	done   chan struct{}
	answer cached[T] // set before done is closed, like err
	err    error
}

// do runs load for the id unless it is running already, and waits for its end, or
// for ctx with errAway. A load that began before the call may be shared: its asOf tells whether it
// is new enough.
func (f *flights[T]) do(ctx context.Context, id string, load func() (cached[T], error)) (cached[T], error) {
	f.mu.Lock()
	fl := f.now[id]
	if fl == nil {
		fl = &flight[T]{done: make(chan struct{}), err: errors.New("the load did not return")}
		if f.now == nil {
			f.now = map[string]*flight[T]{}
		}
		f.now[id] = fl
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			delete(f.now, id)
			f.mu.Unlock()
			close(fl.done)
		}()
		fl.answer, fl.err = load()
		return fl.answer, fl.err
	}
	f.mu.Unlock()
	select {
	case <-fl.done:
		return fl.answer, fl.err
	case <-ctx.Done():
		return cached[T]{}, errAway
	}
}

// cache holds snapshots of one kind, W in the feed and T ready to decide by. It may lose
// any of them at any time, and never answers with one that is older than what was told.
type cache[W, T any] struct {
	view    *View
	kind    api.Kind[W]
	prepare func(*W) (*T, error)
	// told is its own: a million new mappings must not have every right read again.
	told   floors
	recent recent[T]
	kept   *ristretto.Cache[string, cached[T]]
	loads  flights[T]
}

// newCache bounds the cache by its number of entries. Ristretto's own
// bookkeeping is left out of the cost, or it would keep one entry in fifty.
func newCache[W, T any](v *View, kind api.Kind[W], prepare func(*W) (*T, error)) (*cache[W, T], error) {
	kept, err := ristretto.NewCache(&ristretto.Config[string, cached[T]]{
		NumCounters:        10 * v.cfg.Capacity,
		MaxCost:            v.cfg.Capacity,
		BufferItems:        64,
		IgnoreInternalCost: true,
		ShouldUpdate:       func(cur, prev cached[T]) bool { return cur.asOf >= prev.asOf },
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the cache of the kind %q: %w", kind.Name, err)
	}
	return &cache[W, T]{view: v, kind: kind, prepare: prepare, kept: kept}, nil
}

// learn takes a snapshot of the feed: no answer is older than it from now on. What is
// stopped is not kept, as the deny set answers for it.
func (c *cache[W, T]) learn(w *W) {
	id, revision, stopped := c.kind.Of(w)
	c.told.raise(id, revision)
	if stopped {
		return
	}
	ready, err := c.prepare(w)
	if err != nil {
		c.view.cfg.Logger.Error("cannot use a snapshot of the feed", "kind", c.kind.Name, "id", id, "err", err)
		return
	}
	c.kept.Set(id, cached[T]{ready, revision}, 1)
}

// maxLoads is how often a record is read again because the feed has told a newer
// change of it, or of a neighbour in its slot, in the meantime.
const maxLoads = 4

// loadTimeout bounds one question to the source for what is not cached.
const loadTimeout = 2 * time.Second

// get answers from the cache or from the source, with nothing that is older
// than what the feed told, and nothing that does not fit; nil if there is none. What is not
// ours is never answered from the cache: it takes a question, as what does not exist.
func (c *cache[W, T]) get(ctx context.Context, id string, fits, ours func(*T) bool) (*T, error) {
	v := c.view
	if found, ok := c.recent.get(id); ok && fits(found.value) && ours(found.value) && c.told.covers(id, found.asOf) {
		v.metrics.hits.Inc()
		return found.value, nil
	}
	found, ok := c.kept.Get(id)
	id = strings.Clone(id) // the caller's may be borrowed
	if ok && fits(found.value) && ours(found.value) && c.told.covers(id, found.asOf) {
		v.metrics.hits.Inc()
		c.recent.keep(id, found)
		return found.value, nil
	}
	v.metrics.misses.Inc()
	for range maxLoads {
		found, err := c.loads.do(ctx, id, func() (cached[T], error) {
			// The load serves others too: the end of this one request must not end it.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
			defer cancel()
			return c.load(ctx, id)
		})
		if err != nil {
			return nil, err
		}
		if !c.told.covers(id, found.asOf) || (found.value != nil && !fits(found.value)) {
			continue
		}
		if found.value != nil {
			c.kept.Set(id, found, 1)
		}
		return found.value, nil
	}
	return nil, errAway
}

func (c *cache[W, T]) load(ctx context.Context, id string) (cached[T], error) {
	s, err := c.view.cfg.Source.Snapshot(ctx, c.kind.Name, id)
	if err != nil {
		c.view.metrics.loadErrors.Inc()
		return cached[T]{}, errAway
	}
	if s.Change == nil {
		return cached[T]{asOf: s.AsOf}, nil
	}
	w, err := c.kind.Read(s.Change)
	if err == nil && s.Change.ID != id {
		err = fmt.Errorf("control shows the %s %q, asked for %q", c.kind.Name, s.Change.ID, id)
	}
	if err != nil {
		c.view.metrics.loadErrors.Inc()
		c.view.cfg.Logger.Error("cannot read control's answer", "err", err)
		return cached[T]{}, errAway
	}
	c.told.raise(id, s.Change.Revision) // the feed may be behind: no later answer is older than this one
	ready, err := c.prepare(w)
	return cached[T]{ready, s.AsOf}, err
}

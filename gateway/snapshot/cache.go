package snapshot

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"

	"muniment/gateway/api"
)

// cached is a value as the database held it at revision asOf. A record that does
// not exist is never cached: a new one must be usable at once.
type cached[T any] struct {
	value *T
	asOf  int64
}

// newCache bounds the cache by its number of entries. Ristretto's own
// bookkeeping is left out of the cost, or it would keep one entry in fifty.
func newCache[T any](capacity int64) (*ristretto.Cache[string, cached[T]], error) {
	return ristretto.NewCache(&ristretto.Config[string, cached[T]]{
		NumCounters:        10 * capacity,
		MaxCost:            capacity,
		BufferItems:        64,
		IgnoreInternalCost: true,
		ShouldUpdate:       func(cur, prev cached[T]) bool { return cur.asOf >= prev.asOf },
	})
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

// maxLoads is how often a record is read again because the feed has told a newer
// change of it, or of a neighbour in its slot, in the meantime.
const maxLoads = 4

// lookup answers from the cache or from the source, with nothing that is older
// than what the feed told, and nothing that does not fit. What is not ours is never
// answered from the cache: it takes a question, as what does not exist.
func lookup[T any](
	ctx context.Context, v *View, id string, recent *recent[T], cache *ristretto.Cache[string, cached[T]], loads *flights[T],
	ask func(ctx context.Context, id string) (cached[T], error), fits, ours func(*T) bool,
) (*T, error) {
	if c, ok := recent.get(id); ok && fits(c.value) && ours(c.value) && v.told.covers(id, c.asOf) {
		v.metrics.hits.Inc()
		return c.value, nil
	}
	c, ok := cache.Get(id)
	id = strings.Clone(id) // the caller's may be borrowed
	if ok && fits(c.value) && ours(c.value) && v.told.covers(id, c.asOf) {
		v.metrics.hits.Inc()
		recent.keep(id, c)
		return c.value, nil
	}
	v.metrics.misses.Inc()
	for range maxLoads {
		c, err := loads.do(ctx, id, func() (cached[T], error) {
			// The load serves others too: the end of this one request must not end it.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.cfg.LoadTimeout)
			defer cancel()
			return ask(ctx, id)
		})
		if err != nil {
			return nil, err
		}
		if !v.told.covers(id, c.asOf) || (c.value != nil && !fits(c.value)) {
			continue
		}
		if c.value != nil {
			cache.Set(id, c, 1)
		}
		return c.value, nil
	}
	return nil, errAway
}

func (v *View) loadRight(ctx context.Context, tenantID, id string, revision int64) (*Right, error) {
	return lookup(ctx, v, id, &v.recentRights, v.rightCache, &v.rightLoads, v.askRight,
		func(r *Right) bool { return r.Revision >= revision }, func(r *Right) bool { return r.TenantID == tenantID })
}

func (v *View) loadKey(ctx context.Context, id string) (*api.Key, error) {
	return lookup(ctx, v, id, &v.recentKeys, v.keyCache, &v.keyLoads, v.askKey,
		func(*api.Key) bool { return true }, func(*api.Key) bool { return true })
}

func (v *View) askRight(ctx context.Context, id string) (cached[Right], error) {
	raw, asOf, err := v.cfg.Source.Right(ctx, id)
	if err != nil {
		v.metrics.loadErrors.Inc()
		return cached[Right]{}, errAway
	}
	if raw == nil {
		return cached[Right]{asOf: asOf}, nil
	}
	v.told.raise(id, raw.Revision) // the feed may be behind: no later answer is older than this one
	r, err := decode(raw)
	return cached[Right]{r, asOf}, err
}

func (v *View) askKey(ctx context.Context, id string) (cached[api.Key], error) {
	k, asOf, err := v.cfg.Source.Key(ctx, id)
	if err != nil {
		v.metrics.loadErrors.Inc()
		return cached[api.Key]{}, errAway
	}
	if k != nil {
		v.told.raise(id, k.Revision)
	}
	return cached[api.Key]{k, asOf}, nil
}

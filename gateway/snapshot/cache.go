package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"muniment.example/gateway/api"
)

// cached is a value as the database held it at revision asOf. A right or a key that does
// not exist is never cached: a new one must be usable at once.
type cached[T any] struct {
	value *T
	asOf  int64
}

// recent holds what the cache answered last, for each hash of an id. A hit reads one slot; in
// ristretto a hit is also counted, by a goroutine, for the choice of what to evict. Like the
// cache it may hold old snapshots, and is trusted as little.
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

// floors remembers, for every id that the feed or a read named, a revision at least as new as
// its newest change that was seen. It never forgets and has a fixed size: several ids use one
// slot, which holds their highest revision.
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

// covers says whether a record read as of a revision includes the newest change of the id that
// was seen.
func (f *floors) covers(id string, asOf int64) bool { return asOf >= f.slot(id).Load() }

// flights lets concurrent requests for one id use one load.
type flights[T any] struct {
	mu  sync.Mutex
	now map[string]*flight[T]
}

type flight[T any] struct {
	done   chan struct{}
	answer cached[T] // set before done is closed, like err
	err    error
}

// do runs load for the id unless it is running already, and waits for its end, or returns
// errAway when ctx is done. The load may have begun before the call: its asOf says whether it is
// new enough.
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

// cache holds snapshots of one kind, W in the feed and T ready to decide by. It may lose any of
// them at any time, and never returns one that is older than a change that was seen.
type cache[W, T any] struct {
	view    *View
	kind    api.Kind[W]
	prepare func(*W) (*T, error)
	// seen is this cache's own: a million new mappings must not have every right read again.
	seen   floors
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

// learn takes a snapshot of the feed: nothing older is returned from now on. A stopped record is
// not kept, as the deny set decides on it.
func (c *cache[W, T]) learn(w *W) {
	id, revision, stopped := c.kind.Of(w)
	c.seen.raise(id, revision)
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

// maxLoads is how often a record is read because the feed named a newer change of it, or of
// another id in its slot, during the read.
const maxLoads = 4

// loadTimeout bounds one request to the source.
const loadTimeout = 2 * time.Second

// known returns the record from the cache alone, unless it is older than a change that was seen
// or does not fit.
func (c *cache[W, T]) known(id string, fits func(*T) bool) (*T, bool) {
	found, ok := c.recent.get(id)
	if ok && c.seen.covers(id, found.asOf) && fits(found.value) {
		c.view.metrics.hits.Inc()
		return found.value, true
	}
	if found, ok = c.kept.Get(id); !ok || !c.seen.covers(id, found.asOf) || !fits(found.value) {
		return nil, false
	}
	c.view.metrics.hits.Inc()
	c.recent.keep(strings.Clone(id), found) // the caller's may be a view
	return found.value, true
}

// keep caches a record that exists. It is found at once; ristretto stores it later.
func (c *cache[W, T]) keep(id string, found cached[T]) {
	c.recent.keep(id, found)
	c.kept.Set(id, found, 1)
}

// get returns the record from the cache or from the source, never one that is older than a
// change that was seen or that does not fit; nil if there is none. A record that is not ours is
// never returned from the cache: it takes a request, like one that does not exist.
func (c *cache[W, T]) get(ctx context.Context, id string, fits, ours func(*T) bool) (*T, error) {
	if value, ok := c.known(id, func(value *T) bool { return fits(value) && ours(value) }); ok {
		return value, nil
	}
	id = strings.Clone(id)
	c.view.metrics.misses.Inc()
	for range maxLoads {
		found, err := c.loads.do(ctx, id, func() (cached[T], error) {
			// The load serves others, too, and must not end with this request.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
			defer cancel()
			return c.load(ctx, id)
		})
		if err != nil {
			return nil, err
		}
		if !c.seen.covers(id, found.asOf) || (found.value != nil && !fits(found.value)) {
			continue
		}
		if found.value != nil {
			c.keep(id, found)
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
	if !c.view.sees(s.AsOf, s.Promotions) {
		return cached[T]{}, errAway
	}
	if s.Change == nil {
		return cached[T]{asOf: s.AsOf}, nil
	}
	w, err := c.kind.Read(s.Change)
	if err == nil && s.Change.ID != id {
		err = fmt.Errorf("control returned the %s %q, the request was for %q", c.kind.Name, s.Change.ID, id)
	}
	if err != nil {
		c.view.metrics.loadErrors.Inc()
		c.view.cfg.Logger.Error("cannot read control's answer", "err", err)
		return cached[T]{}, errAway
	}
	c.seen.raise(id, s.Change.Revision) // the feed may be behind: nothing older is returned from now on
	ready, err := c.prepare(w)
	return cached[T]{ready, s.AsOf}, err
}

// received is what control answered of one of several records; without a value there is none.
type received[T any] struct {
	cached[T]
	err error
}

// request reads several records that are not cached from control, api.MostSnapshots in each
// request. None is older than a change that was seen. away is the error of those that control
// does not answer.
func (c *cache[W, T]) request(ctx context.Context, ids []string, away error) map[string]received[T] {
	slices.Sort(ids) // so that the database reads them in the order of its index
	ids = slices.Compact(ids)
	c.view.metrics.misses.Add(float64(len(ids)))
	all := make(map[string]received[T], len(ids))
	for left := range slices.Chunk(ids, api.MostSnapshots) {
		var err error
		for range maxLoads {
			if left, err = c.requestOnce(ctx, left, all); len(left) == 0 || err != nil {
				break
			}
		}
		for _, id := range left {
			all[id] = received[T]{err: away}
		}
	}
	return all
}

// requestOnce is one question, for ids in order. It returns those of which nothing new enough was
// answered.
func (c *cache[W, T]) requestOnce(ctx context.Context, ids []string, all map[string]received[T]) (left []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	s, err := c.view.cfg.Source.Snapshots(ctx, c.kind.Name, ids)
	if err != nil {
		c.view.metrics.loadErrors.Inc()
		return ids, err
	}
	if !c.view.sees(s.AsOf, s.Promotions) {
		return ids, errAway
	}
	found := make(map[string]received[T], len(s.Changes))
	for i := range s.Changes {
		w, err := c.kind.Read(&s.Changes[i])
		id := s.Changes[i].ID
		if _, requested := slices.BinarySearch(ids, id); err == nil && !requested {
			err = fmt.Errorf("control returned the %s %q, which was not requested", c.kind.Name, id)
		}
		if err != nil {
			c.view.metrics.loadErrors.Inc()
			c.view.cfg.Logger.Error("cannot read control's answer", "err", err)
			return ids, err
		}
		c.seen.raise(id, s.Changes[i].Revision) // the feed may be behind: nothing older is returned from now on
		ready, err := c.prepare(w)
		found[id] = received[T]{cached[T]{value: ready}, err}
	}
	for _, id := range ids {
		if !c.seen.covers(id, s.AsOf) {
			left = append(left, id)
			continue
		}
		one := found[id]
		one.asOf = s.AsOf
		all[id] = one
	}
	return left, nil
}

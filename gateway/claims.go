package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"muniment/sealer"
)

// keepKeys is how long an Idempotency-Key is remembered.
const keepKeys = 24 * time.Hour

const claimShards = 64

// claims remembers which Idempotency-Key has been answered by which event, and which
// is being answered now.
type claims struct {
	shards [claimShards]claimShard
}

// keyHash is SHA-256(tenantId ‖ 0 ‖ key).
type keyHash [sha256.Size]byte

// claimKey is the half of a keyHash that tells entries apart in memory; whoever
// uses an entry compares the whole hash with the event's.
type claimKey [16]byte

// place is where the event of a key stands in the log.
type place struct {
	offset     int64
	partition  int32
	generation uint32
	second     uint32 // of issue, Unix time
}

type claimShard struct {
	mu      sync.Mutex
	limit   int
	kept    map[claimKey]place
	order   ring                       // keys of kept, oldest first
	since   uint32                     // second of the oldest, or before; spares a look at kept
	running map[claimKey]chan struct{} // nil until someone waits for the end
}

func newClaims(limit int) *claims {
	c := new(claims)
	for i := range c.shards {
		c.shards[i].limit = max(1, limit/claimShards)
		c.shards[i].kept = map[claimKey]place{}
		c.shards[i].running = map[claimKey]chan struct{}{}
	}
	return c
}

func (c *claims) shard(h *keyHash) *claimShard { return &c.shards[h[0]%claimShards] }

// claimed is a request's hold on a key; the zero value holds none.
type claimed struct {
	shard *claimShard
	hash  keyHash
	enc   [43]byte
}

func (c *claimed) held() bool { return c.shard != nil }

// text is the hash as an event carries it, "" without a key.
func (c *claimed) text() string {
	if !c.held() {
		return ""
	}
	base64.RawURLEncoding.Encode(c.enc[:], c.hash[:])
	return view(c.enc[:])
}

// keep remembers the event, gives the key back and wakes those who wait for it.
func (c *claimed) keep(at sealer.Position, issued time.Time) {
	if c.held() {
		c.end(&place{at.Offset, at.Partition, at.Generation, uint32(issued.Unix())})
	}
}

// free gives the key back and wakes those who wait for it. It does nothing after
// keep, or a second time.
func (c *claimed) free() {
	if c.held() {
		c.end(nil)
	}
}

func (c *claimed) end(p *place) {
	s, k := c.shard, claimKey(c.hash[:16])
	s.mu.Lock()
	if p != nil {
		s.put(k, *p)
	}
	done := s.running[k]
	delete(s.running, k)
	s.mu.Unlock()
	if done != nil {
		close(done)
	}
	c.shard = nil
}

// put adds an entry and drops what is too old or too much.
func (s *claimShard) put(k claimKey, p place) {
	before := len(s.kept)
	if s.kept[k] = p; len(s.kept) > before {
		s.order.push(k)
	}
	for len(s.kept) > s.limit || int64(p.second)-int64(s.since) > int64(keepKeys/time.Second) {
		oldest := s.order.first()
		if second := s.kept[oldest].second; second > s.since {
			s.since = second
			continue
		}
		delete(s.kept, oldest)
		s.order.pop()
	}
}

// find looks the key up. It returns the place of its event, or the end of the
// request that is being answered, or claims the key for c.
func (cs *claims) find(h *keyHash, now time.Time, c *claimed) (p place, known bool, running <-chan struct{}) {
	s, k := cs.shard(h), claimKey(h[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known = s.kept[k]; known && now.Unix()-int64(p.second) <= int64(keepKeys/time.Second) {
		return p, true, nil
	}
	if done, busy := s.running[k]; busy {
		if done == nil {
			done = make(chan struct{})
			s.running[k] = done
		}
		return place{}, false, done
	}
	s.running[k] = nil
	c.shard, c.hash = s, *h
	return place{}, false, nil
}

func (cs *claims) entries() (n int) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		n += len(s.kept)
		s.mu.Unlock()
	}
	return n
}

// ring is a queue of keys.
type ring struct {
	keys []claimKey
	head int
	n    int
}

func (r *ring) first() claimKey { return r.keys[r.head] }

func (r *ring) push(k claimKey) {
	if r.n == len(r.keys) {
		grown := make([]claimKey, max(16, 2*r.n))
		copied := copy(grown, r.keys[r.head:])
		copy(grown[copied:], r.keys[:r.head])
		r.keys, r.head = grown, 0
	}
	r.keys[(r.head+r.n)%len(r.keys)] = k
	r.n++
}

func (r *ring) pop() {
	r.head = (r.head + 1) % len(r.keys)
	r.n--
}

package issue

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// keepKeys is how long an Idempotency-Key is remembered.
const keepKeys = 24 * time.Hour

const claimShards = 64

// claims remembers which Idempotency-Key has been answered by which event, and which
// is being answered now.
type claims struct {
	shards [claimShards]claimShard
	// checkpointed: what is remembered is fresh until takeFresh.
	checkpointed bool
}

// keyHash is SHA-256(tenantId ‖ 0 ‖ key).
type keyHash [sha256.Size]byte

// parseHash reads what text writes.
func parseHash(text string) (h keyHash, err error) {
	if base64.RawURLEncoding.DecodedLen(len(text)) != len(h) {
		return h, errNoIdentity
	}
	if _, err := base64.RawURLEncoding.Decode(h[:], []byte(text)); err != nil {
		return h, errNoIdentity
	}
	return h, nil
}

var errNoIdentity = api.InvalidField("identity", "is not a base64url SHA-256")

// claimKey is the half of a keyHash that identifies entries in memory; the user of an entry
// compares the whole hash with the event's.
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
	kept    kept
	running []running
	fresh   []keptEntry // if claims.checkpointed
}

// running is a request that is being answered.
type running struct {
	key claimKey
	end chan struct{} // nil until someone waits for the end
}

func newClaims(limit int, checkpointed bool) *claims {
	c := &claims{checkpointed: checkpointed}
	for i := range c.shards {
		c.shards[i].kept.limit = max(1, limit/claimShards)
	}
	return c
}

func (c *claims) shard(h *keyHash) *claimShard { return &c.shards[h[0]%claimShards] }

// heldKey is a request's hold on a key; the zero value holds none.
type heldKey struct {
	shard *claimShard
	fresh bool // what is remembered is
	hash  keyHash
	enc   [43]byte
}

func (c *heldKey) held() bool { return c.shard != nil }

// text is the hash as an event carries it, "" without a key.
func (c *heldKey) text() string {
	if !c.held() {
		return ""
	}
	base64.RawURLEncoding.Encode(c.enc[:], c.hash[:])
	return view(c.enc[:])
}

// keep remembers the event, gives the key back and wakes those who wait for it. An
// event that can't be read back, at the zero position, is not remembered.
func (c *heldKey) keep(at sealer.Position, issued time.Time) {
	if c.held() && at != (sealer.Position{}) {
		c.end(&place{at.Offset, at.Partition, at.Generation, uint32(issued.Unix())})
	}
}

// free gives the key back and wakes those who wait for it. It does nothing after
// keep, or a second time.
func (c *heldKey) free() {
	if c.held() {
		c.end(nil)
	}
}

func (c *heldKey) end(p *place) {
	s, k := c.shard, claimKey(c.hash[:16])
	s.mu.Lock()
	if p != nil {
		s.put(&k, *p)
		if c.fresh {
			s.fresh = append(s.fresh, keptEntry{k, *p})
		}
	}
	i := s.runs(&k)
	end, last := s.running[i].end, len(s.running)-1
	s.running[i], s.running[last] = s.running[last], running{}
	s.running = s.running[:last]
	s.mu.Unlock()
	if end != nil {
		close(end)
	}
	c.shard = nil
}

// put adds an entry and drops what is too old.
func (s *claimShard) put(k *claimKey, p place) {
	for e := s.kept.oldest(); e != nil && int64(p.second)-int64(e.second) > int64(keepKeys/time.Second); e = s.kept.oldest() {
		s.kept.drop()
	}
	s.kept.put(k, p)
}

// runs finds the request of a key that is being answered, −1 for none. There are few
// in a shard.
func (s *claimShard) runs(k *claimKey) int {
	return slices.IndexFunc(s.running, func(r running) bool { return r.key == *k })
}

// find looks the key up. It returns the place of its event, or the end of the
// request that is being answered, or claims the key for c.
func (cs *claims) find(h *keyHash, now time.Time, c *heldKey) (p place, known bool, end <-chan struct{}) {
	s, k := cs.shard(h), claimKey(h[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known = s.kept.get(&k); known && now.Unix()-int64(p.second) <= int64(keepKeys/time.Second) {
		return p, true, nil
	}
	if i := s.runs(&k); i >= 0 {
		if s.running[i].end == nil {
			s.running[i].end = make(chan struct{})
		}
		return place{}, false, s.running[i].end
	}
	s.running = append(s.running, running{key: k})
	c.shard, c.hash, c.fresh = s, *h, cs.checkpointed
	return place{}, false, nil
}

// put remembers an entry that was read.
func (cs *claims) put(e *keptEntry) {
	s := &cs.shards[e.key[0]%claimShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(&e.key, e.place)
}

// held are the ends of all requests that are being answered.
func (cs *claims) held() (ends []<-chan struct{}) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		for j := range s.running {
			if s.running[j].end == nil {
				s.running[j].end = make(chan struct{})
			}
			ends = append(ends, s.running[j].end)
		}
		s.mu.Unlock()
	}
	return ends
}

// takeFresh appends what was remembered since it was called last.
func (cs *claims) takeFresh(dst []keptEntry) []keptEntry {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		dst, s.fresh = append(dst, s.fresh...), s.fresh[:0]
		s.mu.Unlock()
	}
	return dst
}

// forget makes a key free whose event, at p, can't be read back.
func (cs *claims) forget(h *keyHash, p place) {
	s, k := cs.shard(h), claimKey(h[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.kept.get(&k); ok && known == p {
		s.kept.put(&k, place{}) // of 1970
	}
}

func (cs *claims) entries() int { return cs.sum(func(k *kept) int { return k.n }) }
func (cs *claims) bytes() int   { return cs.sum((*kept).bytes) }

func (cs *claims) sum(of func(*kept) int) (n int) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		n += of(&s.kept)
		s.mu.Unlock()
	}
	return n
}

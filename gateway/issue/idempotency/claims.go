// Package idempotency knows which requests a node has answered: by the hash of an Idempotency-Key, or of
// what identifies a row, it finds the event of the first request with it, or the one that is being answered.
//
//	var claim idempotency.Claim
//	at, known, end := claims.Find(&hash, now, &claim)
//	// known: the answer is in the log, at at.Position(). end: another request holds the key; Find again after it.
//	defer claim.Free()
//	// The key is this request's: sign, and make durable.
//	claim.Keep(position, issued)
//
// Keys are remembered in this process's memory, for 24 h or the newest Config.Limit. The limit is divided
// among 64 shards by hash. A start reads them back (Rebuild): from checkpoints in a folder of this node
// alone, each of which names the record of the log up to which it is right, and what checkpoints don't
// cover from the log. A checkpoint that is torn, altered, of another log, or that the log does not reach is
// passed over. The log is the truth: whoever uses a place compares the whole hash with the event's (HashOf).
//
// Not here: what is hashed, and what a retry is answered (package issue).
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"slices"
	"sync"
	"time"

	"muniment.example/sealer"
)

// Log is where the events of keys are: package issue says what it may lose. Claims are of partition 0.
type Log interface {
	// Read returns the record at a position; fs.ErrNotExist if there is none.
	Read(ctx context.Context, at sealer.Position) (sealer.Entry, error)
	// Scan calls fn for every record of from ≤ position < to, in order.
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error
	// Bounds returns the first position still held and the one behind the last.
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
}

// Config configures Claims. All fields but Dir are required.
type Config struct {
	Log Log
	// Limit bounds the keys that are remembered, 50 to 80 bytes each.
	Limit int
	// Dir is a folder of this node alone for checkpoints, at most 26 bytes a key; it is created if it is
	// missing, and may be lost. Empty: there are none, and Rebuild reads a day of the log.
	Dir    string
	Now    func() time.Time
	Logger *slog.Logger
	// Trouble is called when a checkpoint can't be kept, with the error, and with nil when one was kept.
	Trouble func(error)
}

// keepKeys is how long a key is remembered.
const keepKeys = 24 * time.Hour

const claimShards = 64

// Claims remembers which key has been answered by which event, and which is being answered now. It is
// safe for concurrent use.
type Claims struct {
	cfg         Config
	shards      [claimShards]claimShard
	checkpoints checkpoints
}

// Hash is SHA-256(tenantId ‖ 0 ‖ key), or that of what identifies a row, with another number in place of the 0.
type Hash [sha256.Size]byte

// ParseHash reads what Claim.Text writes.
func ParseHash(text string) (h Hash, ok bool) {
	if base64.RawURLEncoding.DecodedLen(len(text)) != len(h) {
		return h, false
	}
	_, err := base64.RawURLEncoding.Decode(h[:], []byte(text))
	return h, err == nil
}

// claimKey is the half of a Hash that identifies entries in memory; the user of an entry
// compares the whole hash with the event's.
type claimKey [16]byte

// Place is where the event of a key stands in the log.
type Place struct {
	offset     int64
	partition  int32
	generation uint32
	second     uint32 // of issue, Unix time
}

type claimShard struct {
	mu      sync.Mutex
	kept    kept
	running []running
	fresh   []keptEntry // remembered since takeFresh, if there are checkpoints
}

// running is a request that is being answered.
type running struct {
	key claimKey
	end chan struct{} // nil until someone waits for the end
}

// New makes claims that remember nothing yet.
func New(cfg Config) *Claims {
	c := &Claims{cfg: cfg, checkpoints: checkpoints{dir: cfg.Dir, log: cfg.Log, limit: cfg.Limit, full: checkpointKeys}}
	for i := range c.shards {
		c.shards[i].kept.limit = max(1, cfg.Limit/claimShards)
	}
	return c
}

func (c *Claims) shard(h *Hash) *claimShard { return &c.shards[h[0]%claimShards] }

// Claim is a request's hold on a key; the zero value holds none. It is for one goroutine.
type Claim struct {
	shard *claimShard
	fresh bool // what is remembered goes into a checkpoint
	hash  Hash
	enc   [43]byte
}

// Held says whether it holds a key.
func (c *Claim) Held() bool { return c.shard != nil }

// Text is the hash as an event carries it, "" without a key. It changes with the Claim.
func (c *Claim) Text() string {
	if !c.Held() {
		return ""
	}
	base64.RawURLEncoding.Encode(c.enc[:], c.hash[:])
	return view(c.enc[:])
}

// Keep remembers the event, gives the key back and wakes those who wait for it. An
// event that can't be read back, at the zero position, is not remembered.
func (c *Claim) Keep(at sealer.Position, issued time.Time) {
	if c.Held() && at != (sealer.Position{}) {
		c.end(&Place{at.Offset, at.Partition, at.Generation, uint32(issued.Unix())})
	}
}

// Free gives the key back and wakes those who wait for it. It does nothing after
// Keep, or a second time.
func (c *Claim) Free() {
	if c.Held() {
		c.end(nil)
	}
}

func (c *Claim) end(p *Place) {
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
func (s *claimShard) put(k *claimKey, p Place) {
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

// Find looks the key up. It returns the place of its event, or the end of the
// request that is being answered, or claims the key for c.
func (cs *Claims) Find(h *Hash, now time.Time, c *Claim) (p Place, known bool, end <-chan struct{}) {
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
		return Place{}, false, s.running[i].end
	}
	s.running = append(s.running, running{key: k})
	c.shard, c.hash, c.fresh = s, *h, cs.cfg.Dir != ""
	return Place{}, false, nil
}

// put remembers an entry that was read.
func (cs *Claims) put(e *keptEntry) {
	s := &cs.shards[e.key[0]%claimShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(&e.key, e.Place)
}

// Running is how many keys are held by requests that are being answered.
func (cs *Claims) Running() (n int) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		n += len(s.running)
		s.mu.Unlock()
	}
	return n
}

// held are the ends of all requests that are being answered.
func (cs *Claims) held() (ends []<-chan struct{}) {
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
func (cs *Claims) takeFresh(dst []keptEntry) []keptEntry {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		dst, s.fresh = append(dst, s.fresh...), s.fresh[:0]
		s.mu.Unlock()
	}
	return dst
}

// Forget makes a key free whose event, at p, can't be read back.
func (cs *Claims) Forget(h *Hash, p Place) {
	s, k := cs.shard(h), claimKey(h[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.kept.get(&k); ok && known == p {
		s.kept.put(&k, Place{}) // of 1970
	}
}

// Entries is how many keys are remembered.
func (cs *Claims) Entries() int { return cs.sum(func(k *kept) int { return k.n }) }

// Bytes is the memory in use.
func (cs *Claims) Bytes() int { return cs.sum((*kept).bytes) }

func (cs *Claims) sum(of func(*kept) int) (n int) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		n += of(&s.kept)
		s.mu.Unlock()
	}
	return n
}

package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
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
	order   ring // keys of kept, oldest first
	running map[claimKey]chan struct{}
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
	done  chan struct{}
	enc   [43]byte
}

func (c *claimed) held() bool { return c.done != nil }

// text is the hash as an event carries it, "" without a key.
func (c *claimed) text() string {
	if !c.held() {
		return ""
	}
	base64.RawURLEncoding.Encode(c.enc[:], c.hash[:])
	return view(c.enc[:])
}

// keep remembers the event and wakes those who wait for it.
func (c *claimed) keep(at sealer.Position, issued time.Time) {
	if !c.held() {
		return
	}
	s := c.shard
	s.mu.Lock()
	s.put(claimKey(c.hash[:16]), place{at.Offset, at.Partition, at.Generation, uint32(issued.Unix())})
	s.mu.Unlock()
	c.free()
}

// free gives the key back and wakes those who wait for it. It may be called twice.
func (c *claimed) free() {
	if !c.held() {
		return
	}
	c.shard.mu.Lock()
	delete(c.shard.running, claimKey(c.hash[:16]))
	c.shard.mu.Unlock()
	close(c.done)
	c.done = nil
}

// put adds an entry and drops what is too old or too much.
func (s *claimShard) put(k claimKey, p place) {
	if _, again := s.kept[k]; !again {
		s.order.push(k)
	}
	s.kept[k] = p
	for s.order.len() > 0 {
		oldest := s.order.first()
		if len(s.kept) <= s.limit && int64(p.second)-int64(s.kept[oldest].second) <= int64(keepKeys/time.Second) {
			break
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
	if done := s.running[k]; done != nil {
		return place{}, false, done
	}
	done := make(chan struct{})
	s.running[k] = done
	c.shard, c.hash, c.done = s, *h, done
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

func (r *ring) len() int        { return r.n }
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

var (
	errBadKey = &api.Error{Code: api.BadRequest, Message: "the header Idempotency-Key must be 1 to 255 visible ASCII characters"}
	errReused = api.Conflict("this Idempotency-Key was used with another body")
	errBusy   = &api.Error{
		Code: api.StateConflict, Message: "an earlier request with this Idempotency-Key is still being answered", RetryAfter: time.Second,
	}
)

// once answers a request that has an Idempotency-Key.
func (g *Gateway) once(ctx *fasthttp.RequestCtx, d *delivery, key []byte, arrived time.Time) error {
	if !api.Printable(key, api.MaxIdempotencyKey) {
		return errBadKey
	}
	h := d.keyHash(key)
	d.claim = claimed{}
	for {
		at, known, running := g.claims.find(&h, arrived, &d.claim)
		switch {
		case known:
			return g.replay(ctx, d, &h, at)
		case running == nil:
			defer d.claim.free()
			return g.issue(ctx, d, arrived)
		}
		if !d.await(running, g.cfg.IdempotencyWait-time.Since(ctx.Time())) {
			return errBusy
		}
		d.deadline.end()
		d.deadline.begin(g.cfg.AppendTimeout)
	}
}

// await waits for an earlier request with the same key to end.
func (d *delivery) await(end <-chan struct{}, atMost time.Duration) bool {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-end:
		return true
	case <-t.C:
		return false
	}
}

func (d *delivery) keyHash(key []byte) keyHash {
	d.scratch = append(append(append(d.scratch[:0], d.tenant...), 0), key...)
	return sha256.Sum256(d.scratch)
}

// replay answers as the first request with the key was answered, from the event in
// the log.
func (g *Gateway) replay(ctx *fasthttp.RequestCtx, d *delivery, h *keyHash, at place) error {
	entry, err := g.log.Read(&d.deadline, sealer.Position{Generation: at.generation, Partition: at.partition, Offset: at.offset})
	if err != nil {
		g.metrics.replayErrors.Inc()
		return errLogAway
	}
	if hash, ok := idempotencyOf(entry.Event); !ok || hash != *h || entry.TenantID != d.tenant {
		return fmt.Errorf("the event at %s is not the one of this idempotency key", entry.Position)
	}
	if len(entry.Private) > 0 {
		p, err := sealer.ParsePrivate(entry.Private)
		if err != nil {
			return fmt.Errorf("cannot replay %s: %w", entry.EventID, err)
		}
		if p.RequestHash != d.requestHash(p.Salt, d.body) {
			return errReused
		}
	}
	ctx.Response.Header.Set(api.HeaderReplayed, "true")
	return d.respond(ctx, entry.Event)
}

var toIdempotency = []byte(`,"idempotency":"`)

// idempotencyOf finds the hash in a delivery's event. The member's name can't stand
// inside a JSON string: there each quotation mark has a backslash before it.
func idempotencyOf(event []byte) (h keyHash, ok bool) {
	if !strings.HasSuffix(view(event), `,"type":"`+sealer.TypeDelivery+`","v":1}`) {
		return h, false
	}
	_, rest, found := strings.Cut(view(event), view(toIdempotency))
	text, _, closed := strings.Cut(rest, `"`)
	if !found || !closed || len(text) != base64.RawURLEncoding.EncodedLen(len(h)) {
		return h, false
	}
	_, err := base64.RawURLEncoding.Decode(h[:], []byte(text))
	return h, err == nil
}

// rebuild reads the keys of the last 24 hours back from the log.
func (g *Gateway) rebuild(ctx context.Context) error {
	since := g.now().Add(-keepKeys)
	for _, partition := range g.cfg.Partitions {
		first, end, err := g.log.Bounds(ctx, partition)
		if err != nil {
			return err
		}
		from, err := firstSince(ctx, g.log, first, end, since.Add(-clockSlack))
		if err != nil {
			return err
		}
		err = g.log.Scan(ctx, from, end, func(e sealer.Entry) error {
			at, ok := eventTime(e.EventID)
			if !ok || at.Before(since) {
				return nil
			}
			if h, ok := idempotencyOf(e.Event); ok {
				s := g.claims.shard(&h)
				s.mu.Lock()
				s.put(claimKey(h[:16]), place{e.Offset, e.Partition, e.Generation, uint32(at.Unix())})
				s.mu.Unlock()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clockSlack is how far the clocks of those who write to one log may disagree, for
// finding a point in time in it.
const clockSlack = 10 * time.Minute

// firstSince finds, by halving, a position at or before the first event of a moment.
func firstSince(ctx context.Context, log Log, first, end sealer.Position, since time.Time) (sealer.Position, error) {
	if first.Generation != end.Generation {
		return first, nil
	}
	from, to := first.Offset, end.Offset
	for from < to {
		middle := first
		middle.Offset = from + (to-from)/2
		e, err := log.Read(ctx, middle)
		if err != nil {
			return first, err
		}
		if at, ok := eventTime(e.EventID); ok && at.Before(since) {
			from = middle.Offset + 1
		} else {
			to = middle.Offset
		}
	}
	first.Offset = from
	return first, nil
}

// eventTime reads the moment out of an event id.
func eventTime(id string) (time.Time, bool) {
	if !api.IsID(api.PrefixEvent, id) {
		return time.Time{}, false
	}
	const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var ms uint64
	for _, c := range []byte(id[len(api.PrefixEvent) : len(api.PrefixEvent)+10]) {
		ms = ms<<5 | uint64(strings.IndexByte(crockford, c))
	}
	return time.UnixMilli(int64(ms)), true
}

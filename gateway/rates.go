package gateway

import (
	"crypto/sha256"
	"sync"
	"time"
)

// rates limit how often something happens in any hour: the receipts of each beacon, to its
// maxReceiptsPerHour, and the wrong keys of players from each address. Each node counts by itself, from
// zero at its start: n nodes allow up to n times as many. Counts are in steps of two minutes, the current
// one and those of the hour before it, so what is always at its limit gets a thirtieth less.
//
// At most maxRates things are counted at a time, in 22 MiB, and one owner's are at most half of
// them. What is above these bounds is not limited: a play that is not recorded can't be
// recorded later, while the limit only protects against abuse. What did not happen for an hour is no
// longer counted.
type rates struct {
	mu     sync.Mutex
	all    map[rateKey]*rate
	owners map[string]*rateOwner
}

// rateKey names what is counted.
type rateKey struct {
	owner *rateOwner
	text  [16]byte // a hash of the owner's name for it
}

// rateOwner is a tenant or an address of which something is counted.
type rateOwner struct {
	id      string
	counted int // how many
}

const (
	rateStep  = 2 * time.Minute
	rateSteps = int64(time.Hour/rateStep) + 1
	// maxRates is how much is counted at a time.
	maxRates = 1 << 17
	// ratesSwept is how many others are checked for expiry with each new one.
	ratesSwept = 8
)

// rate is the counts of one thing.
type rate struct {
	counts [rateSteps]uint32 // by the step modulo their number
	newest uint32            // the newest step that has a count
}

// advance forgets what is an hour old.
func (r *rate) advance(step int64) {
	for at := max(int64(r.newest)+1, step-rateSteps+1); at <= step; at++ {
		r.counts[at%rateSteps] = 0
	}
	r.newest = max(r.newest, uint32(step))
}

func (r *rate) sum() (n uint64) {
	for _, count := range r.counts {
		n += uint64(count)
	}
	return n
}

func (r *rate) expired(step int64) bool { return step-int64(r.newest) >= rateSteps }

// takenRate is one that was counted; the zero value is none.
type takenRate struct {
	key  rateKey
	step int64
}

// take counts one more; ok is false if there are limit already.
func (b *rates) take(owner string, text []byte, limit int, now time.Time) (taken takenRate, ok bool) {
	sum := sha256.Sum256(text)
	step := now.Unix() / int64(rateStep/time.Second)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := takenRate{rateKey{b.owners[owner], [16]byte(sum[:16])}, step}
	r := b.all[t.key]
	if r == nil {
		if t.key.owner, r = b.begin(owner, t); r == nil {
			return takenRate{}, true
		}
	}
	t.step = max(step, int64(r.newest)) // the clock stepped back
	if r.advance(t.step); r.sum() >= uint64(limit) {
		return t, false
	}
	r.counts[t.step%rateSteps]++
	return t, true
}

// full says whether there are limit already.
func (b *rates) full(owner string, text []byte, limit int, now time.Time) bool {
	taken, ok := b.take(owner, text, limit, now)
	if ok {
		b.giveBack(taken)
	}
	return !ok
}

// begin begins to count a thing, unless maxRates are counted already.
func (b *rates) begin(owner string, t takenRate) (*rateOwner, *rate) {
	looked := 0
	for key, r := range b.all {
		if r.expired(t.step) {
			b.end(key)
		}
		if looked++; looked == ratesSwept {
			break
		}
	}
	of := b.owners[owner]
	if len(b.all) >= maxRates || of != nil && of.counted >= maxRates/2 {
		return nil, nil
	}
	if b.all == nil {
		b.all, b.owners = map[rateKey]*rate{}, map[string]*rateOwner{}
	}
	if of == nil {
		of = &rateOwner{id: owner}
		b.owners[owner] = of
	}
	of.counted++
	t.key.owner = of
	r := &rate{newest: uint32(t.step)}
	b.all[t.key] = r
	return of, r
}

// end stops counting a thing.
func (b *rates) end(key rateKey) {
	delete(b.all, key)
	if key.owner.counted--; key.owner.counted == 0 {
		delete(b.owners, key.owner.id)
	}
}

// giveBack uncounts what did not happen.
func (b *rates) giveBack(t takenRate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.all[t.key]
	if r == nil || int64(r.newest)-t.step >= rateSteps || r.counts[t.step%rateSteps] == 0 {
		return
	}
	if r.counts[t.step%rateSteps]--; r.sum() == 0 {
		b.end(t.key)
	}
}

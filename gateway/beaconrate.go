package gateway

import (
	"crypto/sha256"
	"sync"
	"time"
)

// beaconRates limit the receipts of each beacon to its maxReceiptsPerHour in any hour. Each
// node counts for itself, and starts again at zero: n nodes issue up to n times as many. Receipts
// are counted in steps of two minutes, the current one and those of the hour before it, so a
// beacon that is always at its limit gets a thirtieth less.
//
// At most maxRates beacons are counted at a time, in 22 MiB, and one tenant's are at most half of
// them. A beacon above these bounds is not limited, and its plays are issued: a play that is not
// recorded is lost for good, while the limit is for a URL that falls into the wrong hands. A
// beacon without a receipt for an hour is no longer counted.
type beaconRates struct {
	mu      sync.Mutex
	all     map[rateKey]*beaconRate
	tenants map[string]*rateTenant
}

// rateKey names a beacon.
type rateKey struct {
	tenant *rateTenant
	text   [16]byte // a hash of its signed part
}

// rateTenant is a tenant of which beacons are counted.
type rateTenant struct {
	id      string
	counted int // how many
}

const (
	rateStep  = 2 * time.Minute
	rateSteps = int64(time.Hour/rateStep) + 1
	// maxRates is how many beacons are counted at a time.
	maxRates = 1 << 17
	// ratesSwept is how many others are checked for expiry with each new one.
	ratesSwept = 8
)

// beaconRate is the counts of one beacon.
type beaconRate struct {
	counts [rateSteps]uint32 // by the step modulo their number
	newest uint32            // the newest step that has a count
}

// advance forgets what is an hour old.
func (r *beaconRate) advance(step int64) {
	for at := max(int64(r.newest)+1, step-rateSteps+1); at <= step; at++ {
		r.counts[at%rateSteps] = 0
	}
	r.newest = max(r.newest, uint32(step))
}

func (r *beaconRate) sum() (n uint64) {
	for _, count := range r.counts {
		n += uint64(count)
	}
	return n
}

func (r *beaconRate) expired(step int64) bool { return step-int64(r.newest) >= rateSteps }

// takenRate is a receipt that was counted; the zero value is none.
type takenRate struct {
	key  rateKey
	step int64
}

// take counts a receipt of a tenant's beacon; ok is false if there are limit already.
func (b *beaconRates) take(tenant string, text []byte, limit int, now time.Time) (taken takenRate, ok bool) {
	sum := sha256.Sum256(text)
	step := now.Unix() / int64(rateStep/time.Second)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := takenRate{rateKey{b.tenants[tenant], [16]byte(sum[:16])}, step}
	r := b.all[t.key]
	if r == nil {
		if t.key.tenant, r = b.begin(tenant, t); r == nil {
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

// begin begins to count a beacon, unless maxRates are counted already.
func (b *beaconRates) begin(tenant string, t takenRate) (*rateTenant, *beaconRate) {
	looked := 0
	for key, r := range b.all {
		if r.expired(t.step) {
			b.end(key)
		}
		if looked++; looked == ratesSwept {
			break
		}
	}
	of := b.tenants[tenant]
	if len(b.all) >= maxRates || of != nil && of.counted >= maxRates/2 {
		return nil, nil
	}
	if b.all == nil {
		b.all, b.tenants = map[rateKey]*beaconRate{}, map[string]*rateTenant{}
	}
	if of == nil {
		of = &rateTenant{id: tenant}
		b.tenants[tenant] = of
	}
	of.counted++
	t.key.tenant = of
	r := &beaconRate{newest: uint32(t.step)}
	b.all[t.key] = r
	return of, r
}

// end stops counting a beacon.
func (b *beaconRates) end(key rateKey) {
	delete(b.all, key)
	if key.tenant.counted--; key.tenant.counted == 0 {
		delete(b.tenants, key.tenant.id)
	}
}

// giveBack uncounts a receipt that was not issued.
func (b *beaconRates) giveBack(t takenRate) {
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

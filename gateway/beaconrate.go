package gateway

import (
	"crypto/sha256"
	"sync"
	"time"
)

// beaconRates count the receipts of each beacon on this node, in any hour that passes: so many
// nodes, so many times its maxReceiptsPerHour. They count by minutes, the one that runs and the
// 60 before it, so that no hour has more.
type beaconRates struct {
	mu    sync.Mutex
	all   map[rateKey]*beaconRate
	swept int64 // the minute in which idle ones were last forgotten
}

// rateKey is a hash of what was signed of a beacon.
type rateKey [16]byte

const (
	rateMinutes = 61
	// mostRates bounds the beacons that are counted at a time. One more than that is taken for
	// one above its limit.
	mostRates = 1 << 16
)

// beaconRate is the counts of one beacon.
type beaconRate struct {
	counts [rateMinutes]int32 // by the minute modulo their number
	newest int64              // the newest minute that has a count
	sum    int64
}

// advance forgets what is an hour old.
func (r *beaconRate) advance(minute int64) {
	for at := max(r.newest+1, minute-rateMinutes+1); at <= minute; at++ {
		r.sum -= int64(r.counts[at%rateMinutes])
		r.counts[at%rateMinutes] = 0
	}
	r.newest = max(r.newest, minute)
}

// takenRate is a receipt that was counted.
type takenRate struct {
	key    rateKey
	minute int64
}

// take counts a receipt, unless there are as many as limit.
func (b *beaconRates) take(text []byte, limit int, now time.Time) (takenRate, bool) {
	sum := sha256.Sum256(text)
	t := takenRate{rateKey(sum[:16]), now.Unix() / 60}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.all[t.key]
	if r == nil {
		if b.sweep(t.minute); len(b.all) >= mostRates {
			return t, false
		}
		r = &beaconRate{newest: t.minute}
		if b.all == nil {
			b.all = map[rateKey]*beaconRate{}
		}
		b.all[t.key] = r
	}
	t.minute = max(t.minute, r.newest) // the clock stepped back
	if r.advance(t.minute); r.sum >= int64(limit) {
		return t, false
	}
	r.counts[t.minute%rateMinutes]++
	r.sum++
	return t, true
}

// giveBack takes a receipt out of the count that was not issued.
func (b *beaconRates) giveBack(t takenRate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.all[t.key]; r != nil && r.newest-t.minute < rateMinutes && r.counts[t.minute%rateMinutes] > 0 {
		r.counts[t.minute%rateMinutes]--
		r.sum--
	}
}

// sweep forgets beacons that have had no receipt for an hour, at most once a minute.
func (b *beaconRates) sweep(minute int64) {
	if len(b.all) < mostRates/2 || minute == b.swept {
		return
	}
	b.swept = minute
	for key, r := range b.all {
		if minute-r.newest >= rateMinutes {
			delete(b.all, key)
		}
	}
}

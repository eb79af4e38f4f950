package gateway

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// refusedRecently is how long a tenant's deliveries are delayed after one was refused.
	refusedRecently = time.Second
	// othersActive is how long a tenant counts as delivering after its last delivery.
	othersActive = 100 * time.Millisecond
)

// tenantLimits limit what one tenant takes of the node, the rows of its batches included
// (batches.go). A tenant within its cap is served at once. If one of its deliveries was
// refused within the last second, and other tenants deliver within their caps, each of its
// deliveries is first delayed by interval times the number of deliveries that it has in hand.
// Together they then begin about once an interval, whatever the cap. The cap alone would
// leave the queues of the processors and of the disk to a tenant that always fills it. A
// tenant that is alone on the node gets all that its cap allows.
type tenantLimits struct {
	cap      int64
	interval time.Duration
	longest  time.Duration // of a delay, about
	tenants  sync.Map      // tenant id → *tenantLimit
	calm     atomic.Int64  // when a tenant within its cap last delivered, Unix time in ns
	slots    int           // batches of a tenant that are served at a time
}

// tenantLimit counts what one tenant takes.
type tenantLimit struct {
	tenant  string // its id
	inHand  atomic.Int64
	refused atomic.Int64 // when a delivery was last refused, Unix time in ns

	batches atomic.Int64 // that wait or are served
	bytes   atomic.Int64 // of their bodies
	slots   chan struct{}
}

func (s *tenantLimits) of(tenant string) *tenantLimit {
	if n, ok := s.tenants.Load(tenant); ok {
		return n.(*tenantLimit)
	}
	n, _ := s.tenants.LoadOrStore(tenant, &tenantLimit{tenant: tenant, slots: make(chan struct{}, s.slots)})
	return n.(*tenantLimit)
}

// enter counts a delivery in until leave, even if it refuses it, and returns how long the
// delivery must be delayed.
func (s *tenantLimits) enter(of *tenantLimit, at time.Time) (delay time.Duration, ok bool) {
	n, now := of.inHand.Add(1), at.UnixNano()
	if n > s.cap {
		of.refused.Store(now)
		return 0, false
	}
	if !within(now, of.refused.Load(), refusedRecently) {
		// Most deliveries come here, on all processors: write the shared cache line seldom.
		if !within(now, s.calm.Load(), othersActive/4) {
			s.calm.Store(now)
		}
		return 0, true
	}
	if !within(now, s.calm.Load(), othersActive) {
		return 0, true
	}
	return spread(min(time.Duration(n)*s.interval, s.longest)), true
}

func (of *tenantLimit) leave() { of.inHand.Add(-1) }

// within says whether moment is at most a duration before now. It is false for a moment after
// now, as there is once a clock was set back.
func within(now, moment int64, of time.Duration) bool {
	return now >= moment && now-moment < int64(of)
}

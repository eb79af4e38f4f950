package gateway

import (
	"sync"
	"sync/atomic"
	"time"
)

// recently is how long a tenant counts as above its cap after the last refusal, and
// patient how long it counts after its last delivery that another one is there.
const (
	recently = time.Second
	patient  = 100 * time.Millisecond
)

// shares bound what one tenant takes of the node, the rows of its batches included (batches.go). Within its cap a tenant is served
// at once. One that asked for more a moment ago, as its refusals tell, is served in
// turn: while others deliver within theirs, each of its deliveries first waits as many
// turns as it has deliveries in hand, so that together they begin about once a turn,
// whatever the cap. The cap alone would leave the queues of the processors and of the
// disk to whoever always fills it. Alone on the node it gets all that its cap lets
// through.
type shares struct {
	cap     int64
	turn    time.Duration
	longest time.Duration // that a delivery waits for its turn, about
	tenants sync.Map      // tenant id → *share
	calm    atomic.Int64  // when a tenant within its cap last delivered, Unix time in ns
	turns   int           // batches of a tenant that are served at a time
}

// share is one tenant's.
type share struct {
	inHand atomic.Int64
	above  atomic.Int64 // when a delivery was last refused, Unix time in ns

	batches atomic.Int64 // that wait or are served
	bytes   atomic.Int64 // of their bodies
	turns   chan struct{}
}

func (s *shares) of(tenant string) *share {
	if n, ok := s.tenants.Load(tenant); ok {
		return n.(*share)
	}
	n, _ := s.tenants.LoadOrStore(tenant, &share{turns: make(chan struct{}, s.turns)})
	return n.(*share)
}

// enter counts a delivery of a tenant in until leave, also one that it refuses. It says how
// long the delivery has to wait for its turn.
func (s *shares) enter(of *share, at time.Time) (wait time.Duration, ok bool) {
	n, now := of.inHand.Add(1), at.UnixNano()
	if n > s.cap {
		of.above.Store(now)
		return 0, false
	}
	if !within(now, of.above.Load(), recently) {
		// Most deliveries come here, on all processors: they share the line unwritten.
		if !within(now, s.calm.Load(), patient/4) {
			s.calm.Store(now)
		}
		return 0, true
	}
	if !within(now, s.calm.Load(), patient) {
		return 0, true
	}
	return spread(min(time.Duration(n)*s.turn, s.longest)), true
}

func (of *share) leave() { of.inHand.Add(-1) }

// within is false also of a moment that lies ahead, as after a clock was set back.
func within(now, moment int64, of time.Duration) bool {
	return now >= moment && now-moment < int64(of)
}

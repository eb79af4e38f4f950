package sandbox

import (
	"net/netip"
	"sync"
	"time"
)

// Limits are how many requests of one address are accepted within any stretch of 10
// seconds, and within any hour.
type Limits struct {
	Burst     int
	Sustained int
}

// The contract's limits.
const (
	defaultBurst     = 10
	defaultSustained = 200
)

const (
	burstWindow     = 10 * time.Second
	sustainedWindow = time.Hour
)

// mostAddresses is how many addresses are remembered. Beyond it the one that was
// accepted least recently is forgotten: whoever has that many addresses gains nothing
// by it, and nobody else is locked out.
const mostAddresses = 100_000

// Limiter counts the accepted requests of each address. The windows slide, and are
// exact to the millisecond: a stretch is [t, t+10 s) or [t, t+1 h), wherever it begins.
// What is refused does not count. An IPv6 address counts as its /64, which is what one
// subscriber has. A full address takes 4 bytes for each request of the sustained limit.
//
// A Limiter is safe for concurrent use.
type Limiter struct {
	limits Limits
	most   int
	now    func() time.Time
	start  time.Time // stamps count from here

	mu    sync.Mutex
	known map[netip.Addr]*guest
	ring  guest // next is the one accepted most recently, prev the least
}

// guest is an address with a place in the ring.
type guest struct {
	addr       netip.Addr
	prev, next *guest
	last       time.Duration // since start, of the last request that was accepted
	window     window
}

// NewLimiter counts by a clock, which is read as a monotonic one where it has that.
func NewLimiter(l Limits, now func() time.Time) *Limiter {
	m := &Limiter{limits: l, most: mostAddresses, now: now, start: now(), known: map[netip.Addr]*guest{}}
	m.ring.prev, m.ring.next = &m.ring, &m.ring
	return m
}

// Accept counts a request, or says after how long one would be accepted, unless others
// of the address come first.
func (m *Limiter) Accept(address netip.Addr) (wait time.Duration, ok bool) {
	address = subscriber(address)
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.now().Sub(m.start).Truncate(time.Millisecond)
	v := m.known[address]
	if v == nil {
		m.forget(at)
		v = &guest{addr: address}
	}
	if at-v.last >= sustainedWindow {
		v.window = window{} // nothing in it counts any more, nor may its stamps come round
	}
	at = max(at, v.last) // a clock that was set back must not open a window
	if wait := v.window.wait(m.limits, stampOf(at)); wait > 0 {
		return wait, false
	}
	v.window.add(m.limits, stampOf(at))
	v.last = at
	m.known[address] = v
	m.front(v)
	return 0, true
}

// forget drops who has had nothing accepted for an hour, and makes room for one more.
func (m *Limiter) forget(at time.Duration) {
	for last := m.ring.prev; last != &m.ring && (at-last.last >= sustainedWindow || len(m.known) >= m.most); last = m.ring.prev {
		m.remove(last)
		delete(m.known, last.addr)
	}
}

func (m *Limiter) front(v *guest) {
	if v.next != nil {
		m.remove(v)
	}
	v.prev, v.next = &m.ring, m.ring.next
	v.prev.next, v.next.prev = v, v
}

func (m *Limiter) remove(v *guest) {
	v.prev.next, v.next.prev = v.next, v.prev
	v.prev, v.next = nil, nil
}

// subscriber is whom an address stands for.
func subscriber(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

// stamp is a moment in milliseconds, modulo 2³²: 49 days, of which a window is asked for
// an hour past its last request at most.
type stamp uint32

func stampOf(at time.Duration) stamp { return stamp(at.Milliseconds()) }

func (s stamp) since(earlier stamp) time.Duration {
	return time.Duration(s-earlier) * time.Millisecond
}

// window holds the last accepted requests, as many as the sustained limit: a ring once
// it is full, with the oldest at next.
type window struct {
	stamps []stamp
	next   int32
	full   bool
}

// nth is the n-th last request that was accepted, if there were as many.
func (w *window) nth(n int) (s stamp, ok bool) {
	held := len(w.stamps)
	if n > held {
		return 0, false
	}
	if !w.full {
		return w.stamps[held-n], true
	}
	return w.stamps[(int(w.next)-n+held)%held], true
}

// wait is how long until both limits accept a request.
func (w *window) wait(l Limits, at stamp) (wait time.Duration) {
	for _, limit := range [...]struct {
		requests int
		within   time.Duration
	}{{l.Burst, burstWindow}, {l.Sustained, sustainedWindow}} {
		if s, ok := w.nth(limit.requests); ok {
			wait = max(wait, limit.within-at.since(s))
		}
	}
	return wait
}

func (w *window) add(l Limits, at stamp) {
	most := max(l.Burst, l.Sustained)
	if w.full {
		w.stamps[w.next] = at
		w.next = (w.next + 1) % int32(most)
		return
	}
	if held := len(w.stamps); held == cap(w.stamps) {
		// In few steps, and never beyond what is needed.
		grown := make([]stamp, held, min(max(4, 3*held), most))
		copy(grown, w.stamps)
		w.stamps = grown
	}
	w.stamps = append(w.stamps, at)
	w.full = len(w.stamps) == most
}

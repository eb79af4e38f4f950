package sandbox

import (
	"container/list"
	"context"
	"database/sql"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Limits are how many requests per IP address are accepted within any 10 seconds, and within any
// hour.
type Limits struct {
	Burst     int `default:"10" least:"1" help:"How many requests each IP address may send to the sandbox per 10 seconds; the response to more is 429." placeholder:"N"`
	Sustained int `default:"200" least:"1" help:"How many requests each IP address may send to the sandbox per hour." placeholder:"N"`
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

// mostAddresses is how many addresses a Limiter remembers. For one more it forgets the one whose
// last accepted request is oldest: a client with that many addresses gains nothing by it, and other
// clients are not locked out.
const mostAddresses = 100_000

// Limiter counts the accepted requests of each address. The windows slide, and are exact to the
// millisecond: [t, t+10 s) and [t, t+1 h), for every t. Refused requests don't count. An IPv6
// address counts as its /64, which is what one subscriber has. An address takes up to 4 bytes for
// each request of the sustained limit.
//
// A Limiter is safe for concurrent use.
type Limiter struct {
	limits Limits
	most   int
	now    func() time.Time
	start  time.Time // stamps count from here

	mu    sync.Mutex
	order list.List // of *client, the one accepted most recently first
	known map[netip.Addr]*list.Element
}

// client is an address that had a request accepted.
type client struct {
	addr   netip.Addr
	last   time.Duration // since start, of the last request that was accepted
	window window
}

// NewLimiter counts by a clock, and uses its monotonic reading if it has one.
func NewLimiter(l Limits, now func() time.Time) *Limiter {
	return &Limiter{limits: l, most: mostAddresses, now: now, start: now(), known: map[netip.Addr]*list.Element{}}
}

// Accept counts a request, or returns after how long the address would have one accepted.
func (m *Limiter) Accept(address netip.Addr) (wait time.Duration, ok bool) {
	address = subscriber(address)
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.now().Sub(m.start).Truncate(time.Millisecond)
	place := m.known[address]
	if place == nil {
		m.forget(at)
		place = m.order.PushFront(&client{addr: address}) // a first request is always accepted
		m.known[address] = place
	}
	v := place.Value.(*client)
	if at-v.last >= sustainedWindow {
		v.window = nil // nothing in it counts, and its stamps must not wrap around
	}
	at = max(at, v.last) // a clock that was set back must not open a window
	if wait := v.window.wait(m.limits, stampOf(at)); wait > 0 {
		return wait, false
	}
	v.window.add(m.limits, stampOf(at))
	v.last = at
	m.order.MoveToFront(place)
	return 0, true
}

// forget drops addresses without an accepted request for an hour, and makes room for one more.
func (m *Limiter) forget(at time.Duration) {
	for e := m.order.Back(); e != nil && (at-e.Value.(*client).last >= sustainedWindow || len(m.known) >= m.most); e = m.order.Back() {
		delete(m.known, m.order.Remove(e).(*client).addr)
	}
}

// subscriber is the network that an address belongs to: itself, or the /64 of an IPv6 address.
func subscriber(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

// stamp is a time in milliseconds, modulo 2³², which is 49 days. A window is used for at most an
// hour after its last request.
type stamp uint32

func stampOf(at time.Duration) stamp { return stamp(at.Milliseconds()) }

func (s stamp) since(earlier stamp) time.Duration {
	return time.Duration(s-earlier) * time.Millisecond
}

// window holds the last accepted requests, the oldest first, as many as the longer limit.
type window []stamp

// wait is how long until both limits accept a request.
func (w window) wait(l Limits, at stamp) (wait time.Duration) {
	for _, limit := range [...]struct {
		requests int
		within   time.Duration
	}{{l.Burst, burstWindow}, {l.Sustained, sustainedWindow}} {
		if oldest := len(w) - limit.requests; oldest >= 0 {
			wait = max(wait, limit.within-at.since(w[oldest]))
		}
	}
	return wait
}

func (w *window) add(l Limits, at stamp) {
	most := max(l.Burst, l.Sustained)
	if len(*w) == most {
		*w = slices.Delete(*w, 0, 1)
	}
	if len(*w) == cap(*w) { // grows in few steps, and not beyond the limit
		*w = append(make(window, 0, min(max(4, 3*len(*w)), most)), *w...)
	}
	*w = append(*w, at)
}

// shared counts as a Limiter does, but in the database, for several processes whose clocks agree.
// Each count locks the row of its address alone, so there is one window for each address, and no
// visitor delays a store.DB.Change. An address that was refused is refused again without reading
// the database: only accepted requests count, so nothing can shorten its wait.
type shared struct {
	db     *store.DB
	limits Limits
	window string // of CallersConfig

	mu      sync.Mutex
	refused map[netip.Addr]time.Time // until when
}

func (s *shared) accept(ctx context.Context, address netip.Addr) (wait time.Duration, ok bool, err error) {
	address = subscriber(address)
	if wait := s.until(address); wait > 0 {
		return wait, false, nil
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) (err error) {
		wait, err = s.count(ctx, tx, s.window+address.String())
		return err
	})
	if err == nil && wait > 0 {
		s.remember(address, wait)
	}
	return wait, err == nil && wait == 0, err
}

// count records a request that is accepted, or returns how long to wait.
func (s *shared) count(ctx context.Context, tx *sql.Tx, address string) (wait time.Duration, err error) {
	known, err := store.One(ctx, tx, "the window of an address", store.Text, `INSERT INTO sandbox_windows (address, accepted, last_at) VALUES ($1, '', 0)
		ON CONFLICT (address) DO UPDATE SET last_at = sandbox_windows.last_at RETURNING accepted`, address) // locks the row
	if err != nil {
		return 0, err
	}
	now := s.db.Now().UnixMilli()
	latest := now + api.ClockSlack.Milliseconds()
	var accepted []int64
	for text := range strings.FieldsSeq(*known) {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		if ms <= latest { // otherwise a process whose clock was ahead has written it
			accepted = append(accepted, ms)
		}
	}
	if n := len(accepted); n > 0 {
		now = max(now, accepted[n-1]) // a clock that is behind must not open a window
	}
	var w window
	var kept []string
	for _, ms := range accepted {
		if now-ms < sustainedWindow.Milliseconds() {
			w.add(s.limits, stamp(ms))
			kept = append(kept, strconv.FormatInt(ms, 10))
		}
	}
	if wait := w.wait(s.limits, stamp(now)); wait > 0 {
		return wait, nil
	}
	kept = append(kept, strconv.FormatInt(now, 10))
	_, err = tx.ExecContext(ctx, `UPDATE sandbox_windows SET accepted = $2, last_at = $3 WHERE address = $1`, address, strings.Join(kept, " "), now)
	return 0, err
}

// forget deletes the windows in which nothing counts any more. It is not a store.DB.Change, since
// it may wait for a row that is locked by a count.
func (s *shared) forget(ctx context.Context) error {
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sandbox_windows WHERE last_at <= $1`, s.db.Now().Add(-sustainedWindow).UnixMilli())
		return err
	})
}

func (s *shared) until(address netip.Addr) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[address].Sub(s.db.Now())
}

// remember keeps no more addresses than a Limiter does.
func (s *shared) remember(address netip.Addr, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) >= mostAddresses {
		clear(s.refused)
	}
	s.refused[address] = s.db.Now().Add(wait)
}

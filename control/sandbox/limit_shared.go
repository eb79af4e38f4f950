package sandbox

import (
	"context"
	"database/sql"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
)

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

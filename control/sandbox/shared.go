package sandbox

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
)

// shared counts as a Limiter does, in the database, for several processes with clocks
// that agree. Changes of the database run one at a time, so there is one window of each
// address. Who was refused is refused again without asking it: nothing but accepted
// requests counts, so nothing can make its wait shorter.
type shared struct {
	db     *store.DB
	limits Limits

	mu      sync.Mutex
	refused map[netip.Addr]time.Time // until when
}

func (s *shared) accept(ctx context.Context, address netip.Addr) (wait time.Duration, ok bool, err error) {
	address = subscriber(address)
	if wait := s.until(address); wait > 0 {
		return wait, false, nil
	}
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		wait, err = s.count(ctx, tx, address.String())
		return err
	})
	if err == nil && wait > 0 {
		s.remember(address, wait)
	}
	return wait, err == nil && wait == 0, err
}

// count writes down a request that is accepted, or says how long to wait.
func (s *shared) count(ctx context.Context, tx *store.Tx, address string) (wait time.Duration, err error) {
	known, err := store.One(ctx, tx, "the window of an address", store.Text, `SELECT accepted FROM sandbox_windows WHERE address = $1`, address)
	if err != nil {
		return 0, err
	}
	now := tx.Now().UnixMilli()
	latest := now + api.ClockSlack.Milliseconds()
	var accepted []int64
	if known != nil {
		for text := range strings.FieldsSeq(*known) {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, err
			}
			if ms <= latest { // else a clock was ahead that wrote it
				accepted = append(accepted, ms)
			}
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
	_, err = tx.ExecContext(ctx, `INSERT INTO sandbox_windows (address, accepted, last_at) VALUES ($1, $2, $3)
		ON CONFLICT (address) DO UPDATE SET accepted = excluded.accepted, last_at = excluded.last_at`, address, strings.Join(kept, " "), now)
	return 0, err
}

// forget deletes the windows in which nothing counts any more.
func (s *shared) forget(ctx context.Context) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sandbox_windows WHERE last_at <= $1`, tx.Now().Add(-sustainedWindow).UnixMilli())
		return err
	})
}

func (s *shared) until(address netip.Addr) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[address].Sub(s.db.Now())
}

// remember keeps no more addresses than a Limiter; who is not kept asks the database.
func (s *shared) remember(address netip.Addr, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) >= mostAddresses {
		clear(s.refused)
	}
	s.refused[address] = s.db.Now().Add(wait)
}

package sandbox

import (
	"database/sql"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
)

var contract = Limits{Burst: defaultBurst, Sustained: defaultSustained}

var visitorA, visitorB = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewLimiter(contract, time.Now)
		time.Sleep(time.Second)
		for range 10 {
			accepted(t, m, visitorA)
			time.Sleep(100 * time.Millisecond)
		}
		refused(t, m, visitorA, 9*time.Second)
		accepted(t, m, visitorB)

		time.Sleep(9*time.Second - time.Millisecond)
		refused(t, m, visitorA, time.Millisecond)
		time.Sleep(time.Millisecond)
		accepted(t, m, visitorA)
		refused(t, m, visitorA, 100*time.Millisecond) // the second of the first ten
		time.Sleep(99 * time.Millisecond)
		refused(t, m, visitorA, time.Millisecond)
		time.Sleep(time.Millisecond)
		accepted(t, m, visitorA)
	})
}

// TestStampsComeRound: requests from before the stamps wrapped around do not count as recent.
func TestStampsComeRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewLimiter(contract, time.Now)
		for range 10 {
			accepted(t, m, visitorA)
		}
		time.Sleep(time.Millisecond << 32)
		for range 10 {
			accepted(t, m, visitorA)
		}
		refused(t, m, visitorA, 10*time.Second)
	})
}

func TestSustained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewLimiter(contract, time.Now)
		for range 200 { // one each 10 s
			accepted(t, m, visitorA)
			time.Sleep(10 * time.Second)
		}
		const left = time.Hour - 2000*time.Second
		refused(t, m, visitorA, left)
		time.Sleep(left - time.Millisecond)
		refused(t, m, visitorA, time.Millisecond)
		time.Sleep(time.Millisecond)
		accepted(t, m, visitorA)
		refused(t, m, visitorA, 10*time.Second)
		time.Sleep(10*time.Second - time.Millisecond)
		refused(t, m, visitorA, time.Millisecond)
		time.Sleep(time.Millisecond)
		accepted(t, m, visitorA)
	})
}

// TestRefusedDoNotCount: a client that retries all the time gets as many requests accepted as one
// that waits.
func TestRefusedDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewLimiter(contract, time.Now)
		count := 0
		for range 30_000 {
			if _, ok := m.Accept(visitorA); ok {
				count++
			}
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 30, count)
	})
}

// TestAnyWindow compares a random sequence with the plain definition: no window has more accepted
// requests than its limit, wherever it begins, and no request is refused that would have fit.
func TestAnyWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewLimiter(contract, time.Now)
		random := rand.New(rand.NewPCG(1, 2))
		var at []time.Time
		for range 20_000 {
			time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
			now, hour, burst := time.Now(), 0, 0
			for i := len(at) - 1; i >= 0 && now.Sub(at[i]) < time.Hour; i-- {
				hour++
				if now.Sub(at[i]) < 10*time.Second {
					burst++
				}
			}
			_, ok := m.Accept(visitorA)
			require.Equal(t, hour < 200 && burst < 10, ok, "after %d within the hour and %d within 10 s", hour, burst)
			if ok {
				at = append(at, now)
			}
		}
	})
}

func TestWaitIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewLimiter(contract, time.Now)
		random := rand.New(rand.NewPCG(3, 4))
		for range 2000 {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			wait, ok := m.Accept(visitorA)
			if ok {
				continue
			}
			time.Sleep(wait - time.Millisecond)
			refused(t, m, visitorA, time.Millisecond)
			time.Sleep(time.Millisecond)
			accepted(t, m, visitorA)
		}
	})
}

func TestClockSetBack(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).Round(0)
	m := NewLimiter(contract, func() time.Time { return now })
	now = now.Add(time.Hour)
	for range 10 {
		accepted(t, m, visitorA)
	}
	now = now.Add(-30 * time.Minute)
	refused(t, m, visitorA, 10*time.Second)
}

func TestSubscribers(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
	} {
		m := NewLimiter(contract, func() time.Time { return now })
		for range 10 {
			accepted(t, m, netip.MustParseAddr(c.a))
		}
		_, ok := m.Accept(netip.MustParseAddr(c.b))
		require.Equal(t, c.same, !ok, "%s and %s", c.a, c.b)
	}
}

// TestManyAddresses: memory stays bounded when 100,000 addresses use up their limits, and when as
// many other addresses follow.
func TestManyAddresses(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := NewLimiter(contract, func() time.Time { return now })
	before := heap()
	for range 20 {
		for n := range mostAddresses {
			for range 10 {
				if _, ok := m.Accept(address(n)); !ok {
					t.Fatal("refused within the limits")
				}
			}
		}
		now = now.Add(10 * time.Second)
	}
	_, ok := m.Accept(address(17))
	require.False(t, ok, "the 201st")
	full := heap() - before
	t.Logf("%d addresses with %d requests each take %d MiB", mostAddresses, defaultSustained, full>>20)
	require.Less(t, full, int64(128<<20))

	for n := range mostAddresses {
		m.Accept(address(mostAddresses + n))
	}
	require.Len(t, m.known, mostAddresses)
	require.Less(t, heap()-before, int64(128<<20))
	now = now.Add(time.Hour)
	m.Accept(visitorA)
	require.Len(t, m.known, 1, "addresses that are idle for an hour are forgotten")
}

func address(n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 15: 1})
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func accepted(t *testing.T, m *Limiter, a netip.Addr) {
	t.Helper()
	wait, ok := m.Accept(a)
	require.True(t, ok, "refused for %v", wait)
}

func refused(t *testing.T, m *Limiter, a netip.Addr, wait time.Duration) {
	t.Helper()
	got, ok := m.Accept(a)
	require.False(t, ok)
	require.Equal(t, wait, got)
}

// TestForgetsBesideChanges: old windows are deleted without a store.DB.Change, because the deletion
// may wait for an address that is being counted.
func TestForgetsBesideChanges(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	path, url := storetest.Place(t, t.TempDir())
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer db.Close()
	s := &shared{db: db, limits: Limits{Burst: 1, Sustained: 1}, refused: map[netip.Addr]time.Time{}}
	_, ok, err := s.accept(t.Context(), netip.MustParseAddr("192.0.2.1"))
	require.NoError(t, err)
	require.True(t, ok)
	now = now.Add(sustainedWindow)
	forget := func(*store.Tx) error {
		return s.forget(t.Context())
	}
	if url != "" {
		require.NoError(t, db.Change(t.Context(), forget))
	} else { // a SQLite file has one writer
		require.NoError(t, forget(nil))
	}
	require.NoError(t, db.Transact(t.Context(), func(tx *sql.Tx) error {
		var left int
		require.NoError(t, tx.QueryRow(`SELECT count(*) FROM sandbox_windows`).Scan(&left))
		require.Zero(t, left)
		return nil
	}))
}

package api

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ranges asks a hundred times, and returns the least and the most seconds.
func ranges(b *Backoff, least int, reason Reason, now time.Time) (from, to int) {
	from = math.MaxInt
	for range 5000 {
		s := b.Seconds(least, reason, now)
		from, to = min(from, s), max(to, s)
	}
	return from, to
}

// TestBackoffGrows: the longer a part is away, the later callers come, and never all in one second.
func TestBackoffGrows(t *testing.T) {
	var b Backoff
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	requireRange := func(from, to int, reason Reason, after time.Duration) {
		t.Helper()
		gotFrom, gotTo := ranges(&b, 1, reason, at.Add(after))
		require.Equal(t, []int{from, to}, []int{gotFrom, gotTo}, "%s after %v", reason, after)
	}
	requireRange(1, 2, LogUnavailable, 0)
	requireRange(1, 11, LogUnavailable, 10*time.Second)
	requireRange(1, 31, LogUnavailable, 30*time.Second)
	requireRange(1, 2, RightsStale, 30*time.Second) // another outage
	requireRange(1, 2, WarehouseBehind, 30*time.Second)
	requireRange(1, 2, WarehouseBehind, 60*time.Second) // no outage: it is over once what is there is loaded
	requireRange(1, 61, LogUnavailable, 60*time.Second)
	requireRange(1, 61, LogUnavailable, 130*time.Second)
	requireRange(1, 61, LogUnavailable, 200*time.Second)
	requireRange(1, 61, LogUnavailable, 260*time.Second)
	requireRange(1, 2, LogUnavailable, 331*time.Second) // the next one: all were to come again in 61 s

	from, to := ranges(&b, 60, "", at)
	require.Equal(t, []int{60, 66}, []int{from, to})
	from, to = ranges(&b, 176_400, "", at)
	require.Equal(t, []int{176_400, 176_460}, []int{from, to})
	require.Zero(t, b.Seconds(0, LogUnavailable, at), "no header")
}

// TestCostOfAnOutage: of a fleet that delivers 200 plays a second, and sends each again as it is told, an
// outage of 45 seconds gets at most three times the usual requests until all of it is delivered, and at most
// four times in its worst second. If everybody came again after a second, that would have 45 times as many.
func TestCostOfAnOutage(t *testing.T) {
	const usual, outage = 200, 45
	var b Backoff
	began := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	due := map[int]int{} // how many refused plays are sent again in a second
	sent, most, last := 0, 0, outage
	for second := 0; second <= last; second++ {
		requests := usual + due[second]
		sent, most = sent+requests, max(most, requests)
		if second >= outage {
			continue
		}
		for range requests {
			again := second + b.Seconds(1, LogUnavailable, began.Add(time.Duration(second)*time.Second))
			due[again]++
			last = max(last, again)
		}
	}
	t.Logf("%d requests in %d s: %.1f times the usual; in the worst second %.1f times", sent, last+1, float64(sent)/float64(usual*(last+1)), float64(most)/usual)
	require.LessOrEqual(t, sent, 3*usual*(last+1))
	require.LessOrEqual(t, most, 4*usual)
}

// TestAgain: nodes that control refused together come back at different times, none before the time that control asks
// for, up to the most that they may wait.
func TestAgain(t *testing.T) {
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"ok":false,"error":"INTERNAL_ERROR","message":"away"}`)
	}))
	defer control.Close()
	client, err := NewClient([]string{control.URL}, nil)
	require.NoError(t, err)
	refused := fmt.Errorf("no lease: %w", client.Do(t.Context(), "", http.MethodPost, "/x", nil, nil))
	for _, c := range []struct {
		err           error
		most, atLeast time.Duration
	}{{refused, time.Minute, 3 * time.Second}, {refused, 2 * time.Second, 2 * time.Second}, {io.EOF, time.Minute, 100 * time.Millisecond}} {
		times := map[time.Duration]bool{}
		for range 50 {
			wait := Again(c.err, 100*time.Millisecond, c.most)
			require.GreaterOrEqual(t, wait, c.atLeast)
			require.LessOrEqual(t, wait, c.atLeast+c.atLeast/2)
			times[wait] = true
		}
		require.Greater(t, len(times), 40)
	}
}

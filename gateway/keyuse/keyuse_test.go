package keyuse

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

var now = time.Date(2026, 11, 21, 4, 0, 30, 0, time.UTC)

var keyA = api.Key{ID: "key_a", TenantID: "tnt_a"}

func minute(at time.Time) int64 { return at.Unix() / 60 }

// all takes until nothing is left.
func all(c *Counter, at time.Time) (taken api.KeyUses) {
	for {
		some := c.Take(at)
		if some.Empty() {
			return taken
		}
		taken.Used, taken.Refused = append(taken.Used, some.Used...), append(taken.Refused, some.Refused...)
	}
}

func count(all []api.Refusals) (n int64) {
	for _, r := range all {
		n += r.Count
	}
	return n
}

func TestEachMinuteOfAKeyIsHandedOverOnce(t *testing.T) {
	var c Counter
	c.Used(&keyA, now)
	c.Used(&keyA, now.Add(10*time.Second))
	require.Equal(t, []api.KeyUse{{KeyID: "key_a", TenantID: "tnt_a", Minute: minute(now)}}, c.Take(now).Used)
	c.Used(&keyA, now.Add(20*time.Second))
	require.True(t, c.Take(now).Empty())
	c.Used(&keyA, now.Add(-time.Hour))
	require.True(t, c.Take(now).Empty(), "a clock that steps back takes no use back")
	c.Used(&keyA, now.Add(time.Minute))
	taken := c.Take(now.Add(time.Minute))
	require.Equal(t, minute(now)+1, taken.Used[0].Minute)
	c.Return(taken)
	require.Equal(t, taken, c.Take(now.Add(time.Minute)), "what nobody got is handed over again")

	require.True(t, c.Take(now.Add(time.Hour)).Empty())
	require.Zero(t, c.known, "a key that is not used is forgotten")
	require.Empty(t, c.knownOf)
}

func TestRefusalsAreCountedByWhatTheyHaveInCommon(t *testing.T) {
	var c Counter
	key := &api.Key{ID: "key_a", TenantID: "tnt_a"}
	c.Refused(key, "observe-delivery", api.NotFound("right"), "req_1", now)
	c.Refused(key, "observe-delivery", api.NotFound("right"), "req_2", now.Add(2*time.Minute))
	c.Refused(key, "observe-delivery", api.Missing(api.DeliveryWrite, 0), "req_3", now)
	taken := c.Due(now)
	require.ElementsMatch(t, []api.Refusals{
		{TenantID: "tnt_a", KeyID: "key_a", Operation: "observe-delivery", Status: 404, Code: api.ResourceNotFound, Count: 2, First: minute(now), Last: minute(now) + 2, RequestID: "req_2"},
		{TenantID: "tnt_a", KeyID: "key_a", Operation: "observe-delivery", Status: 403, Code: api.ScopeMissing, Cause: "delivery:write", Count: 1, First: minute(now), Last: minute(now), RequestID: "req_3"},
	}, taken.Refused)

	c.Return(taken)
	require.True(t, c.Due(now.Add(Pause-1)).Empty(), "not with every poll")
	require.ElementsMatch(t, taken.Refused, c.Due(now.Add(Pause)).Refused)
}

// TestATenantFillsItsOwnLines, whatever it does, and no request is left out of the counts.
func TestATenantFillsItsOwnLines(t *testing.T) {
	var c Counter
	hostile, other := &api.Key{ID: "key_h", TenantID: "tnt_h"}, &api.Key{ID: "key_o", TenantID: "tnt_o"}
	for n := range 10_000 {
		c.Refused(hostile, fmt.Sprint("operation-", n), &api.Error{Code: api.Code(fmt.Sprint("CODE_", n)), HTTPStatus: 400 + n%100}, "req_h", now)
	}
	c.Refused(other, "observe-delivery", api.NotFound("right"), "req_o", now)
	require.Len(t, c.lines, MostOfKey+2)
	for n := range 1000 {
		c.Refused(&api.Key{ID: fmt.Sprint("key_", n), TenantID: "tnt_h"}, "observe-delivery", api.NotFound("right"), "req_h", now)
	}
	require.Len(t, c.lines, MostOfTenant+2)
	taken := all(&c, now).Refused
	require.Len(t, taken, MostOfTenant+2)
	require.EqualValues(t, 11_001, count(taken))
	for _, r := range taken {
		switch {
		case r.KeyID == "":
			require.Equal(t, "tnt_h", r.TenantID)
			require.EqualValues(t, 1000-(MostOfTenant-MostOfKey-1), r.Count)
		case r.Operation == "":
			require.Equal(t, "key_h", r.KeyID, "one key hides nothing of the others")
			require.EqualValues(t, 10_000-MostOfKey, r.Count)
		}
	}
	require.Empty(t, c.quotas)
	require.Zero(t, c.ofTheBox)
}

// TestTheSandboxLeavesRoom: a stranger can make tenants there.
func TestTheSandboxLeavesRoom(t *testing.T) {
	var c Counter
	for n := range 2 * MostLines {
		c.Refused(&api.Key{ID: "key_s", TenantID: fmt.Sprint("tnt_", n), Sandbox: true}, "observe-delivery", api.NotFound("right"), "req_s", now)
	}
	require.Len(t, c.lines, mostOfSandbox)
	for n := range 2 * MostLines {
		c.Refused(&api.Key{ID: "key_o", TenantID: fmt.Sprint("tnt_o", n)}, "observe-delivery", api.NotFound("right"), "req_o", now)
	}
	require.Len(t, c.lines, MostLines)
}

// TestEachKeyGetsItsTurn, of many in constant use, and soon, however many keys another tenant uses.
func TestEachKeyGetsItsTurn(t *testing.T) {
	var c Counter
	hostile, honest := make([]api.Key, mostKeys), make([]api.Key, 4000)
	for n := range hostile {
		hostile[n] = api.Key{ID: fmt.Sprint("key_h", n), TenantID: "tnt_h"}
		c.Used(&hostile[n], now)
	}
	for n := range honest {
		honest[n] = api.Key{ID: fmt.Sprint("key_o", n), TenantID: "tnt_o"}
	}
	handed := map[string]int64{}
	for at := now; at.Before(now.Add(5 * time.Minute)); at = at.Add(Pause) {
		for n := range honest {
			c.Used(&honest[n], at)
		}
		for _, n := range rand.Perm(len(hostile))[:1000] {
			c.Used(&hostile[n], at)
		}
		require.LessOrEqual(t, len(c.queue), mostKeysOfTenant+len(honest))
		for _, u := range c.Take(at).Used {
			if u.TenantID == "tnt_o" {
				handed[u.KeyID] = u.Minute
			}
		}
	}
	require.Len(t, handed, len(honest))
	for _, last := range handed {
		require.LessOrEqual(t, minute(now)+5-last, int64(2))
	}
}

// TestKeysOfATenantTakeTurns, also if they are more than may be noted at a time.
func TestKeysOfATenantTakeTurns(t *testing.T) {
	var c Counter
	keys := make([]api.Key, 2*mostKeysOfTenant)
	for n := range keys {
		keys[n] = api.Key{ID: fmt.Sprint("key_", n), TenantID: "tnt_a"}
	}
	handed := map[string]bool{}
	for at := now; len(handed) < len(keys); at = at.Add(Pause) {
		require.Less(t, at.Sub(now), 10*time.Minute, "%d of %d keys were handed over", len(handed), len(keys))
		for _, n := range rand.Perm(len(keys)) {
			c.Used(&keys[n], at)
		}
		for _, u := range c.Take(at).Used {
			handed[u.KeyID] = true
		}
	}
}

func TestCountsFromManyRequestsAtOnce(t *testing.T) {
	var c Counter
	key := &api.Key{ID: "key_a", TenantID: "tnt_a"}
	var requests sync.WaitGroup
	var taken []api.Refusals
	for range 8 {
		requests.Go(func() {
			for range 1000 {
				c.Used(&keyA, now)
				c.Refused(key, "observe-delivery", api.NotFound("right"), "req_a", now)
			}
		})
	}
	for range 100 {
		taken = append(taken, c.Take(now).Refused...)
	}
	requests.Wait()
	require.EqualValues(t, 8000, count(append(taken, c.Take(now).Refused...)))
}

// TestCauseHasNothingOfTheCaller: a name that a caller has made up is not kept.
func TestCauseHasNothingOfTheCaller(t *testing.T) {
	for want, e := range map[string]*api.Error{
		"RIGHTS_STALE":              api.Unavailable(api.RightsStale, "x", 0),
		"rights:write keys:write":   {Code: api.ScopeMissing, RequiredScopes: []string{"rights:write", "keys:write"}},
		"AUTOMOTIVE_SPEED_EXCEEDED": {Code: api.PreconditionFailed, Violations: []byte(`[{"code":"AUTOMOTIVE_SPEED_EXCEEDED"},{"code":"X"}]`)},
		"label":                     api.Invalid(api.MissingField("ada@example.org.label")),
		"dwellMs":                   api.InvalidField("dwellMs", "must be a number, not ada"),
		"":                          api.InvalidField("ada@example.org", "is unknown"),
	} {
		require.Equal(t, want, e.Cause())
	}
}

// BenchmarkUsed is what a delivery pays.
func BenchmarkUsed(b *testing.B) {
	var c Counter
	key := &api.Key{ID: api.NewID(api.PrefixKey, now), TenantID: "tnt_a"}
	b.ReportAllocs()
	for b.Loop() {
		c.Used(key, now)
	}
}

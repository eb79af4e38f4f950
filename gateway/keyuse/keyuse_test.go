package keyuse

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

var now = time.Date(2026, 11, 21, 4, 0, 30, 0, time.UTC)

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
	c.Used("key_a", now)
	c.Used("key_a", now.Add(10*time.Second))
	require.Equal(t, []api.KeyUse{{KeyID: "key_a", Minute: minute(now)}}, c.Take(now).Used)
	c.Used("key_a", now.Add(20*time.Second))
	require.True(t, c.Take(now).Empty())
	c.Used("key_a", now.Add(-time.Hour))
	require.True(t, c.Take(now).Empty(), "a clock that steps back takes no use back")
	c.Used("key_a", now.Add(time.Minute))
	taken := c.Take(now.Add(time.Minute))
	require.Equal(t, minute(now)+1, taken.Used[0].Minute)
	c.Return(taken)
	require.Equal(t, taken, c.Take(now.Add(time.Minute)), "what nobody got is handed over again")

	require.True(t, c.Take(now.Add(time.Hour)).Empty())
	require.Zero(t, c.known.Load(), "a key that is not used is forgotten")
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
	require.Len(t, c.lines, MostOfTenant+2)
	taken := all(&c, now).Refused
	require.Len(t, taken, MostOfTenant+2)
	require.EqualValues(t, 10_001, count(taken))
	for _, r := range taken {
		if r.KeyID == "" {
			require.Equal(t, "tnt_h", r.TenantID)
			require.EqualValues(t, 10_000-MostOfTenant, r.Count)
		}
	}
	require.Empty(t, c.tenants)
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
		c.Used(fmt.Sprint("key_", n), now)
		c.Used(fmt.Sprint("key_o", n), now)
		c.Used(fmt.Sprint("key_p", n), now)
	}
	require.Len(t, c.lines, MostLines)
	require.EqualValues(t, mostKeys, c.known.Load())
}

func TestCountsFromManyRequestsAtOnce(t *testing.T) {
	var c Counter
	key := &api.Key{ID: "key_a", TenantID: "tnt_a"}
	var requests sync.WaitGroup
	var taken []api.Refusals
	for range 8 {
		requests.Go(func() {
			for range 1000 {
				c.Used("key_a", now)
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
	id := api.NewID(api.PrefixKey, now)
	b.ReportAllocs()
	for b.Loop() {
		c.Used(id, now)
	}
}

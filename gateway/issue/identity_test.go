package issue

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/issue/issuetest"
)

// TestNamedDelivery: of deliveries with the same fields the first counts, whatever the others
// say, and however many come at once.
func TestNamedDelivery(t *testing.T) {
	f := newFixture(t, nil)
	issue := func(dwell float64, fields ...string) (string, bool) {
		seen := Observation{RightID: f.right, SpatialAnchorID: "a", DwellMs: dwell}
		answer, again, err := f.Issue(f.Deadline(time.Now()), nil, f.tenant, &Delivery{Observation: &seen, Rendered: issuetest.Today, Identity: fields})
		require.NoError(t, err)
		return string(answer), again
	}
	first, again := issue(7, "token", "play")
	require.False(t, again)
	replayed, again := issue(8, "token", "play")
	require.True(t, again)
	require.Equal(t, first, replayed)
	for _, fields := range [][]string{{"tokenp", "lay"}, {"token", "play", ""}, {"token"}} {
		_, again = issue(7, fields...)
		require.False(t, again, "%q is another one", fields)
	}
	d := f.read(0)
	require.NotEmpty(t, d.Identity.Hash)
	require.Empty(t, d.Identity.Day+d.Idempotency)
	require.Equal(t, int64(10_000), d.Impressions)

	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() { issue(7, "token", "at once") })
	}
	callers.Wait()
	require.Len(t, f.log.All(), 5)
}

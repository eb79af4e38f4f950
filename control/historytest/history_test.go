package historytest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/historytest"
	"muniment.example/gateway/api"
)

// TestCheck tells the promise by its edges. The bound is ten seconds.
func TestCheck(t *testing.T) {
	began := time.Now()
	at := func(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }
	type h = historytest.History
	receipt := func(h *h, second float64) { h.Decided("a", api.RightActive, at(second), at(second+.1)) }
	stopped := func(h *h, applied bool) { h.Changed("a", api.RightSuspended, at(20), at(21), applied) }
	for name, c := range map[string]struct {
		happened func(h *h)
		behind   int
		wrong    string
	}{
		"a receipt before the stop":         {func(h *h) { receipt(h, 20); stopped(h, true) }, 0, ""},
		"a receipt within the bound":        {func(h *h) { stopped(h, false); receipt(h, 30.9) }, 1, ""},
		"a receipt behind the bound":        {func(h *h) { stopped(h, false); receipt(h, 31.1) }, 0, "after a stop was acknowledged"},
		"a receipt behind what was applied": {func(h *h) { stopped(h, true); receipt(h, 21.1) }, 0, "not linearizable"},
		"a receipt on a right resumed": {func(h *h) {
			stopped(h, true)
			h.Changed("a", api.RightActive, at(40), at(41), false)
			receipt(h, 40.5)
		}, 0, ""},
		"a refusal by a state that never was": {func(h *h) { stopped(h, false); h.Decided("a", api.RightRevoked, at(22), at(23)) }, 0, "not linearizable"},
		"a refusal from the future":           {func(h *h) { h.Decided("a", api.RightSuspended, at(18), at(19)); stopped(h, false) }, 0, "not linearizable"},
		"a right revoked and resumed": {func(h *h) {
			h.Changed("a", api.RightRevoked, at(20), at(21), false)
			h.Changed("a", api.RightActive, at(22), at(23), false)
		}, 0, "not linearizable"},
		"two rights": {func(h *h) { stopped(h, true); h.Decided("b", api.RightActive, at(50), at(51)) }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			history := new(h)
			c.happened(history)
			_, behind, err := history.Check(10 * time.Second)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.behind, behind)
		})
	}
}

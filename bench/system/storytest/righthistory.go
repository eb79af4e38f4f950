package storytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// RightHistory suspends and resumes a right and its parent at random, and sends rows of plays of all
// moments in between, whenever they come. The model is which of the two was suspended at each moment.
// What was held is delivered once both are resumed; what is sent after a revocation is refused.
func RightHistory(t *testing.T, s *systemtest.Service) {
	owner := systemtest.SettleIn(t, s.Server)
	do := func(method, path string, body, data any) {
		t.Helper()
		require.NoError(t, owner.Client.Do(t.Context(), method, path, body, data))
	}
	var derived struct{ Right struct{ ID string } }
	do("POST", "/v1/rights", map[string]any{
		"basisId": owner.IDs["basisId"], "parentRightId": owner.IDs["rightId"], "substrate": "CTV", "scope": map[string]any{}, "effectiveFrom": time.Now().UTC().Add(-time.Second).Format(time.RFC3339Nano),
	}, &derived)
	rights := []string{owner.IDs["rightId"], derived.Right.ID}
	suspended := map[string]bool{}
	type moment struct {
		at  time.Time
		was bool // one of the two was suspended
	}
	var moments []moment
	note := func() {
		before := time.Now()
		waittest.Until(t, func() bool { return time.Since(before) > 4*time.Millisecond })
		moments = append(moments, moment{before.Add(2 * time.Millisecond).UTC(), suspended[rights[0]] || suspended[rights[1]]})
	}
	type result struct {
		Status, HeldID, Reason string
		Error                  struct{ Error, Reason string }
	}
	rows, waiting := 0, map[string]bool{}
	send := func(m moment) (got result) {
		t.Helper()
		rows++
		row := map[string]any{
			"rowId": fmt.Sprint("play-", rows), "rightId": derived.Right.ID, "spatialAnchorId": "wall", "playedAt": m.at.Format(time.RFC3339Nano), "dwellMs": 1,
			"telemetry": map[string]any{"viewable": true},
		}
		var answer struct{ Results []result }
		do("POST", "/v1/delivery/ingest-batch", map[string]any{"vendor": "acme", "rows": []any{row}}, &answer)
		return answer.Results[0]
	}
	accepted := 0
	drawn := rand.New(rand.NewPCG(31, 3))
	note()
	for range 24 {
		id := rights[drawn.IntN(2)]
		action := map[bool]string{false: "suspend", true: "resume"}[suspended[id]]
		do("POST", "/v1/rights/"+id+"/"+action, nil, nil)
		suspended[id] = !suspended[id]
		note()
		for range 3 {
			m := moments[drawn.IntN(len(moments))]
			now := suspended[rights[0]] || suspended[rights[1]]
			// A node may not have applied a resumption yet: then it holds the row.
			switch got := send(m); {
			case m.was:
				require.Equal(t, []string{"rejected", "STATE_CONFLICT", "RIGHT_NOT_IN_FORCE"}, []string{got.Status, got.Error.Error, got.Error.Reason})
			case now || got.Status == "held":
				require.Equal(t, []string{"held", "RIGHT_SUSPENDED"}, []string{got.Status, got.Reason})
				waiting[got.HeldID] = true
			default:
				require.Equal(t, "accepted", got.Status, "%+v", got)
				accepted++
			}
		}
	}
	for _, id := range rights {
		if suspended[id] {
			do("POST", "/v1/rights/"+id+"/resume", nil, nil)
		}
	}
	require.NotEmpty(t, waiting)
	require.Positive(t, accepted)
	var list struct {
		Held []struct{ ID, State, ReceiptID, Reason string }
	}
	waittest.Until(t, func() bool {
		do("GET", "/v1/delivery/held?limit=500&rightId="+derived.Right.ID, nil, &list)
		return len(list.Held) == len(waiting) && !slices.ContainsFunc(list.Held, func(h struct{ ID, State, ReceiptID, Reason string }) bool { return h.State != "REPLAYED" })
	}, "what was held is delivered")
	for _, h := range list.Held {
		require.True(t, waiting[h.ID])
		require.Regexp(t, `^rcp_\w{26}$`, h.ReceiptID)
	}
	do("POST", "/v1/rights/"+rights[0]+"/revoke", nil, nil)
	for _, m := range moments {
		require.Equal(t, "rejected", send(m).Status)
	}
}

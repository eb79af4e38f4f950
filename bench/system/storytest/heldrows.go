package storytest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// HeldRows runs the scenario. Of several nodes each knows its own deliveries alone, and that of
// control is one of them: what comes again may be accepted again, and is metered once.
func HeldRows(t *testing.T, s *systemtest.Service, oneNode bool) {
	owner := systemtest.SettleIn(t, s.Server)
	before, _ := systemtest.Plays(t, owner.Client)
	do := func(method, path string, body, data any) {
		t.Helper()
		require.NoError(t, owner.Client.Do(t.Context(), method, path, body, data))
	}
	var sender struct {
		APIKey string
		Key    struct{ KeyID string }
	}
	do("POST", "/v1/api-keys", map[string]any{"label": "player", "scopes": []string{"delivery:write"}}, &sender)
	played := time.Now().UTC().Add(-48 * time.Hour).Truncate(time.Second)
	type result struct {
		Status, HeldID string
		Receipt        struct{ ReceiptID, SpatialAnchorID string }
	}
	send := func(hours ...int) []result {
		t.Helper()
		var rows []any
		for _, h := range hours {
			rows = append(rows, map[string]any{
				"rowId": fmt.Sprint("play-", h), "idType": "player", "vendorId": "9", "playedAt": played.Add(time.Duration(h) * time.Hour).Format(time.RFC3339), "dwellMs": 8200,
				"telemetry": map[string]any{"viewable": true},
			})
		}
		var answer struct{ Results []result }
		by := system.Client{API: owner.Client.API, Key: sender.APIKey}
		require.NoError(t, by.Do(t.Context(), "POST", "/v1/delivery/ingest-batch", map[string]any{"vendor": "acme", "rows": rows}, &answer))
		return answer.Results
	}
	mapTo := func(anchor string, from, until int) {
		t.Helper()
		body := map[string]any{
			"vendor": "acme", "idType": "player", "vendorId": "9", "effectiveFrom": played.Add(time.Duration(from) * time.Hour).Format(time.RFC3339),
			"target": map[string]any{"rightId": owner.IDs["rightId"], "spatialAnchorId": anchor},
		}
		if until > from {
			body["effectiveUntil"] = played.Add(time.Duration(until) * time.Hour).Format(time.RFC3339)
		}
		do("POST", "/v1/delivery/mappings", body, nil)
	}
	var list struct {
		Held []struct {
			ID, State, ReceiptID string
			Row                  any
		}
	}
	ended := func() bool {
		do("GET", "/v1/delivery/held?vendorId=9", nil, &list)
		for _, h := range list.Held {
			if h.State != "REPLAYED" {
				return false
			}
		}
		return len(list.Held) == 2
	}

	first := send(1, 3)
	for _, r := range first {
		require.Equal(t, "unmapped", r.Status)
		require.Regexp(t, `^hld_\w{26}$`, r.HeldID)
	}
	require.Equal(t, first, send(1, 3), "they are held already")
	require.False(t, ended())
	do("POST", "/v1/api-keys/"+sender.Key.KeyID+"/rotate", map[string]any{"overlapSeconds": 0}, &sender)
	mapTo("old wall", 0, 2)
	mapTo("new wall", 2, 0)
	waittest.Until(t, ended, "both are delivered")
	receipts := map[string]bool{}
	for _, h := range list.Held {
		require.Regexp(t, `^rcp_\w{26}$`, h.ReceiptID)
		require.Nil(t, h.Row)
		receipts[h.ReceiptID] = true
	}
	require.Len(t, receipts, 2)

	var again []result
	waittest.Until(t, func() bool {
		again = send(4, 3, 0, 1)
		return !slices.ContainsFunc(again, func(r result) bool { return r.Receipt.ReceiptID == "" })
	}, "each node knows the mappings")
	for i, want := range []struct{ status, anchor string }{{"accepted", "new wall"}, {"duplicate", "new wall"}, {"accepted", "old wall"}, {"duplicate", "old wall"}} {
		require.Equal(t, want.anchor, again[i].Receipt.SpatialAnchorID, i)
		if oneNode {
			require.Equal(t, want.status, again[i].Status, i)
			require.Equal(t, want.status == "duplicate", receipts[again[i].Receipt.ReceiptID], i)
		}
	}
	after, duplicates := systemtest.Plays(t, owner.Client)
	require.Equal(t, before+4, after)
	if oneNode {
		require.Zero(t, duplicates)
	}
}

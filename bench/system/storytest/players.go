package storytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
)

// Players runs the scenario of a Broadsign player that posts by itself: one play is delivered, one held, and
// one rejected, which is kept until it is dismissed.
func Players(t *testing.T, s *systemtest.Service) {
	owner := systemtest.SettleIn(t, s.Server)
	do := func(method, path string, body, data any) {
		t.Helper()
		require.NoError(t, owner.Client.Do(t.Context(), method, path, body, data))
	}
	var player struct{ APIKey string }
	do("POST", "/v1/api-keys", map[string]any{"label": "players", "scopes": []string{"delivery:write"}}, &player)
	ended := time.Now().UTC().Add(-time.Hour)
	do("POST", "/v1/delivery/mappings", map[string]any{
		"vendor": "broadsign", "idType": "display_unit_id", "vendorId": "71", "effectiveFrom": ended.Add(-time.Hour).Format(time.RFC3339),
		"target": map[string]any{"rightId": owner.IDs["rightId"], "spatialAnchorId": "wall 71"},
	}, nil)
	pop := func(unit int, end string) string {
		return fmt.Sprintf(`[%d, 5, 1, 50, 51, 52, 1, 0, %q, 5000, "", "", ""]`, unit, end)
	}
	at := ended.Format("2006-01-02T15:04:05.000")
	body := fmt.Sprintf(`{"api_key": %q, "player_id": 9, "pop": [%s, %s, %s]}`, player.APIKey, pop(71, at), pop(72, at), pop(71, "soon"))
	post := func() (status int, counts api.RowCounts) {
		resp, err := http.Post(owner.Client.API+"/adapters/broadsign?tz=UTC", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer resp.Body.Close()
		var answer struct {
			Data struct{ Counts api.RowCounts }
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		return resp.StatusCode, answer.Data.Counts
	}
	waittest.Until(t, func() bool {
		status, counts := post()
		return status == 200 && counts.Accepted+counts.Duplicate == 1 && counts.Unmapped == 1 && counts.Rejected == 1
	}, "the node knows key and mapping")
	for range 2 {
		status, _ := post()
		require.Equal(t, 200, status)
	}

	var list struct {
		Rejected []struct {
			ID    string
			Play  map[string]any
			Error api.RowError
		}
	}
	do("GET", "/v1/delivery/rejected", nil, &list)
	require.Len(t, list.Rejected, 1)
	require.Equal(t, "pop[2].end_time", list.Rejected[0].Error.Field)
	require.Equal(t, float64(71), list.Rejected[0].Play["display_unit_id"])
	var answer struct{ Dismissed int }
	do("POST", "/v1/delivery/rejected/dismiss", map[string]any{"rejectedIds": []string{list.Rejected[0].ID}}, &answer)
	require.Equal(t, 1, answer.Dismissed)
	do("GET", "/v1/delivery/rejected", nil, &list)
	require.Empty(t, list.Rejected)

	var held struct{ Held []struct{ State string } }
	do("GET", "/v1/delivery/held?vendorId=72", nil, &held)
	require.Len(t, held.Held, 1, "however often it came")
}

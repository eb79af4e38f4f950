package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
	"muniment/sealer"
)

// TestBeaconOfAService: a player calls what the API has made. Each play is metered once, also
// over a start and a rotation of the key that signed the beacon, until the API key is revoked.
func TestBeaconOfAService(t *testing.T) {
	t.Parallel()
	s := newService(t)
	beacons(t, s, func() {
		s.stop()
		s.startAgain()
	})
}

// beacons runs the scenario, restarting the process that answers the player.
func beacons(t *testing.T, s *service, again func()) {
	var made struct {
		APIKey string
		Key    struct{ KeyID string }
	}
	s.post("/v1/api-keys", map[string]any{"label": "player", "scopes": []string{"delivery:write"}}, &made)
	player := s.client
	player.Key = made.APIKey
	var beacon struct{ URL string }
	require.NoError(t, player.Do(t.Context(), "POST", "/v1/delivery/beacons", map[string]any{
		"rightId": s.rights["DOOH"], "spatialAnchorId": "screen-7", "expiresAt": time.Now().Add(time.Hour), "maxReceiptsPerHour": 100,
	}, &beacon))
	_, token, found := strings.Cut(beacon.URL, api.PathBeacon)
	require.True(t, found)
	call := func(query string) {
		resp, err := http.Get(s.client.API + api.PathBeacon + token + query)
		require.NoError(t, err)
		defer resp.Body.Close()
		image, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, []any{200, "image/gif", 43}, []any{resp.StatusCode, resp.Header.Get("Content-Type"), len(image)})
	}
	metered := func() int {
		n, _ := plays(t, s.client)
		return n
	}
	call("?eid=1&dwellMs=8000")
	call("?eid=1&dwellMs=8000")
	call("?dwellMs=8000")
	require.Equal(t, 1, metered())

	muniment(t, "signing-key", "rotate", "--data", s.data, current(t, s.data, sealer.PurposeBeacon))
	again()
	call("?eid=1&dwellMs=8000")
	call("?eid=2&dwellMs=8000")
	require.Equal(t, 2, metered())

	require.NoError(t, s.client.Do(t.Context(), "DELETE", "/v1/api-keys/"+made.Key.KeyID, nil, nil))
	call("?eid=3&dwellMs=8000")
	require.Equal(t, 2, metered(), "the beacon died with the key that made it")
}

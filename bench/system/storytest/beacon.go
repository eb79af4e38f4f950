package storytest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
	"muniment.example/sealer/keydir"
)

// Beacons runs the scenario, restarting the process that answers the player.
func Beacons(t *testing.T, s *systemtest.Service, again func()) {
	var made struct {
		APIKey string
		Key    struct{ KeyID string }
	}
	s.Post("/v1/api-keys", map[string]any{"label": "player", "scopes": []string{"delivery:write"}}, &made)
	player := s.Client
	player.Key = made.APIKey
	var beacon struct{ URL string }
	require.NoError(t, player.Do(t.Context(), "POST", "/v1/delivery/beacons", map[string]any{
		"rightId": s.Rights["DOOH"], "spatialAnchorId": "screen-7", "expiresAt": time.Now().Add(time.Hour), "maxReceiptsPerHour": 100,
	}, &beacon))
	_, token, found := strings.Cut(beacon.URL, api.PathBeacon)
	require.True(t, found)
	call := func(query string) {
		resp, err := http.Get(s.Client.API + api.PathBeacon + token + query)
		require.NoError(t, err)
		defer resp.Body.Close()
		image, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, []any{200, "image/gif", 43}, []any{resp.StatusCode, resp.Header.Get("Content-Type"), len(image)})
	}
	metered := func() int {
		n, _ := systemtest.Plays(t, s.Client)
		return n
	}
	call("?eid=1&dwellMs=8000")
	call("?eid=1&dwellMs=8000")
	call("?dwellMs=8000")
	require.Equal(t, 1, metered())

	systemtest.Command(t, "signing-key", "rotate", "--data", s.Data, systemtest.Current(t, s.Data, keydir.PurposeBeacon))
	again()
	call("?eid=1&dwellMs=8000")
	call("?eid=2&dwellMs=8000")
	require.Equal(t, 2, metered())

	require.NoError(t, s.Client.Do(t.Context(), "DELETE", "/v1/api-keys/"+made.Key.KeyID, nil, nil))
	call("?eid=3&dwellMs=8000")
	require.Equal(t, 2, metered(), "the beacon died with the key that made it")
}

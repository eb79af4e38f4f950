package storytest

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// refusedLine is a line of GET /v1/requests.
type refusedLine struct {
	KeyID, KeyLabel, Operation, Code, Cause, RequestID, Advice string
	Status                                                     int
	Count                                                      int64
	FirstAt, LastAt                                            time.Time
}

// Requests: a tenant sees that a key is used, and which requests were refused, by nodes and by control, at each process the
// same and each counted once. Another tenant sees nothing of it, and nobody what has shown no key of theirs.
func Requests(t *testing.T, s *systemtest.Service) {
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client = system.Client{API: s.Client.API, Key: s.Tenant.APIKey}
	s.Rights = systemtest.IssueRights(t, s.Client)
	other := system.Client{API: s.Client.API, Key: systemtest.CreateTenant(t, s.Data, "--org", "other", "--scope", "*").APIKey}
	var player struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	s.Post("/v1/api-keys", map[string]any{"label": "player", "scopes": []string{"delivery:write"}}, &player)
	lastUsed := func() (at time.Time) {
		var read struct {
			Key struct{ LastUsedAt *time.Time }
		}
		s.Get("/v1/api-keys/"+player.Key.KeyID, &read)
		if read.Key.LastUsedAt != nil {
			at = *read.Key.LastUsedAt
		}
		return at
	}
	require.Zero(t, lastUsed())
	before := time.Now().Truncate(time.Minute)
	send := func(key, method, path, body, requestID string, status int) {
		t.Helper()
		a := systemtest.Call(t, s.Client.API, key, systemtest.Operation{Method: method, Path: path, Body: body}, "X-Request-Id", requestID)
		require.Equal(t, status, a.Status, a.Body)
	}
	send(player.APIKey, http.MethodPost, "/v1/delivery", `{"rightId": "`+s.Rights["DOOH"]+`", "spatialAnchorId": "a", "dwellMs": 4200}`, "req-good", 200)
	waittest.Until(t, func() bool { return !lastUsed().IsZero() }, "the use is known")
	require.False(t, lastUsed().Before(before))

	for range 5 {
		send(player.APIKey, http.MethodPost, "/v1/delivery", `{"rightId": "rgh_00000000000000000000000000", "spatialAnchorId": "a", "dwellMs": 4200}`, "req-right", 404)
	}
	send(player.APIKey, http.MethodPost, "/v1/delivery", `{"rightId": "`+s.Rights["DOOH"]+`", "spatialAnchorId": "a", "dwellMs": 4200, "telemetry": {"licensedRegionMatch": false}}`, "req-gate", 412)
	send(player.APIKey, http.MethodGet, "/v1/rights", "", "req-scope", 403)
	send(player.APIKey[:len(player.APIKey)-1], http.MethodGet, "/v1/rights", "", "req-nobody", 401)

	list := func(c system.Client, query string) []refusedLine {
		var read struct{ Requests []refusedLine }
		require.NoError(t, c.Do(t.Context(), http.MethodGet, "/v1/requests"+query, nil, &read))
		return read.Requests
	}
	count := func() (n int64) {
		for _, l := range list(s.Client, "?keyId="+player.Key.KeyID) {
			n += l.Count
		}
		return n
	}
	waittest.Until(t, func() bool { return count() == 7 }, "all are counted")
	byID := map[string]refusedLine{}
	for _, l := range list(s.Client, "?keyId="+player.Key.KeyID) {
		require.Equal(t, "player", l.KeyLabel)
		require.NotEmpty(t, l.Advice)
		require.False(t, l.LastAt.Before(before))
		byID[l.RequestID] = l
	}
	require.Len(t, byID, 3)
	wrong := byID["req-right"]
	require.Equal(t, []any{"observe-delivery", 404, "RESOURCE_NOT_FOUND", int64(5)}, []any{wrong.Operation, wrong.Status, wrong.Code, wrong.Count})
	require.Equal(t, "LICENSED_REGION_MISMATCH", byID["req-gate"].Cause)
	require.Equal(t, []any{"list-rights", "SCOPE_MISSING", "rights:read"}, []any{byID["req-scope"].Operation, byID["req-scope"].Code, byID["req-scope"].Cause})
	for range 20 { // whoever answers
		require.EqualValues(t, 7, count())
	}
	require.Empty(t, list(other, ""))
	require.Empty(t, list(other, "?keyId="+player.Key.KeyID))
}

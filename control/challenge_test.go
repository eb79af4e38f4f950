package control_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestChallenges is what may become of a challenge over HTTP.
func TestChallenges(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant()
	rightID := h.right(key, h.basis(key))
	open := func(challenger, reason string) answer {
		return h.call(key, "POST", "/v1/challenges", fmt.Sprintf(`{"rightId":%q,"challengerOrgId":%q,"reason":%q}`, rightID, challenger, reason))
	}
	for field, a := range map[string]answer{
		"challengerOrgId": open("", "ours"), "reason": open("org_c", ""), "rightId": h.call(key, "POST", "/v1/challenges", `{"challengerOrgId":"org_c","reason":"ours"}`),
	} {
		require.Contains(t, a.refused(422, api.ValidationFailed), fmt.Sprintf(`"field":%q`, field))
	}
	require.Contains(t, open("org_c", strings.Repeat("x", 1025)).refused(422, api.ValidationFailed), `"field":"reason"`)
	open("org_c", strings.Repeat("é", 1024)).ok()

	made := get[map[string]any](t, open("org_c", "it is ours").ok(), "challenge")
	require.Equal(t, []string{"challengerOrgId", "createdAt", "id", "reason", "resolution", "revision", "rightId", "state", "updatedAt"}, slices.Sorted(maps.Keys(made)))
	require.True(t, api.IsID("chg_", made["id"].(string)))
	require.Equal(t, "OPEN", made["state"])
	require.Equal(t, made, get[map[string]any](t, h.call(key, "GET", "/v1/challenges/"+made["id"].(string), "").ok(), "challenge"))

	for _, unsaid := range []string{`{}`, `{"upheld":null}`, `{"uphled":true}`, `{"resolution":"no"}`} {
		h.call(key, "POST", fmt.Sprintf("/v1/challenges/%s/resolve", made["id"]), unsaid).refused(422, api.ValidationFailed)
	}
	overturned := h.call(key, "POST", fmt.Sprintf("/v1/challenges/%s/resolve", made["id"]), `{"upheld":false}`).ok()
	require.Equal(t, "OVERTURNED", get[string](t, overturned, "challenge", "state"))
	require.Equal(t, "ACTIVE", get[string](t, overturned, "right", "state"))
	for verb, body := range map[string]string{"resolve": `{"upheld":true}`, "withdraw": ""} {
		h.call(key, "POST", fmt.Sprintf("/v1/challenges/%s/%s", made["id"], verb), body).refused(409, api.StateConflict)
	}
	withdrawn := h.call(key, "POST", "/v1/challenges/"+h.challenge(key, rightID)+"/withdraw", `{"reason":"settled"}`).ok()
	require.Equal(t, "WITHDRAWN", get[string](t, withdrawn, "challenge", "state"))
	require.Equal(t, "settled", get[string](t, withdrawn, "challenge", "resolution"))

	// A suspended right can't be challenged, but one that is open can be upheld.
	challengeID := h.challenge(key, rightID)
	h.call(key, "POST", "/v1/rights/"+rightID+"/suspend", "").ok()
	open("org_c", "ours").refused(409, api.StateConflict)
	upheld := h.call(key, "POST", "/v1/challenges/"+challengeID+"/resolve", `{"upheld":true,"resolution":"they are right"}`).ok()
	require.Equal(t, "UPHELD", get[string](t, upheld, "challenge", "state"))
	require.Equal(t, "REVOKED", get[string](t, upheld, "right", "effectiveState"))
	require.Equal(t, true, get[bool](t, upheld, "propagation", "applied"), "there is no node that could be behind")
	require.Equal(t, "REVOKED", get[string](t, h.call(key, "GET", "/v1/rights/"+rightID, "").ok(), "right", "state"))
	open("org_c", "ours").refused(409, api.StateConflict)

	require.EqualValues(t, 4, get[float64](t, h.call(key, "GET", "/v1/tenant", "").ok(), "tenant", "counts", "challenges"))
	require.Len(t, get[[]any](t, h.call(key, "GET", "/v1/challenges?state=OPEN&rightId="+rightID, "").ok(), "challenges"), 1)
	page := h.call(key, "GET", "/v1/challenges?limit=3", "").ok()
	require.Len(t, get[[]any](t, page, "challenges"), 3)
	require.Len(t, get[[]any](t, h.call(key, "GET", "/v1/challenges?limit=3&cursor="+get[string](t, page, "nextCursor"), "").ok(), "challenges"), 1)

	var seen []string
	for _, e := range h.events(tenantID) {
		var data struct{ ActingOrgID, AssertedBy string }
		require.NoError(t, json.Unmarshal(e.Data, &data))
		if e.Subject.Kind == "challenge" {
			require.Equal(t, "org_acme", data.AssertedBy, "%s: the tenant's organisation, whichever side the key acts for", e.Type)
		}
		if e.Subject.Kind == "challenge" || e.Subject.Kind == "right" {
			seen = append(seen, strings.TrimSpace(e.Type+" "+data.ActingOrgID))
		}
	}
	require.Equal(t, []string{
		"right.issued", "challenge.opened org_c", "challenge.opened org_c", "challenge.overturned org_acme",
		"challenge.opened org_c", "challenge.withdrawn org_c", "challenge.opened org_c", "right.suspended", "challenge.upheld org_acme", "right.revoked",
	}, seen)
}

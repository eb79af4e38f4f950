package control_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestOffers is a negotiation over HTTP, and what is refused on the way.
func TestOffers(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant()
	rightID := h.right(key, h.basis(key))
	propose := func(more string) answer {
		return h.call(key, "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"scope":{"regions":["US"]}%s}`, rightID, more))
	}

	require.Contains(t, propose(``).refused(422, api.ValidationFailed), `"field":"toOrgId"`)
	require.Contains(t, propose(`,"toOrgId":"org_acme"`).refused(422, api.ValidationFailed), `"field":"toOrgId"`)
	require.Contains(t, propose(`,"toOrgId":"org_b","fromOrgId":"org_c"`).refused(422, api.ValidationFailed), `"field":"toOrgId"`)
	require.Contains(t, propose(`,"toOrgId":"org_b","expiresAt":"2020-01-01T00:00:00Z"`).refused(422, api.ValidationFailed), `"field":"expiresAt"`)
	require.Contains(t, propose(`,"toOrgId":"org_b","expiresAt":"soon"`).refused(422, api.ValidationFailed), `"field":"expiresAt"`)
	require.Contains(t, propose(`,"toOrgId":"org_b","termsRef":"counter_of:ofr_x"`).refused(422, api.ValidationFailed), `"field":"termsRef"`)
	require.Contains(t, h.call(key, "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"region":["US"]}}`, rightID)).
		refused(422, api.ValidationFailed), `the nearest is \"regions\"`)
	require.Contains(t, h.call(key, "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"regions":["US","MX"]}}`, rightID)).
		refused(422, api.ValidationFailed), `"field":"scope.regions"`)
	long := h.call(key, "POST", "/v1/offers", `{"rightId":"rgh_none","toOrgId":"org_b","scope":{"x-x":"`+strings.Repeat("x", 16<<10)+`"}}`)
	require.Contains(t, long.refused(422, api.ValidationFailed), `"field":"scope"`, "before anything is read, and others have to wait")
	require.Contains(t, h.call(key, "GET", "/v1/offers?state=OPEN", "").refused(422, api.ValidationFailed), `"field":"state"`)
	require.Empty(t, get[[]any](t, h.call(key, "GET", "/v1/offers", "").ok(), "offers"))

	made := get[map[string]any](t, propose(`,"toOrgId":"org_b","termsRef":"contract 7"`).ok(), "offer")
	require.Equal(t, []string{"counterTermsRef", "counteredBy", "createdAt", "derivedRightId", "effectiveFrom", "effectiveUntil", "expiresAt", "fromOrgId", "id", "revision", "rightId", "scope",
		"state", "stateReason", "termsRef", "toOrgId", "updatedAt"}, slices.Sorted(maps.Keys(made)))
	require.True(t, api.IsID("ofr_", made["id"].(string)))
	require.Equal(t, "org_acme", made["fromOrgId"], "the right's holder")
	require.Equal(t, made, get[map[string]any](t, h.call(key, "GET", "/v1/offers/"+made["id"].(string), "").ok(), "offer"))

	countered := h.call(key, "POST", fmt.Sprintf("/v1/offers/%s/counter", made["id"]), `{"scope":{"regions":["MX"]},"expiresAt":null}`)
	require.Contains(t, countered.refused(422, api.ValidationFailed), `"field":"scope.regions"`)
	counter := h.call(key, "POST", fmt.Sprintf("/v1/offers/%s/counter", made["id"]), `{"scope":{"regions":["US","CA"]},"termsRef":"contract 8"}`).ok()
	require.Equal(t, "COUNTERED", get[string](t, counter, "countered", "state"))
	require.Equal(t, get[string](t, counter, "offer", "id"), get[string](t, counter, "countered", "counteredBy"))
	require.Equal(t, "counter_of:"+made["id"].(string), get[string](t, counter, "offer", "termsRef"))
	require.Equal(t, "contract 8", get[string](t, counter, "offer", "counterTermsRef"))
	require.Equal(t, []string{"org_b", "org_acme"}, []string{get[string](t, counter, "offer", "fromOrgId"), get[string](t, counter, "offer", "toOrgId")})
	for _, verb := range []string{"accept", "withdraw", "reject"} {
		h.call(key, "POST", fmt.Sprintf("/v1/offers/%s/%s", made["id"], verb), "").refused(409, api.StateConflict)
	}

	// Neither proposing, nor countering, nor accepting while the right is stopped.
	counterID := get[string](t, counter, "offer", "id")
	h.call(key, "POST", "/v1/rights/"+rightID+"/suspend", "").ok()
	propose(`,"toOrgId":"org_b"`).refused(409, api.StateConflict)
	h.call(key, "POST", "/v1/offers/"+counterID+"/accept", "").refused(409, api.StateConflict)
	h.call(key, "POST", "/v1/offers/"+counterID+"/counter", `{"scope":{"regions":["US"]}}`).refused(409, api.StateConflict)
	h.call(key, "POST", "/v1/rights/"+rightID+"/resume", "").ok()

	accepted := h.call(key, "POST", "/v1/offers/"+counterID+"/accept", "").ok()
	require.Equal(t, "ACCEPTED", get[string](t, accepted, "offer", "state"))
	require.Equal(t, get[string](t, accepted, "right", "id"), get[string](t, accepted, "offer", "derivedRightId"))
	require.Equal(t, rightID, get[string](t, accepted, "right", "parentRightId"))
	require.Equal(t, "org_b", get[string](t, accepted, "right", "holderOrgId"))
	text, err := json.Marshal(accepted["offer"])
	require.NoError(t, err)
	text, err = jcs.Transform(text)
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	require.Equal(t, base64.RawURLEncoding.EncodeToString(sum[:]), get[string](t, accepted, "right", "contentHash"), "of the offer as it is answered")
	require.Equal(t, accepted["offer"], h.call(key, "GET", "/v1/offers/"+counterID, "").ok()["offer"])
	lineage := h.call(key, "GET", "/v1/rights/"+get[string](t, accepted, "right", "id")+"/provenance", "").ok()
	require.Len(t, get[[]any](t, lineage, "lineage"), 2)

	withdrawn := h.call(key, "POST", "/v1/offers/"+h.offer(key, rightID)+"/withdraw", `{"reason":"made twice"}`).ok()
	require.Equal(t, "made twice", get[string](t, withdrawn, "offer", "stateReason"))
	rejected := h.call(key, "POST", "/v1/offers/"+h.offer(key, rightID)+"/reject", `{"reason":null}`).ok()
	require.Equal(t, "REJECTED", get[string](t, rejected, "offer", "state"))
	require.EqualValues(t, 4, get[float64](t, h.call(key, "GET", "/v1/tenant", "").ok(), "tenant", "counts", "offers"))
	var states []any
	for _, o := range get[[]any](t, h.call(key, "GET", "/v1/offers?rightId="+rightID, "").ok(), "offers") {
		states = append(states, o.(map[string]any)["state"])
	}
	require.ElementsMatch(t, []any{"REJECTED", "WITHDRAWN", "ACCEPTED", "COUNTERED"}, states)

	var seen []string
	for _, e := range h.events(tenantID) {
		var data struct{ ActingOrgID, AssertedBy string }
		require.NoError(t, json.Unmarshal(e.Data, &data))
		if e.Subject.Kind == "offer" {
			seen = append(seen, e.Type+" "+data.ActingOrgID)
			require.Equal(t, "org_acme", data.AssertedBy, "%s: the tenant's organisation, whichever side the key acts for", e.Type)
		}
	}
	require.Equal(t, []string{
		"offer.proposed org_acme", "offer.countered org_b", "offer.proposed org_b", "offer.accepted org_acme",
		"offer.proposed org_acme", "offer.withdrawn org_acme", "offer.proposed org_acme", "offer.rejected org_b",
	}, seen)
}

// TestOfferedScopeInherits: an offer shows the scope that accepting it grants, in which what
// was not named is the right's.
func TestOfferedScopeInherits(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	issued := h.call(key, "POST", "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"CTV","scope":{"regions":["US","CA"],"channels":["lobby"]},"effectiveFrom":"2026-01-01T00:00:00Z"}`, h.basis(key))).ok()
	rightID := get[string](t, issued, "right", "id")
	whole := `{"channels":["lobby"],"regions":["US","CA"]}`
	for requested, granted := range map[string]string{
		``:                             whole,
		`,"scope":null`:                whole,
		`,"scope":{}`:                  whole,
		`,"scope":"sublet"`:            `{"channels":["lobby"],"description":"sublet","regions":["US","CA"]}`,
		`,"scope":{"regions":["CA"]}`:  `{"channels":["lobby"],"regions":["CA"]}`,
		`,"scope":{"x-floor":"first"}`: `{"channels":["lobby"],"regions":["US","CA"],"x-floor":"first"}`,
	} {
		made := h.call(key, "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b"%s}`, rightID, requested)).ok()
		require.JSONEq(t, granted, scopeOf(t, made, "offer"), "propose %s", requested)
		counter := h.call(key, "POST", "/v1/offers/"+get[string](t, made, "offer", "id")+"/counter", `{"termsRef":null`+requested+`}`).ok()
		require.JSONEq(t, granted, scopeOf(t, counter, "offer"), "counter %s", requested)
		accepted := h.call(key, "POST", "/v1/offers/"+get[string](t, counter, "offer", "id")+"/accept", "").ok()
		require.JSONEq(t, granted, scopeOf(t, accepted, "right"), "accept %s", requested)
	}
}

// scopeOf is the scope of a record in an answer.
func scopeOf(t *testing.T, data map[string]any, noun string) string {
	t.Helper()
	text, err := json.Marshal(get[map[string]any](t, data, noun, "scope"))
	require.NoError(t, err)
	return string(text)
}

// TestManyAcceptsOverHTTP: of all concurrent requests to accept one offer, one succeeds.
func TestManyAcceptsOverHTTP(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	rightID := h.right(key, h.basis(key))
	offerID := h.offer(key, rightID)
	answers := make([]answer, 64)
	var callers sync.WaitGroup
	for i := range answers {
		callers.Go(func() { answers[i] = h.call(key, "POST", "/v1/offers/"+offerID+"/accept", "") })
	}
	callers.Wait()
	statuses := map[int]int{}
	for _, a := range answers {
		statuses[a.status]++
		if a.status != 200 {
			a.refused(409, api.StateConflict)
		}
	}
	require.Equal(t, map[int]int{200: 1, 409: 63}, statuses)
	require.Len(t, get[[]any](t, h.call(key, "GET", "/v1/rights?parentRightId="+rightID, "").ok(), "rights"), 1)
}

package control_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTableOfEffects: the page for integrators shows what the operations declare, and so does the
// document.
func TestTableOfEffects(t *testing.T) {
	_, _, document := openService(t)
	var rows []string
	for _, o := range operations(t, document) {
		effects, _ := o.text["x-effects"].([]any)
		for _, e := range effects {
			e := e.(map[string]any)
			rows = append(rows, fmt.Sprintf("| `%s %s` | %s | %s |\n", o.method, o.path, e["does"], e["needs"]))
			require.Contains(t, o.text["description"], fmt.Sprintf("It %s: for that the key also needs %s.", e["does"], e["needs"]))
		}
	}
	require.Len(t, rows, 14)
	page, err := os.ReadFile("../gateway/integrating.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "| operation | what it does | what the key also needs |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	require.ElementsMatch(t, rows, strings.SplitAfter(table+"\n", "\n")[:strings.Count(table, "\n")+1])
}

// TestEffectsNeedScopes: what an operation does to a thing of another scope needs that scope, too.
func TestEffectsNeedScopes(t *testing.T) {
	h := newFixture(t)
	_, root := h.tenant("*")
	rightID := h.right(root, h.basis(root))
	lacks := func(scope string, a answer) {
		t.Helper()
		require.Equal(t, 403, a.status, a.text)
		require.Contains(t, a.text, `"requiredScopes":["`+scope+`"]`)
	}

	_, objector := h.keyOf(root, "challenges:write")
	opened := h.call(objector, "POST", "/v1/challenges", fmt.Sprintf(`{"rightId":%q,"challengerOrgId":"org_c","reason":"ours"}`, rightID)).ok()
	resolve := "/v1/challenges/" + get[string](t, opened, "challenge", "id") + "/resolve"
	lacks("rights:write", h.call(objector, "POST", resolve, `{"upheld":true}`))
	lacks("rights:write", h.call(objector, "POST", "/v1/challenges/chg_none/resolve", `{"upheld":true}`))
	require.Equal(t, 422, h.call(objector, "POST", resolve, `{"upheld":1}`).status)
	require.Equal(t, "ACTIVE", get[string](t, h.call(root, "GET", "/v1/rights/"+rightID, "").ok(), "right", "state"))
	h.call(objector, "POST", resolve, `{"upheld":false}`).ok()

	_, trader := h.keyOf(root, "offers:write")
	offered := h.call(trader, "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"regions":["US"]}}`, rightID)).ok()
	accept := "/v1/offers/" + get[string](t, offered, "offer", "id") + "/accept"
	lacks("rights:write", h.call(trader, "POST", accept, ""))
	lacks("rights:write", h.call(trader, "POST", "/v1/offers/ofr_none/accept", "{"))
	_, issuer := h.keyOf(root, "offers:write", "rights:write")
	h.call(issuer, "POST", accept, "").ok()

	_, disputer := h.keyOf(root, "disputes:write")
	lacks("settlement:write", h.call(disputer, "POST", "/v1/disputes/dsp_none/resolve", `{"outcome":"UPHELD"}`))
	_, payer := h.keyOf(root, "disputes:write", "settlement:write")
	require.Equal(t, 404, h.call(payer, "POST", "/v1/disputes/dsp_none/resolve", `{"outcome":"UPHELD"}`).status)

	challengeID := h.challenge(root, rightID)
	_, judge := h.keyOf(root, "challenges:write", "rights:write")
	h.call(judge, "POST", "/v1/challenges/"+challengeID+"/resolve", `{"upheld":true}`).ok()
	require.Equal(t, "REVOKED", get[string](t, h.call(root, "GET", "/v1/rights/"+rightID, "").ok(), "right", "state"))
}

// TestRevokingNeedsTheScopesOfTheKey: a key revokes itself, and keys of which it has all scopes.
func TestRevokingNeedsTheScopesOfTheKey(t *testing.T) {
	h := newFixture(t)
	_, root := h.tenant("*")
	keeperID, keeper := h.keyOf(root, "keys:write", "rights:read")
	equalID, _ := h.keyOf(root, "rights:read")
	moreID, more := h.keyOf(root, "rights:read", "rights:write", "audit:read")
	refused := h.call(keeper, "DELETE", "/v1/api-keys/"+moreID, "")
	require.Equal(t, 403, refused.status)
	require.Contains(t, refused.text, `"requiredScopes":["rights:write","audit:read"]`)
	h.call(more, "GET", "/v1/rights", "").ok()
	h.call(keeper, "DELETE", "/v1/api-keys/"+equalID, "").ok()
	require.Equal(t, 404, h.call(keeper, "DELETE", "/v1/api-keys/key_none", "").status)
	h.call(keeper, "DELETE", "/v1/api-keys/"+keeperID, "").ok()
	require.Equal(t, 401, h.call(keeper, "DELETE", "/v1/api-keys/"+keeperID, "").status)
	send(t, h.control().Admin(), adminToken, "POST", "/admin/api-keys/"+moreID+"/revoke", "").ok()
	require.Equal(t, 401, h.call(more, "GET", "/v1/rights", "").status)
}

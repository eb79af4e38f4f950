package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/sealer/keydir"
)

func TestAdminHandler(t *testing.T) {
	h := newFixture(t)
	admin := func(token, body string) answer {
		return send(t, h.control().Admin(), token, "POST", "/admin/tenants", body)
	}

	admin("", `{"org":"acme"}`).refused(401, api.AuthRequired)
	admin(adminToken+"x", `{"org":"acme"}`).refused(401, api.AuthInvalid)
	admin(adminToken[1:], `{"org":"acme"}`).refused(401, api.AuthInvalid)
	_, key := h.tenant()
	admin(key, `{"org":"acme"}`).refused(401, api.AuthInvalid)
	h.call(adminToken, "POST", "/admin/tenants", `{"org":"acme"}`).refused(404, api.ResourceNotFound)
	h.call(adminToken, "GET", "/v1/tenant", "").refused(401, api.AuthInvalid)

	require.Contains(t, admin(adminToken, `{}`).refused(422, api.ValidationFailed), `"field":"org"`)
	for _, org := range []string{"org_", "a b", "é", "-x", strings.Repeat("x", 65)} {
		body, err := json.Marshal(map[string]string{"org": org})
		require.NoError(t, err)
		require.Contains(t, admin(adminToken, string(body)).refused(422, api.ValidationFailed), `"field":"org"`, org)
	}
	require.Contains(t, admin(adminToken, `{"org":"acme","scopes":["rights:own"]}`).refused(422, api.ValidationFailed), `\"rights:own\" is no scope`)
	require.Contains(t, admin(adminToken, `{"org":"acme","email":"nobody"}`).refused(422, api.ValidationFailed), `"field":"email"`)

	require.Contains(t, admin(adminToken, `{"org":"org_acme"}`).refused(409, api.StateConflict), "org_acme has the tenant tnt_")
	made := admin(adminToken, `{"org":"org_acme","env":"live","scopes":["*"],"another":true}`).ok()
	require.Equal(t, "org_acme", made["orgId"], "the prefix is not put there twice")
	live := get[string](t, made, "apiKey")
	require.True(t, strings.HasPrefix(live, "mun_live_"))
	child := h.call(live, "POST", "/v1/api-keys", `{"label":"all of it","scopes":["*"]}`).ok()
	require.True(t, strings.HasPrefix(get[string](t, child, "apiKey"), "mun_live_"), "a key stays in its environment")
}

func TestControlWithoutAdminTokenHasNoOperator(t *testing.T) {
	h := newFixture(t)
	cfg := h.config()
	cfg.AdminToken = ""
	c := mustControl(t, cfg)
	send(t, c.Admin(), "", "POST", "/admin/tenants", `{"org":"acme"}`).refused(401, api.AuthRequired)
	send(t, c.Admin(), "x", "POST", "/admin/tenants", `{"org":"acme"}`).refused(401, api.AuthInvalid)
}

func TestAPIKeys(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant("keys:write", "rights:read", "rights:write")

	// No caller grants what it lacks.
	require.Equal(t, `{"contractVersion":"v1.0","error":"SCOPE_MISSING","keyScopes":["rights:read","rights:write","keys:write"],`+
		`"message":"a key can't grant scopes that it lacks","ok":false,"requiredScopes":["audit:read"]}`,
		h.call(key, "POST", "/v1/api-keys", `{"label":"x","scopes":["rights:read","audit:read"]}`).refused(403, api.ScopeMissing))
	h.call(key, "POST", "/v1/api-keys", `{"label":"x","scopes":["*"]}`).refused(403, api.ScopeMissing)
	require.Contains(t, h.call(key, "POST", "/v1/api-keys", `{"label":"x","scopes":["no:scope"]}`).refused(422, api.ValidationFailed), `"field":"scopes"`)
	require.Contains(t, h.call(key, "POST", "/v1/api-keys", `{"label":"x","expiresAt":"2020-01-01T00:00:00Z"}`).refused(422, api.ValidationFailed), `"field":"expiresAt"`)

	all := h.call(key, "POST", "/v1/api-keys", `{"label":"same as mine"}`).ok()
	require.Equal(t, []any{"rights:read", "rights:write", "keys:write"}, get[[]any](t, all, "key", "scopes"))
	made := h.call(key, "POST", "/v1/api-keys", `{"label":"reader","scopes":["rights:read"],"expiresAt":"2099-01-01T00:00:00Z"}`).ok()
	reader, readerID := get[string](t, made, "apiKey"), get[string](t, made, "key", "keyId")
	require.Equal(t, "2099-01-01T00:00:00.000Z", get[string](t, made, "key", "expiresAt"))
	require.Equal(t, readerID, get[string](t, h.call(reader, "GET", "/v1/tenant", "").ok(), "key", "keyId"))

	list := h.call(key, "GET", "/v1/api-keys", "")
	require.Len(t, get[[]any](t, list.ok(), "keys"), 3)
	require.NotContains(t, list.text, reader[len(reader)-52:len(reader)-9], "no answer shows a secret again")
	record := get[map[string]any](t, h.call(key, "GET", "/v1/api-keys/"+readerID, "").ok(), "key")
	delete(record, "lastUsedAt") // which TestRequestsOfADay is about
	require.Equal(t, get[map[string]any](t, made, "key"), record)

	revoked := h.call(key, "DELETE", "/v1/api-keys/"+readerID, "").ok()
	require.NotNil(t, get[map[string]any](t, revoked, "key")["revokedAt"])
	h.call(reader, "GET", "/v1/tenant", "").refused(401, api.AuthInvalid)
	require.Equal(t, revoked, h.call(key, "DELETE", "/v1/api-keys/"+readerID, "").ok(), "revoking twice changes nothing")

	var types []string
	for _, e := range h.events(tenantID) {
		types = append(types, e.Type)
		require.NotContains(t, strings.ToLower(string(e.Data)), "hash")
	}
	require.Equal(t, []string{"tenant.created", "key.created", "key.created", "key.created", "key.revoked"}, types)
}

// TestOtherTenantsRecordsLookLikeNone requests every record of one tenant with the key of another:
// the response has the bytes of that for an unknown id.
func TestOtherTenantsRecordsLookLikeNone(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	_, stranger := h.tenant()
	basisID := h.basis(key)
	rightID := h.right(key, basisID)
	keyID := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	strangersBasis := h.basis(stranger)
	offerID, challengeID := h.offer(key, rightID), h.challenge(key, rightID)
	const dispute = `{"rightId":"%s","window":{"from":"2026-11-01","to":"2026-11-02"},"reason":"never shown"}`
	disputeID := get[string](t, h.call(key, "POST", "/v1/disputes", fmt.Sprintf(dispute, rightID)).ok(), "dispute", "id")
	const offer = `{"rightId":"%s","toOrgId":"org_b","scope":{"regions":["US"]}}`
	const challenge = `{"rightId":"%s","challengerOrgId":"org_c","reason":"it is ours"}`
	const right = `{"basisId":%q,"substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z","parentRightId":%s}`

	for _, c := range []struct{ method, path, body, mine, unknown string }{
		{"GET", "/v1/bases/%s", "", basisID, "bas_00000000000000000000000000"},
		{"GET", "/v1/rights/%s", "", rightID, "rgh_00000000000000000000000000"},
		{"GET", "/v1/rights/%s/provenance", "", rightID, "rgh_00000000000000000000000000"},
		{"GET", "/v1/rights/%s/propagation", "", rightID, "rgh_00000000000000000000000000"},
		{"POST", "/v1/rights/%s/suspend", "", rightID, "rgh_00000000000000000000000000"},
		{"POST", "/v1/rights/%s/resume", "", rightID, "rgh_00000000000000000000000000"},
		{"POST", "/v1/rights/%s/revoke", "", rightID, "rgh_00000000000000000000000000"},
		{"GET", "/v1/offers/%s", "", offerID, "ofr_00000000000000000000000000"},
		{"POST", "/v1/offers/%s/counter", `{"scope":{}}`, offerID, "ofr_00000000000000000000000000"},
		{"POST", "/v1/offers/%s/accept", "", offerID, "ofr_00000000000000000000000000"},
		{"POST", "/v1/offers/%s/withdraw", "", offerID, "ofr_00000000000000000000000000"},
		{"POST", "/v1/offers/%s/reject", `{"reason":"mine"}`, offerID, "ofr_00000000000000000000000000"},
		{"POST", "/v1/offers", offer, rightID, "rgh_00000000000000000000000000"},
		{"GET", "/v1/challenges/%s", "", challengeID, "chg_00000000000000000000000000"},
		{"POST", "/v1/challenges/%s/resolve", `{"upheld":true}`, challengeID, "chg_00000000000000000000000000"},
		{"POST", "/v1/challenges/%s/withdraw", "", challengeID, "chg_00000000000000000000000000"},
		{"POST", "/v1/challenges", challenge, rightID, "rgh_00000000000000000000000000"},
		{"GET", "/v1/disputes/%s", "", disputeID, "dsp_00000000000000000000000000"},
		{"POST", "/v1/disputes/%s/investigate", "", disputeID, "dsp_00000000000000000000000000"},
		{"POST", "/v1/disputes/%s/respond", `{"evidence":[{"text":"mine"}]}`, disputeID, "dsp_00000000000000000000000000"},
		{"POST", "/v1/disputes/%s/resolve", `{"outcome":"UPHELD"}`, disputeID, "dsp_00000000000000000000000000"},
		{"POST", "/v1/disputes", dispute, rightID, "rgh_00000000000000000000000000"},
		{"GET", "/v1/api-keys/%s", "", keyID, "key_00000000000000000000000000"},
		{"DELETE", "/v1/api-keys/%s", "", keyID, "key_00000000000000000000000000"},
		{"POST", "/v1/api-keys/%s/rotate", "", keyID, "key_00000000000000000000000000"},
		{"POST", "/v1/rights", fmt.Sprintf(right, "%s", "null"), basisID, "bas_00000000000000000000000000"},
		{"POST", "/v1/rights", fmt.Sprintf(right, strangersBasis, `"%s"`), rightID, "rgh_00000000000000000000000000"},
	} {
		request := func(key, id string) answer {
			path, body := c.path, c.body
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, id)
			} else {
				body = strings.ReplaceAll(body, "%s", id)
			}
			return h.call(key, c.method, path, body, "X-Request-Id", "same")
		}
		foreign, none := request(stranger, c.mine), request(stranger, c.unknown)
		foreign.refused(404, api.ResourceNotFound)
		require.Equal(t, none.text, foreign.text, "%s %s", c.method, c.path)
		require.Equal(t, none.header, foreign.header, "%s %s", c.method, c.path)
	}
	for _, path := range []string{"/v1/bases", "/v1/rights", "/v1/offers", "/v1/offers?rightId=" + rightID, "/v1/challenges", "/v1/disputes", "/v1/disputes?rightId=" + rightID, "/v1/api-keys"} {
		require.NotContains(t, h.call(stranger, "GET", path, "").text, strings.TrimPrefix(rightID, "rgh_"))
	}
	require.Equal(t, "ACTIVE", get[string](t, h.call(key, "GET", "/v1/rights/"+rightID, "").ok(), "right", "state"))
	require.Equal(t, "PROPOSED", get[string](t, h.call(key, "GET", "/v1/offers/"+offerID, "").ok(), "offer", "state"))
	require.Equal(t, "OPEN", get[string](t, h.call(key, "GET", "/v1/challenges/"+challengeID, "").ok(), "challenge", "state"))
	require.Equal(t, "OPEN", get[string](t, h.call(key, "GET", "/v1/disputes/"+disputeID, "").ok(), "dispute", "state"))
	h.call(key, "GET", "/v1/tenant", "").ok()
}

func TestKeyDirectoryIsPublicAndVerifies(t *testing.T) {
	h := newFixture(t)
	a := h.call("", "GET", "/.well-known/muniment/keys.json", "")
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	d, err := keydir.Verify([]byte(a.text), h.keys.RootVkey())
	require.NoError(t, err)
	require.Len(t, d.Keys, 5)
	signer, err := h.keys.Signer(t.Context(), keydir.PurposePack)
	require.NoError(t, err)
	_, code := d.Find(signer.KeyID, keydir.PurposePack, time.Now())
	require.Empty(t, code)
}

// TestSandboxTenant: what a tenant is, the code that makes it says, and the nodes learn it
// with each of its keys.
func TestSandboxTenant(t *testing.T) {
	h := newFixture(t)
	made, err := h.tenants.Create(t.Context(), tenant.Request{Org: "visitor", Sandbox: true})
	require.NoError(t, err)
	created := send(t, h.control().Admin(), adminToken, "POST", "/admin/tenants", `{"org":"acme"}`).ok()
	send(t, h.control().Admin(), adminToken, "POST", "/admin/tenants", `{"org":"acme","sandbox":true}`).refused(422, api.ValidationFailed)

	for tenantID, want := range map[string]bool{made.TenantID: true, get[string](t, created, "tenantId"): false, "tnt_none": false} {
		is, err := h.tenants.IsSandbox(t.Context(), tenantID)
		require.NoError(t, err)
		require.Equal(t, want, is, tenantID)
	}

	rotated := h.call(made.APIKey, "POST", "/v1/api-keys/"+made.KeyID+"/rotate", "").ok()
	for keyID, want := range map[string]bool{made.KeyID: true, get[string](t, rotated, "key", "keyId"): true, get[string](t, created, "keyId"): false} {
		key, err := store.Newest(t.Context(), h.db, api.Keys, keyID)
		require.NoError(t, err)
		require.Equal(t, want, key.Sandbox, keyID)
	}
	require.Contains(t, string(h.events(made.TenantID)[0].Data), `"sandbox":true`)
}

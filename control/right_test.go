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

// TestRecordsHaveTheirFields holds the records against the design's list.
func TestRecordsHaveTheirFields(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	basis := get[map[string]any](t, h.call(key, "POST", "/v1/bases",
		`{"kind":"STATUTE","title":"x","jurisdiction":null,"reference":"§ 4","effectiveFrom":null,"contentHash":"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"}`).ok(), "basis")
	require.Equal(t, []string{"contentHash", "createdAt", "effectiveFrom", "effectiveUntil", "holderOrgId", "id", "jurisdiction", "kind", "reference",
		"revision", "state", "title", "updatedAt"}, slices.Sorted(maps.Keys(basis)))
	right := get[map[string]any](t, h.call(key, "POST", "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"ANY","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z","effectiveUntil":null,"parentRightId":null}`, basis["id"])).ok(), "right")
	require.Equal(t, []string{"basisId", "blockedBy", "contentHash", "createdAt", "effectiveFrom", "effectiveState", "effectiveUntil", "holderOrgId", "id",
		"parentRightId", "revision", "scope", "state", "stateReason", "substrate", "updatedAt"}, slices.Sorted(maps.Keys(right)))
	require.Equal(t, map[string]any{}, right["scope"])
	require.Nil(t, right["effectiveUntil"])
	require.Equal(t, right, get[map[string]any](t, h.call(key, "GET", "/v1/rights/"+right["id"].(string), "").ok(), "right"))
	require.Equal(t, basis, get[map[string]any](t, h.call(key, "GET", "/v1/bases/"+basis["id"].(string), "", "Accept", "text/html").ok(), "basis"))
	require.Equal(t, 200, h.call(key, "HEAD", "/v1/bases", "").status)
}

// TestOrganisations names organisations by what is no id of one, wherever one is named.
func TestOrganisations(t *testing.T) {
	p := newPlayground(t)
	_, key := p.tenant()
	basisID := p.basis(key)
	rightID := p.right(key, basisID)
	v, tenant := p.visit()
	theirs := tenant["rights"].([]any)[0].(map[string]any)
	scope, err := json.Marshal(theirs["scope"])
	require.NoError(t, err)
	for path, body := range map[string]string{
		"/v1/bases":                    `{"kind":"LICENSE","title":"x","holderOrgId":%q}`,
		"/v1/rights":                   `{"basisId":"` + basisID + `","substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z","holderOrgId":%q}`,
		"/v1/offers":                   `{"rightId":"` + rightID + `","scope":{"regions":["US"]},"toOrgId":%q}`,
		"/v1/offers?":                  `{"rightId":"` + rightID + `","scope":{"regions":["US"]},"toOrgId":"org_acme","fromOrgId":%q}`,
		"/v1/challenges":               `{"rightId":"` + rightID + `","reason":"x","challengerOrgId":%q}`,
		"/api/sandbox/offers/propose":  fmt.Sprintf(`{"rightId":%q,"scope":%s,"toOrgId":%%q}`, theirs["id"], scope),
		"/api/sandbox/challenges/open": fmt.Sprintf(`{"rightId":%q,"reason":"x","challengerOrgId":%%q}`, theirs["id"]),
	} {
		send := func(org string) answer {
			if rest, ok := strings.CutPrefix(path, "/api/sandbox"); ok {
				return v.send("POST", rest, fmt.Sprintf(body, org))
			}
			return p.call(key, "POST", path, fmt.Sprintf(body, org))
		}
		for _, org := range []string{"", " ", "org_", "acme", "ORG_acme", "org_acme ", "org_acme\u00a0", "org_\u0430cme", "org_-", "org_" + strings.Repeat("x", 65)} {
			a := send(org)
			require.Equal(t, 422, a.status, "%s of %q: %s", path, org, a.text)
			if org == "" && path == "/api/sandbox/offers/propose" {
				require.Contains(t, a.text, "missing: toOrgId")
				continue
			}
			require.Regexp(t, `OrgId: expected (string to match pattern \^org_|length <= 68)`, a.text)
		}
		for _, org := range []string{"org_B", "org_0-_", "org_" + strings.Repeat("x", 64)} {
			a := send(org)
			require.Equal(t, 200, a.status, "%s of %q: %s", path, org, a.text)
		}
	}
}

// TestIssuedScope: a right that derives from another inherits what its scope does not name.
// One that rests on a basis alone has to say what it is limited to.
func TestIssuedScope(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	basisID := h.basis(key)
	issue := func(more string) answer {
		return h.call(key, "POST", "/v1/rights", fmt.Sprintf(`{"basisId":%q,"substrate":"CTV","effectiveFrom":"2026-06-01T00:00:00Z"%s}`, basisID, more))
	}
	for _, more := range []string{``, `,"parentRightId":null`} {
		require.Contains(t, issue(more).refused(422, api.ValidationFailed), `"message":"scope: is missing"`)
	}
	require.Contains(t, issue(`,"scope":{"region":["US"]}`).refused(422, api.ValidationFailed), `the nearest is \"regions\"`)
	require.Contains(t, issue(`,"scope":{"regions":["US"],"labels":{"team":7}}`).refused(422, api.ValidationFailed), `"field":"scope.labels"`)

	parent := fmt.Sprintf(`,"parentRightId":%q`, h.right(key, basisID)) // in the regions US and CA
	for requested, granted := range map[string]string{
		``:                            `{"regions":["US","CA"]}`,
		`,"scope":{}`:                 `{"regions":["US","CA"]}`,
		`,"scope":"sublet"`:           `{"description":"sublet","regions":["US","CA"]}`,
		`,"scope":{"regions":["CA"]}`: `{"regions":["CA"]}`,
	} {
		issued := issue(parent + requested).ok()
		require.JSONEq(t, granted, scopeOf(t, issued, "right"), requested)
	}
	require.Contains(t, issue(parent+`,"scope":{"regions":["MX"]}`).refused(422, api.ValidationFailed), `"field":"scope.regions"`)
	require.Contains(t, issue(parent+`,"scope":{"region":["US"]}`).refused(422, api.ValidationFailed), `"field":"scope.region"`)
}

// TestDerivedRights walks a lineage of three over HTTP.
func TestDerivedRights(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	basisID := h.basis(key)
	derive := func(parent, scope string) answer {
		return h.call(key, "POST", "/v1/rights", fmt.Sprintf(
			`{"basisId":%q,"substrate":"CTV","scope":%s,"effectiveFrom":"2026-06-01T00:00:00Z","parentRightId":%q}`, basisID, scope, parent))
	}
	root := h.right(key, basisID)
	child := get[string](t, derive(root, `{"regions":["US"]}`).ok(), "right", "id")
	grandchild := get[string](t, derive(child, `{"regions":["US"],"channels":["lobby"]}`).ok(), "right", "id")
	require.Contains(t, derive(child, `{"regions":["CA"]}`).refused(422, api.ValidationFailed), `"field":"scope.regions"`)

	lineage := h.call(key, "GET", "/v1/rights/"+child+"/provenance", "").ok()
	require.Equal(t, basisID, get[string](t, lineage, "basis", "id"))
	ids := func(list string) (ids []any) {
		for _, r := range get[[]any](t, lineage, list) {
			ids = append(ids, r.(map[string]any)["id"])
		}
		return ids
	}
	require.Equal(t, []any{root, child}, ids("lineage"))
	require.Equal(t, []any{grandchild}, ids("derived"))

	// Stopping the root stops all rights under it, without writing to them.
	h.call(key, "POST", "/v1/rights/"+root+"/suspend", "").ok()
	of := func(id string) map[string]any {
		return get[map[string]any](t, h.call(key, "GET", "/v1/rights/"+id, "").ok(), "right")
	}
	stopped := of(grandchild)
	require.Equal(t, "ACTIVE", stopped["state"])
	require.Equal(t, "SUSPENDED", stopped["effectiveState"])
	require.Equal(t, root, stopped["blockedBy"])
	derive(grandchild, `{"regions":["US"],"channels":["lobby"]}`).refused(409, api.StateConflict)
	h.call(key, "POST", "/v1/rights/"+root+"/resume", "").ok()
	freed := of(grandchild)
	require.Equal(t, "ACTIVE", freed["effectiveState"])
	require.Nil(t, freed["blockedBy"])
	require.Equal(t, stopped["revision"], freed["revision"])
}

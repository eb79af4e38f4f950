package control_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
)

// TestRecordsHaveTheirFields holds the records against the design's list.
func TestRecordsHaveTheirFields(t *testing.T) {
	h := newHouse(t)
	_, key := h.tenant()
	basis := get[map[string]any](t, h.call(key, "POST", "/v1/bases",
		`{"kind":"STATUTE","title":"x","jurisdiction":null,"reference":"§ 4","effectiveFrom":null,"contentHash":"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"}`).ok(), "basis")
	require.Equal(t, []string{"contentHash", "createdAt", "effectiveFrom", "effectiveUntil", "holderOrgId", "id", "jurisdiction", "kind", "reference",
		"revision", "state", "title", "updatedAt"}, slices.Sorted(maps.Keys(basis)))
	right := get[map[string]any](t, h.call(key, "POST", "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"ANY","scope":null,"effectiveFrom":"2026-01-01T00:00:00Z","effectiveUntil":null,"parentRightId":null}`, basis["id"])).ok(), "right")
	require.Equal(t, []string{"basisId", "blockedBy", "contentHash", "createdAt", "effectiveFrom", "effectiveState", "effectiveUntil", "holderOrgId", "id",
		"parentRightId", "revision", "scope", "state", "stateReason", "substrate", "updatedAt"}, slices.Sorted(maps.Keys(right)))
	require.Equal(t, map[string]any{}, right["scope"])
	require.Nil(t, right["effectiveUntil"])
	require.Equal(t, right, get[map[string]any](t, h.call(key, "GET", "/v1/rights/"+right["id"].(string), "").ok(), "right"))
	require.Equal(t, basis, get[map[string]any](t, h.call(key, "GET", "/v1/bases/"+basis["id"].(string), "", "Accept", "text/html").ok(), "basis"))
	require.Equal(t, 200, h.call(key, "HEAD", "/v1/bases", "").status)
}

// TestDerivedRights walks a lineage of three over HTTP.
func TestDerivedRights(t *testing.T) {
	h := newHouse(t)
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

	// Stopping the root stops all under it, without a word written to them.
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

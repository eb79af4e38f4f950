package control_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/store"
)

// TestDroppedWhileRead drops tenants that are being read: each response is complete, until the record
// or the key no longer exists.
func TestDroppedWhileRead(t *testing.T) {
	h := newFixture(t)
	for range 25 {
		tenantID, key := h.tenant()
		basisID := h.basis(key)
		child := get[string](t, h.call(key, "POST", "/v1/rights", fmt.Sprintf(
			`{"basisId":%q,"substrate":"CTV","scope":{"regions":["US"]},"effectiveFrom":"2026-06-01T00:00:00Z","parentRightId":%q}`,
			basisID, h.right(key, basisID))).ok(), "right", "id")
		var begun, ended sync.WaitGroup
		paths := []string{"/v1/rights/" + child + "/provenance", "/v1/rights/" + child, "/v1/rights", "/v1/tenant"}
		last := make([]answer, len(paths))
		for i, path := range paths {
			begun.Add(1)
			ended.Go(func() {
				last[i] = h.call(key, "GET", path, "")
				begun.Done()
				for last[i].status == 200 {
					last[i] = h.call(key, "GET", path, "")
				}
			})
		}
		begun.Wait()
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error { return control.Tables.DropTenant(t.Context(), tx, tenantID) }))
		ended.Wait()
		for i, path := range paths {
			require.Contains(t, []int{401, 404}, last[i].status, "%s: %s", path, last[i].text)
		}
	}
}

package right

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
)

// TestCampaignsOfRights: a derived right that names none has its parent's, each is returned once, and
// another tenant gets none.
func TestCampaignsOfRights(t *testing.T) {
	service, basis := newService(t)
	issue := func(scope string, parent *string) Right {
		requested := rightFor("CTV", "2026-01-01T00:00:00.000Z -", scope)
		requested.TenantID, requested.BasisID = tenantID, basis.ID
		r, err := service.issueRight(t.Context(), requested, parent, store.ByKey("key_a"))
		require.NoError(t, err)
		return r.Right
	}
	several := issue(`{"campaigns":["spring","autumn","spring",""]}`, nil)
	heir := issue(`{"regions":["US-NY"]}`, &several.ID)
	narrower := issue(`{"campaigns":["spring"]}`, &heir.ID)
	none, empty := issue(`{}`, nil), issue(`{"campaigns":[]}`, nil)
	ids := []string{several.ID, heir.ID, narrower.ID, none.ID, empty.ID, "rgh_unknown", "it's none"}
	for len(ids) < 500 {
		ids = append(ids, fmt.Sprint("rgh_", len(ids)))
	}
	got, err := service.Campaigns(t.Context(), tenantID, ids)
	require.NoError(t, err)
	all := []string{"", "autumn", "spring"}
	require.Equal(t, map[string][]string{several.ID: all, heir.ID: all, narrower.ID: {"spring"}}, got)
	for tenant, ids := range map[string][]string{"tnt_b": ids, tenantID: nil} {
		got, err = service.Campaigns(t.Context(), tenant, ids)
		require.NoError(t, err)
		require.Empty(t, got)
	}
	campaigns, err := (&Right{Scope: json.RawMessage(`{"campaigns":["b","a","b"]}`)}).Campaigns()
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, campaigns)
}

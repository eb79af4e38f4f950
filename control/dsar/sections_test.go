package dsar

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// TestSectionsNeedScopes: an export of the tenant has the sections whose scope the requester holds, and its README names
// the others with the scope that has them. No link to it is for a caller who lacks one of them. The private part of an event,
// which no other operation shows, is in none that leaves something out. All of the tenant is for who has signed in a moment ago.
func TestSectionsNeedScopes(t *testing.T) {
	h := newFixture(t, nil)
	h.deliver(delivery{subject: "ann", right: "rgh_a", substrate: gate.CTV})
	asked := of("ann")
	asked.RequestNotes = new("a private note")
	h.mustCreate(t, asked)
	scopes := []api.Scopes{api.EveryScope, api.Scopes(api.Wildcard)}
	for s := api.Scope(1); s < api.Wildcard; s <<= 1 {
		scopes = append(scopes, api.Scopes(s), api.EveryScope&^api.Scopes(s))
	}
	for _, kind := range []Kind{TenantFull, TenantSlice} {
		for _, held := range scopes {
			requested := full()
			requested.Scope.Kind, requested.Scopes = kind, held.Names()
			if kind == TenantSlice {
				requested.Scope.WindowStart.Time, requested.Scope.WindowEnd.Time = h.clock.Now().Add(-1e12), h.clock.Now().Add(1e12)
			}
			v := h.export(requested)
			got := sections(t, h.bundle(v))
			names, about := slices.Collect(maps.Keys(got)), string(got["README"])
			all := kind.sections()
			whole := true
			for _, s := range all {
				require.NotZero(t, s.Scope, s.Name)
				if held.Allows(s.Scope) {
					require.Contains(t, names, s.Name, held.Names())
					require.NotContains(t, about, "\n"+s.Name+".json: Left out")
					continue
				}
				whole = whole && s.Scope == api.Wildcard
				require.NotContains(t, names, s.Name, held.Names())
				require.Contains(t, about, "\n"+s.Name+".json: Left out, because whoever requested the export lacks the scope "+s.Scope.String()+".\n")
			}
			if kind == TenantFull {
				var rows []struct{ Private any }
				if text, is := got["events"]; is {
					require.NoError(t, json.Unmarshal(text, &rows))
					require.NotEmpty(t, rows)
				}
				for _, r := range rows {
					require.Equal(t, whole, r.Private != nil, held.Names())
				}
			}
			for _, reader := range []api.Scopes{held, api.Scopes(api.AuditRead)} {
				want := http.StatusOK
				for _, s := range all {
					if held.Allows(s.Scope) && !reader.Allows(s.Scope) {
						want = http.StatusForbidden
					}
				}
				answer := httptest.NewRecorder()
				h.serveTo(reader).ServeHTTP(answer, httptest.NewRequest("GET", "/v1/compliance/dsar/"+v.ID+"/bundle", nil))
				require.Equal(t, want, answer.Code, "a link for %s to what %s requested", reader.Names(), held.Names())
			}
		}
	}
	h.unconfirmed = true
	for kind, want := range map[string]int{`"TENANT_FULL"`: http.StatusUnauthorized, `"DATA_SUBJECT","dataSubjectId":"bob"`: http.StatusOK} {
		request, answer := httptest.NewRequest("POST", "/v1/compliance/dsar", strings.NewReader(`{"scope":{"kind":`+kind+`}}`)), httptest.NewRecorder()
		request.Header.Set("Content-Type", "application/json")
		h.serve().ServeHTTP(answer, request)
		require.Equal(t, want, answer.Code, kind)
	}
	asked.Scopes = []string{api.AuditRead.String()}
	got := sections(t, h.bundle(h.export(asked)))
	for _, s := range DataSubject.sections() {
		require.Contains(t, got, s.Name, "a person's export is whole")
	}
}

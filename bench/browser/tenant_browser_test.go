//go:build browser

package browser

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestTenantConsoleInABrowser has Chromium visit the console of a tenant: control/playground/browser/tenant.js is
// what it does there.
func TestTenantConsoleInABrowser(t *testing.T) {
	s := systemtest.NewService(t)
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	s.Rights = systemtest.IssueRights(t, s.Client)
	post := poster(s)
	var payees []map[string]any
	for name, bps := range map[string]int{"Song Rights Ltd": 6000, "Venue Media": 4000} {
		payees = append(payees, map[string]any{"bps": bps, "counterpartyId": post("/v1/settlement/counterparties", map[string]any{"name": name, "kind": "OTHER", "currency": "EUR"}, "data.counterparty.id")})
	}
	if payees[0]["bps"] != 6000 {
		payees[0], payees[1] = payees[1], payees[0]
	}
	post("/v1/settlement/rules", map[string]any{"unit": "SECOND", "price": "0.005", "currency": "EUR", "shares": payees, "effectiveFrom": "2026-01-01T00:00:00Z"})
	var receiptID string
	for range 20 {
		receiptID = post("/v1/delivery", map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 4200}, "data.receipt.receiptId")
	}
	s.Seal()
	post("/v1/disputes", map[string]any{"receiptIds": []string{receiptID}, "reason": "The screen was off", "evidence": []map[string]any{{"text": "Log of the venue", "references": []string{"https://venue.example/log"}}}})
	now := time.Now().UTC()
	at := func(hours time.Duration) string { return now.Add(-hours * time.Hour).Format(time.RFC3339) }
	require.Equal(t, "accepted", post("/v1/delivery/ingest-batch", map[string]any{"vendor": "v", "rows": []map[string]any{{"rowId": "1", "rightId": s.Rights["DOOH"], "spatialAnchorId": "b", "playedAt": at(30), "dwellMs": 176_800}}}, "data.results.0.status"))
	s.Seal()
	period := map[string]any{"currency": "EUR", "from": at(31), "to": at(29)}
	issued := post("/v1/settlement/statements", period, "data.statement.id")
	post("/v1/settlement/statements", period) // which the first overtakes
	post("/v1/settlement/statements/"+issued+"/issue", nil)
	post("/v1/settlement/statements", map[string]any{"currency": "EUR", "from": now.Add(-24 * time.Hour).Format(time.RFC3339), "to": now.Add(-time.Second).Format(time.RFC3339)})
	reader := post("/v1/api-keys", map[string]any{"label": "reader", "scopes": []string{"rights:read", "audit:read", "metering:read"}}, "data.apiKey")
	refused := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: `{"rightId": "rgh_00000000000000000000000000", "spatialAnchorId": "a", "dwellMs": 4200}`})
	require.Equal(t, 404, refused.Status)
	refused = systemtest.Call(t, s.Client.API, reader, systemtest.Operation{Method: "GET", Path: "/v1/settlement/rules"})
	require.Equal(t, 403, refused.Status)
	waittest.Until(t, func() bool {
		list := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "GET", Path: "/v1/requests"}).Body
		return strings.Contains(list, "observe-delivery") && strings.Contains(list, "settlement:read")
	}, "refused requests are listed")
	ends := now.Truncate(24*time.Hour).AddDate(0, 0, 20).Format(time.RFC3339)
	basis := post("/v1/bases", map[string]any{"kind": "LICENSE", "title": "Sound licence", "effectiveUntil": ends}, "data.basis.id")
	post("/v1/rights", map[string]any{"basisId": basis, "substrate": "AUDIO", "effectiveFrom": at(48), "scope": map[string]any{"description": "City sound", "regions": []string{"DE", "AT"}}})
	inBrowser(t, "tenant.js", "URL="+s.Client.API, "KEY="+s.Client.Key, "READER="+reader)
}

// poster returns what posts to the service as the tenant, and returns a text of the response, if it is to take one.
func poster(s *systemtest.Service) func(path string, body map[string]any, take ...string) string {
	return func(path string, body map[string]any, take ...string) (taken string) {
		s.T.Helper()
		text, err := json.Marshal(body)
		require.NoError(s.T, err)
		a := systemtest.Call(s.T, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: path, Body: string(text)})
		require.Equal(s.T, 200, a.Status, a.Body)
		if len(take) > 0 {
			taken = systemtest.TextAt(s.T, a.Body, take[0])
		}
		return taken
	}
}

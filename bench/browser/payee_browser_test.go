//go:build browser

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestPayeeLinkInABrowser has Chromium open a payee's link, and judge on the page that verifies what it leads to:
// control/playground/browser/payee.js is what it does there.
func TestPayeeLinkInABrowser(t *testing.T) {
	s := systemtest.NewService(t)
	post := poster(s)
	payee := func(name string) string {
		return post("/v1/settlement/counterparties", map[string]any{"name": name, "kind": "OTHER", "currency": "EUR", "legalName": name + " Ltd", "address": "1 Harbour Street\nHamburg", "taxBps": 1900}, "data.counterparty.id")
	}
	one, other := payee("Song Rights"), payee("Venue Media")
	post("/v1/settlement/rules", map[string]any{"unit": "SECOND", "price": "0.105", "currency": "EUR", "effectiveFrom": "2026-01-01T00:00:00Z",
		"shares": []map[string]any{{"bps": 6000, "counterpartyId": one}, {"bps": 4000, "counterpartyId": other}}})
	for range 20 {
		post("/v1/delivery", map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 4200})
	}
	s.Seal()
	now := time.Now().UTC()
	statement := post("/v1/settlement/statements", map[string]any{"currency": "EUR", "from": now.Add(-24 * time.Hour).Format(time.RFC3339), "to": now.Format("2006-01-02T15:04:05.000Z")}, "data.statement.id")
	post("/v1/settlement/statements/"+statement+"/issue", nil)
	s.Seal()
	link := post("/v1/settlement/payee-links", map[string]any{"statementId": statement, "counterpartyId": one}, "data.url")
	_, token, found := strings.Cut(link, "/payee/")
	require.True(t, found, link)
	inBrowser(t, "payee.js", "URL="+s.Client.API, "TOKEN="+token)
	require.NotContains(t, s.Log(), token)
}

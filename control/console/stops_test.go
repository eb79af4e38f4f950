package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestAStopInMoney: before a right is suspended or revoked, its page says what it and its family have earned, what falls with it and
// which drafts wait; without the scope for money that part is absent, and is not asked for.
func TestAStopInMoney(t *testing.T) {
	records := map[string]string{
		"/v1/rights/rgh_1/provenance": `{"basis":{"title":"a licence"},"lineage":[{"id":"rgh_1","state":"ACTIVE","effectiveState":"ACTIVE","substrate":"DOOH","holderOrgId":"org_a"}],"derived":[{"id":"rgh_2","state":"ACTIVE","effectiveState":"ACTIVE","holderOrgId":"org_b","scope":{"description":"the east"}},{"id":"rgh_3","effectiveState":"REVOKED","scope":{"description":"the west"}}]}`,
		"/v1/metering":                `{"totals":{"receipts":12,"metered":9}}`,
		"/v1/settlement":              `{"lines":[{"rightId":"rgh_1","receipts":4,"amount":"1.00","currency":"EUR"},{"rightId":"rgh_1","receipts":5,"amount":"0.25","currency":"EUR"},{"rightId":"rgh_2","receipts":1,"amount":"2","currency":"EUR"}],"totals":[{"amount":"3.25","currency":"EUR","heldAmount":"0"},{"amount":"0","currency":"USD","heldAmount":"0"}],"unrated":[{"receipts":1}]}`,
		"/v1/rules":                   `{"rules":[{"minimum":"50.00","currency":"EUR"},{}]}`,
		"/v1/statements?DRAFT":        `{"statements":[{"id":"stm_1","period":"2026-10","currency":"EUR","state":"DRAFT"}]}`,
		"/v1/offers?PROPOSED":         `{"offers":[{"id":"ofr_1","toOrgId":"org_c","state":"PROPOSED"}]}`,
		"/v1/rights":                  `{"rights":[{"id":"rgh_2","scope":{"description":"the east"}}]}`,
	}
	show := func(path string, scopes ...api.Scope) (text string, asked []string) {
		s, requests := recorded(t, records)
		a := actAt(t, path)
		s.operations()[a.op] = operation{method: "POST", path: "/v1" + path}
		for _, op := range []string{"get-settlement", "list-statements", "list-settlement-rules"} {
			one := s.operations()[op]
			one.scopes = []api.Scope{api.SettlementRead}
			s.operations()[op] = one
		}
		p, w := s.page(strings.Replace(Path+path, "{rightId}", "rgh_1", 1))
		if len(scopes) > 0 {
			p.Session.Caller.Scopes = api.Scopes(scopes[0])
		}
		p.r.SetPathValue("rightId", "rgh_1")
		require.NoError(t, showAct(a)(p))
		return readable(w.Body.String()), *requests
	}
	for _, path := range []string{"/rights/{rightId}/suspend", "/rights/{rightId}/revoke"} {
		text, asked := show(path)
		require.Contains(t, asked, "/v1/settlement?"+url.Values{"from": {"2026-10-26T08:00:00.000Z"}, "rightId": {"rgh_1", "rgh_2", "rgh_3"}, "limit": {"500"}}.Encode())
		for _, said := range []string{
			"a licence: DOOH of org_a, rgh_1", "Plays on this right itself in the last 7 days: 12, 9 of them billed.", "the east, held by org_b active", "an offer to org_c proposed", "3.25 EUR", "rgh_1 9 1.25 EUR", "the east rgh_2 1 2 EUR",
			"1 billed play of these days is rated by no rule", "What was played before the stop stays rated", "pays at least 50.00 EUR a month", "Drafts of statements that wait: Statement October 2026 in EUR .",
		} {
			require.Contains(t, text, said)
		}
		require.NotContains(t, text, "USD")
		require.NotContains(t, text, "the west", "what is revoked does not fall again")

		text, asked = show(path, api.RightsWrite)
		require.Contains(t, text, "What will happen")
		require.NotContains(t, text, "What it earns")
		require.NotContains(t, strings.Join(asked, " "), "/v1/settlement")
	}
	records["/v1/rights/rgh_1/provenance"] = strings.Replace(records["/v1/rights/rgh_1/provenance"], `"state":"ACTIVE"`, `"state":"SUSPENDED"`, 1)
	text, asked := show("/rights/{rightId}/resume")
	require.NotContains(t, text, "What it earns")
	require.NotContains(t, strings.Join(asked, " "), "/v1/settlement")
}

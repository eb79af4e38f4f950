package console

import (
	"context"
	"encoding/csv"
	"html"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// recorded is answering, and lists what was requested.
func recorded(t *testing.T, records map[string]string) (s *Service, asked *[]string) {
	t.Helper()
	s, asked = answering(t, records), new([]string)
	serve := s.cfg.Serve
	s.cfg.Serve = func(w http.ResponseWriter, ctx context.Context, caller auth.Principal, method, target string) error {
		*asked = append(*asked, target)
		return serve(w, ctx, caller, method, target)
	}
	maps.Copy(s.operations(), map[string]operation{
		"reconcile-settlement": {method: "GET", path: "/v1/reconciliation"}, "correct-statement": {method: "POST", path: "/v1/statements/{statementId}/correct"}, "draft-statement": {method: "POST", path: "/v1/statements"},
		"list-proof-packs": {method: "GET", path: "/v1/packs"}, "get-statement": {method: "GET", path: "/v1/statements/{statementId}"}, "list-settlement-rules": {method: "GET", path: "/v1/rules"},
		"get-right-provenance": {method: "GET", path: "/v1/rights/{rightId}/provenance"}, "list-offers": {method: "GET", path: "/v1/offers"}, "get-tenant": {method: "GET", path: "/v1/tenant"},
		"seal-proof-packs": {method: "POST", path: "/v1/packs/seal"}, "get-checkpoint": {method: "GET", path: "/v1/checkpoint"},
	})
	s.cfg.Now = func() time.Time { return time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC) }
	return s, asked
}

var tags = regexp.MustCompile(`<[^>]*>|\s+`)

// readable is what a person reads of a page.
func readable(page string) string {
	return html.UnescapeString(strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " "))
}

// TestReconciliation says whether the numbers of a month agree, what differs, and what to do next; and has each pair of them in a file.
func TestReconciliation(t *testing.T) {
	const agree = `{"from":"2026-09-30T22:00:00Z","to":"2026-10-31T23:00:00Z","packs":{"count":2,"firstPackId":"ppk_1","lastPackId":"ppk_2","sealed":{"entries":12,"receipts":9,"metered":8,"quantityMs":4200,"impressions":"8"},"loaded":{"entries":12,"receipts":9,"metered":8,"quantityMs":4200,"impressions":"8"}},
		"statements":[{"statementId":"stm_1","state":"ISSUED","from":"2026-09-30T22:00:00Z","to":"2026-10-31T23:00:00Z","currency":"EUR","stated":{"receipts":8,"total":"0.88","heldAmount":"0"},"recomputed":{"receipts":8,"total":"0.88","heldAmount":"0"}}]}`
	lacking := strings.Replace(agree, `"statements":[`, `"unstated":[{"rightId":"rgh_1","receipts":2,"amount":"0.50","currency":"EUR"}],"statements":[`, 1)
	differing := strings.Replace(strings.Replace(agree, `"loaded":{"entries":12,"receipts":9`, `"loaded":{"entries":12,"receipts":7`, 1), `"statements":[`, `"differences":[{"code":"PACK_DIFFERS","id":"ppk_2","message":"the pack has 9 receipts, and the warehouse 7"}],"statements":[`, 1)
	const empty = `{"packs":{"count":0}}`
	show := func(address, answer string, without ...string) (text, page string, asked []string) {
		s, requests := recorded(t, map[string]string{"/v1/reconciliation": answer})
		for _, op := range without {
			s.operations()[op] = operation{method: "POST", scopes: []api.Scope{api.SettlementWrite}}
		}
		p, w := s.page(address)
		p.Session.Zone = berlin(t)
		if len(without) > 0 {
			p.Session.Caller.Scopes = api.Scopes(api.SettlementRead)
		}
		require.NoError(t, showReconciliation(p))
		return readable(w.Body.String()), w.Body.String(), *requests
	}
	const at = Path + "/money/reconciliation"
	text, page, asked := show(at, agree)
	require.Equal(t, "/v1/reconciliation?from=2026-09-30T22%3A00%3A00.000Z&to=2026-10-31T23%3A00%3A00.000Z", asked[0], "the last month of the page's zone")
	require.Contains(t, page, `type="month" value="2026-10"`)
	require.Contains(t, text, "The numbers of October 2026 agree There is nothing to do.")
	require.Contains(t, text, "Plays that are billed 0 8 8")
	require.Contains(t, text, "Statement October 2026 0.00 0.88 0.88 EUR 0 8 8 issued")
	require.Contains(t, page, "curl &#39;https://muniment.example/v1/reconciliation?")
	_, page, asked = show(at+"?from=2026-10-01T00:00&to=2026-10-08T00:00", agree)
	require.Equal(t, "/v1/reconciliation?from=2026-09-30T22%3A00%3A00.000Z&to=2026-10-07T22%3A00%3A00.000Z", asked[0])
	require.Contains(t, page, `value="2026-10-01T00:00"`)

	text, page, _ = show(at, lacking)
	require.Contains(t, text, "agree, and something is not stated yet")
	require.Contains(t, page, `href="/console/money/statements/stm_1/correct">Draft a correction…`)
	text, page, _ = show(at, lacking, "correct-statement", "draft-statement")
	require.NotContains(t, page, "/correct")
	require.Contains(t, text, "ask somebody who may make one")
	text, _, _ = show(at, differing)
	require.Contains(t, text, "One thing of October 2026 does not agree The pack ppk_2 : the pack has 9 receipts, and the warehouse 7.")
	require.Contains(t, text, "Plays -2 9 7")
	text, _, _ = show(at, empty)
	require.Contains(t, text, "Nothing to compare")

	for month, status := range map[string]int{"2026-13": 422, "x": 422} {
		s, _ := recorded(t, nil)
		p, w := s.page(at + "?month=" + month)
		require.NoError(t, showReconciliation(p))
		require.Equal(t, status, w.Code)
		require.Contains(t, w.Body.String(), "Compare</button>", "the form is there")
	}
	s, _ := recorded(t, map[string]string{"/v1/reconciliation": lacking})
	p, w := s.page(at + ".csv?month=2026-10")
	p.Session.Zone = berlin(t)
	require.NoError(t, sendReconciliation(p))
	require.Contains(t, w.Header().Get("Content-Disposition"), `"reconciliation-October-2026.csv"`)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), route.ByteOrderMark))).ReadAll()
	require.NoError(t, err)
	require.Contains(t, rows, []string{"packs and warehouse", "2 packs", "ppk_2", "8", "8", "0", "billed plays"})
	require.Contains(t, rows, []string{"stated and recomputed", "Statement October 2026", "stm_1", "0.88", "0.88", "0", "EUR"})
	require.Contains(t, rows, []string{"on no statement", "rgh_1", "rgh_1", "0", "0.50", "0.50", "EUR"})
}

// TestBusyReconciliation: what takes long, or can't be compared yet, is said on the page, with what to do.
func TestBusyReconciliation(t *testing.T) {
	s, _ := recorded(t, nil)
	s.cfg.Serve = func(w http.ResponseWriter, ctx context.Context, _ auth.Principal, _, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p, w := s.page(Path + "/money/reconciliation?month=2026-10")
		require.NoError(t, showReconciliation(p))
		require.Equal(t, moneyWait, time.Since(began))
		require.Contains(t, w.Body.String(), `href="/console/money/reconciliation?month=2026-10&amp;wait=yes">Wait for it`)
	})
	s.cfg.Serve = func(w http.ResponseWriter, _ context.Context, _ auth.Principal, _, _ string) error {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, err := w.Write([]byte(`{"error":"INTERNAL_ERROR","reason":"WAREHOUSE_BEHIND","message":"not yet"}`))
		return err
	}
	p, w := s.page(Path + "/money/reconciliation")
	require.NoError(t, showReconciliation(p))
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), "has not loaded all sealed events yet")
}

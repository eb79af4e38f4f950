package service

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestTenantConsoleAnswersFinance: the page of an issued statement leads to its packs, and to whether the numbers agree, which says
// what came later; a play is found by the end of its receipt's id; and before a right is stopped its page says what it has earned.
func TestTenantConsoleAnswersFinance(t *testing.T) {
	t.Parallel()
	s := owned(t)
	m := &recordMaker{t: t, s: s, statement: time.Now().UTC().Truncate(time.Hour).Add(-40 * time.Hour)}
	m.basis = m.post("/v1/bases", `{"kind": "LICENSE", "title": "t"}`, "data.basis.id")
	from := m.statement
	statementID := m.issued()
	b := signIn(t, s.Client.API, s.Client.Key)
	get := func(at string) string {
		t.Helper()
		status, _, text := b.send("GET", at, nil)
		require.Equal(t, 200, status, "%s: %s", at, text)
		return text
	}
	page := get("/console/money/statements/" + statementID)
	link := func(path string) string {
		t.Helper()
		found := regexp.MustCompile(`href="(` + regexp.QuoteMeta(path) + `[^"]*)"`).FindStringSubmatch(page)
		require.NotNil(t, found, page)
		return html.UnescapeString(found[1])
	}
	reconciliation, packs := link("/console/money/reconciliation?"), link("/console/proof?statementId=")
	right := ids.FindString(link("/console/rights/"))
	pack := ids.FindString(link("/console/proof/ppk_"))

	text := get(reconciliation)
	require.Regexp(t, `The numbers of [^<]* agree</h2>`, text)
	require.Contains(t, text, "There is nothing to do.")
	require.Contains(t, get(strings.Replace(reconciliation, "?", ".csv?", 1)), statementID+",1,1,0,EUR")
	require.Contains(t, get(packs), pack)
	require.Contains(t, get("/console/proof?month="+time.Now().UTC().Format("2006-01")), pack)
	require.Contains(t, get("/console/proof?month=2020-01"), "No pack was sealed then.")

	row := fmt.Sprintf(`{"vendor": "v", "rows": [{"rowId": "late", "rightId": %q, "spatialAnchorId": "a", "playedAt": %q, "dwellMs": 5000}]}`, right, from.Add(2*time.Minute).Format(time.RFC3339))
	late := m.post("/v1/delivery/ingest-batch", row, "data.results.0.receipt.receiptId")
	s.Seal()
	waittest.Until(t, func() bool {
		text = get(reconciliation)
		return strings.Contains(text, "something is not stated yet")
	}, "the late play is loaded")
	require.Contains(t, text, `/console/money/statements/`+statementID+`/correct">Draft a correction…`)

	text = get("/console/plays?receiptId=" + strings.ToLower(late[len(late)-6:]))
	require.Contains(t, text, `/console/plays/`+late)
	require.Equal(t, 1, strings.Count(text, "<tr><td"), "no other play is shown")

	suspend := "/console/rights/" + right + "/suspend"
	text = get(suspend)
	require.Contains(t, text, "<b>2.00 EUR</b>")
	require.Contains(t, text, "What was played before the stop stays rated")
	made := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/api-keys", Body: `{"label":"no money","scopes":["rights:read","rights:write","metering:read"]}`})
	b = signIn(t, s.Client.API, systemtest.TextAt(t, made.Body, "data.apiKey"))
	text = get(suspend)
	require.Contains(t, text, "Plays on this right itself in the last 7 days: 2, 2 of them billed.")
	require.NotContains(t, text, "What it earns")
}

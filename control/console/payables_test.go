package console

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gateway/client"
)

// TestPayables lists what an accountant books, with a file whose numbers are the API's; a credit is due from nobody.
func TestPayables(t *testing.T) {
	records := map[string]string{
		"/v1/counterparties": `{"counterparties":[{"id":"cp_1","name":"Kiosk"}]}`,
		"/v1/payouts":        `{"payouts":[]}`,
		"/v1/payables": `{"payables":[
			{"number":"2026-000003","kind":"STATEMENT","counterpartyId":"cp_1","state":"DUE","gross":"5","paidAmount":"0","net":"5","tax":"0","exact":"5","currency":"EUR","issuedOn":"2026-10-01","dueOn":"2026-11-01","statementId":"stm_3"},
			{"number":"2026-000002","kind":"CREDIT_NOTE","counterpartyId":"cp_1","state":"DUE","gross":"-100","paidAmount":"0","net":"-100","tax":"0","exact":"-100.4","currency":"JPY","issuedOn":"2026-11-03","dueOn":"2026-12-03","corrects":"2026-000001","statementId":"stm_2"},
			{"number":"2026-000001","kind":"STATEMENT","counterpartyId":"cp_1","state":"DUE","gross":"1190","paidAmount":"90","net":"1000","tax":"190","exact":"1000.1","currency":"KWD","issuedOn":"2026-11-01","dueOn":"2026-12-01","statementId":"stm_1"}]}`,
	}
	s, asked := recorded(t, records)
	s.operations()["list-payables"] = operation{method: "GET", path: "/v1/payables"}
	p, w := s.page(Path + "/money/payables?state=DUE")
	require.NoError(t, showPayables(p))
	require.Contains(t, *asked, "/v1/payables?limit=50&state=DUE")
	text := readable(w.Body.String())
	require.Contains(t, text, "2026-000002 credit note Kiosk credit -100 -100 0 -100 JPY 3 Nov 2026 – 2026-000001 -100.4 stm_2")
	require.Contains(t, text, "2026-000003 statement Kiosk overdue 5.00 5.00")
	require.Contains(t, text, "2026-000001 statement Kiosk due 1 100.000 1 000.000 190.000 1 190.000 KWD 1 Nov 2026 1 Dec 2026 1 000.100 stm_1")

	p, w = s.page(Path + "/money/payables.csv")
	require.NoError(t, sendPayables(p))
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), route.ByteOrderMark))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"2026-000001", "statement", "Kiosk", "DUE", "1100", "1000", "190", "1190", "KWD", "2026-11-01", "2026-12-01", "", "1000.1", "stm_1"}, rows[3])

	p, w = s.page(Path + "/money/payables?overdue=true&issuedSince=2026-10-01&issuedBy=2026-10-31&dueSince=2026-11-01&dueBy=2026-11-30")
	require.NoError(t, showPayables(p))
	require.Equal(t, "/v1/payables?dueBy=2026-11-30&dueSince=2026-11-01&issuedBy=2026-10-31&issuedSince=2026-10-01&limit=50&overdue=true", (*asked)[len(*asked)-1])
	for _, said := range []string{`name="issuedSince" type="date" value="2026-10-01"`, `<option value="true" selected>only what is overdue</option>`, `href="/console/money/payables?overdue=true">Overdue</a>`, "payables.csv?dueBy=2026-11-30"} {
		require.Contains(t, w.Body.String(), said)
	}

	p, w = s.page(Path + "/money/payouts")
	require.NoError(t, showPayouts(p))
	require.Contains(t, w.Body.String(), `href="/console/money/payables?state=DUE">All that is open`, "what is due later is one click away")
}

// TestAChangeOfACounterpartyKeepsTheRest: the form sends all that it was filled with, as what is absent becomes empty.
func TestAChangeOfACounterpartyKeepsTheRest(t *testing.T) {
	days := int64(14)
	was := client.Counterparty{
		Name: "Kiosk", Kind: "PUBLISHER", Currency: "EUR", OrgID: "org_kiosk", LegalName: "Kiosk GmbH", Address: "Rosenweg 2\n10119 Berlin", Email: "a@example.com", TaxID: "DE1", TaxBPS: 770,
		PayoutRef: "DE89", PaymentDays: &days,
	}
	record, err := json.Marshal(was)
	require.NoError(t, err)
	s, _ := recorded(t, map[string]string{"/v1/counterparties/cp_1": `{"counterparty":` + string(record) + `}`})
	s.operations()["get-counterparty"] = operation{method: "GET", path: "/v1/counterparties/{counterpartyId}"}
	change := actAt(t, "/money/counterparties/{counterpartyId}/change")
	p, _ := s.page(Path + "/money/counterparties/cp_1/change")
	p.r.SetPathValue("counterpartyId", "cp_1")
	fields, err := change.fields(p)
	require.NoError(t, err)
	p.r.PostForm = sent(fields)
	members, err := change.read(p)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"name": "Kiosk", "kind": "PUBLISHER", "currency": "EUR", "orgId": "org_kiosk", "legalName": "Kiosk GmbH", "address": "Rosenweg 2\n10119 Berlin", "email": "a@example.com", "taxId": "DE1", "taxBps": int64(770),
		"payoutRef": "DE89", "paymentDays": int64(14), "reverseCharge": false,
	}, members)
	was.ReverseCharge, was.TaxBPS = true, 0
	require.Equal(t, "yes", counterpartyValues(was)["reverseCharge"])
}

// TestAStatementSumsUpWhatIsDue: what is open and payable of all its payees, besides the exact total, and what an auditor needs.
func TestAStatementSumsUpWhatIsDue(t *testing.T) {
	statement := func(more string) string {
		return `{"statement":{"id":"stm_1","state":"ISSUED","currency":"EUR","total":"55.893929","dueAmount":"6.79","heldAmount":"0","issuedAt":"2026-11-02T00:00:00Z","from":"2026-10-01T00:00:00Z","to":"2026-11-01T00:00:00Z"` + more + `},"document":{"lines":[]}}`
	}
	records := map[string]string{
		"/v1/statements/stm_1": statement(""),
		"/v1/payables":         `{"payables":[{"counterpartyId":"cp_1","state":"DUE","gross":"5.95","net":"5.00","tax":"0.95","paidAmount":"0"},{"counterpartyId":"cp_2","state":"DUE","gross":"1.84","net":"1.84","tax":"0.00","paidAmount":"1"}]}`,
	}
	show := func() string {
		s, _ := recorded(t, records)
		s.operations()["list-payables"] = operation{method: "GET", path: "/v1/payables"}
		s.operations()["list-payee-links"] = operation{method: "GET", path: "/v1/links"}
		p, w := s.page(Path + "/money/statements/stm_1")
		p.r.SetPathValue("statementId", "stm_1")
		require.NoError(t, showStatement(p))
		return readable(w.Body.String())
	}
	text := show()
	require.Contains(t, text, "6.79 EUR open · 55.893929 EUR net, exactly")
	require.Contains(t, text, "All 6.79 6.84 0.95 7.79")
	require.Contains(t, text, "For an auditor: the signed file below, and these packs.")
	records["/v1/statements/stm_1"] = strings.NewReplacer("ISSUED", "DRAFT", `"issuedAt":"2026-11-02T00:00:00Z",`, "").Replace(statement(`,"corrects":"stm_0","difference":"0"`))
	require.Contains(t, show(), "0.00 EUR difference · 55.893929 EUR net of the whole period")
	require.Contains(t, show(), "discard it", "a correction that changes nothing says so")
	records["/v1/statements/stm_1"] = strings.Replace(statement(`,"corrects":"stm_0","difference":"1"`), "ISSUED", "DRAFT", 1)
	require.NotContains(t, show(), "discard it")
}

// TestWhoIssuesThePapers: the form sends all that is there, as what is absent becomes empty.
func TestWhoIssuesThePapers(t *testing.T) {
	records := map[string]string{"/v1/issuer": `{"issuer":{"legalName":"Screens AG","address":"Lindenweg 3\n10115 Berlin","taxId":"DE9","email":"a@example.com","note":"Self-billing","paymentDays":21}}`}
	set := actAt(t, "/money/issuer")
	read := func() map[string]any {
		s, _ := recorded(t, records)
		s.operations()["get-issuer"] = operation{method: "GET", path: "/v1/issuer"}
		p, _ := s.page(Path + "/money/issuer")
		fields, err := set.fields(p)
		require.NoError(t, err)
		p.r.PostForm = sent(fields)
		members, err := set.read(p)
		require.NoError(t, err)
		return members
	}
	require.Equal(t, map[string]any{"legalName": "Screens AG", "address": "Lindenweg 3\n10115 Berlin", "taxId": "DE9", "email": "a@example.com", "note": "Self-billing", "paymentDays": int64(21)}, read())
	records["/v1/issuer"] = `{}`
	require.Equal(t, map[string]any{"paymentDays": int64(30)}, read())
}

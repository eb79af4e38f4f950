package console

import (
	"cmp"
	"encoding/csv"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

// nothing is the response of each operation that lists and has no record.
const nothing = `{"rights":[],"bases":[],"counterparties":[]}`

// answering is the console over a service that answers each operation that lists with the records under its path.
func answering(t *testing.T, records map[string]string) *Service {
	t.Helper()
	s := served(t, func(w http.ResponseWriter, target string) {
		path, query, _ := strings.Cut(target, "?")
		asked, err := url.ParseQuery(query)
		if err != nil {
			t.Error(err)
		}
		response, known := records[path+"?"+asked.Get("state")]
		if !known {
			response = records[path]
		}
		if response == "" {
			response = nothing
		}
		_, _ = w.Write([]byte(`{"data":` + response + `}`))
	})
	maps.Copy(s.operations(), map[string]operation{
		"list-rights": {method: "GET", path: "/v1/rights"}, "list-receipts": {method: "GET", path: "/v1/receipts"}, "list-held-rows": {method: "GET", path: "/v1/held"}, "list-payouts": {method: "GET", path: "/v1/payouts"},
		"resolve-dispute": {method: "POST", path: "/v1/disputes/{disputeId}/resolve", scopes: nil},
		"list-bases":      {method: "GET", path: "/v1/bases"},
	})
	return s
}

// TestACampaignOfSeveralRights asks which of its rights is meant, and keeps what was asked for; that of one right shows its plays.
func TestACampaignOfSeveralRights(t *testing.T) {
	right := func(id string) string {
		return `{"id":"` + id + `","substrate":"DOOH","scope":{"campaigns":["lighthouse"],"regions":["DE"]},"effectiveFrom":"2026-01-01T00:00:00Z"}`
	}
	play := `{"receipts":[{"receipt":{"receiptId":"rcp_1","renderedAt":"2026-11-02T00:00:00Z","spatialAnchorId":"a screen"},"event":{"data":{"rightId":"rgh_1","metering":{"metered":true}}}}]}`
	show := func(address string, rights ...string) string {
		p, w := answering(t, map[string]string{"/v1/rights": `{"rights":[` + strings.Join(rights, ",") + `]}`, "/v1/receipts": play}).page(address)
		require.NoError(t, showPlays(p))
		return w.Body.String()
	}
	two := show(Path+"/plays?campaign=lighthouse&from=2026-11-01T08:00", right("rgh_1"), right("rgh_2"))
	require.Contains(t, two, "Choose one to see its plays")
	require.NotContains(t, two, "No play fits")
	require.NotContains(t, two, "a screen")
	for _, id := range []string{"rgh_1", "rgh_2"} {
		require.Contains(t, two, "/console/plays?campaign=lighthouse&amp;from=2026-11-01T08%3A00&amp;rightId="+id)
	}
	chosen := show(Path+"/plays?campaign=lighthouse&rightId=rgh_2", right("rgh_1"), right("rgh_2"))
	require.Contains(t, chosen, "a screen")
	require.NotContains(t, chosen, "Choose one")
	require.Contains(t, show(Path+"/plays?campaign=lighthouse", right("rgh_1")), "a screen")
}

// TestRightsAreCalledByTheirNames where somebody has to tell them apart: in their family, and in a challenge.
func TestRightsAreCalledByTheirNames(t *testing.T) {
	s := answering(t, map[string]string{
		"/v1/rights/rgh_1/provenance": `{"basis":{"title":"a licence"},"lineage":[{"id":"rgh_1","substrate":"DOOH","holderOrgId":"org_a","scope":{"description":"the city"}}],"derived":[{"id":"rgh_2","substrate":"DOOH","holderOrgId":"org_b","scope":{"description":"the station"}},{"id":"rgh_3","substrate":"DOOH","holderOrgId":"org_c","scope":{}}]}`,
		"/v1/rights":                  `{"rights":[{"id":"rgh_2","scope":{"description":"the station"}}]}`,
		"/v1/challenges/chg_1":        `{"challenge":{"id":"chg_1","rightId":"rgh_2","challengerOrgId":"org_d","state":"OPEN","reason":"ours"}}`,
	})
	s.operations()["get-challenge"] = operation{method: "GET", path: "/v1/challenges/{challengeId}"}
	s.operations()["get-right-provenance"] = operation{method: "GET", path: "/v1/rights/{rightId}/provenance"}
	s.operations()["get-right-propagation"] = operation{method: "GET", path: "/v1/rights/{rightId}/propagation"}
	s.operations()["list-events"] = operation{method: "GET", path: "/v1/events"}
	p, w := s.page(Path + "/rights/rgh_1")
	p.r.SetPathValue("rightId", "rgh_1")
	require.NoError(t, showRight(p))
	for _, said := range []string{"the city: DOOH of org_a", "the station: DOOH of org_b", "> DOOH of org_c"} {
		require.Contains(t, strings.ReplaceAll(w.Body.String(), ">DOOH", "> DOOH"), said)
	}
	p, w = s.page(Path + "/challenges/chg_1")
	p.r.SetPathValue("challengeId", "chg_1")
	require.NoError(t, showChallenge(p))
	require.Contains(t, readable(w.Body.String()), "Of the right the station")
}

// TestNumbersInFiles: a spreadsheet gets numbers as numbers, below zero, too, beside their currency and in a unit that the head names; what
// a person wrote is no formula.
func TestNumbersInFiles(t *testing.T) {
	s := answering(t, map[string]string{
		"/v1/statements":     `{"statements":[{"id":"stm_1","state":"ISSUED","total":"-0.19","dueAmount":"-0.19","heldAmount":"0","currency":"EUR","counterpartyId":"cp_1","period":"2026-10"}]}`,
		"/v1/counterparties": `{"counterparties":[{"id":"cp_1","name":"=SUM(A1)"}]}`,
		"/v1/receipts":       `{"receipts":[{"receipt":{"receiptId":"rcp_1","renderedAt":"2026-11-02T00:00:00Z","dwellMs":15000},"event":{"data":{}}}]}`,
	})
	rows := func(send handler, address string) (head, row []string) {
		p, w := s.page(address)
		require.NoError(t, send(p))
		all, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), route.ByteOrderMark))).ReadAll()
		require.NoError(t, err)
		require.Len(t, all, 2)
		return all[0], all[1]
	}
	head, row := rows(sendStatements, Path+"/money/statements.csv")
	require.Equal(t, []string{"Statement", "State", "Open", "Difference", "Total", "Held", "Currency", "For"}, head[:8])
	require.Equal(t, []string{"Statement October 2026", "ISSUED", "-0.19", "-0.19", "-0.19", "0", "EUR", "'=SUM(A1)"}, row[:8])
	head, row = rows(sendPlays, Path+"/plays.csv")
	require.Equal(t, []string{"For (ms)", "15000"}, []string{head[4], row[4]})
}

// TestStatementsAddUp: what the statements of a list add sums to what is stated, with corrections, voidings and drafts among them.
func TestStatementsAddUp(t *testing.T) {
	s := answering(t, map[string]string{
		"/v1/counterparties": `{"counterparties":[]}`,
		"/v1/statements": `{"statements":[
			{"id":"stm_5","state":"DRAFT","total":"9","currency":"EUR"},
			{"id":"stm_4","state":"ISSUED","total":"2","currency":"EUR"},
			{"id":"stm_3","state":"ISSUED","total":"0","difference":"-3.6","corrects":"stm_1","correction":2,"voidReason":"wrong","currency":"EUR"},
			{"id":"stm_2","state":"VOIDED","total":"3.6","difference":"-0.1","corrects":"stm_1","correction":1,"currency":"EUR"},
			{"id":"stm_1","state":"VOIDED","total":"3.7","currency":"EUR"}]}`,
	})
	p, w := s.page(Path + "/money/statements.csv")
	require.NoError(t, sendStatements(p))
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), route.ByteOrderMark))).ReadAll()
	require.NoError(t, err)
	sum, column := "0", slices.Index(rows[0], "Difference")
	var corrects []string
	for _, row := range rows[1:] {
		sum = plus(sum, cmp.Or(row[column], "0"))
		corrects = append(corrects, row[slices.Index(rows[0], "Corrects")])
	}
	require.Equal(t, "2.0", sum)
	require.Equal(t, []string{"", "", "stm_1", "stm_1", ""}, corrects)
}

// TestExportsWhoseBundlesAreGone say when and why, on list and page, and lead to no bundle.
func TestExportsWhoseBundlesAreGone(t *testing.T) {
	for delivery, says := range map[string]string{
		`"bundleStoreKey":null,"deletedBecause":"ERASURE","expiresAt":"2026-11-01T00:00:00Z"`:          "because a person was erased whose data it may have had",
		`"bundleStoreKey":"tnt_a/1.zip","deletedBecause":"ERASURE","expiresAt":"2026-11-01T00:00:00Z"`: "because a person was erased whose data it may have had",
		`"bundleStoreKey":null,"deletedBecause":"EXPIRED","expiresAt":"2026-11-01T00:00:00Z"`:          "because its time was over",
		`"bundleStoreKey":"tnt_a/1.zip","deletedBecause":null,"expiresAt":"2026-11-09T00:00:00Z"`:      "",
	} {
		job := `{"id":"dsar:1","state":"READY","scope":{"kind":"DATA_SUBJECT"},"format":"CSV","delivery":{"bundleSizeBytes":1234,` + delivery + `}}`
		s, _ := recorded(t, map[string]string{"/v1/dsar": `{"jobs":[` + job + `]}`, "/v1/dsar/dsar:1": `{"job":` + job + `}`})
		maps.Copy(s.operations(), map[string]operation{"list-dsar-jobs": {method: "GET", path: "/v1/dsar"}, "get-dsar-job": {method: "GET", path: "/v1/dsar/{jobId}"}, "get-dsar-bundle": {method: "POST", path: "/v1/dsar/{jobId}/bundle"}, "create-dsar-job": {method: "POST", path: "/v1/dsar"}})
		p, w := s.page(Path + "/data/dsar:1")
		p.r.SetPathValue("jobId", "dsar:1")
		require.NoError(t, showJob(p))
		one := w.Body.String()
		p, w = s.page(Path + "/data")
		require.NoError(t, showData(p))
		for _, text := range []string{one, w.Body.String()} {
			require.Equal(t, says == "", strings.Contains(text, `<span class="tag good">ready</span>`))
			require.Equal(t, says != "", strings.Contains(text, "1 Nov 2026, 00:00:00"))
			require.Equal(t, strings.Contains(says, "erased"), strings.Contains(text, "was erased"))
			require.Contains(t, strings.ToLower(text), "one person’s data")
			require.Contains(t, text, says)
		}
		require.Equal(t, says == "", strings.Contains(one, "Download the bundle"))
	}
}

// TestPlaysOfADisputeAreShown: with time, place and worth, each with its page, in the tenant's zone, and in a file; by their receipts
// alone to who may read no more.
func TestPlaysOfADisputeAreShown(t *testing.T) {
	s, asked := recorded(t, map[string]string{
		"/v1/rights": `{"rights":[{"id":"rgh_1","scope":{"description":"the station"}}]}`,
		"/v1/disputes/dsp_1": `{"dispute":{"id":"dsp_1","state":"OPEN","raisedByOrgId":"org_a","reason":"dark","receiptIds":["rcp_1","rcp_2","rcp_3","rcp_4"],"plays":[
			{"receiptId":"rcp_1","rightId":"rgh_1","spatialAnchorId":"screen-7","renderedAt":"2026-11-01T23:30:00Z","dwellMs":8000,"metered":true,"worth":[{"currency":"EUR","amount":"0.04"}]},
			{"receiptId":"rcp_2","rightId":"rgh_1","spatialAnchorId":"screen-8","renderedAt":"2026-11-01T23:31:00Z","dwellMs":432000,"metered":false,"worth":[]},
			{"receiptId":"rcp_3","rightId":"rgh_1","spatialAnchorId":"screen-9","renderedAt":"2026-11-01T23:32:00Z","dwellMs":1500,"metered":true,"worth":null}]}}`,
		"/v1/disputes/dsp_2": `{"dispute":{"id":"dsp_2","state":"OPEN","receiptIds":[],"rightId":"rgh_1","window":{"from":"2026-11-01T00:00:00Z","to":"2026-11-02T00:00:00Z"}}}`,
	})
	maps.Copy(s.operations(), map[string]operation{"get-dispute": {method: "GET", path: "/v1/disputes/{disputeId}"}, "list-receipts": {method: "GET", path: "/v1/receipts", scopes: []api.Scope{api.AuditRead}}, "list-settlement-rules": {method: "GET", path: "/v1/settlement/rules", scopes: []api.Scope{api.SettlementRead}}})
	get := func(show handler, id string, scopes api.Scope) string {
		p, w := s.page(Path + "/disputes/" + id)
		p.Session.Zone, p.Session.Caller.Key.Scopes = berlin(t), api.Scopes(scopes)
		p.r.SetPathValue("disputeId", id)
		require.NoError(t, show(p))
		return w.Body.String()
	}
	page := get(showDispute, "dsp_1", api.Wildcard)
	require.Contains(t, *asked, "/v1/disputes/dsp_1?plays=true")
	require.Contains(t, page, `<a href="/console/plays/rcp_1" title="2026-11-01T23:30:00.000Z">2 Nov 2026, 00:30:00</a>`)
	require.Contains(t, page, `href="/console/disputes/dsp_1/plays.csv" download`)
	text := readable(page)
	for _, said := range []string{"screen-7 0.04 EUR 8 s the station rgh_1 rcp_1", "screen-8 not billed 7 min 12 s the station rgh_1 rcp_2", "screen-9 not known now 1.5 s the station rgh_1 rcp_3", "not loaded now rcp_4", "Of 1 receipt of it nothing is loaded now."} {
		require.Contains(t, text, said)
	}
	require.Contains(t, get(sendDisputedPlays, "dsp_1", api.Wildcard), "2026-11-01T23:30:00.000Z,screen-7,0.04 EUR,8000,rgh_1,rcp_1\n")
	require.Contains(t, get(sendDisputedPlays, "dsp_1", api.Wildcard), "not loaded now,,,,,rcp_4\n", "the file has all")
	require.Contains(t, get(showDispute, "dsp_2", api.Wildcard), `href="/console/plays?from=2026-11-01T00%3A00%3A00.000Z&amp;rightId=rgh_1&amp;to=2026-11-02T00%3A00%3A00.000Z">see them</a>`)

	page = get(showDispute, "dsp_1", api.AuditRead)
	require.Contains(t, readable(page), "screen-9 needs settlement:read 1.5 s", "what it is worth is for those who read settlements")

	*asked = nil
	page = get(showDispute, "dsp_1", api.DisputesRead)
	require.NotContains(t, strings.Join(*asked, " "), "plays=true")
	require.NotContains(t, page, `href="/console/plays`)
}

// TestNoNameOfTheContractIsAChoice: no form or filter shows one as it is in the contract, and what is wrong with a field names none of
// the choices so.
func TestNoNameOfTheContractIsAChoice(t *testing.T) {
	s, _ := recorded(t, map[string]string{"/v1/counterparties": `{"counterparties":[]}`})
	maps.Copy(s.operations(), map[string]operation{"get-counterparty": {method: "GET", path: "/v1/counterparties/{counterpartyId}"}, "get-issuer": {method: "GET", path: "/v1/issuer"}})
	shown := regexp.MustCompile(`(?s)<option[^>]*>(.*?)</option>`)
	choices, said := 0, map[string]string{} // what people say so, too
	for _, name := range spoken {
		said[name] = name
	}
	for _, a := range acts() {
		if a.fields == nil {
			continue
		}
		p, w := s.page(Path)
		fields, err := a.fields(p)
		require.NoError(t, err, a.path)
		p.render("form", form{Fields: fields})
		for _, option := range shown.FindAllStringSubmatch(w.Body.String(), -1) {
			choices++
			require.NotRegexp(t, `^[A-Z][A-Z_]+$`, strings.TrimSuffix(option[1], said[option[1]]), a.path)
		}
	}
	require.Greater(t, choices, 50)

	f := form{Fields: []field{{Name: "kind", Options: []string{"DATA_SUBJECT", "TENANT_FULL"}}}}
	require.Equal(t, "is not for a job of kind “all data of the tenant”", f.said("is not for a job of kind TENANT_FULL"))
}

// TestHoursAreSentAsSeconds: a person says for how many hours an old key works on.
func TestHoursAreSentAsSeconds(t *testing.T) {
	rotate := actAt(t, "/keys/{keyId}/rotate")
	send := func(hours string) (any, error) {
		p, _ := answering(t, nil).page(Path)
		p.r.PostForm = url.Values{"overlapSeconds": {hours}}
		members, err := rotate.read(p)
		if err != nil {
			return nil, err
		}
		return rotate.body(p, members)
	}
	for hours, seconds := range map[string]int64{"24": 86_400, "0,5": 1800, "0": 0, "720": 2_592_000} {
		body, err := send(hours)
		require.NoError(t, err, hours)
		require.Equal(t, map[string]any{"overlapSeconds": seconds}, body)
	}
	body, err := send("")
	require.NoError(t, err)
	require.Empty(t, body)
	for _, hours := range []string{"NaN", "-1", "a day", "721", "1e9"} {
		_, err := send(hours)
		require.ErrorContains(t, err, "overlapSeconds", hours)
	}
}

// TestErasuresSpeakToPeople: what an erasure finds is said in words, of every kind of record and event there is.
func TestErasuresSpeakToPeople(t *testing.T) {
	s := answering(t, nil)
	s.cfg.Kinds = control.Kinds
	counts := client.ErasureCounts{PrivateParts: 3, SetAside: 1, Bundles: 2, Statements: []string{"stm_1"}, Records: map[string]int64{}, Permanent: map[string]int64{"telemetry": 1, "quarantined": 1, "heldRow": 1, "rejectedPlay": 1}}
	for _, kind := range control.Tables.Kinds() {
		require.Contains(t, recordNames, kind)
		counts.Records[kind] = 1
	}
	for _, kind := range control.Kinds.OfTenants() {
		counts.Permanent[kind.Type] = 1
	}
	p, w := s.page(Path + "/erasures/new")
	found, err := p.previewed(counts)
	require.NoError(t, err)
	require.Len(t, found.Deleted, len(counts.Records)+3)
	require.Len(t, found.Stays, len(counts.Permanent)+1)
	p.render("erase", erase{Subject: "ann", Token: "token", Found: found})
	text := readable(w.Body.String())
	for _, said := range []string{"Private parts of plays and other events: 3", "Exports that were requested: 1", "Bundles of exports: 2", "Issued statements with the name of a counterparty, as they are signed: 1", "Events of the kind “A dispute was opened” (dispute.opened): 1"} {
		require.Contains(t, text, said)
	}
	for kind := range counts.Records {
		require.NotRegexp(t, `\b`+kind+`: `, text)
	}
	require.NotContains(t, text, "Events of the kind “” ")
}

// TestStaleDraftsAreNoFreshOnes: a draft that something has overtaken says what, and leads to a new one; nobody is offered to issue it.
func TestStaleDraftsAreNoFreshOnes(t *testing.T) {
	for stale, says := range map[string]string{"CORRECTED": "what it corrects was corrected or voided", "STATED": "another statement of the same was issued", "DISPUTED": "a dispute of its time was opened or resolved", "": ""} {
		draft := `{"id":"stm_2","state":"DRAFT","stale":"` + stale + `","corrects":"stm_1","correction":1,"period":"2026-10","from":"2026-10-01T00:00:00Z","to":"2026-11-01T00:00:00Z","createdAt":"2026-11-01T08:00:00Z","currency":"EUR","total":"3","difference":"1","heldAmount":"0"}`
		s, _ := recorded(t, map[string]string{"/v1/counterparties": `{"counterparties":[]}`, "/v1/statements": `{"statements":[` + draft + `]}`, "/v1/statements/stm_2": `{"statement":` + draft + `,"document":{"lines":[]}}`})
		maps.Copy(s.operations(), map[string]operation{"issue-statement": {method: "POST", path: "/v1/statements/{statementId}/issue"}, "discard-statement": {method: "DELETE", path: "/v1/statements/{statementId}"}})
		p, w := s.page(Path + "/money/statements/stm_2")
		p.r.SetPathValue("statementId", "stm_2")
		require.NoError(t, showStatement(p))
		one := w.Body.String()
		p, w = s.page(Path + "/money/statements")
		require.NoError(t, showStatements(p))
		list := w.Body.String()
		require.Equal(t, stale == "", strings.Contains(one, "Issue…"))
		require.Contains(t, one, "Discard…")
		for _, text := range []string{one, list} {
			require.Equal(t, stale != "", strings.Contains(text, `<span class="tag bad">stale draft</span>`))
			require.Contains(t, text, says)
		}
		require.Equal(t, stale != "" && stale != "STATED", strings.Contains(one, `<a href="/console/money/statements/stm_1/correct">New draft of the correction…</a>`))
		require.Equal(t, stale == "STATED", strings.Contains(one, `<a href="/console/money/statements?currency=EUR">Statements of the currency</a>`))
	}
}

// TestStatementSaysWhoGetsAMinimum: what a rule's minimum adds has its rule, its month's time zone and who gets it, as a line has.
func TestStatementSaysWhoGetsAMinimum(t *testing.T) {
	s := answering(t, map[string]string{
		"/v1/counterparties": `{"counterparties":[{"id":"cp_1","name":"Harbour Light"}]}`, "/v1/bases": `{"bases":[]}`, "/v1/rights": `{"rights":[]}`,
		"/v1/statements/stm_1": `{"statement":{"id":"stm_1","state":"DRAFT","currency":"EUR","total":"3"},"document":{"lines":[],"adjustments":[
			{"amount":"3","month":"2026-10","reason":"MINIMUM","ruleId":"rul_1","timeZone":"America/New_York","shares":[{"counterpartyId":"cp_1","bps":5000,"amount":"1.5"}]}]}}`,
	})
	s.operations()["get-statement"] = operation{method: "GET", path: "/v1/statements/{statementId}"}
	p, w := s.page(Path + "/money/statements/stm_1")
	p.r.SetPathValue("statementId", "stm_1")
	require.NoError(t, showStatement(p))
	for _, said := range []string{"minimum of the rule", "rul_1", "2026-10 in America/New_York", "Harbour Light: 1.5"} {
		require.Contains(t, w.Body.String(), said)
	}
}

// TestPapersOfACorrection: its page leads to what it changes, that of a voiding to nothing else, and each payee's paper has a CSV of
// its own.
func TestPapersOfACorrection(t *testing.T) {
	for correction, lines := range map[string]bool{`"corrects":"stm_1"`: true, `"corrects":"stm_1","voidReason":"wrong"`: false, `"corrects":""`: true} {
		s := answering(t, map[string]string{
			"/v1/counterparties": `{"counterparties":[]}`, "/v1/payables": `{"payables":[{"counterpartyId":"cp_1","gross":"-0.1","paidAmount":"0"}]}`,
			"/v1/statements/stm_2": `{"statement":{"id":"stm_2","state":"ISSUED",` + correction + `,"currency":"EUR","total":"3","dueAmount":"0"},"document":{"lines":[]}}`,
		})
		maps.Copy(s.operations(), map[string]operation{"get-statement": {method: "GET", path: "/v1/statements/{statementId}"}, "list-payables": {method: "GET", path: "/v1/payables"}, "list-payee-links": {method: "GET", path: "/v1/links"}})
		p, w := s.page(Path + "/money/statements/stm_2")
		p.r.SetPathValue("statementId", "stm_2")
		require.NoError(t, showStatement(p))
		corrects := !strings.Contains(correction, `""`)
		require.Equal(t, corrects, strings.Contains(w.Body.String(), `format=csv&amp;table=changes" download`))
		require.Equal(t, lines, strings.Contains(w.Body.String(), `format=csv" download`))
		require.Equal(t, corrects, strings.Contains(w.Body.String(), `table=changes&amp;payee=cp_1`))
	}
}

// TestADeedIsSaidOnce: on the page that the act led to, and to nobody who opens an address.
func TestADeedIsSaidOnce(t *testing.T) {
	s := answering(t, nil)
	show := func(address string, cookies ...*http.Cookie) (text string, left []*http.Cookie) {
		p, w := s.page(address)
		for _, c := range cookies {
			p.r.AddCookie(c)
		}
		p.render("failed", &problem{})
		return w.Body.String(), w.Result().Cookies()
	}
	said := deeds["key-revoked"]
	p, w := s.page(Path + "/keys/key_1/revoke")
	p.done(Path, "key-revoked")
	require.Equal(t, Path, w.Header().Get("Location"))
	kept := w.Result().Cookies()
	text, left := show(Path, kept...)
	require.Contains(t, text, said)
	require.Len(t, left, 1)
	require.Negative(t, left[0].MaxAge, "a reload doesn't say it again")
	other, _ := show(Path+"/keys/key_2", kept...)
	require.NotContains(t, other, said)
	byAddress, _ := show(Path + "/keys/key_2?done=key-revoked")
	require.NotContains(t, byAddress, said)
	signedIn, _ := show(Path + "/sign-in?done=signed-out")
	require.NotContains(t, signedIn, deeds["signed-out"])
}

// TestWhatNeedsAPerson: until it is decided a dispute needs somebody, and so does what is due, and a draft whose period has ended. Who can't
// do it is told to look.
func TestWhatNeedsAPerson(t *testing.T) {
	s := answering(t, map[string]string{
		"/v1/disputes?OPEN": `{"disputes":[]}`, "/v1/disputes?INVESTIGATING": `{"disputes":[{}]}`, "/v1/disputes?RESPONDED": `{"disputes":[{},{}]}`,
		"/v1/payouts": `{"payouts":[{}]}`, "/v1/statements?DRAFT": `{"statements":[{"to":"2026-11-01T00:00:00Z"},{"to":"2999-01-01T00:00:00Z"}]}`,
	})
	p, _ := s.page(Path)
	var told []string
	for _, reader := range taskReaders {
		if p.can(reader.op) && reader.op != "list-held-rows" && reader.op != "list-rights" && reader.op != "list-bases" {
			found, err := reader.read(p, at(t, "2026-11-02T08:00:00Z"))
			require.NoError(t, err)
			if found.Count > 0 {
				told = append(told, found.Text+": "+found.Do)
			}
		}
	}
	require.Equal(t, []string{
		"dispute is looked into, and holds plays out of settlement: Respond, or decide them", "disputes were responded to, and wait for a decision: Decide them",
		"payout is due: See them", "draft of a statement waits, and its period has ended: See them",
	}, told)
}

// TestNoPayeeIsPaidByDefault: of several payees one is chosen by the person, an amount is of money, and a statement of which nothing is due
// is settled by its reference.
func TestNoPayeeIsPaidByDefault(t *testing.T) {
	const song, venue = `{"counterpartyId":"cp_1","currency":"EUR","gross":"0.53","paidAmount":"0"}`, `{"counterpartyId":"cp_2","currency":"EUR","gross":"0.35","paidAmount":"0"}`
	settle := actAt(t, "/money/statements/{statementId}/settle")
	over := func(rest string, payables ...string) *Service {
		return answering(t, map[string]string{
			"/v1/payables": `{"payables":[` + strings.Join(payables, ",") + `]` + rest + `}`, "/v1/counterparties": `{"counterparties":[{"id":"cp_1","name":"Song Rights Ltd"},{"id":"cp_2","name":"Venue Media"}]}`,
		})
	}
	read := func(s *Service, form url.Values) (any, error) {
		p, _ := s.page(Path)
		p.r.PostForm = form
		members, err := settle.read(p)
		if err != nil {
			return nil, err
		}
		return settle.body(p, members)
	}
	shown := func(s *Service) string {
		p, w := s.page(Path)
		fields, err := settle.fields(p)
		require.NoError(t, err)
		p.render("form", form{Fields: fields})
		return w.Body.String()
	}
	several := over("", song, venue)
	require.Contains(t, shown(several), `required><option value="">–</option><option value="cp_1">Song Rights Ltd: 0.53 EUR open</option><option value="cp_2">Venue Media: 0.35 EUR open</option><option value="all">all of them: 0.88 EUR open</option></select>`)
	_, err := read(several, url.Values{"reference": {"p-1"}})
	require.ErrorContains(t, err, "counterpartyId")
	body, err := read(several, url.Values{"reference": {"p-1"}, "counterpartyId": {everyone}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"reference": "p-1"}, body)
	require.Contains(t, shown(over("", song)), `required><option value="cp_1" selected>`, "the only one is chosen")
	require.Contains(t, shown(over(`,"nextCursor":"c"`, song)), `<option value="all">all of them, those that are not listed here, too</option>`, "what is open of those is not known")

	for currency, refused := range map[string]bool{"EUR": true, "KWD": false} {
		s := over("", strings.ReplaceAll(song, "EUR", currency))
		_, err := read(s, url.Values{"reference": {"p-1"}, "counterpartyId": {"cp_1"}, "amount": {"1.125"}})
		require.Equal(t, refused, err != nil, "%s: %v", currency, err)
	}

	none := over("")
	require.NotContains(t, shown(none), "counterpartyId")
	body, err = read(none, url.Values{"reference": {"p-1"}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"reference": "p-1"}, body)
	paid := due{client.Payable{Gross: "1.00", PaidAmount: "1.00", Payments: []client.PayablePayment{{Amount: "1.00"}}}}
	for state, can := range map[string]bool{"DRAFT": false, "ISSUED": true, "SETTLED": false} {
		require.Equal(t, can, payable(nil, statementRecord{Statement: client.Statement{State: state}}) == "", state)
	}
	require.Empty(t, payable(nil, statementRecord{Statement: client.Statement{State: "SETTLED"}, Payables: []due{paid}}), "some can be taken back")
}

// TestSumsAreOfTheSamePlays: they know neither an anchor nor a correlation id, and are of a time.
func TestSumsAreOfTheSamePlays(t *testing.T) {
	for query, offered := range map[string]bool{"from=2026-11-01": true, "from=2026-11-01&rightId=rgh_1": true, "rightId=rgh_1": false, "from=2026-11-01&spatialAnchorId=a": false, "from=2026-11-01&correlationId=c": false} {
		p, w := answering(t, map[string]string{"/v1/receipts": `{"receipts":[{"receipt":{"receiptId":"rcp_1"},"event":{"data":{}}}]}`}).page(Path + "/plays?" + query)
		require.NoError(t, showPlays(p))
		require.Equal(t, offered, strings.Contains(w.Body.String(), "CSV: sums by screen"), query)
	}
}

// TestACorrectionThatIsCorrected says so: all corrections of a period correct its first statement.
func TestACorrectionThatIsCorrected(t *testing.T) {
	var asked []string
	s := served(t, func(w http.ResponseWriter, target string) {
		response := nothing
		switch path, query, _ := strings.Cut(target, "?"); path {
		case "/v1/statements/stm_2":
			response = `{"statement":{"id":"stm_2","state":"ISSUED","corrects":"stm_1","correction":1,"issuedAt":"2026-11-03T00:00:00Z"}}`
		case "/v1/statements":
			asked = append(asked, query)
			response = `{"statements":[{"id":"stm_3","state":"ISSUED","corrects":"stm_1","correction":2,"difference":"-1.00","currency":"EUR","createdAt":"2026-11-04T00:00:00Z","issuedAt":"2026-11-05T00:00:00Z"},{"id":"stm_2","state":"ISSUED","corrects":"stm_1","correction":1,"difference":"2.00","currency":"EUR"}]}`
		}
		_, _ = w.Write([]byte(`{"data":` + response + `}`))
	})
	for _, a := range acts() { // whose scopes the page asks for
		if s.operations()[a.op].path == "" {
			s.operations()[a.op] = operation{method: "POST"}
		}
	}
	s.operations()["get-statement"], s.operations()["list-rights"] = operation{method: "GET", path: "/v1/statements/{statementId}"}, operation{method: "GET", path: "/v1/rights"}
	s.operations()["list-payee-links"] = operation{method: "GET", path: "/v1/links"}
	p, w := s.page(Path + "/money/statements/stm_2")
	p.r.SetPathValue("statementId", "stm_2")
	require.NoError(t, showStatement(p))
	require.Equal(t, []string{"corrects=stm_1&limit=100"}, asked)
	require.Contains(t, w.Body.String(), "Corrected by -1.00 EUR on 5 Nov 2026")
	require.NotContains(t, w.Body.String(), "Corrected by 2.00 EUR")
}

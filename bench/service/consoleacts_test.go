package service

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// recordMaker makes records in their states.
type recordMaker struct {
	t         *testing.T
	s         *systemtest.Service
	basis     string
	hook      string
	statement time.Time // where the next statement begins
}

// post calls an operation, and returns a text of the response.
func (m *recordMaker) post(path, body, take string) string {
	m.t.Helper()
	return m.call("POST", path, body, take)
}

func (m *recordMaker) call(method, path, body, take string) string {
	m.t.Helper()
	a := systemtest.Call(m.t, m.s.Client.API, m.s.Client.Key, systemtest.Operation{Method: method, Path: path, Body: body})
	require.Equal(m.t, 200, a.Status, "%s %s: %s", path, body, a.Body)
	if take == "" {
		return ""
	}
	return systemtest.TextAt(m.t, a.Body, take)
}

func (m *recordMaker) right() string {
	return m.post("/v1/rights", fmt.Sprintf(`{"basisId": %q, "substrate": "DOOH", "scope": {}, "effectiveFrom": "2026-01-01"}`, m.basis), "data.right.id")
}

func (m *recordMaker) offer(right string) string {
	return m.post("/v1/offers", fmt.Sprintf(`{"rightId": %q, "toOrgId": "org_b"}`, right), "data.offer.id")
}

// draft is a draft of a time with one play, of 1 EUR; ended is whether its period is over.
func (m *recordMaker) draft(ended bool) string {
	from := m.statement
	to := from.Add(30 * time.Minute)
	m.statement = to
	payee := m.post("/v1/settlement/counterparties", `{"name": "Song Rights", "kind": "OTHER", "currency": "EUR"}`, "data.counterparty.id") // one of its own: what another is owed back is set off
	right := m.right()
	m.post("/v1/settlement/rules", fmt.Sprintf(`{"unit": "EVENT", "price": "1", "currency": "EUR", "match": {"rightId": %q}, "shares": [{"counterpartyId": %q, "bps": 10000}], "effectiveFrom": "2026-01-01"}`, right, payee), "")
	row := fmt.Sprintf(`{"vendor": "v", "rows": [{"rowId": "row-%d", "rightId": %q, "spatialAnchorId": "a", "playedAt": %q, "dwellMs": 5000}]}`, from.Unix(), right, from.Add(time.Minute).Format(time.RFC3339))
	waittest.Until(m.t, func() bool { return m.post("/v1/delivery/ingest-batch", row, "data.results.0.status") == "accepted" }, "the node knows the right")
	m.s.Seal()
	if !ended {
		to = time.Now().Add(time.Hour)
		from = to.Add(-time.Minute)
	}
	body := fmt.Sprintf(`{"currency": "EUR", "from": %q, "to": %q}`, from.Format(time.RFC3339), to.Format(time.RFC3339))
	a := systemtest.Call(m.t, m.s.Client.API, m.s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/settlement/statements", Body: body})
	require.Equal(m.t, 200, a.Status, a.Body)
	require.Equal(m.t, ended, strings.Contains(a.Body, `"receipts":1`), a.Body)
	return systemtest.TextAt(m.t, a.Body, "data.statement.id")
}

func (m *recordMaker) issued() string {
	id := m.draft(true)
	m.post("/v1/settlement/statements/"+id+"/issue", "", "")
	return id
}

// unplayed is an issued statement of a time in which nothing was played.
func (m *recordMaker) unplayed() string {
	from := m.statement
	m.statement = from.Add(time.Minute)
	id := m.post("/v1/settlement/statements", fmt.Sprintf(`{"currency": "EUR", "from": %q, "to": %q}`, from.Format(time.RFC3339), m.statement.Format(time.RFC3339)), "data.statement.id")
	m.post("/v1/settlement/statements/"+id+"/issue", "", "")
	return id
}

func (m *recordMaker) dispute() string {
	return m.post("/v1/disputes", fmt.Sprintf(`{"rightId": %q, "window": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}, "reason": "r"}`, m.right()), "data.dispute.id")
}

func (m *recordMaker) export() string {
	return m.post("/v1/compliance/dsar", `{"scope": {"kind": "DATA_SUBJECT", "dataSubjectId": "p"}}`, "data.job.id")
}

// after is a record that an operation has moved.
func (m *recordMaker) after(id, path, body string) string {
	m.t.Helper()
	m.post(fmt.Sprintf(path, id), body, "")
	return id
}

// records are how to make a record in each of its states, by the page that it has.
func (m *recordMaker) records() map[string]map[string]func() string {
	rule := func() string {
		return m.post("/v1/settlement/rules", fmt.Sprintf(`{"unit": "EVENT", "price": "1", "currency": "USD", "shares": [{"counterpartyId": %q, "bps": 10000}]}`,
			m.post("/v1/settlement/counterparties", `{"name": "n", "kind": "OTHER", "currency": "USD"}`, "data.counterparty.id")), "data.rule.id")
	}
	hook := func(state string) func() string {
		return func() string {
			id := m.post("/v1/webhooks", fmt.Sprintf(`{"url": %q, "events": ["right.issued"]}`, m.hook), "data.webhook.id")
			if state != "ACTIVE" {
				m.call("PATCH", "/v1/webhooks/"+id, fmt.Sprintf(`{"state": %q}`, state), "")
			}
			return id
		}
	}
	challenge := func() string {
		return m.post("/v1/challenges", fmt.Sprintf(`{"rightId": %q, "challengerOrgId": "org_c", "reason": "r"}`, m.right()), "data.challenge.id")
	}
	offer := func() string { return m.offer(m.right()) }
	const statements, disputes, rights, offers, challenges, exports = "/v1/settlement/statements/%s", "/v1/disputes/%s", "/v1/rights/%s", "/v1/offers/%s", "/v1/challenges/%s", "/v1/compliance/dsar/%s"
	settled := func() string { return m.after(m.issued(), statements+"/settle", `{"reference": "p-0"}`) }
	return map[string]map[string]func() string{
		"/rights": {
			"ACTIVE": m.right, "SUSPENDED": func() string { return m.after(m.right(), rights+"/suspend", `{}`) }, "REVOKED": func() string { return m.after(m.right(), rights+"/revoke", `{}`) },
		},
		"/offers": {
			"PROPOSED": offer, "ACCEPTED": func() string { return m.after(offer(), offers+"/accept", "") }, "REJECTED": func() string { return m.after(offer(), offers+"/reject", `{}`) },
			"WITHDRAWN": func() string { return m.after(offer(), offers+"/withdraw", `{}`) }, "COUNTERED": func() string { return m.after(offer(), offers+"/counter", `{}`) },
		},
		"/challenges": {
			"OPEN": challenge, "UPHELD": func() string { return m.after(challenge(), challenges+"/resolve", `{"upheld": true}`) }, "OVERTURNED": func() string { return m.after(challenge(), challenges+"/resolve", `{"upheld": false}`) },
			"WITHDRAWN": func() string { return m.after(challenge(), challenges+"/withdraw", `{}`) },
		},
		"/disputes": {
			"OPEN": m.dispute, "INVESTIGATING": func() string { return m.after(m.dispute(), disputes+"/investigate", "") },
			"RESPONDED": func() string {
				return m.after(m.after(m.dispute(), disputes+"/investigate", ""), disputes+"/respond", `{"evidence": [{"text": "e"}]}`)
			},
			"RESOLVED": func() string { return m.after(m.dispute(), disputes+"/resolve", `{"outcome": "REJECTED"}`) },
		},
		"/money/rules": {"ACTIVE": rule, "RETIRED": func() string { id := rule(); m.call("DELETE", "/v1/settlement/rules/"+id, "", ""); return id }},
		"/money/statements": {
			"DRAFT": func() string { return m.draft(true) }, "DRAFT of a period that lasts": func() string { return m.draft(false) },
			"DISCARDED": func() string {
				id := m.draft(true)
				m.call("DELETE", "/v1/settlement/statements/"+id, "", "")
				return id
			},
			"ISSUED": m.issued, "ISSUED without plays": m.unplayed, "SETTLED": settled, "VOIDED": func() string { return m.after(m.issued(), statements+"/void", `{"reason": "r"}`) },
			"VOIDED after it was paid": func() string { return m.after(settled(), statements+"/void", `{"reason": "r"}`) },
		},
		"/webhooks": {"ACTIVE": hook("ACTIVE"), "PAUSED": hook("PAUSED"), "DISABLED": hook("DISABLED")},
		"/data": {
			"REQUESTED": m.export, "FAILED": func() string { return m.after(m.export(), exports+"/cancel", `{}`) },
			"READY": func() string {
				id := m.after(m.export(), exports+"/run", "")
				waittest.Until(m.t, func() bool { return m.call("GET", "/v1/compliance/dsar/"+id, "", "data.job.state") == "READY" }, "the export is ready")
				return id
			},
		},
	}
}

// filler is what the forms of acts are sent with.
var filler = url.Values{
	"reason": {"r"}, "resolution": {"r"}, "outcome": {"REJECTED"}, "upheld": {"no"}, "evidence": {"e"}, "reference": {"p-1"}, "since": {"2026-11-01"}, "state": {"ACTIVE"}, "url": {"https://example.org/"}, "events": {"right.issued"},
}

// notices are what pages say is wrong.
var notices = regexp.MustCompile(`(?s)<div class="notice bad".*?</div>|<span class="hint held".*?</span>|<p class="notice warn">.*?</p>`)

var chosenPayee = regexp.MustCompile(`<option value="(cp_\w+)"`)

// TestTenantConsoleShowsWhatSucceeds: on the page of a record in each of its states, each button leads to a form, and sending
// that does it; what has no button there is refused, and its page says why.
func TestTenantConsoleShowsWhatSucceeds(t *testing.T) {
	t.Parallel()
	s := owned(t, "--webhook-allow", "127.0.0.1")
	s.Rights = systemtest.IssueRights(t, s.Client)
	m := &recordMaker{t: t, s: s, hook: systemtest.NewHookReceiver(t).URL, statement: time.Now().UTC().Truncate(time.Hour).Add(-40 * time.Hour)}
	m.basis = m.post("/v1/bases", `{"kind": "LICENSE", "title": "t"}`, "data.basis.id")
	b := signIn(t, s.Client.API, s.Client.Key)
	notice := func(page string) string { return strings.Join(notices.FindAllString(page, -1), " ") }
	send := func(at string) (int, string) {
		_, _, page := b.send("GET", at, nil)
		form := url.Values{}
		for name, values := range filler {
			if strings.Contains(page, `name="`+name+`"`) {
				form[name] = values
			}
		}
		if payee := chosenPayee.FindStringSubmatch(page); payee != nil && strings.HasSuffix(at, "/settle") {
			form.Set("counterpartyId", payee[1])
			if !strings.Contains(page, ": 1.00 EUR open") { // all is paid: some is taken back
				form.Set("amount", "-0,50")
			}
		}
		status, _, text := b.send("POST", at, form)
		return status, html.UnescapeString(notice(text))
	}
	for page, states := range m.records() {
		known := map[string]bool{}
		shown := map[string]map[string]bool{}
		for state, record := range states {
			m.t = t
			id := record()
			at := "/console" + page + "/" + id
			status, _, text := b.send("GET", at, nil)
			require.Equal(t, 200, status, text)
			shown[state] = map[string]bool{}
			for _, link := range regexp.MustCompile(`class="button(?: primary)?" href="`+at+`/([a-z]+)"`).FindAllStringSubmatch(text, -1) {
				known[link[1]], shown[state][link[1]] = true, true
			}
		}
		require.NotEmpty(t, known, page)
		for state, record := range states {
			for act := range known {
				t.Run(fmt.Sprintf("%s %s: %s", page, state, act), func(t *testing.T) {
					m.t, b.t = t, t
					at := "/console" + page + "/" + record() + "/" + act
					status, _, text := b.send("GET", at, nil)
					require.Equal(t, 200, status, text)
					form := strings.Contains(text, `<form method="post" action="`+at)
					require.Equal(t, shown[state][act], form, "the act's page has a form where the record's page has its button: %s", notice(text))
					status, text = send(at)
					switch {
					case shown[state][act] && act == "correct":
						require.Equal(t, 409, status, text)
						require.Contains(t, text, "nothing has changed since", "which only the correction finds out")
					case shown[state][act]:
						require.Contains(t, []int{200, 303}, status, text)
					case page == "/rights" && act == "revoke", act == "retire", page == "/webhooks":
						// what is over already is said without an error
					default:
						require.NotContains(t, []int{200, 303}, status, text)
					}
				})
			}
		}
		m.t, b.t = t, t
	}
}

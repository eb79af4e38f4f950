package storytest

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// link is a link that was made.
type link struct {
	Link struct{ ID, State, StatementID, CounterpartyID string }
	URL  string
}

// payeeLinks walks payees' links to parts of a statement.
type payeeLinks struct {
	t      *testing.T
	s      *systemtest.Service
	tokens []string
	// foreign are texts of the other payee, of rights that are not paid for and of disputes, which nobody gets by the link.
	foreign []string
}

// PayeeLinks: one of two payees reads its part of a statement by a link, and nothing of the other, of rights without a
// price and of disputes; what is due is proven by the file that the link has. A link ends by itself, by revocation and
// with its person, and nobody can tell that from a link that never was. No log has a token.
func PayeeLinks(t *testing.T, s *systemtest.Service) {
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client = system.Client{API: s.Client.API, Key: s.Tenant.APIKey}
	s.Rights = systemtest.IssueRights(t, s.Client)
	w := &payeeLinks{t: t, s: s}
	payee := func(name, legal, email string) string {
		var made struct{ Counterparty struct{ ID string } }
		s.Post("/v1/settlement/counterparties", map[string]any{"name": name, "kind": "OTHER", "currency": "EUR", "legalName": legal, "address": legal + " Street", "email": email}, &made)
		return made.Counterparty.ID
	}
	ada, venue := payee("Song Rights", "Ada Lovelace", "ada@example.org"), payee("Venue Media", "Venue Media GmbH", "accounts@venue.example")
	s.Post("/v1/settlement/rules", map[string]any{"match": map[string]any{"rightId": s.Rights["DOOH"]}, "unit": "SECOND", "price": "0.0173", "currency": "EUR", "effectiveFrom": "2026-01-01T00:00:00Z",
		"shares": []map[string]any{{"counterpartyId": ada, "bps": 7100}, {"counterpartyId": venue, "bps": 2900}}}, nil)
	w.foreign = []string{"Venue", "accounts@venue.example", venue}
	begin := time.Now().Add(-48 * time.Hour)
	w.play()
	middle := w.alone(begin, ada)

	w.play()
	s.Post("/v1/delivery", map[string]any{"rightId": s.Rights["CTV"], "spatialAnchorId": "a", "dwellMs": 4321}, nil)
	var opened struct{ Dispute struct{ ID string } }
	s.Post("/v1/disputes", map[string]any{"rightId": s.Rights["CTV"], "reason": "not shown",
		"window": map[string]any{"from": begin.UTC().Format(time.RFC3339), "to": time.Now().UTC().Format(time.RFC3339Nano)}}, &opened)
	w.foreign = append(w.foreign, s.Rights["CTV"], opened.Dispute.ID)
	s.Seal()
	first, _ := w.draft(middle, nil)
	require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodPost, "/v1/settlement/payee-links", map[string]any{"statementId": first, "counterpartyId": ada}, nil), "issue it first")
	s.Post("/v1/settlement/statements/"+first+"/issue", nil, nil)
	require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodPost, "/v1/settlement/payee-links", map[string]any{"statementId": first, "counterpartyId": "cp_none"}, nil), "not a counterparty of this tenant")

	var due struct {
		Payables []struct{ CounterpartyID, Number, Exact, Net, Gross string }
	}
	s.Get("/v1/settlement/payables?statementId="+first, &due)
	require.Len(t, due.Payables, 2)
	var number, gross string
	for _, p := range due.Payables {
		if p.CounterpartyID == venue {
			w.foreign = append(w.foreign, p.Number, p.Exact, p.Gross)
		} else {
			number, gross = p.Number, p.Gross
		}
	}

	made := w.create(first, ada, time.Time{})
	page := w.page(made.URL)
	require.Contains(t, page, number)
	require.Contains(t, page, gross+" EUR")
	require.Contains(t, page, "Ada Lovelace")
	require.Contains(t, page, "Both show more than your part")
	require.NotContains(t, page, "<script")
	require.NotContains(t, page, "voided")
	for _, file := range []string{"csv", "json"} {
		require.Contains(t, w.read(made.URL+"/"+file, 200), number, file)
	}
	require.True(t, strings.HasPrefix(w.read(made.URL+"/pdf", 200), "%PDF-"))
	w.read(made.URL+"/signed", 409) // it names the other payee

	s.Seal()
	proof := filepath.Join(t.TempDir(), "proof.json")
	require.NoError(t, os.WriteFile(proof, []byte(w.read(made.URL+"/proof", 200)), 0o600))
	keys := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, s.Client.Download(t.Context(), "/.well-known/muniment/keys.json", keys))
	said := systemtest.Command(t, "verify", "--root", filepath.Join(s.Data, "keys", "root.vkey"), keys, proof)
	require.Contains(t, said, "inclusion.ok")
	require.Contains(t, said, "number "+number)
	require.Contains(t, said, gross+" EUR")

	// What is voided says so, and so does what was stated again.
	s.Post("/v1/settlement/statements/"+first+"/void", map[string]any{"reason": "stated for one"}, nil)
	require.Contains(t, w.page(made.URL), "nothing of it is due any more")
	second, _ := w.draft(middle, &ada)
	s.Post("/v1/settlement/statements/"+second+"/issue", nil, nil)
	require.Contains(t, w.page(made.URL), "The period was stated again")
	again := w.create(second, ada, time.Time{})
	page = w.page(again.URL)
	require.Contains(t, page, "Both show more than your part")
	require.NotContains(t, page, "Signed statement")
	w.read(again.URL+"/json", 200)
	w.read(again.URL+"/signed", 409) // it names the other right, the dispute and the statement that was voided

	w.ends(made, again, second, ada)
}

// play plays what both payees have a share of.
func (w *payeeLinks) play() {
	for range 7 {
		w.s.Post("/v1/delivery", map[string]any{"rightId": w.s.Rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 4321}, nil)
	}
}

// alone walks a link to a statement for one payee that shows nothing but its lines: its signed file is handed out.
func (w *payeeLinks) alone(from time.Time, counterpartyID string) (to time.Time) {
	w.s.Seal()
	statementID, to := w.draft(from, &counterpartyID)
	w.s.Post("/v1/settlement/statements/"+statementID+"/issue", nil, nil)
	made := w.create(statementID, counterpartyID, time.Time{})
	require.Contains(w.t, w.page(made.URL), "which shows your lines alone")
	dir := w.t.TempDir()
	require.NoError(w.t, w.s.Client.Download(w.t.Context(), "/v1/settlement/statements/"+statementID+"?format=signed", filepath.Join(dir, "signed")))
	require.Equal(w.t, string(systemtest.ReadFile(w.t, filepath.Join(dir, "signed"))), w.read(made.URL+"/signed", 200))
	return to
}

// draft drafts a statement of what was played from a moment until now, to the millisecond.
func (w *payeeLinks) draft(from time.Time, counterparty *string) (statementID string, to time.Time) {
	const form = "2006-01-02T15:04:05.000Z"
	var drafted struct{ Statement struct{ ID string } }
	to = time.Now().UTC().Truncate(time.Millisecond)
	w.s.Post("/v1/settlement/statements", map[string]any{"from": from.UTC().Format(form), "to": to.Format(form), "currency": "EUR", "counterpartyId": counterparty}, &drafted)
	return drafted.Statement.ID, to
}

func (w *payeeLinks) create(statementID, counterpartyID string, expires time.Time) (made link) {
	body := map[string]any{"statementId": statementID, "counterpartyId": counterpartyID}
	if !expires.IsZero() {
		body["expiresAt"] = expires.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	w.s.Post("/v1/settlement/payee-links", body, &made)
	_, token, _ := strings.Cut(made.URL, "/payee/")
	require.Len(w.t, token, 43)
	w.tokens = append(w.tokens, token)
	made.URL = w.s.Client.API + "/payee/" + token // where the test reaches it
	return made
}

// get is what anybody gets, without a key.
func (w *payeeLinks) get(method, url string) (*http.Response, string) {
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, nil)
	require.NoError(w.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow, noarchive", "X-Content-Type-Options": "nosniff"} {
		require.Equal(w.t, want, resp.Header.Get(name), "%s of %s", name, url)
	}
	policy := resp.Header.Get("Content-Security-Policy")
	require.True(w.t, strings.HasPrefix(policy, "sandbox allow-downloads; default-src 'none'; "), policy)
	require.NotContains(w.t, policy, "script")
	return resp, string(text)
}

// read reads what has nothing of the other payee.
func (w *payeeLinks) read(url string, status int) string {
	resp, text := w.get(http.MethodGet, url)
	require.Equal(w.t, status, resp.StatusCode, text)
	for _, foreign := range w.foreign {
		require.NotContains(w.t, text, foreign, url)
	}
	return text
}

func (w *payeeLinks) page(url string) string { return w.read(url, 200) }

// ends ends links in each way.
func (w *payeeLinks) ends(revoked, erased link, statementID, counterpartyID string) {
	t, s := w.t, w.s
	unknown := w.s.Client.API + "/payee/" + strings.Repeat("A", 43)
	none := w.read(unknown, 404)
	gone := func(l link) {
		for _, at := range []string{"", "/pdf", "/proof", "/nothing"} {
			require.Equal(t, none, w.read(l.URL+at, 404), at)
		}
	}
	soon := w.create(statementID, counterpartyID, time.Now().Add(1500*time.Millisecond))
	require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodPost, "/v1/settlement/payee-links", map[string]any{"statementId": statementID, "counterpartyId": counterpartyID, "expiresAt": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}, nil), "must be in the future")
	var ended link
	require.NoError(t, s.Client.Do(t.Context(), http.MethodDelete, "/v1/settlement/payee-links/"+revoked.Link.ID, nil, &ended))
	require.Equal(t, "REVOKED", ended.Link.State)
	gone(revoked)
	waittest.Until(t, func() bool { resp, _ := w.get(http.MethodGet, soon.URL); return resp.StatusCode == 404 }, "the link ends")
	gone(soon)
	resp, text := w.get(http.MethodPost, erased.URL)
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	require.NotContains(t, text, "Ada")
	resp, text = w.get(http.MethodHead, erased.URL)
	require.Equal(t, 200, resp.StatusCode)
	require.Empty(t, text)

	require.Contains(t, w.page(erased.URL), "Ada Lovelace")
	systemtest.Erased(t, s.Server, s.Client.Key, "Ada Lovelace")
	gone(erased)
	var list struct{ Links []struct{ ID, State string } }
	s.Get("/v1/settlement/payee-links?counterpartyId="+counterpartyID, &list)
	require.Len(t, list.Links, 4)
	var events string
	for kind, n := range map[string]int{"payee_link.created": 4, "payee_link.revoked": 4} {
		waittest.Until(t, func() bool {
			a := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "GET", Path: "/v1/events?limit=100&type=" + kind})
			events += a.Body
			return strings.Count(a.Body, `"type":"`+kind+`"`) == n
		}, "the events are there")
	}
	require.Contains(t, events, `"kind":"system"`)
	said := map[string][]byte{"the events": []byte(events)}
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(s.Data), "*.log")) // of each process
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, name := range logs {
		said[filepath.Base(name)] = systemtest.ReadFile(t, name)
	}
	for _, token := range w.tokens {
		for where, text := range said {
			require.False(t, bytes.Contains(text, []byte(token)), "a token is in %s", where)
		}
	}
}

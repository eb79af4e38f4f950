package control_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/access"
	"muniment.example/control/mailer"
	"muniment.example/control/node"
	"muniment.example/control/roomtest"
	"muniment.example/control/sandbox"
)

// applied is a fixture with access to the sandbox, and a clock.
type applied struct {
	*fixture
	clock  *roomtest.Clock
	outbox string
}

func openAccess(t *testing.T, cfg access.Config) *applied {
	t.Helper()
	dir := t.TempDir()
	clock := roomtest.NewClock(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	a := &applied{fixture: newFixtureOn(t, dir, node.Config{}, clock.Now), clock: clock, outbox: filepath.Join(dir, "outbox")}
	cfg.DB, cfg.PublicURL, cfg.Mails, cfg.Now = a.db, "https://muniment.example", &mailer.Mails{Outbox: a.outbox}, clock.Now
	cfg.Failed = func(code string, final bool, err error) error {
		return &control.JobFailure{Code: code, Final: final, Err: err}
	}
	var err error
	a.access, err = access.New(cfg)
	require.NoError(t, err)
	a.services = append(a.services, a.access)
	return a
}

// unlimited are limits that are out of the way.
var unlimited = access.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}}

func (a *applied) post(path, body string, headers ...string) answer {
	a.t.Helper()
	r := a.call("", "POST", access.Base+path, body, headers...)
	require.Equal(a.t, "application/json", r.header.Get("Content-Type"))
	require.NotContains(a.t, r.text, "contractVersion")
	return r
}

func formOf(email string) string {
	return fmt.Sprintf(`{"email":%q,"organisation":"Example Ltd","use":"Trying it out"}`, email)
}

// work does the jobs as control's workers do.
func (a *applied) work() {
	a.t.Helper()
	for _, w := range []control.Worker{{Kind: access.AdmitJob, Do: a.access.Admit}, {Kind: access.MailJob, Do: a.access.SendMail}} {
		for {
			job, err := a.db.Jobs.Claim(a.t.Context(), w.Kind, time.Minute)
			require.NoError(a.t, err)
			if job == nil {
				break
			}
			require.NoError(a.t, w.Do(a.t.Context(), job))
			require.NoError(a.t, job.Done(a.t.Context()))
		}
	}
}

func (a *applied) operator(method, path string) answer {
	a.t.Helper()
	return send(a.t, a.control().Admin(), adminToken, method, "/admin/access/applications"+path, "")
}

// idOf is the newest application of an address.
func (a *applied) idOf(email string) string {
	a.t.Helper()
	for _, one := range list(a.t, a.operator("GET", "").ok(), "applications") {
		if one["email"] == email {
			return one["id"].(string)
		}
	}
	a.t.Fatalf("%s has no application", email)
	return ""
}

// token is that of the mail to an address.
func (a *applied) token(email string) string {
	a.t.Helper()
	text, err := os.ReadFile(filepath.Join(a.outbox, a.idOf(email)+".eml"))
	require.NoError(a.t, err)
	return regexp.MustCompile(`#activate=([\w-]{43})\r\n`).FindStringSubmatch(string(text))[1]
}

// grant has an address apply and approves that.
func (a *applied) grant(email string) {
	a.t.Helper()
	require.Equal(a.t, 200, a.post("/apply", formOf(email)).status)
	a.work()
	a.operator("POST", "/"+a.idOf(email)+"/approve").ok()
	a.work()
}

// TestApplyTellsNothing: whatever is known of an address, the answer has the same bytes, and the
// database the same work.
func TestApplyTellsNothing(t *testing.T) {
	a := openAccess(t, unlimited)
	a.post("/apply", formOf("received@example.org"))
	a.work()
	for _, email := range []string{"approved@example.org", "refused@example.org", "activated@example.org", "often@example.org"} {
		a.grant(email)
	}
	a.operator("POST", "/"+a.idOf("refused@example.org")+"/refuse").ok()
	require.Equal(t, 200, a.post("/activate", fmt.Sprintf(`{"token":%q}`, a.token("activated@example.org"))).status)
	a.operator("POST", "/"+a.idOf("often@example.org")+"/refuse").ok()
	for range 2 {
		a.clock.Advance(time.Second)
		a.post("/apply", formOf("often@example.org"))
		a.work()
		a.operator("POST", "/"+a.idOf("often@example.org")+"/refuse").ok()
	}
	rows := func(table string) (n int) {
		require.NoError(t, a.db.Read().QueryRow(`SELECT COUNT(*) FROM `+table).Scan(&n))
		return n
	}
	before := rows("access_applications")
	var first answer
	for i, email := range []string{"unknown@example.org", "received@example.org", "RECEIVED@example.org", "approved@example.org", "refused@example.org", "activated@example.org", "often@example.org"} {
		events := rows("outbox")
		got := a.post("/apply", formOf(email))
		require.Equal(t, 200, got.status)
		require.JSONEq(t, `{"ok":true,"data":{"status":"RECEIVED"}}`, got.text)
		got.header.Del("X-Request-Id")
		if i == 0 {
			first = got
		}
		require.Equal(t, first.text, got.text, email)
		require.Equal(t, first.header, got.header, email)
		require.Equal(t, i+1, rows("access_requests"), "the request is kept as it is, and decided on later")
		require.Equal(t, before, rows("access_applications"))
		require.Equal(t, events, rows("outbox"))
	}
	a.work()
	require.Equal(t, before+3, rows("access_applications"), "the unknown, the refused and the activated one's")
}

// TestAccessRefusals: what is not well-formed is named, in the sandbox's envelope.
func TestAccessRefusals(t *testing.T) {
	a := openAccess(t, unlimited)
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		path, body, field string
		status            int
		code              sandbox.Code
		message           string
	}{
		{"/apply", `{`, "", 400, sandbox.InvalidBody, "not valid JSON"},
		{"/apply", ``, "", 400, sandbox.InvalidBody, ""},
		{"/apply", `[]`, "", 400, sandbox.InvalidBody, "must be an object"},
		{"/apply", "{\"email\":\"a\xff@b\"}", "", 400, sandbox.InvalidBody, ""},
		{"/apply", `{}`, "", 422, sandbox.MissingFields, "missing: email, organisation, use"},
		{"/apply", `{"email":"ada@example.org","organisation":"","use":null}`, "", 422, sandbox.MissingFields, "missing: organisation, use"},
		{"/apply", `{"email":"ada@example.org","organisation":" ","use":"x"}`, "", 422, sandbox.MissingFields, "missing: organisation"},
		{"/apply", formOf("ada"), "email", 422, sandbox.HandlerError, "e-mail address"},
		{"/apply", `{"email":"ada@example.org\r\nBcc: eve@example.org","organisation":"x","use":"x"}`, "email", 422, sandbox.HandlerError, "e-mail address"},
		{"/apply", `{"email":"ada@example.org","organisation":"x\r\nBcc: eve@example.org","use":"x"}`, "organisation", 422, sandbox.HandlerError, "control characters"},
		{"/apply", `{"email":"ada@example.org","organisation":"x\u0000","use":"x"}`, "organisation", 422, sandbox.HandlerError, "U+0000"},
		{"/apply", `{"email":"ada@example.org","email":"eve@example.org","organisation":"x","use":"x"}`, "email", 422, sandbox.HandlerError, "twice"},
		{"/apply", `{"email":7,"organisation":"x","use":"x"}`, "email", 422, sandbox.HandlerError, ""},
		{"/apply", `{"email":"ada@example.org","organisation":"` + long + `","use":"x"}`, "organisation", 422, sandbox.HandlerError, ""},
		{"/apply", `{"email":"ada@example.org","organisation":"x","use":"` + long + `"}`, "use", 422, sandbox.HandlerError, ""},
		{"/apply", `{"email":"` + long + `@example.org","organisation":"x","use":"x"}`, "email", 422, sandbox.HandlerError, ""},
		{"/apply", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, "", 413, sandbox.InvalidBody, ""},
		{"/activate", `{`, "", 400, sandbox.InvalidBody, ""},
		{"/activate", `{}`, "", 422, sandbox.MissingFields, "missing: token"},
		{"/activate", `{"token":7}`, "token", 422, sandbox.HandlerError, ""},
		{"/activate", `{"token":"` + long + `"}`, "token", 422, sandbox.HandlerError, ""},
		{"/activate", `{"token":"x"}`, "", 404, sandbox.HandlerError, "RESOURCE_NOT_FOUND: the token is not known, was used, or has expired"},
		{"/confirm", `{}`, "", 422, sandbox.MissingFields, "missing: token"},
		{"/confirm", `{"token":"x"}`, "", 404, sandbox.HandlerError, "RESOURCE_NOT_FOUND: the token is not known, was used, or has expired"},
		{"/nothing", `{}`, "", 404, sandbox.HandlerError, ""},
	} {
		r := a.post(c.path, c.body)
		require.Equal(t, c.status, r.status, "%.200s: %s", c.body, r.text)
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(r.text), &e))
		require.Equal(t, string(c.code), e["error"], "%.200s", c.body)
		require.Contains(t, e["message"], c.message)
		require.NotContains(t, e["message"], "eve@", "no value is repeated")
		if c.field == "" {
			require.NotContains(t, e, "field", "%.200s", c.body)
		} else {
			require.Equal(t, c.field, e["field"], "%.200s", c.body)
		}
	}
	require.Equal(t, 405, a.call("", "GET", access.Base+"/apply", "").status)
	require.Equal(t, 405, a.call("", "GET", access.Base+"/confirm?token=x", "").status, "whoever opens a link confirms nothing")
	refusal(t, a.post("/apply", formOf("ada@example.org"), "Sec-Fetch-Site", "cross-site"), 403, sandbox.HandlerError)
	require.Empty(t, list(t, a.operator("GET", "").ok(), "applications"))
}

// TestTokensAreRefusedAlike: one answer for tokens that are unknown, used, expired or replaced.
func TestTokensAreRefusedAlike(t *testing.T) {
	a := openAccess(t, unlimited)
	activate := func(token string) answer {
		r := a.post("/activate", fmt.Sprintf(`{"token":%q}`, token))
		r.header.Del("X-Request-Id")
		return r
	}
	unknown := activate(strings.Repeat("A", 43))
	refusal(t, unknown, 404, sandbox.HandlerError)
	alike := func(token string) {
		t.Helper()
		r := activate(token)
		require.Equal(t, unknown.status, r.status)
		require.Equal(t, unknown.text, r.text)
		require.Equal(t, unknown.header, r.header)
	}
	alike("short")
	a.grant("ada@example.org")
	used := a.token("ada@example.org")
	made := activate(used)
	require.Equal(t, 200, made.status)
	for _, member := range []string{`"tenantId":"tnt_`, `"orgId":"org_sandbox_`, `"keyId":"key_`, `"apiKey":"mun_test_`} {
		require.Contains(t, made.text, member)
	}
	alike(used)
	a.grant("grace@example.org")
	replaced := a.token("grace@example.org")
	a.operator("POST", "/"+a.idOf("grace@example.org")+"/approve").ok()
	alike(replaced)
	a.work()
	expired := a.token("grace@example.org")
	a.clock.Advance(24 * time.Hour)
	alike(expired)
}

// TestAccessLimits: 10 in 10 seconds and 30 an hour of one address, exactly, in windows of their
// own, with both routes together.
func TestAccessLimits(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			a := openAccess(t, access.Config{Shared: shared})
			from := func(address string) answer {
				return a.post("/activate", `{"token":"x"}`, "X-Forwarded-For", "203.0.113.99, "+address)
			}
			for range 5 {
				require.Equal(t, 404, from("192.0.2.1").status)
				require.Equal(t, 200, a.post("/apply", formOf("ada@example.org"), "X-Forwarded-For", "192.0.2.1").status)
			}
			refused := from("192.0.2.1")
			refusal(t, refused, 429, sandbox.RateLimited)
			requireRetryAfter(t, 10, refused.header.Get("Retry-After"))
			require.Equal(t, 404, from("192.0.2.2").status, "another address has windows of its own")
			a.clock.Advance(10*time.Second - time.Millisecond)
			require.Equal(t, 429, from("192.0.2.1").status)
			a.clock.Advance(time.Millisecond)
			for range 2 {
				for range 10 {
					require.Equal(t, 404, from("192.0.2.1").status)
				}
				a.clock.Advance(10 * time.Second)
			}
			refused = from("192.0.2.1")
			require.Equal(t, 429, refused.status, "30 in an hour")
			requireRetryAfter(t, 3570, refused.header.Get("Retry-After"))
			a.clock.Advance(3570*time.Second - time.Millisecond)
			require.Equal(t, 429, from("192.0.2.1").status)
			a.clock.Advance(time.Millisecond)
			require.Equal(t, 404, from("192.0.2.1").status)

			a.clock.Advance(2 * time.Hour)
			require.NoError(t, a.access.Expire(t.Context()))
			var left int
			require.NoError(t, a.db.Read().QueryRow(`SELECT COUNT(*) FROM sandbox_windows`).Scan(&left))
			require.Zero(t, left)
		})
	}
}

// TestAccessOfOperators: who decides needs the admin token, and reads in sentences what can't be done.
func TestAccessOfOperators(t *testing.T) {
	a := openAccess(t, unlimited)
	require.Equal(t, 401, send(t, a.control().Admin(), "", "GET", "/admin/access/applications", "").status)
	require.Equal(t, 404, a.operator("POST", "/app_01J00000000000000000000000/approve").status)
	a.grant("ada@example.org")
	id := a.idOf("ada@example.org")
	one := list(t, a.operator("GET", "?state=APPROVED").ok(), "applications")[0]
	require.Equal(t, "Example Ltd", one["organisation"])
	require.Equal(t, "Trying it out", one["use"])
	require.Equal(t, "WRITTEN", get[string](t, one, "mail", "state"))
	require.Equal(t, "2026-12-01T12:00:00.000Z", one["expiresAt"])
	require.Empty(t, list(t, a.operator("GET", "?state=RECEIVED").ok(), "applications"))
	require.Equal(t, 200, a.post("/activate", fmt.Sprintf(`{"token":%q}`, a.token("ada@example.org"))).status)
	for _, action := range []string{"approve", "refuse"} {
		r := a.operator("POST", "/"+id+"/"+action)
		require.Equal(t, 409, r.status)
		require.Contains(t, r.text, "application is already ACTIVATED")
	}
	for body, status := range map[string]int{`{}`: 422, `{"allFrom":""}`: 422, `{"olderThan":"yesterday"}`: 422, `{"allFrom":"example.org"}`: 200} {
		require.Equal(t, status, send(t, a.control().Admin(), adminToken, "POST", "/admin/access/applications/refuse", body).status, body)
	}
	tenants := list(t, send(t, a.control().Admin(), adminToken, "GET", "/admin/tenants", "").ok(), "tenants")
	require.Equal(t, true, tenants[0]["sandbox"], "its keys can be listed, made and revoked")
	require.Equal(t, "ada@example.org", tenants[0]["email"])
	tenantID := tenants[0]["tenantId"].(string)
	key := send(t, a.control().Admin(), adminToken, "POST", "/admin/api-keys", fmt.Sprintf(`{"tenantId":%q,"label":"lost"}`, tenantID)).ok()
	require.Equal(t, tenantID, get[string](t, a.call(get[string](t, key, "apiKey"), "GET", "/v1/tenant", "").ok(), "tenant", "tenantId"))
}

// TestActivatedTenantIsNotEvicted, however long it is idle, and takes no visitor's place.
func TestActivatedTenantIsNotEvicted(t *testing.T) {
	a := openAccess(t, unlimited)
	p := openPlayground(t, a.fixture, sandbox.Config{MaxTenants: 1, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}, Now: a.clock.Now})
	a.grant("ada@example.org")
	var made struct{ Data access.Key }
	require.NoError(t, json.Unmarshal([]byte(a.post("/activate", fmt.Sprintf(`{"token":%q}`, a.token("ada@example.org"))).text), &made))
	p.visit()
	a.clock.Advance(1000 * time.Hour)
	require.NoError(t, p.sandbox.Evict(t.Context()))
	require.Equal(t, made.Data.TenantID, get[string](t, a.call(made.Data.APIKey, "GET", "/v1/tenant", "").ok(), "tenant", "tenantId"))
	var tenants int
	require.NoError(t, a.db.Read().QueryRow(`SELECT COUNT(*) FROM tenants WHERE sandbox = 1`).Scan(&tenants))
	require.Equal(t, 1, tenants, "the visitor's is gone")
}

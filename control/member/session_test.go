package member

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	"muniment.example/control/mailer"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

const public = "https://muniment.example"

// begin is when a test's clock begins.
var begin = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// fixture is the service on a database with a clock, and the tenants on it.
type fixture struct {
	*Service
	t       *testing.T
	clock   *roomtest.Clock
	tenants *tenant.Service
	admin   *http.ServeMux
	log     *strings.Builder
	outbox  string
}

// failed is what control makes of a job's error.
func failed(code string, _ bool, err error) error { return fmt.Errorf("%s: %w", code, err) }

func newFixture(t *testing.T) *fixture {
	h := &fixture{t: t, clock: roomtest.NewClock(begin), log: new(strings.Builder), outbox: t.TempDir()}
	db := roomtest.Open(t, t.TempDir(), h.clock.Now)
	var err error
	h.Service, err = New(Config{DB: db, PublicURL: public, Mails: &mailer.Mails{Outbox: h.outbox}, Failed: failed, Now: h.clock.Now, Logger: slog.New(slog.NewTextHandler(h.log, nil))})
	require.NoError(t, err)
	h.tenants, err = tenant.New(tenant.Config{DB: db, Nodes: roomtest.Alone{}, Made: First, Scopes: ScopesInForce})
	require.NoError(t, err)
	h.admin = http.NewServeMux()
	h.tenants.OperatorRoutes(humago.New(h.admin, huma.DefaultConfig("", "")))
	return h
}

// open is the service with a public URL.
func open(db *store.DB, public string) (*Service, error) {
	return New(Config{DB: db, PublicURL: public, Mails: &mailer.Mails{}, Failed: failed})
}

// tenant makes a tenant with a key.
func (h *fixture) tenant(org string, scopes ...string) tenant.Created {
	h.t.Helper()
	made, err := h.tenants.Create(h.t.Context(), tenant.Request{Org: org, Scopes: scopes})
	require.NoError(h.t, err)
	return made
}

// operator calls an operation for operators.
func (h *fixture) operator(method, path, body string) {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.admin.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	require.Equal(h.t, http.StatusOK, w.Code, w.Body)
}

// request is one of a browser with the cookies.
func request(method, target string, cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

// code is the code of an error, empty for none.
func code(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.From(err).Code
}

// signedIn is the cookie of a new session of a key.
func (h *fixture) signedIn(key string) *http.Cookie {
	h.t.Helper()
	c, err := h.SignInByKey(request("POST", public+Path), key)
	require.NoError(h.t, err)
	return c
}

// is returns the session of a cookie.
func (h *fixture) is(c *http.Cookie) (Session, error) {
	return h.Session(request("GET", public+Path, c))
}

func (h *fixture) count(from string) (n int) {
	h.t.Helper()
	require.NoError(h.t, h.db.Read().QueryRowContext(h.t.Context(), `SELECT COUNT(*) FROM `+from).Scan(&n))
	return n
}

// TestKeyBecomesASession: with the scopes of the key, and without the key anywhere in the database.
func TestKeyBecomesASession(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.tenant("acme", "rights:read", "metering:read")
	c := h.signedIn(made.APIKey)
	require.Equal(t, "__Host-muniment_session", c.Name)
	require.Equal(t, "/", c.Path)
	require.True(t, c.Secure && c.HttpOnly && c.SameSite == http.SameSiteLaxMode && c.Domain == "" && c.MaxAge == 0)

	s, err := h.is(c)
	require.NoError(t, err)
	require.Equal(t, made.TenantID, s.TenantID)
	require.Equal(t, sealer.Ref{Kind: "key", ID: made.KeyID}, s.Actor)
	require.Equal(t, []string{"rights:read", "metering:read"}, s.Caller.Scopes.Names())
	require.True(t, s.Allows(api.RightsRead))
	require.False(t, s.Allows(api.RightsWrite))
	require.Equal(t, begin.Add(sessionAge), s.ExpiresAt.Time)

	rows, err := store.List(t.Context(), h.db.Read(), "the sessions", store.Text, `SELECT token_hash || tenant_id || actor_id FROM sessions`)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.NotContains(t, rows[0], c.Value)
	require.NotContains(t, rows[0], made.APIKey[len("mun_test_")+27:], "the secret")
	require.Empty(t, h.log.String())

	for _, bad := range []string{"", made.APIKey[:len(made.APIKey)-1], strings.Replace(made.APIKey, "test", "live", 1), c.Value} {
		_, err := h.SignInByKey(request("POST", public+Path), bad)
		require.Equal(t, api.AuthInvalid, code(err), bad)
	}
	require.Equal(t, 1, h.count("sessions"))
}

// TestSessionsEnd: after 8 hours without a request, 24 hours after they began, and when the browser signs out.
func TestSessionsEnd(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.tenant("acme")
	idle, used, out := h.signedIn(made.APIKey), h.signedIn(made.APIKey), h.signedIn(made.APIKey)
	gone, err := h.SignOut(request("POST", public+Path, out))
	require.NoError(t, err)
	require.Equal(t, -1, gone.MaxAge)
	require.Equal(t, out.Name, gone.Name)
	_, err = h.is(out)
	require.Equal(t, errEnded, err)

	for at := time.Duration(0); at < sessionAge-time.Hour; at += time.Hour {
		h.clock.Advance(time.Hour)
		_, err := h.is(used)
		require.NoError(t, err)
		if at+time.Hour == idleAge-time.Hour {
			h.clock.Advance(time.Hour - time.Millisecond)
			require.Equal(t, 2, h.count("sessions"))
			require.NoError(t, h.Forget(t.Context()))
			require.Equal(t, 2, h.count("sessions"))
			h.clock.Advance(time.Millisecond)
			at += time.Hour
			_, err = h.is(idle)
			require.Equal(t, errEnded, err)
			_, err = h.is(used)
			require.NoError(t, err)
			require.NoError(t, h.Forget(t.Context()))
			require.Equal(t, 1, h.count("sessions"))
		}
	}
	h.clock.Set(begin.Add(sessionAge - time.Millisecond))
	_, err = h.is(used)
	require.NoError(t, err)
	h.clock.Advance(time.Millisecond)
	_, err = h.is(used)
	require.Equal(t, errEnded, err)
	require.NoError(t, h.Forget(t.Context()))
	require.Zero(t, h.count("sessions"))
}

// TestSessionsOfAnEndedKey: revoked or expired, the key acts by no session either.
func TestSessionsOfAnEndedKey(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	revoked, other := h.tenant("acme"), h.tenant("other")
	c, otherC := h.signedIn(revoked.APIKey), h.signedIn(other.APIKey)
	h.operator("POST", "/admin/api-keys/"+revoked.KeyID+"/revoke", "{}")
	_, err := h.is(c)
	require.Equal(t, errEnded, err)
	_, err = h.SignInByKey(request("POST", public+Path), revoked.APIKey)
	require.Equal(t, api.AuthInvalid, code(err))
	_, err = h.is(otherC)
	require.NoError(t, err)
	h.operator("POST", "/admin/api-keys/"+other.KeyID+"/rotate", `{"overlapSeconds":60}`)
	h.clock.Advance(time.Minute - time.Millisecond)
	_, err = h.is(otherC)
	require.NoError(t, err)
	h.clock.Advance(time.Millisecond)
	_, err = h.is(otherC)
	require.Equal(t, errEnded, err, "replaced")
}

// TestFixation: signing in gives a browser another session than any that it came with, and ends that.
func TestFixation(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made, other := h.tenant("acme"), h.tenant("other")
	planted := h.signedIn(other.APIKey)
	chosen := &http.Cookie{Name: planted.Name, Value: "of-the-attackers-choice"}
	for _, with := range []*http.Cookie{planted, chosen} {
		c, err := h.SignInByKey(request("POST", public+Path, with), made.APIKey)
		require.NoError(t, err)
		require.NotEqual(t, with.Value, c.Value)
		_, err = h.is(with)
		require.Equal(t, errEnded, err)
		s, err := h.is(c)
		require.NoError(t, err)
		require.Equal(t, made.TenantID, s.TenantID)
		_, err = h.Session(request("GET", public+Path, with, c))
		require.Equal(t, errNone, err, "a second cookie of the name")
	}
	_, err := h.Session(request("GET", public+Path))
	require.Equal(t, errNone, err)
	operators := &http.Cookie{Name: "muniment_console_abcdefgh", Value: planted.Value}
	_, err = h.Session(request("GET", public+Path, operators))
	require.Equal(t, errNone, err, "the operators' console has other sessions")
}

// TestManySessions: an actor's oldest session makes room for one more.
func TestManySessions(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made, other := h.tenant("acme"), h.tenant("other")
	first := h.signedIn(made.APIKey)
	h.signedIn(other.APIKey)
	for range mostSessions - 1 {
		h.clock.Advance(time.Millisecond)
		h.signedIn(made.APIKey)
	}
	_, err := h.is(first)
	require.NoError(t, err)
	h.signedIn(made.APIKey)
	_, err = h.is(first)
	require.Equal(t, errEnded, err)
	require.Equal(t, mostSessions+1, h.count("sessions"))
}

// TestConfirmed: what asks again takes a session of the last 10 minutes, and signing in again is enough.
func TestConfirmed(t *testing.T) {
	h := newFixture(t)
	made := h.tenant("acme")
	c := h.signedIn(made.APIKey)
	h.clock.Advance(confirmedAge)
	s, err := h.is(c)
	require.NoError(t, err)
	require.NoError(t, s.Confirmed())
	h.clock.Advance(time.Millisecond)
	s, err = h.is(c)
	require.NoError(t, err)
	require.True(t, IsUnconfirmed(s.Confirmed()))
	require.False(t, IsUnconfirmed(errEnded))
	c, err = h.SignInByKey(request("POST", public+Path, c), made.APIKey)
	require.NoError(t, err)
	s, err = h.is(c)
	require.NoError(t, err)
	require.NoError(t, s.Confirmed())
}

// TestCheck: who reaches the console, by the public URL, the address of the caller and what the browser says.
func TestCheck(t *testing.T) {
	db := roomtest.Open(t, t.TempDir(), nil)
	for _, c := range []struct {
		public, host, from, method string
		header                     map[string]string
		refused                    string
	}{
		{"https://a.example", "a.example", "203.0.113.9", "GET", nil, ""},
		{"https://a.example", "10.0.0.1:8080", "10.0.0.2", "POST", nil, ""},
		{"http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", "GET", nil, ""},
		{"http://0.0.0.0:8080", "localhost:8080", "172.17.0.1", "POST", map[string]string{"Origin": "http://localhost:8080"}, ""},
		{"http://127.0.0.1:8080", "10.0.0.1:8080", "127.0.0.1", "GET", nil, "at http://localhost:8080/console"},
		{"http://127.0.0.1:8080", "rebound.example", "127.0.0.1", "GET", nil, "opens only in a browser on the machine"},
		{"http://a.example", "a.example", "10.0.0.2", "GET", nil, "at http://localhost/console"},
		{"http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", "POST", map[string]string{"Origin": "http://a.example"}, "another origin"},
		// What a browser sends for a page of another origin changes nothing; it may lead here.
		{"https://a.example", "a.example", "10.0.0.2", "GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, ""},
		{"https://a.example", "a.example", "10.0.0.2", "POST", map[string]string{"Sec-Fetch-Site": "same-origin"}, ""},
		{"https://a.example", "a.example", "10.0.0.2", "POST", map[string]string{"Sec-Fetch-Site": "cross-site"}, "another origin"},
		{"https://a.example", "a.example", "10.0.0.2", "POST", map[string]string{"Sec-Fetch-Site": "same-site"}, "another origin"},
		{"https://a.example", "a.example", "10.0.0.2", "DELETE", map[string]string{"Origin": "https://b.example"}, "another origin"},
		{"https://a.example", "a.example", "10.0.0.2", "POST", map[string]string{"Origin": "null"}, "another origin"},
		{"https://a.example", "inner:8080", "10.0.0.2", "POST", map[string]string{"Origin": "https://a.example"}, ""},
	} {
		s, err := open(db, c.public)
		require.NoError(t, err)
		r := httptest.NewRequest(c.method, Path, nil)
		r.Host = c.host
		r.Header.Set("X-Forwarded-For", c.from)
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		err = s.Check(r)
		_, signIn := s.SignInByKey(r, "x")
		_, signOut := s.SignOut(r)
		if c.refused == "" {
			require.NoError(t, err, "%+v", c)
			require.NoError(t, signOut, "%+v", c)
			continue
		}
		for _, err := range []error{err, signIn, signOut} {
			require.ErrorContains(t, err, c.refused, "%+v", c)
			require.Equal(t, http.StatusForbidden, api.From(err).HTTPStatus, "%+v", c)
		}
		w := httptest.NewRecorder()
		s.Protect(http.NotFoundHandler(), func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusForbidden)
		}).ServeHTTP(w, r)
		require.Contains(t, w.Body.String(), c.refused)
	}
	for _, bad := range []string{"", "muniment.example", "ftp://a.example", "https://"} {
		_, err := open(db, bad)
		require.ErrorContains(t, err, "public URL", bad)
	}
}

// TestCookieWithoutTLS has no name that a browser would refuse, and is another one for each port.
func TestCookieWithoutTLS(t *testing.T) {
	db := roomtest.Open(t, t.TempDir(), nil)
	for public, name := range map[string]string{"http://127.0.0.1:8080": "muniment_session_8080", "http://[::1]:81": "muniment_session_81", "http://localhost": "muniment_session"} {
		s, err := open(db, public)
		require.NoError(t, err)
		c := s.browsers.filled("x")
		require.Equal(t, name, c.Name)
		require.True(t, !c.Secure && c.HttpOnly && c.SameSite == http.SameSiteLaxMode)
	}
}

// TestNext: whatever is asked for, it leads to a path of the console.
func TestNext(t *testing.T) {
	for _, good := range []string{"/console", "/console/plays", "/console/plays?anchor=a%2Fb&x=1", "/console/rights/rgh_1?"} {
		require.Equal(t, strings.TrimSuffix(good, "?"), strings.TrimSuffix(Next(good), "?"))
	}
	for _, bad := range []string{
		"", "/", "/v1/rights", "/consoles", "//evil.example/console", "https://evil.example/console", "/\\evil.example", "\\\\evil.example", "/console\\..\\..",
		"/console/../v1", "/console/..//evil.example", "/console/%2e%2e//evil.example", "/console//evil.example", "javascript:alert(1)", "/console\r\nSet-Cookie: a=b", "/console#@evil.example",
		"https:/console", "//user@evil.example/console", "/console/ ", "http:console", " /console", "/console/" + strings.Repeat("a", 3000), "%2Fconsole", "/console/%",
	} {
		require.Equal(t, Path, Next(bad), bad)
	}
}

func ExampleNext() {
	fmt.Println(Next("//evil.example"), Next("/console/plays?anchor=a"))
	// Output: /console /console/plays?anchor=a
}

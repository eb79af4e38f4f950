package service

import (
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/console"
	"muniment.example/control/member"
	"muniment.example/gateway/api"
)

// browser is a session of the tenants' console.
type browser struct {
	t      *testing.T
	base   string
	client *http.Client
}

// newBrowser has not signed in.
func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &browser{t, base, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// signIn exchanges an API key for a session.
func signIn(t *testing.T, base, key string) *browser {
	t.Helper()
	b := newBrowser(t, base)
	status, header, text := b.send("POST", "/console/sign-in", url.Values{"key": {key}, "next": {"/console"}})
	require.Equal(t, 303, status, text)
	require.Equal(t, "/console", header.Get("Location"))
	return b
}

// invited is a new member of the service's tenant, with an address of its own.
func invited(t *testing.T, s *systemtest.Service, name, role string) (memberID, email string) {
	t.Helper()
	email = strings.ToLower(rand.Text()) + "@example.org"
	body, err := json.Marshal(map[string]string{"email": email, "name": name, "role": role})
	require.NoError(t, err)
	a := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/members", Body: string(body)})
	require.Equal(t, 200, a.Status, a.Body)
	return systemtest.TextAt(t, a.Body, "data.member.id"), email
}

// asMember signs in by a mailed link. Each caller has an address of its own, as requests of one are limited.
func asMember(t *testing.T, s *systemtest.Service, memberID, email string) *browser {
	t.Helper()
	b := newBrowser(t, s.Client.API)
	from := systemtest.AnyAddress()
	status, _, text := b.send("POST", "/console/sign-in", url.Values{"email": {email}}, "X-Forwarded-For", from)
	require.Equal(t, 303, status, text)
	status, header, text := b.send("POST", "/console/sign-in", url.Values{"token": {systemtest.SignInToken(t, s.Data, memberID)}}, "X-Forwarded-For", from)
	require.Equal(t, 303, status, text)
	require.Equal(t, "/console", header.Get("Location"))
	return b
}

// send sends what a browser does for a link, or for a form of this origin.
func (b *browser) send(method, path string, form url.Values, headers ...string) (status int, header http.Header, text string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp.StatusCode, resp.Header, string(body)
}

var (
	addresses = regexp.MustCompile(`(?:href|src|action|data-verify)="([^"]*)"`)
	forms     = regexp.MustCompile(`<form[^>]*method="post"[^>]*action="([^"]*)"`)
	inline    = regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|\son\w+=|\sstyle=|javascript:`)
	ids       = regexp.MustCompile(`\b[a-z]+_[0-9A-HJKMNP-TV-Z]{26}\b`)
)

// walk follows every link from the first page on, and returns the pages by their addresses, and the addresses of
// the forms that they have.
func (b *browser) walk() (pages map[string]string, posts map[string]bool) {
	b.t.Helper()
	pages, posts = map[string]string{}, map[string]bool{}
	next := []string{"/console"}
	shapes := map[string]int{}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		path, query, _ := strings.Cut(at, "?")
		shape := ids.ReplaceAllString(path, "ID")
		if values, err := url.ParseQuery(query); err == nil && len(values) > 0 {
			shape += "?"
			for name := range values {
				shape += name + ","
			}
		}
		if _, seen := pages[at]; seen || shapes[shape] >= 4 { // enough of one kind
			continue
		}
		shapes[shape]++
		status, header, text := b.send("GET", at, nil)
		if status == 303 {
			continue
		}
		require.Equal(b.t, 200, status, "a link led to %s: %s", at, text)
		pages[at] = text
		if kind, _, _ := strings.Cut(header.Get("Content-Type"), ";"); kind != "text/html" || strings.HasSuffix(path, "/paper") {
			pages[at] = "" // a file, which no browser takes for a page of the console
			continue
		}
		require.Equal(b.t, console.Policy, header.Get("Content-Security-Policy"), at)
		require.Equal(b.t, "no-store", header.Get("Cache-Control"), at)
		require.NotRegexp(b.t, inline, text, at)
		for _, m := range addresses.FindAllStringSubmatch(text, -1) {
			to := html.UnescapeString(m[1])
			require.Regexp(b.t, `^(/[^/]|#)`, to, "%s names an address that leads elsewhere", at)
			if strings.HasPrefix(to, "/console") && !strings.HasPrefix(to, "/console/files/") && to != "/console/sign-out" {
				next = append(next, to)
			}
		}
		for _, m := range forms.FindAllStringSubmatch(text, -1) {
			posts[html.UnescapeString(m[1])] = true
		}
	}
	return pages, posts
}

// owned is a service whose client may do everything.
func owned(t *testing.T, flags ...string) *systemtest.Service {
	t.Helper()
	s := systemtest.NewService(t, flags...)
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	return s
}

// furnished is a service with a tenant that has something of everything, all free texts said by a person.
func furnished(t *testing.T, person string) *speaker {
	t.Helper()
	s := owned(t, "--webhook-allow", "127.0.0.1")
	r := systemtest.NewHookReceiver(t)
	p := &speaker{t: t, s: s, known: systemtest.Document(t, s.Server), person: person, said: map[string]string{}, ids: map[string]string{}}
	p.journey(r.URL)
	waittest.Until(t, func() bool { return s.Query("control.db", "SELECT COUNT(*) FROM outbox") == 0 }, "all events are in the log")
	s.Seal()
	return p
}

// marker is a text that would run if a page did not escape it.
const marker = `<i data-x>'><script>x()</script>@`

// TestTenantConsole walks all pages of a tenant in which every free text of the API is a script: with all scopes,
// with each alone, and with those of each role, by a key and as a member who has signed in by a mailed link. No link leads to what the session may not do, and by hand all
// that it may not do is refused and changes nothing.
func TestTenantConsole(t *testing.T) {
	t.Parallel()
	p := furnished(t, marker)
	s := p.s
	owner := signIn(t, s.Client.API, s.Client.Key)
	all, posts := owner.walk()
	said := ""
	for at, text := range all {
		require.NotContains(t, strings.ToLower(text), "<i data-x>", "%s shows a text of somebody as its own", at)
		said += text
	}
	require.Greater(t, strings.Count(said, "&lt;i data-x&gt;"), 50, "the texts are shown")
	_, _, gatePage := owner.send("GET", "/docs/gate", nil)
	explained := regexp.MustCompile(`href="/docs/gate#([^"]*)"`).FindAllStringSubmatch(said, -1)
	require.NotEmpty(t, explained)
	for _, m := range explained {
		require.Contains(t, gatePage, `id="`+m[1]+`"`, "a rule is explained where a link to it leads")
	}
	require.Greater(t, len(all), 40, "%v", all)
	for at := range posts {
		status, _, text := owner.send("POST", at, url.Values{}, "Sec-Fetch-Site", "cross-site")
		require.Equal(t, 403, status, "%s: %s", at, text)
		require.Contains(t, text, "another origin", at)
	}
	_, _, asked := owner.send("GET", "/console/plays?correlationId="+url.QueryEscape(`">`+marker), nil)
	require.Contains(t, asked, `value="&#34;&gt;&lt;i data-x&gt;`, "a filter is in its field")

	var sets [][]string
	for _, role := range member.Roles() {
		if role != member.Owner {
			sets = append(sets, role.Scopes().Names())
		}
	}
	for _, scope := range api.EveryScope.Names() {
		if scope != api.Wildcard.String() {
			sets = append(sets, []string{scope})
		}
	}
	refuses := func(t *testing.T, b *browser) {
		own, ownPosts := b.walk() // which fails on a link that is refused
		for at := range all {
			if _, linked := own[at]; linked {
				continue
			}
			status, _, text := b.send("GET", at, nil)
			require.Contains(t, []int{200, 303, 403, 422}, status, "%s: %s", at, text)
		}
		for at := range posts {
			if ownPosts[at] || at == "/console/sign-out" {
				continue
			}
			shown, _, _ := b.send("GET", at, nil)
			if shown == 200 { // it may, where no page that it may read leads there
				continue
			}
			status, _, text := b.send("POST", at, url.Values{})
			require.Equal(t, 403, status, "%s: %s", at, text)
		}
	}
	for _, role := range member.Roles() {
		t.Run("member: "+string(role), func(t *testing.T) {
			memberID, email := invited(t, s, marker, string(role))
			b := asMember(t, s, memberID, email)
			b.t = t
			_, _, text := b.send("GET", "/console", nil)
			require.Contains(t, text, "@</b>, "+string(role)+"</span>")
			refuses(t, b)
		})
	}
	for _, set := range sets {
		t.Run(strings.Join(set, " "), func(t *testing.T) {
			made := p.call("create-api-key", fmt.Sprintf(`{"label": "walk", "scopes": [%s]}`, `"`+strings.Join(set, `","`)+`"`))
			b := signIn(t, s.Client.API, systemtest.TextAt(t, made, "data.apiKey"))
			refuses(t, b)
		})
	}
}

// TestTenantConsoleRefusesOtherOrigins: no page of another origin changes anything, and a GET never does.
func TestTenantConsoleRefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	b := signIn(t, s.Client.API, s.Client.Key)
	suspend := "/console/rights/" + s.Rights["DOOH"] + "/suspend"
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "https://elsewhere.example"}} {
		status, _, text := b.send("POST", suspend, url.Values{"reason": {"x"}}, headers...)
		require.Equal(t, 403, status, text)
		require.Contains(t, text, "another origin")
	}
	status, _, text := b.send("GET", suspend+"?reason=x", nil)
	require.Equal(t, 200, status)
	require.Contains(t, text, "What will happen")
	require.Contains(t, systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "GET", Path: "/v1/rights/" + s.Rights["DOOH"]}).Body, `"state":"ACTIVE"`)
	status, header, _ := b.send("POST", suspend, url.Values{"reason": {"x"}})
	require.Equal(t, 303, status)
	_, _, text = b.send("GET", header.Get("Location"), nil)
	require.Contains(t, text, "The right is suspended.")
	require.Contains(t, text, "“x”")
	status, _, text = b.send("GET", suspend, nil)
	require.Equal(t, 200, status)
	require.Contains(t, text, "The right is suspended: this is for one that is active.")
	status, _, text = b.send("POST", suspend, url.Values{})
	require.Equal(t, 409, status, text)
	_, _, resumed := b.send("POST", "/console/rights/"+s.Rights["DOOH"]+"/resume", url.Values{})
	require.Empty(t, resumed)
	waittest.Until(t, func() bool { status, _ := s.Deliver(s.Client.Key, "DOOH"); return status == 200 }, "the nodes know that the right is in force again")
	unsealed := s.Receipts(1)[0]
	status, header, text = b.send("GET", "/console/plays/"+unsealed+"/proof", nil)
	require.Equal(t, 409, status, "what an operation refuses is said in words, where a file was asked for, too")
	require.Contains(t, header.Get("Content-Type"), "text/html")
	require.Equal(t, console.Policy, header.Get("Content-Security-Policy"))
	require.Contains(t, text, "That did not work")
}

// TestTenantConsoleAsksForASession: without one every page leads to the one where a session begins, and back to where
// the caller wanted to go, and nowhere else.
func TestTenantConsoleAsksForASession(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	b := newBrowser(t, s.Client.API)
	status, header, _ := b.send("GET", "/console/plays?rightId=x", nil)
	require.Equal(t, 303, status)
	require.Equal(t, "/console/sign-in?next=%2Fconsole%2Fplays%3FrightId%3Dx", header.Get("Location"))
	_, _, text := b.send("GET", header.Get("Location"), nil)
	require.Contains(t, text, `name="next" value="/console/plays?rightId=x"`)
	for _, elsewhere := range []string{"https://elsewhere.example/", "//elsewhere.example/console", "/\\elsewhere.example", "/docs", "/console/../docs"} {
		status, header, _ = b.send("POST", "/console/sign-in", url.Values{"key": {s.Client.Key}, "next": {elsewhere}})
		require.Equal(t, 303, status)
		require.Equal(t, "/console", header.Get("Location"), elsewhere)
	}
	b = newBrowser(t, s.Client.API)
	status, _, text = b.send("POST", "/console/sign-in", url.Values{"key": {"mun_test_x"}})
	require.Equal(t, 401, status)
	require.Contains(t, text, "the API key is not valid")
	require.NotContains(t, text, "mun_test_x", "no page repeats a secret")
	status, _, text = b.send("POST", "/console/rights/x/revoke", nil)
	require.Equal(t, 401, status)
	require.Contains(t, text, "Sign in")
	log := s.Log()
	require.NotContains(t, log, s.Client.Key[len(s.Client.Key)-20:])
}

// TestTenantConsoleAtOtherTenants: what belongs to another tenant is not found, in every address.
func TestTenantConsoleAtOtherTenants(t *testing.T) {
	t.Parallel()
	p := furnished(t, "Ada@example.org")
	stranger := systemtest.CreateTenant(t, p.s.Data, "--scope", "*")
	owner, b := signIn(t, p.s.Client.API, p.s.Client.Key), signIn(t, p.s.Client.API, stranger.APIKey)
	all, posts := owner.walk()
	none := 0
	for at := range posts {
		if ids.MatchString(at) {
			status, _, text := b.send("POST", at, url.Values{"reason": {"x"}})
			require.Contains(t, []int{404, 422}, status, "%s: %s", at, text)
			require.NotContains(t, text, "Ada")
			if status == 404 {
				none++
			}
		}
	}
	require.Greater(t, none, 15, "most forms need no more than was sent")
	for at := range all {
		if named, _, _ := strings.Cut(at, "?"); ids.MatchString(named) {
			status, _, text := b.send("GET", at, nil)
			require.Equal(t, 404, status, "%s: %s", at, text)
			require.NotContains(t, text, "Ada")
		}
	}
}

// TestTenantConsoleSignsInByLink: a mailed link is spent by its button alone, once, and leads to the page that was wanted;
// its page says whose it is, no other page whose an address is, and no log has the address or the link.
func TestTenantConsoleSignsInByLink(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	memberID, email := invited(t, s, "Ada "+marker, "finance")
	b, from := newBrowser(t, s.Client.API), systemtest.AnyAddress()
	var said []string
	for _, address := range []string{"nobody@example.org", strings.ToUpper(email)} {
		status, header, text := b.send("POST", "/console/sign-in", url.Values{"email": {address}, "next": {"/console/money?x=1"}}, "X-Forwarded-For", from)
		require.Equal(t, 303, status, text)
		_, _, text = b.send("GET", header.Get("Location"), nil)
		require.Contains(t, text, "If a member has this address")
		require.Contains(t, text, `name="email"`)
		said = append(said, fmt.Sprint(header.Get("Location"), header["Set-Cookie"], text))
	}
	require.Equal(t, said[0], said[1])
	status, _, text := b.send("POST", "/console/sign-in", url.Values{"email": {`"><i data-x>`}}, "X-Forwarded-For", from)
	require.Equal(t, 422, status, text)
	require.Contains(t, text, `value="&#34;&gt;&lt;i data-x&gt;"`)

	token := systemtest.SignInToken(t, s.Data, memberID)
	for range 3 { // as a program that looks through mails does
		status, header, text := newBrowser(t, s.Client.API).send("GET", "/console/sign-in?token="+token, nil)
		require.Equal(t, 200, status, text)
		require.Equal(t, "no-referrer", header.Get("Referrer-Policy"))
		require.Equal(t, "no-store", header.Get("Cache-Control"))
		require.Empty(t, header["Set-Cookie"])
		require.Len(t, forms.FindAllString(text, -1), 1)
		require.Equal(t, 1, strings.Count(text, "<button"))
		require.NotContains(t, text, `name="key"`)
		require.Contains(t, text, "It signs in <b>"+email+"</b>, a member of <b>org_")
	}
	_, _, text = b.send("GET", "/console/sign-in?token="+token, nil)
	require.Contains(t, text, `name="next" value="/console/money?x=1"`, "the mail does not say where the member wanted to go")
	status, header, text := b.send("POST", "/console/sign-in", url.Values{"token": {token}, "next": {"/console/money?x=1"}}, "X-Forwarded-For", from)
	require.Equal(t, 303, status, text)
	require.Equal(t, "/console/money?x=1", header.Get("Location"))
	_, _, text = b.send("GET", "/console/money", nil)
	require.Contains(t, text, "Signed in as</i> <b>Ada &lt;i data-x&gt;")
	require.Contains(t, text, "</b>, finance</span>")
	var answers []string
	for _, spent := range []string{token, strings.Repeat("x", 43), ""} {
		other := newBrowser(t, s.Client.API)
		status, _, text = other.send("POST", "/console/sign-in", url.Values{"token": {spent}}, "X-Forwarded-For", from)
		require.Equal(t, 401, status, text)
		require.Contains(t, text, "have another one mailed to you")
		require.NotContains(t, text, token, "no page repeats a secret")
		status, _, _ = other.send("GET", "/console/money", nil)
		require.Equal(t, 303, status)
		answers = append(answers, text)
	}
	require.Equal(t, answers[0], answers[1])
	require.Equal(t, answers[0], answers[2])
	log := s.Log()
	require.NotContains(t, log, token)
	require.NotContains(t, strings.ToLower(log), email)
}

// TestTenantConsoleMembers: a member is invited, gets another role and is removed on its pages, as of the next request; the
// page of a webhook says who set it; and no form is offered to who may not send it.
func TestTenantConsoleMembers(t *testing.T) {
	t.Parallel()
	s := owned(t, "--webhook-allow", "127.0.0.1")
	owner := signIn(t, s.Client.API, s.Client.Key)
	status, header, text := owner.send("POST", "/console/members/new", url.Values{"email": {"ada@example.org"}, "name": {"Ada"}, "role": {"operations"}})
	require.Equal(t, 303, status, text)
	at, _, _ := strings.Cut(header.Get("Location"), "?")
	memberID := ids.FindString(at)
	_, _, text = owner.send("GET", at, nil)
	require.Contains(t, text, ">invited<")
	ada := asMember(t, s, memberID, "ada@example.org")
	_, _, text = owner.send("GET", "/console/members?state=ACTIVE", nil)
	require.Contains(t, text, "ada@example.org")

	status, _, text = ada.send("POST", "/console/webhooks/new", url.Values{"url": {systemtest.NewHookReceiver(t).URL}, "events": {"right.issued"}})
	require.Equal(t, 200, status, text)
	webhook := regexp.MustCompile(`/console/webhooks/[a-z]+_\w+`).FindString(text)
	_, _, text = owner.send("GET", webhook, nil)
	require.Contains(t, text, `<dt>Set by</dt><dd><a href="`+at+`" title="`+memberID+`">Ada</a>`)
	_, _, text = ada.send("GET", webhook, nil)
	require.Contains(t, text, "<dt>Set by</dt><dd>Ada</dd>", "who may not read members sees no link")

	status, _, _ = ada.send("GET", at+"/role", nil)
	require.Equal(t, 403, status)
	status, _, text = ada.send("POST", at+"/role", url.Values{"role": {"owner"}})
	require.Equal(t, 403, status, text)
	manager := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/api-keys", Body: `{"label":"keys","scopes":["keys:write"]}`})
	b := signIn(t, s.Client.API, systemtest.TextAt(t, manager.Body, "data.apiKey"))
	_, _, text = b.send("GET", at, nil)
	require.NotContains(t, text, at+"/role", "nobody takes a role that they could not give")
	status, _, text = b.send("GET", "/console/members/new", nil)
	require.Equal(t, 200, status)
	require.Contains(t, text, "you hold those of none")

	status, _, text = owner.send("POST", at+"/role", url.Values{"role": {"viewer"}})
	require.Equal(t, 303, status, text)
	_, _, text = ada.send("GET", "/console", nil)
	require.Contains(t, text, "<b>Ada</b>, viewer</span>")
	status, _, _ = ada.send("POST", webhook+"/test", url.Values{})
	require.Equal(t, 403, status, "a lowered role holds from the next request on")
	status, _, text = owner.send("POST", at+"/remove", url.Values{})
	require.Equal(t, 303, status, text)
	status, _, _ = ada.send("GET", "/console", nil)
	require.Equal(t, 303, status)
	_, _, text = owner.send("GET", at+"/remove", nil)
	require.Contains(t, text, "there is nothing to do here")
}

// TestTenantConsoleSessions: a session that somebody planted is never taken over by who signs in; one of a revoked key has
// ended; and the operators' console and this one know nothing of each other's sessions.
func TestTenantConsoleSessions(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	at, err := url.Parse(s.Client.API + "/console")
	require.NoError(t, err)
	cookieOf := func(b *browser) *http.Cookie {
		kept := b.client.Jar.Cookies(at)
		require.Len(t, kept, 1)
		return kept[0]
	}
	page := func(cookie string) int {
		status, _, _ := newBrowser(t, s.Client.API).send("GET", "/console/keys", nil, "Cookie", cookie)
		return status
	}
	planted := cookieOf(signIn(t, s.Client.API, systemtest.CreateTenant(t, s.Data, "--scope", "*").APIKey))
	memberID, email := invited(t, s, "Ada", "viewer")
	var spent []string
	for _, value := range []string{planted.Value, strings.Repeat("x", len(planted.Value))} {
		for _, form := range []url.Values{{"key": {s.Client.Key}}, nil} {
			if form == nil {
				from := systemtest.AnyAddress()
				status, _, text := newBrowser(t, s.Client.API).send("POST", "/console/sign-in", url.Values{"email": {email}}, "X-Forwarded-For", from)
				require.Equal(t, 303, status, text)
				spent = append(spent, systemtest.SignInToken(t, s.Data, memberID, spent...))
				form = url.Values{"token": {spent[len(spent)-1]}, "next": {"//elsewhere.example"}}
			}
			victim := newBrowser(t, s.Client.API)
			victim.client.Jar.SetCookies(at, []*http.Cookie{{Name: planted.Name, Value: value, Path: "/"}})
			status, header, text := victim.send("POST", "/console/sign-in", form, "X-Forwarded-For", systemtest.AnyAddress())
			require.Equal(t, 303, status, text)
			require.Equal(t, "/console", header.Get("Location"))
			require.NotEqual(t, value, cookieOf(victim).Value)
			require.Equal(t, 303, page(planted.Name+"="+value), "what was planted is no session")
		}
	}
	_, _, text := newBrowser(t, s.Client.API).send("GET", "/console/sign-in?token=x", nil, "Cookie", "muniment_next=%2F%2Felsewhere.example")
	require.Contains(t, text, `name="next" value="/console"`)

	made := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/api-keys", Body: `{"label":"short","scopes":["keys:write"]}`})
	short := signIn(t, s.Client.API, systemtest.TextAt(t, made.Body, "data.apiKey"))
	cookie := cookieOf(short)
	require.Equal(t, 200, page(cookie.String()))
	keyID := systemtest.TextAt(t, made.Body, "data.key.keyId")
	require.Equal(t, 200, systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "DELETE", Path: "/v1/api-keys/" + keyID}).Status)
	require.Equal(t, 303, page(cookie.String()))
	status, _, text := short.send("POST", "/console/keys/"+keyID+"/rotate", url.Values{})
	require.Equal(t, 401, status, text)

	operator, _ := systemtest.OpenConsole(t, s.Data, s.Server.Admin)
	admin, err := url.Parse(s.Server.Admin + "/console")
	require.NoError(t, err)
	theirs := operator.Browser.Jar.Cookies(admin)
	require.Len(t, theirs, 1)
	require.NotEqual(t, planted.Name, theirs[0].Name, "a browser sends the cookies of all ports of a host")
	own := cookieOf(signIn(t, s.Client.API, s.Client.Key)).Value
	require.Equal(t, 200, page(planted.Name+"="+own+"; "+theirs[0].String()))
	require.Equal(t, 303, page(theirs[0].String()))
	require.Equal(t, 303, page(planted.Name+"="+theirs[0].Value))
	require.Equal(t, 200, operator.Send("GET", "/api/session", "").Status)
	operator.Browser.Jar.SetCookies(admin, []*http.Cookie{{Name: theirs[0].Name, Value: own, Path: "/console"}})
	require.Equal(t, 401, operator.Send("GET", "/api/session", "").Status)
}

// TestTenantConsoleDoesNothingTwice: a form that is sent again, even at the same moment, makes one key and shows it each time; the
// same value of another session makes its own.
func TestTenantConsoleDoesNothingTwice(t *testing.T) {
	t.Parallel()
	s := owned(t)
	owner := signIn(t, s.Client.API, s.Client.Key)
	_, _, text := owner.send("GET", "/console/keys/new", nil)
	once := regexp.MustCompile(`name="once" value="([A-Z2-7]{26})"`).FindStringSubmatch(text)[1]
	_, _, text = owner.send("GET", "/console/keys/new", nil)
	require.NotContains(t, text, once, "each form has its own")
	form := url.Values{"label": {"walk"}, "scopes": {"audit:read"}, "once": {once}}
	shown := regexp.MustCompile(`id="secret"[^>]*>(mun_[^<]+)<`)
	var made sync.Map
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if status, _, text := owner.send("POST", "/console/keys/new", form); status == 200 {
				if found := shown.FindStringSubmatch(text); found != nil {
					made.Store(found[1], true)
					return
				}
			}
			made.Store("a page without the key", true)
		})
	}
	all.Wait()
	secrets := 0
	made.Range(func(secret, _ any) bool {
		secrets++
		require.NotContains(t, secret, "a page")
		return true
	})
	require.Equal(t, 1, secrets)
	_, _, text = owner.send("GET", "/console/keys.csv", nil)
	require.Equal(t, 1, strings.Count(text, ",walk,"))

	form.Set("label", "other")
	status, _, text := owner.send("POST", "/console/keys/new", form)
	require.Equal(t, 409, status, text)
	require.Contains(t, text, "this form was sent before, with other values")
	require.NotContains(t, text, once, "sent again, it is another form")
	memberID, email := invited(t, s, "Ada", "owner")
	status, _, text = asMember(t, s, memberID, email).send("POST", "/console/keys/new", url.Values{"label": {"walk"}, "scopes": {"audit:read"}, "once": {once}})
	require.Equal(t, 200, status, text)
	_, known := made.Load(shown.FindStringSubmatch(text)[1])
	require.False(t, known)
	require.NotContains(t, s.Log(), once)
}

// TestTenantConsoleAsksAgain: what confirms asks to sign in again after 10 minutes, before the form and after it, leads back
// there, and does nothing meanwhile. What doesn't confirm goes on.
func TestTenantConsoleAsksAgain(t *testing.T) {
	t.Parallel()
	s := owned(t)
	memberID, email := invited(t, s, "Ada", "owner")
	ada := asMember(t, s, memberID, email)
	s.Stop()
	db, err := sql.Open("sqlite", filepath.Join(s.Data, "control.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE sessions SET signed_in_at = signed_in_at - 11 * 60000, confirmed_at = confirmed_at - 11 * 60000`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	s.StartAgain()
	at := "/console/members/" + memberID
	for _, asks := range []string{"/console/members/new", at + "/role", at + "/remove", "/console/keys/new", "/console/erasures/new"} {
		status, header, text := ada.send("GET", asks, nil)
		require.Equal(t, 303, status, "%s: %s", asks, text)
		require.Equal(t, "/console/sign-in?again=1&next="+url.QueryEscape(asks), header.Get("Location"))
		_, _, text = ada.send("GET", header.Get("Location"), nil)
		require.Contains(t, text, "within the last 10 minutes")
		require.Contains(t, text, `name="next" value="`+asks+`"`)
		status, _, text = ada.send("POST", asks, url.Values{"email": {"bob@example.org"}, "role": {"viewer"}, "label": {"x"}, "scopes": {"audit:read"}, "dataSubjectId": {"x"}, "token": {"x"}})
		require.Equal(t, 401, status, text)
		require.Contains(t, text, `href="`+html.EscapeString(header.Get("Location"))+`"`, "the page leads to the sign-in, and back")
	}
	_, _, text := ada.send("GET", "/console/members", nil)
	require.NotContains(t, text, "bob@example.org")
	require.Contains(t, text, ">owner<")
	status, _, text := ada.send("GET", "/console/webhooks/new", nil)
	require.Equal(t, 200, status, text)
}

// TestTenantConsoleDownloadsABundle: the link on the page is of the address under which the browser reached the service, and gives the file.
func TestTenantConsoleDownloadsABundle(t *testing.T) {
	t.Parallel()
	s := owned(t)
	call := func(method, path, body, take string) string {
		a := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: method, Path: path, Body: body})
		require.Equal(t, 200, a.Status, a.Body)
		return systemtest.TextAt(t, a.Body, take)
	}
	id := call("POST", "/v1/compliance/dsar", `{"scope":{"kind":"DATA_SUBJECT","dataSubjectId":"ada"}}`, "data.job.id")
	call("POST", "/v1/compliance/dsar/"+id+"/run", `{}`, "data.job.id")
	waittest.Until(t, func() bool { return call("GET", "/v1/compliance/dsar/"+id, "", "data.job.state") == "READY" }, "the export is ready")
	owner := signIn(t, s.Client.API, s.Client.Key)
	status, _, text := owner.send("POST", "/console/data/"+id+"/link", url.Values{})
	require.Equal(t, 200, status, text)
	link := regexp.MustCompile(`href="([^"]+)" download>Download the bundle<`).FindStringSubmatch(text)
	require.NotNil(t, link, text)
	path, ours := strings.CutPrefix(html.UnescapeString(link[1]), s.Client.API)
	require.True(t, ours, link[1])
	status, _, text = owner.send("GET", path, nil)
	require.Equal(t, 200, status)
	require.True(t, strings.HasPrefix(text, "PK"), "it is a zip file")
}

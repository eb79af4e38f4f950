package member

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/oidc"
	"muniment.example/control/oidc/oidctest"
	"muniment.example/control/roomtest"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

// atProvider is a fixture with a provider, on one clock.
func atProvider(t *testing.T) (*fixture, *oidctest.Provider) {
	h, at := newFixture(t), oidctest.New(t)
	at.Now = h.clock.Now
	h.use(at)
	return h, at
}

// use has the service use a provider from now on.
func (h *fixture) use(at *oidctest.Provider) {
	h.t.Helper()
	p, err := oidc.New(oidc.Config{
		Issuer: at.URL, ClientID: oidctest.ClientID, Secret: func() (string, error) { return oidctest.Secret, nil }, RedirectURL: public + CallbackPath, Now: h.clock.Now,
		Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	})
	require.NoError(h.t, err)
	cfg := h.cfg
	cfg.Provider, cfg.Limits = p, sandbox.Limits{Burst: 1000, Sustained: 1000}
	h.Service, err = New(cfg)
	require.NoError(h.t, err)
}

// begin begins a sign-in, and returns the answer of the provider with the cookie of the browser.
func (h *fixture) begin(at *oidctest.Provider, again bool) (answer string, cookie *http.Cookie) {
	h.t.Helper()
	address, cookie, err := h.BeginAtProvider(request("POST", public+SignInPath), again)
	require.NoError(h.t, err)
	back := at.SendsBack(address)
	require.Equal(h.t, public+CallbackPath, back.Scheme+"://"+back.Host+back.Path)
	return back.String(), cookie
}

// session is the one of cookies that is a session; nil if there is none.
func (h *fixture) session(cookies []*http.Cookie) *http.Cookie {
	for _, c := range cookies {
		if c.Name == h.browsers.cookie.Name {
			return c
		}
	}
	return nil
}

// provided signs somebody in at the provider, who enters the one tenant that they are asked about, if they are.
func (h *fixture) provided(at *oidctest.Provider) (*http.Cookie, error) {
	h.t.Helper()
	return h.entered(h.begin(at, false))
}

// entered is the session of an answer of the provider.
func (h *fixture) entered(answer string, cookie *http.Cookie) (*http.Cookie, error) {
	h.t.Helper()
	cookies, choose, err := h.SignInAtProvider(request("GET", answer, cookie))
	if !choose {
		return h.session(cookies), err
	}
	r := request("POST", public+SignInPath, cookies[0])
	choices, err := h.Choices(r)
	require.NoError(h.t, err)
	require.Len(h.t, choices, 1)
	require.True(h.t, choices[0].New, "who is bound is not asked")
	cookies, err = h.Choose(r, choices[0].MemberID)
	return h.session(cookies), err
}

// one is a member as it is now.
func (h *fixture) one(memberID string) Member {
	h.t.Helper()
	m, err := findAny(h.t.Context(), h.db.Read(), memberID)
	require.NoError(h.t, err)
	return *m
}

// TestSignInAtProvider: who has signed in for the first time is asked about the tenant, also about a single one; entering
// it joins the member and binds it to the account, which signs in from then on whatever its address. Another account with
// the address does not.
func TestSignInAtProvider(t *testing.T) {
	stacktest.Both(t)
	h, at := atProvider(t)
	made := h.owned("acme", "owner@example.org", "*")
	ada := h.invited(h.key(made.KeyID), "ada@example.org", Finance)
	at.Set(func() { at.Email = "Ada@Example.ORG" })

	answer, attempt := h.begin(at, false)
	require.Equal(t, "__Host-muniment_sign_in", attempt.Name)
	require.True(t, attempt.Secure && attempt.HttpOnly && attempt.SameSite == http.SameSiteLaxMode && attempt.Path == "/" && attempt.Domain == "" && attempt.MaxAge == 600)
	require.NotContains(t, answer, attempt.Value)
	require.Zero(t, h.count("sessions"))
	old := h.signedIn(made.APIKey)
	cookies, choose, err := h.SignInAtProvider(request("GET", answer, attempt, old))
	require.NoError(t, err)
	require.True(t, choose)
	require.Nil(t, h.session(cookies))
	m := h.one(ada.ID)
	require.Equal(t, Invited, m.State, "an invitation may be a stranger's: it is not accepted by signing in")
	require.False(t, m.Bound)
	cookies, err = h.Choose(request("POST", public+SignInPath, cookies[0], old), ada.ID)
	require.NoError(t, err)
	require.Equal(t, attempt.Name, cookies[0].Name)
	require.Equal(t, -1, cookies[0].MaxAge)
	c := h.session(cookies)
	_, err = h.is(old)
	require.Equal(t, errEnded, err, "signing in ends the session that the browser had")
	s, err := h.is(c)
	require.NoError(t, err)
	require.Equal(t, sealer.Ref{Kind: "member", ID: ada.ID}, s.Actor)
	require.Equal(t, Finance, s.Role)
	require.NoError(t, s.Confirmed())
	m = h.one(ada.ID)
	require.Equal(t, Active, m.State)
	require.Equal(t, []string{at.URL, "subject-1"}, []string{m.shown().Issuer, m.shown().Subject})
	events := roomtest.Events(t, h.db)
	joined := events[len(events)-1]
	require.Equal(t, "member.joined", joined.Type)
	require.Equal(t, ada.ID, joined.Actor.ID)
	for _, personal := range []string{"ada", at.URL, "subject-1"} {
		require.NotContains(t, strings.ToLower(string(joined.Data)), personal)
	}

	for _, set := range []func(){
		func() { at.Email = "married@example.org" },
		func() { at.Email, at.Verified = "owner@example.org", true }, // that of a member who is bound to no account yet, of the same tenant
		func() { at.Email, at.Verified = "x@example.org", false },
		func() { at.Email, at.Verified = "", nil },
	} {
		at.Set(set)
		if at.Email == "owner@example.org" {
			answer, cookie := h.begin(at, false)
			_, choose, err := h.SignInAtProvider(request("GET", answer, cookie))
			require.NoError(t, err)
			require.True(t, choose, "both are the person's")
			continue
		}
		c, err := h.provided(at)
		require.NoError(t, err)
		s, err := h.is(c)
		require.NoError(t, err)
		require.Equal(t, ada.ID, s.Actor.ID)
	}
	at.Set(func() { at.Subject, at.Email, at.Verified = "subject-2", "ada@example.org", true })
	_, err = h.provided(at)
	require.Equal(t, api.AuthInvalid, code(err))
	require.ErrorContains(t, err, "signs in with another account")

	// A mailed link stays a way in, and who has joined by one is bound later.
	h.member(m)
	all := h.all(made.TenantID)
	owner := all[slices.IndexFunc(all, func(m Member) bool { return m.Email == "owner@example.org" })]
	h.member(owner)
	at.Set(func() { at.Email = owner.Email })
	_, err = h.provided(at)
	require.NoError(t, err)
	require.Equal(t, "subject-2", *h.one(owner.ID).Subject)
}

// TestStrangersAtProvider: who is not invited, or whose address the provider has not verified, becomes nobody, and binds
// nobody.
func TestStrangersAtProvider(t *testing.T) {
	stacktest.Both(t)
	h, at := atProvider(t)
	made := h.owned("acme", "owner@example.org", "*")
	key := h.key(made.KeyID)
	kim := h.invited(key, "kim@example.org", Viewer)
	gone := h.invited(key, "gone@example.org", Owner)
	h.invited(key, "erased@example.org", Owner)
	require.Empty(t, h.call(key, "DELETE", "/v1/members/"+gone.ID, "", nil))
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, made.TenantID, sealer.NewPerson("erased@example.org"), "erased", nil, nil)
		return err
	}))
	for _, c := range []struct {
		email    string
		verified any
		says     string
	}{
		{"kim@example.org", false, "has verified it"},
		{"kim@example.org", nil, "has verified it"},
		{"kim@example.org", "true", "has verified it"},
		{"", true, "has verified it"},
		{"not an address", true, "has verified it"},
		{"kim@example.org, x@evil.example", true, "has verified it"},
		{"\u212aim@example.org", true, "is no member's address"}, // the sign for kelvin, of which a small letter is k
		{"kim@example.org.evil.example", true, "is no member's address"},
		{"gone@example.org", true, "is no member's address"},
		{"erased@example.org", true, "is no member's address"},
		{"erased", true, "has verified it"},
	} {
		at.Set(func() { at.Email, at.Verified = c.email, c.verified })
		_, err := h.provided(at)
		require.Equal(t, api.AuthInvalid, code(err), "%+v", c)
		require.ErrorContains(t, err, c.says, "%+v", c)
	}
	require.Zero(t, h.count("sessions"))
	require.Zero(t, h.count("members WHERE subject IS NOT NULL"))
	require.Equal(t, Invited, h.one(kim.ID).State)

	// A member who was removed, or erased, is no longer let in by the account that it was bound to, and the account of
	// another provider is another account, also under the same subject.
	at.Set(func() { at.Email, at.Verified = "kim@example.org", true })
	c, err := h.provided(at)
	require.NoError(t, err)
	other := oidctest.New(t)
	other.Now, other.Email, other.Verified = h.clock.Now, "kim@example.org", true
	provider := h.cfg.Provider
	h.use(other)
	_, err = h.provided(other)
	require.ErrorContains(t, err, "signs in with another account")
	h.cfg.Provider = provider
	require.Empty(t, h.call(key, "DELETE", "/v1/members/"+kim.ID, "", nil))
	_, err = h.is(c)
	require.Equal(t, errEnded, err)
	_, err = h.provided(at)
	require.ErrorContains(t, err, "is no member's address")
	again := h.invited(key, "kim@example.org", Viewer)
	_, err = h.provided(at)
	require.NoError(t, err, "invited again")
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, made.TenantID, sealer.NewPerson("kim@example.org"), "erased", nil, nil)
		return err
	}))
	require.Zero(t, h.count("members WHERE subject IS NOT NULL OR issuer IS NOT NULL"))
	_, err = h.provided(at)
	require.ErrorContains(t, err, "is no member's address")
	require.Equal(t, "erased", h.one(again.ID).Email)
}

// TestReplayOfBindings: a database that was restored from a copy that is older than the bindings lets no account sign in as
// the members who were bound, not even at the same address. No event says who the person is at the provider.
func TestReplayOfBindings(t *testing.T) {
	stacktest.Both(t)
	h, at := atProvider(t)
	made := h.owned("acme", "owner@example.org", "*")
	by := h.key(made.KeyID)
	ada := h.one(h.invited(by, "ada@example.org", Finance).ID)
	bob := h.one(h.invited(by, "bob@example.org", Viewer).ID)
	h.member(bob)
	bob = h.one(bob.ID)
	older := []Member{ada, bob}
	for i, m := range older {
		at.Set(func() { at.Subject, at.Email = fmt.Sprint("first-", i), m.Email })
		_, err := h.provided(at)
		require.NoError(t, err)
	}
	events := roomtest.Events(t, h.db)
	bindings := events[len(events)-2:]
	for i, kind := range []string{"member.joined", "member.bound"} {
		require.Equal(t, kind, bindings[i].Type)
		require.Equal(t, sealer.Ref{Kind: "member", ID: older[i].ID}, bindings[i].Subject)
		require.Equal(t, bindings[i].Subject, bindings[i].Actor)
		require.Contains(t, string(bindings[i].Data), `"bound":true`)
		for _, personal := range []string{"example.org", at.URL, "first-", "Ada"} {
			require.NotContains(t, string(bindings[i].Data), personal)
		}
	}
	// A later act keeps the binding in the newest event of the member, which is the one that is replayed.
	require.Empty(t, h.call(by, "PATCH", "/v1/members/"+bob.ID, `{"role":"finance"}`, nil))
	events = roomtest.Events(t, h.db)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		for _, m := range older {
			if _, err := tx.ExecContext(t.Context(), `UPDATE members SET bound = FALSE, issuer = NULL, subject = NULL, role = $2, state = $3, updated_at = $4, revision = $5 WHERE member_id = $1`, m.ID, string(m.Role), string(m.State), m.UpdatedAt, m.Revision); err != nil {
				return err
			}
		}
		for _, e := range []sealer.Event{bindings[0], events[len(events)-1]} {
			changed, err := Replay(t.Context(), tx, &e)
			require.NoError(t, err)
			require.True(t, changed)
		}
		return nil
	}))
	for i, m := range older {
		for _, subject := range []string{"another", fmt.Sprint("first-", i)} {
			at.Set(func() { at.Subject, at.Email = subject, m.Email })
			_, err := h.provided(at)
			require.Equal(t, api.AuthInvalid, code(err), "%s as %s", subject, m.Email)
			require.ErrorContains(t, err, "its database was restored")
		}
		now := h.one(m.ID)
		require.Equal(t, Active, now.State)
		require.Nil(t, now.Subject)
		require.Empty(t, now.shown().Issuer)
		h.member(now) // by a mailed link
	}
	require.Empty(t, h.call(by, "DELETE", "/v1/members/"+ada.ID, "", nil))
	again := h.invited(by, "ada@example.org", Finance)
	at.Set(func() { at.Subject, at.Email = "another", "ada@example.org" })
	_, err := h.provided(at)
	require.NoError(t, err, "invited again")
	require.Equal(t, "another", *h.one(again.ID).Subject)
}

// TestAnswersOfOtherBrowsers: an answer is good in the browser that has asked for it alone, once, for 10 minutes.
func TestAnswersOfOtherBrowsers(t *testing.T) {
	h, at := atProvider(t)
	h.owned("acme", "ada@example.org", "*")
	answer, cookie := h.begin(at, false)
	_, others := h.begin(at, false)
	planted := &http.Cookie{Name: cookie.Name, Value: "x"}
	changed := func(state func(string) string) string {
		u, err := url.Parse(answer)
		require.NoError(t, err)
		q := u.Query()
		q.Set("state", state(q.Get("state")))
		u.RawQuery = q.Encode()
		return u.String()
	}
	refused := func(why, answer string, with ...*http.Cookie) {
		t.Helper()
		before := at.Count("/token")
		cookies, choose, err := h.SignInAtProvider(request("GET", answer, with...))
		require.Equal(t, oidc.ErrForeign, err, why)
		require.False(t, choose)
		require.Empty(t, cookies, "what the browser has begun goes on")
		require.Equal(t, before, at.Count("/token"), "the code is not sent to anybody")
	}
	refused("no cookie", answer)
	refused("of another browser", answer, others)
	refused("a cookie of the attacker's choice", answer, planted)
	refused("two cookies", answer, cookie, planted)
	refused("no state", public+CallbackPath+"?code=x", cookie)
	refused("no state, no cookie", public+CallbackPath)
	for _, state := range []func(string) string{
		func(s string) string { return "a" + s[1:] }, // so that the provider would not have had to ask again
		func(s string) string { return s[:len(s)-1] },
		func(s string) string { return strings.Replace(s, ".", "0.", 1) },
		func(string) string { return "." },
		func(string) string { return strings.Repeat("n", 5000) },
	} {
		refused("another state", changed(state), cookie)
	}
	h.clock.Advance(attemptAge + time.Second)
	refused("over", answer, cookie)

	answer, cookie = h.begin(at, false)
	session, err := h.entered(answer, cookie)
	require.NoError(t, err)
	refused("the browser has deleted its cookie", answer, session)
	cookies, _, err := h.SignInAtProvider(request("GET", answer, cookie))
	require.ErrorContains(t, err, "it was used", "by who keeps it all the same")
	require.Nil(t, h.session(cookies))
	require.Equal(t, 1, h.count("sessions"))

	// Without TLS, only on the machine of the service; and without a provider, nowhere.
	plain, err := open(h.db, "http://a.example")
	require.NoError(t, err)
	_, _, err = plain.SignInAtProvider(request("GET", answer, cookie))
	require.Equal(t, errNoProvider, err)
	plain.cfg.Provider = h.cfg.Provider
	_, _, err = plain.SignInAtProvider(request("GET", answer, cookie))
	require.Equal(t, http.StatusForbidden, api.From(err).HTTPStatus)
	_, _, err = plain.BeginAtProvider(request("POST", answer), false)
	require.Equal(t, http.StatusForbidden, api.From(err).HTTPStatus)
	r := request("POST", public+SignInPath)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	_, _, err = h.BeginAtProvider(r, false)
	require.Equal(t, http.StatusForbidden, api.From(err).HTTPStatus, "a page of another origin begins nothing")
}

// TestForeignAnswersAreNotCounted: a page that has the browsers of an office load the callback doesn't use up the limit of
// the office's address; answers to sign-ins that a browser has begun count.
func TestForeignAnswersAreNotCounted(t *testing.T) {
	h, at := atProvider(t)
	h.owned("acme", "ada@example.org", "*")
	cfg := h.Service.cfg
	cfg.Limits = sandbox.Limits{Burst: 4, Sustained: 4}
	var err error
	h.Service, err = New(cfg)
	require.NoError(t, err)
	answer, cookie := h.begin(at, false)
	for range 20 {
		for _, address := range []string{public + CallbackPath, answer, public + CallbackPath + "?state=n0.x"} {
			_, _, err := h.SignInAtProvider(request("GET", address))
			require.Equal(t, oidc.ErrForeign, err)
		}
	}
	_, _, err = h.SignInAtProvider(request("GET", answer, cookie))
	require.NoError(t, err)
	other, cookie := h.begin(at, false)
	_, _, err = h.SignInAtProvider(request("GET", answer, cookie))
	require.Equal(t, oidc.ErrForeign, err)
	_, _, err = h.SignInAtProvider(request("GET", other, cookie))
	require.NoError(t, err)
	_, _, err = h.SignInAtProvider(request("GET", other, cookie))
	require.Equal(t, api.RateLimited, code(err))
}

// TestChoices: who is a member of several tenants has no session before one is chosen, in the same browser and once; only
// what is chosen is joined.
func TestChoices(t *testing.T) {
	stacktest.Both(t)
	h, at := atProvider(t)
	first, second, foreign := h.owned("first", "ada@example.org", "*"), h.owned("second", "ada@example.org", "*"), h.owned("foreign", "eve@example.org", "*")
	choose := func() *http.Cookie {
		t.Helper()
		answer, cookie := h.begin(at, false)
		cookies, choose, err := h.SignInAtProvider(request("GET", answer, cookie))
		require.NoError(t, err)
		require.True(t, choose)
		require.Nil(t, h.session(cookies))
		require.Len(t, cookies, 1)
		require.NotEqual(t, cookie.Value, cookies[0].Value)
		_, _, err = h.SignInAtProvider(request("GET", answer, cookies[0]))
		require.Equal(t, oidc.ErrForeign, err, "the answer was used")
		return cookies[0]
	}
	c := choose()
	require.Zero(t, h.count("sessions"))
	require.Zero(t, h.count("members WHERE state = 'ACTIVE' OR subject IS NOT NULL"))
	choices, err := h.Choices(request("GET", public+SignInPath, c))
	require.NoError(t, err)
	inFirst, inSecond := h.all(first.TenantID)[0], h.all(second.TenantID)[0]
	require.ElementsMatch(t, []Choice{{inFirst.ID, first.TenantID, "org_first", "test", Owner, true}, {inSecond.ID, second.TenantID, "org_second", "test", Owner, true}}, choices)

	for what, r := range map[string]*http.Request{
		"another browser": request("POST", public+SignInPath), "a planted cookie": request("POST", public+SignInPath, &http.Cookie{Name: c.Name, Value: "x"}),
		"two cookies": request("POST", public+SignInPath, c, c),
	} {
		_, err := h.Choose(r, inFirst.ID)
		require.Equal(t, oidc.ErrForeign, err, what)
		_, err = h.Choices(r)
		require.Equal(t, oidc.ErrForeign, err, what)
	}
	for _, id := range []string{h.all(foreign.TenantID)[0].ID, first.KeyID, "", "x"} {
		_, err := h.Choose(request("POST", public+SignInPath, c), id)
		require.Equal(t, api.ResourceNotFound, code(err), id)
	}
	require.Zero(t, h.count("sessions"))
	cookies, err := h.Choose(request("POST", public+SignInPath, c), inSecond.ID)
	require.NoError(t, err)
	s, err := h.is(h.session(cookies))
	require.NoError(t, err)
	require.Equal(t, second.TenantID, s.TenantID)
	require.Equal(t, Invited, h.one(inFirst.ID).State)
	require.Nil(t, h.one(inFirst.ID).Subject)
	require.Zero(t, h.count("member_choices"))
	_, err = h.Choose(request("POST", public+SignInPath, c), inSecond.ID)
	require.Equal(t, oidc.ErrForeign, err, "chosen")

	// A person has one choice at a time, for 10 minutes, and of what holds when it is made.
	older := choose()
	c = choose()
	_, err = h.Choices(request("GET", public+SignInPath, older))
	require.Equal(t, oidc.ErrForeign, err)
	require.Empty(t, h.call(h.key(first.KeyID), "POST", "/v1/members", `{"email":"x@example.org","role":"owner"}`, nil))
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, first.TenantID, sealer.NewPerson("ada@example.org"), "erased", nil, nil)
		return err
	}))
	_, err = h.Choose(request("POST", public+SignInPath, c), inFirst.ID)
	require.Equal(t, api.ResourceNotFound, code(err))
	h.clock.Advance(attemptAge)
	_, err = h.Choices(request("GET", public+SignInPath, c))
	require.Equal(t, oidc.ErrForeign, err)
	require.NoError(t, h.Forget(t.Context()))
	require.Zero(t, h.count("member_choices"))
}

// TestManyTenants: neither the tenants that a person has joined nor those of the sandbox, in which anybody may invite
// anybody, keep the person from an invitation that is in force, at the provider and by mail.
func TestManyTenants(t *testing.T) {
	stacktest.Both(t)
	h, at := atProvider(t)
	at.Set(func() { at.Email = "ada@example.org" })
	owned := func(org string, sandboxed bool) Member {
		t.Helper()
		made, err := h.tenants.Create(t.Context(), tenant.Request{Org: org, Email: "ada@example.org", Scopes: []string{"*"}, Sandbox: sandboxed, Activated: sandboxed})
		require.NoError(t, err)
		return h.all(made.TenantID)[0]
	}
	offered := func() (ids []string, cookie *http.Cookie) {
		t.Helper()
		answer, cookie := h.begin(at, false)
		cookies, choose, err := h.SignInAtProvider(request("GET", answer, cookie))
		require.NoError(t, err)
		require.True(t, choose)
		choices, err := h.Choices(request("GET", public+SignInPath, cookies[0]))
		require.NoError(t, err)
		for _, c := range choices {
			ids = append(ids, c.MemberID)
		}
		return ids, cookies[0]
	}
	var joined []string
	for i := range mostInvited + 1 {
		joined = append(joined, owned(fmt.Sprint("joined-", i), false).ID)
	}
	for range joined {
		ids, cookie := offered()
		one := slices.IndexFunc(ids, func(id string) bool { return h.one(id).State == Invited })
		require.GreaterOrEqual(t, one, 0, "each is offered at last")
		_, err := h.Choose(request("POST", public+SignInPath, cookie), ids[one])
		require.NoError(t, err)
	}
	for i := range mostInvited {
		owned(fmt.Sprint("before-", i), true)
	}
	needed := owned("needed", false)
	for i := range mostInvited {
		owned(fmt.Sprint("after-", i), true)
	}
	ids, cookie := offered()
	require.Len(t, ids, len(joined)+mostInvited, "the others of the sandbox would be too many")
	require.Subset(t, ids, append(joined, needed.ID))

	require.NoError(t, h.RequestLink(request("POST", public+SignInPath), "ada@example.org"))
	require.Empty(t, h.jobs())
	for _, id := range append(joined, needed.ID) {
		require.Equal(t, 1, h.count("member_links WHERE member_id = '"+id+"'"))
	}
	require.Equal(t, len(joined)+mostInvited, h.count("member_links"))
	_, err := h.Choose(request("POST", public+SignInPath, cookie), needed.ID)
	require.NoError(t, err)
}

// TestConfirmedAtProvider: what asks again takes only who has proved to the provider who they are within 10 minutes,
// whenever the session began.
func TestConfirmedAtProvider(t *testing.T) {
	h, at := atProvider(t)
	h.owned("acme", "ada@example.org", "*")
	at.Set(func() { at.Authenticated = begin.Add(-time.Hour) })
	for range 2 { // for the first time, and later
		c, err := h.provided(at)
		require.NoError(t, err)
		s, err := h.is(c)
		require.NoError(t, err)
		require.True(t, IsUnconfirmed(s.Confirmed()), "the provider has let the person in without asking")
		require.Equal(t, begin.Add(sessionAge), s.ExpiresAt.Time)
	}
	again := func() (*http.Cookie, error) {
		answer, cookie := h.begin(at, true)
		require.Equal(t, "login", at.Asked.Get("prompt"))
		return h.entered(answer, cookie)
	}
	c, err := again()
	require.NoError(t, err)
	s, err := h.is(c)
	require.NoError(t, err)
	require.NoError(t, s.Confirmed())
	h.clock.Advance(confirmedAge + time.Millisecond)
	s, err = h.is(c)
	require.NoError(t, err)
	require.ErrorIs(t, s.Confirmed(), auth.ErrUnconfirmed)

	at.Set(func() { at.Claims = func(c map[string]any) { c["auth_time"] = begin.Add(-time.Hour).Unix() } })
	_, err = again()
	require.ErrorContains(t, err, "without asking who you are")
	at.Set(func() { at.Claims = func(c map[string]any) { c["auth_time"] = begin.Add(-25 * time.Hour).Unix() } })
	_, err = h.provided(at)
	require.ErrorContains(t, err, "without asking who you are")
}

// TestProviderIsAway: other ways to sign in go on, and nothing is stored.
func TestProviderIsAway(t *testing.T) {
	h, at := atProvider(t)
	made := h.owned("acme", "ada@example.org", "*")
	answer, cookie := h.begin(at, false)
	at.Set(func() {
		at.Handle = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }
	})
	cookies, _, err := h.SignInAtProvider(request("GET", answer, cookie))
	require.Equal(t, http.StatusServiceUnavailable, api.From(err).GetStatus())
	require.Nil(t, h.session(cookies))
	h.signedIn(made.APIKey)
	h.member(h.all(made.TenantID)[0])
	h.use(at)
	_, _, err = h.BeginAtProvider(request("POST", public+SignInPath), false)
	require.Equal(t, http.StatusServiceUnavailable, api.From(err).GetStatus())
	require.Contains(t, h.log.String(), "failed at the provider")
	require.NotContains(t, h.log.String(), oidctest.Secret)
}

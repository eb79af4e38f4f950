package member

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	"muniment.example/control/mailer"
	"muniment.example/control/mailer/mailertest"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

// owned makes a tenant whose first owner has an address.
func (h *fixture) owned(org, email string, scopes ...string) tenant.Created {
	h.t.Helper()
	made, err := h.tenants.Create(h.t.Context(), tenant.Request{Org: org, Email: email, Scopes: scopes})
	require.NoError(h.t, err)
	return made
}

// key is the caller with an API key.
func (h *fixture) key(keyID string) auth.Principal {
	h.t.Helper()
	k, err := store.Newest(h.t.Context(), h.db, api.Keys, keyID)
	require.NoError(h.t, err)
	return auth.Principal{Key: k}
}

// call calls an operation of members or keys, and reads its data.
func (h *fixture) call(by auth.Principal, method, path, body string, data any) api.Code {
	h.t.Helper()
	mux := http.NewServeMux()
	a := humago.New(mux, huma.DefaultConfig("", ""))
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		next(huma.WithContext(c, auth.WithPrincipal(c.Context(), by)))
	})
	if strings.HasPrefix(path, "/v1/members") {
		h.Routes(a)
	} else {
		h.tenants.Routes(a)
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	var answer struct {
		Error api.Code        `json:"error"`
		Data  json.RawMessage `json:"data"`
	}
	require.NoError(h.t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body)
	if w.Code == http.StatusOK && data != nil {
		require.NoError(h.t, json.Unmarshal(answer.Data, data))
	}
	if w.Code != http.StatusOK && answer.Error == "" {
		return api.Code(w.Body.String())
	}
	return answer.Error
}

// invited invites an address, and returns the member.
func (h *fixture) invited(by auth.Principal, email string, role Role) Shown {
	h.t.Helper()
	var one One
	require.Empty(h.t, h.call(by, "POST", "/v1/members", `{"email":"`+email+`","name":"Ada","role":"`+string(role)+`"}`, &one))
	one.Member.Member.Email, one.Member.Member.Name = one.Member.Email, one.Member.Name
	return one.Member
}

// all are the tenant's members, newest first.
func (h *fixture) all(tenantID string) []Member {
	h.t.Helper()
	page, _, err := list(h.t.Context(), h.db.Read(), tenantID, "", store.Slice{Limit: 100})
	require.NoError(h.t, err)
	return page
}

// jobs does all jobs that are due.
func (h *fixture) jobs() (failed []error) {
	h.t.Helper()
	for {
		done := false
		for kind, do := range map[string]func(*store.Job) error{
			AdmitJob: func(j *store.Job) error { return h.Admit(h.t.Context(), j) },
			MailJob:  func(j *store.Job) error { return h.SendMail(h.t.Context(), j) },
		} {
			job, err := h.db.Jobs.Claim(h.t.Context(), kind, time.Minute)
			require.NoError(h.t, err)
			if job == nil {
				continue
			}
			done = true
			if err := do(job); err != nil {
				failed = append(failed, err)
				require.NoError(h.t, job.Retry(h.t.Context(), "x", time.Minute))
				continue
			}
			require.NoError(h.t, job.Done(h.t.Context()))
		}
		if !done {
			return failed
		}
	}
}

// mailed is what the outbox has for a member; empty for nothing.
func (h *fixture) mailed(memberID string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.outbox, memberID+mailer.File))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(h.t, err)
	return string(text)
}

// tokenIn is the token of the one link in a mail.
func tokenIn(t *testing.T, text string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\r\n"+public+SignInPath+"?token=")
	require.True(t, found, text)
	token, _, _ := strings.Cut(rest, "\r\n")
	require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, token)
	return token
}

// link has a link mailed to a member, and returns its token.
func (h *fixture) link(m Member) string {
	h.t.Helper()
	require.NoError(h.t, h.RequestLink(request("POST", public+SignInPath), m.Email))
	require.Empty(h.t, h.jobs())
	return tokenIn(h.t, h.mailed(m.ID))
}

// member signs a member in.
func (h *fixture) member(m Member) *http.Cookie {
	h.t.Helper()
	c, err := h.SignInByLink(request("POST", public+SignInPath), h.link(m))
	require.NoError(h.t, err)
	return c
}

// acting is a member as a caller.
func (h *fixture) acting(c *http.Cookie) auth.Principal {
	h.t.Helper()
	s, err := h.is(c)
	require.NoError(h.t, err)
	return s.Caller
}

// TestFirstOwner: whom the tenant is made for, as an address that a mail reaches.
func TestFirstOwner(t *testing.T) {
	h := newFixture(t)
	made := h.owned("acme", "Ada@example.org")
	all := h.all(made.TenantID)
	require.Len(t, all, 1)
	require.Equal(t, Member{
		ID: all[0].ID, TenantID: made.TenantID, OrgID: "org_acme", DeveloperID: made.DeveloperID, Env: "test", Email: "ada@example.org", Role: Owner, State: Invited,
		InvitedBy: "operator", CreatedAt: store.At(begin), UpdatedAt: store.At(begin), Revision: all[0].Revision,
	}, all[0])
	for org, email := range map[string]string{"none": "", "local": `"a b"@example.org`} {
		made, err := h.tenants.Create(t.Context(), tenant.Request{Org: org, Email: strings.ReplaceAll(email, " ", "")})
		require.NoError(t, err)
		require.Empty(t, h.all(made.TenantID), email)
	}
}

// TestGrants: nobody gives or takes a role without all of its scopes, and what an earlier request could is not enough.
func TestGrants(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.owned("acme", "", "*")
	owner := h.key(made.KeyID)
	var viewers tenant.Made
	require.Empty(t, h.call(owner, "POST", "/v1/api-keys", `{"label":"viewers","scopes":["`+strings.Join(append(Viewer.Scopes().Names(), "keys:write"), `","`)+`"]}`, &viewers))
	few := h.key(viewers.Key.KeyID)

	ada := h.invited(few, "ada@example.org", Viewer)
	require.Equal(t, few.ID, ada.InvitedBy)
	require.Equal(t, "ada@example.org", ada.Email)
	for _, role := range []Role{Owner, Finance, Operations} {
		require.Equal(t, api.ScopeMissing, h.call(few, "POST", "/v1/members", `{"email":"bob@example.org","role":"`+string(role)+`"}`, nil), role)
		require.Equal(t, api.ScopeMissing, h.call(few, "PATCH", "/v1/members/"+ada.ID, `{"role":"`+string(role)+`"}`, nil), role)
	}
	bob := h.invited(owner, "bob@example.org", Finance)
	require.Equal(t, api.ScopeMissing, h.call(few, "PATCH", "/v1/members/"+bob.ID, `{"role":"viewer"}`, nil))
	require.Equal(t, api.ScopeMissing, h.call(few, "DELETE", "/v1/members/"+bob.ID, "", nil))
	require.Equal(t, api.StateConflict, h.call(owner, "POST", "/v1/members", `{"email":"BOB@example.org","role":"viewer"}`, nil))
	require.Contains(t, h.call(owner, "POST", "/v1/members", `{"email":"c@example.org","role":"root"}`, nil), "role")
	require.Equal(t, api.ValidationFailed, h.call(owner, "POST", "/v1/members", `{"email":"c@example.org, d@example.org","role":"viewer"}`, nil))

	h.operator("POST", "/admin/api-keys/"+few.ID+"/revoke", "{}")
	require.Equal(t, api.AuthInvalid, h.call(few, "POST", "/v1/members", `{"email":"eve@example.org","role":"viewer"}`, nil), "admitted before")
	require.Len(t, h.all(made.TenantID), 2)
}

// TestLastOwner stays, whoever wants to change that.
func TestLastOwner(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.owned("acme", "ada@example.org", "*")
	key, ada := h.key(made.KeyID), h.all(made.TenantID)[0]
	remove := func(by auth.Principal, m string) api.Code { return h.call(by, "DELETE", "/v1/members/"+m, "", nil) }
	lower := func(by auth.Principal, m string) api.Code {
		return h.call(by, "PATCH", "/v1/members/"+m, `{"role":"viewer"}`, nil)
	}
	require.Equal(t, api.StateConflict, remove(key, ada.ID))
	require.Equal(t, api.StateConflict, lower(key, ada.ID))
	bob := h.invited(key, "bob@example.org", Owner)
	by := h.acting(h.member(ada))
	require.Equal(t, api.StateConflict, lower(by, ada.ID), "bob has not signed in")
	require.Empty(t, remove(by, bob.ID))
	require.Empty(t, remove(by, bob.ID), "once more changes nothing")
	bob = h.invited(by, "bob@example.org", Owner)
	h.member(bob.Member)
	require.Empty(t, lower(by, ada.ID), "everybody may give up what is theirs")
	require.Equal(t, api.AuthInvalid, remove(auth.Principal{Key: &api.Key{ID: api.NewID(api.PrefixMember, begin), TenantID: made.TenantID}}, bob.ID))
	require.Equal(t, api.StateConflict, remove(key, bob.ID))
	require.Equal(t, api.ScopeMissing, lower(by, bob.ID), "ada was an owner when this was admitted")
	// An act of a member is that of the member's id, and no event names a person.
	var last []sealer.Event
	for _, e := range roomtest.Events(t, h.db) {
		require.NotContains(t, string(e.Data), "example.org")
		require.NotContains(t, string(e.Data), "Ada")
		if e.Subject.Kind == "member" {
			last = append(last, e)
		}
	}
	kinds := []string{}
	for _, e := range last {
		kinds = append(kinds, e.Type+" by "+e.Actor.Kind)
	}
	require.Equal(t, []string{"member.invited by operator", "member.invited by key", "member.joined by member", "member.removed by member", "member.invited by member", "member.joined by member", "member.changed by member"}, kinds)
	require.Equal(t, sealer.Ref{Kind: "member", ID: ada.ID}, last[6].Actor)
}

// TestForeignMembers: another tenant's member is none.
func TestForeignMembers(t *testing.T) {
	h := newFixture(t)
	made, other := h.owned("acme", "ada@example.org", "*"), h.owned("other", "", "*")
	id, by := h.all(made.TenantID)[0].ID, h.key(other.KeyID)
	require.Equal(t, api.ResourceNotFound, h.call(by, "GET", "/v1/members/"+id, "", nil))
	require.Equal(t, api.ResourceNotFound, h.call(by, "PATCH", "/v1/members/"+id, `{"role":"viewer"}`, nil))
	require.Equal(t, api.ResourceNotFound, h.call(by, "DELETE", "/v1/members/"+id, "", nil))
	var l List
	require.Empty(t, h.call(by, "GET", "/v1/members", "", &l))
	require.Empty(t, l.Members)
	require.Empty(t, h.call(h.key(made.KeyID), "GET", "/v1/members?state=INVITED", "", &l))
	require.Len(t, l.Members, 1)
}

// TestInvitationsAreBounded: so many persons, and one address so often, within a day.
func TestInvitationsAreBounded(t *testing.T) {
	h := newFixture(t)
	made := h.owned("acme", "", "*")
	by := h.key(made.KeyID)
	for range mostOfAddress {
		m := h.invited(by, "ada@example.org", Viewer)
		require.Empty(t, h.call(by, "DELETE", "/v1/members/"+m.ID, "", nil))
	}
	require.Equal(t, api.StateConflict, h.call(by, "POST", "/v1/members", `{"email":"ada@example.org","role":"viewer"}`, nil))
	fill := func(n int, state State, at time.Time) {
		roomtest.Fill(t, h.db, n, "members", "member_id, tenant_id, org_id, developer_id, env, email, name, bound, role, state, invited_by, created_at, updated_at, revision",
			"'mbr_"+string(state)+"' || i, '"+made.TenantID+"', '', '', '', 'x', '', FALSE, 'viewer', '"+string(state)+"', '', "+store.At(at).Format("20060102")+", 0, 0")
	}
	fill(mostMembers-1, Active, begin)
	h.invited(by, "bob@example.org", Viewer)
	require.Equal(t, api.StateConflict, h.call(by, "POST", "/v1/members", `{"email":"eve@example.org","role":"viewer"}`, nil))
}

// TestLinkIsUsedOnce, by however many callers, within 15 minutes, and ends the member's other links.
func TestLinkIsUsedOnce(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	ada := h.all(h.owned("acme", "ada@example.org").TenantID)[0]
	first := h.link(ada)
	second := h.link(ada)
	require.NotEqual(t, first, second)
	require.Zero(t, h.count("member_links WHERE token_hash = '"+second+"'"), "only its hash is kept")
	whose := func(token string) *Member {
		m, err := h.OfLink(t.Context(), token)
		require.NoError(t, err)
		return m
	}
	require.Equal(t, ada.ID, whose(second).ID, "who opens it reads whose it is, and spends nothing")
	var mu sync.Mutex
	var won []*http.Cookie
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c, err := h.SignInByLink(request("POST", public+SignInPath), second)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, c)
			} else if err != errLink {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, won, 1)
	s, err := h.is(won[0])
	require.NoError(t, err)
	require.Equal(t, sealer.Ref{Kind: "member", ID: ada.ID}, s.Actor)
	require.Equal(t, Owner, s.Role)
	require.Equal(t, "ada@example.org", s.Name)
	require.True(t, s.Allows(api.KeysWrite))
	require.Equal(t, Active, h.all(ada.TenantID)[0].State)
	h.clock.Advance(10 * time.Second) // for more requests
	for _, bad := range []string{first, second, "", "x", won[0].Value} {
		_, err := h.SignInByLink(request("POST", public+SignInPath), bad)
		require.Equal(t, errLink, err)
		require.Nil(t, whose(bad))
	}
	h.clock.Advance(time.Minute) // for more requests
	late := h.link(ada)
	h.clock.Advance(linkAge)
	_, err = h.SignInByLink(request("POST", public+SignInPath), late)
	require.Equal(t, errLink, err)
	require.NoError(t, h.Forget(t.Context()))
	require.Zero(t, h.count("member_links"))
	// Signing in ends the session that the browser had, whoever's it was.
	c, err := h.SignInByLink(request("POST", public+SignInPath, won[0]), h.link(ada))
	require.NoError(t, err)
	require.NotEqual(t, won[0].Value, c.Value)
	_, err = h.is(won[0])
	require.Equal(t, errEnded, err)
}

// TestSessionsOfMembers have the scopes of now: fewer after the role was lowered, none once the member was removed.
func TestSessionsOfMembers(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.owned("acme", "ada@example.org", "*")
	by := h.key(made.KeyID)
	bob := h.invited(by, "bob@example.org", Finance).Member
	c := h.member(bob)
	s, err := h.is(c)
	require.NoError(t, err)
	require.True(t, s.Allows(api.SettlementWrite))
	require.False(t, s.Allows(api.KeysWrite))
	require.Equal(t, "Ada", s.Name)
	require.Empty(t, h.call(by, "PATCH", "/v1/members/"+bob.ID, `{"role":"viewer"}`, nil))
	s, err = h.is(c)
	require.NoError(t, err)
	require.Equal(t, Viewer.Scopes(), s.Caller.Scopes)
	open := h.link(bob)
	require.Empty(t, h.call(by, "DELETE", "/v1/members/"+bob.ID, "", nil))
	_, err = h.is(c)
	require.Equal(t, errEnded, err)
	_, err = h.SignInByLink(request("POST", public+SignInPath), open)
	require.Equal(t, errLink, err)
	require.Equal(t, api.StateConflict, h.call(by, "PATCH", "/v1/members/"+bob.ID, `{"role":"viewer"}`, nil))
	held, err := ScopesInForce(t.Context(), h.db.Read(), bob.ID, begin)
	require.NoError(t, err)
	require.Zero(t, held)
}

// TestMembersKnowEachOther by the names that the tenant gave, whatever their roles, and by no address. Keys know nobody, and no
// tenant knows another's members.
func TestMembersKnowEachOther(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.owned("acme", "ada@example.org", "*") // who has no name
	by := h.key(made.KeyID)
	bob, eve := h.invited(by, "bob@example.org", Viewer), h.invited(by, "eve@example.org", Viewer)
	named := func(c *http.Cookie) map[string]string {
		s, err := h.is(c)
		require.NoError(t, err)
		names, err := h.Names(t.Context(), s)
		require.NoError(t, err)
		return names
	}
	viewer := h.member(bob.Member)
	require.Equal(t, map[string]string{bob.ID: "Ada", eve.ID: "Ada"}, named(viewer))
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, made.TenantID, sealer.NewPerson("eve@example.org"), "erased", nil, nil)
		return err
	}))
	require.Equal(t, map[string]string{bob.ID: "Ada"}, named(viewer))
	require.Empty(t, named(h.signedIn(made.APIKey)))
	other := h.owned("other", "carl@example.org", "*")
	require.Empty(t, named(h.member(h.all(other.TenantID)[0])))
}

// TestKeysOfMembers: an owner makes keys as a key does, and not with what an earlier request could.
func TestKeysOfMembers(t *testing.T) {
	h := newFixture(t)
	made := h.owned("acme", "ada@example.org", "*")
	ada := h.all(made.TenantID)[0]
	bob := h.invited(h.key(made.KeyID), "bob@example.org", Owner).Member
	by := h.acting(h.member(ada))
	h.member(bob)
	var one tenant.Made
	require.Empty(t, h.call(by, "POST", "/v1/api-keys", `{"label":"ada's"}`, &one))
	require.Equal(t, ada.ID, one.Key.CreatedBy)
	require.True(t, strings.HasPrefix(one.APIKey, "mun_test_"))
	require.Equal(t, made.DeveloperID, one.Key.DeveloperID)
	var t1 tenant.Snapshot
	require.Empty(t, h.call(by, "GET", "/v1/tenant", "", &t1))
	require.Equal(t, "owner", t1.Key.Label)
	require.Empty(t, h.call(by, "PATCH", "/v1/members/"+ada.ID, `{"role":"operations"}`, nil))
	require.Equal(t, api.AuthInvalid, h.call(by, "POST", "/v1/api-keys", `{"label":"more"}`, nil))
}

// TestAddressesAreNotTold: whether an address is a member's shows neither in the answer nor in what is done before it.
func TestAddressesAreNotTold(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.owned("acme", "ada@example.org", "*")
	bob := h.invited(h.key(made.KeyID), "bob@example.org", Viewer)
	require.Empty(t, h.call(h.key(made.KeyID), "DELETE", "/v1/members/"+bob.ID, "", nil))
	require.Empty(t, h.jobs())
	for _, email := range []string{"ada@example.org", "ADA@example.org", "bob@example.org", "nobody@example.org"} {
		require.NoError(t, h.RequestLink(request("POST", public+SignInPath), email))
		require.Equal(t, 1, h.count("link_requests"))
		require.Equal(t, 1, h.count("jobs WHERE kind = '"+AdmitJob+"' AND state = 'READY'"))
		require.Zero(t, h.count("jobs WHERE kind = '"+MailJob+"'"))
		require.Empty(t, h.jobs())
		require.Zero(t, h.count("link_requests"))
		h.clock.Advance(10 * time.Second)
	}
	require.Equal(t, 2, h.count("member_links"), "ada's")
	require.Empty(t, h.mailed(bob.ID), "removed before its invitation was sent")
	for _, bad := range []string{"", "ada", "ada@example.org, bob@example.org", "ada@example.org\r\nBcc: bob@example.org", strings.Repeat("a", 300) + "@example.org"} {
		require.Equal(t, api.ValidationFailed, code(h.RequestLink(request("POST", public+SignInPath), bad)), bad)
	}
	require.NotContains(t, h.log.String(), "example.org")
}

// TestLinksAreBounded: by the caller's address, and for each member.
func TestLinksAreBounded(t *testing.T) {
	h := newFixture(t)
	ada := h.all(h.owned("acme", "ada@example.org").TenantID)[0]
	for range defaultBurst {
		require.NoError(t, h.RequestLink(request("POST", public+SignInPath), ada.Email))
		require.Empty(t, h.jobs())
	}
	require.Equal(t, mostOpenLinks, h.count("member_links"))
	require.Equal(t, api.RateLimited, code(h.RequestLink(request("POST", public+SignInPath), ada.Email)))
	_, err := h.SignInByLink(request("POST", public+SignInPath), "guess")
	require.Equal(t, api.RateLimited, code(err))
	foreign := request("POST", public+SignInPath)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	require.ErrorContains(t, h.RequestLink(foreign, ada.Email), "another origin")
	_, err = h.SignInByLink(foreign, "guess")
	require.ErrorContains(t, err, "another origin", "a link of an attacker's can't be used for a victim by another page")
}

// TestLinksAreMailedInTheEnd: a server that refuses each attempt but the last for the time being, as one that lets strangers wait
// does, gets the link then; it is the one link that works.
func TestLinksAreMailedInTheEnd(t *testing.T) {
	h := newFixture(t)
	m := mailertest.New(t, nil, false)
	h.cfg.Mails.Server = &mailer.Server{Address: m.Address, From: "Muniment <sign-in@muniment.example>", TLS: mailer.NoTLS}
	ada := h.all(h.owned("acme", "ada@example.org").TenantID)[0]
	require.NoError(t, h.RequestLink(request("POST", public+SignInPath), ada.Email))
	for range MailAttempts - 1 {
		m.Answers = []error{os.ErrDeadlineExceeded}
		require.Len(t, h.jobs(), 1)
		require.Equal(t, 1, h.count("member_links"))
		h.clock.Advance(time.Minute)
	}
	require.Empty(t, h.jobs())
	_, text := m.Took().Read(t)
	_, err := h.SignInByLink(request("POST", public+SignInPath), tokenIn(t, text))
	require.NoError(t, err)
}

// TestMails: over a real conversation, an invitation without anything that gives access, and then a link for each
// tenant of the address.
func TestMails(t *testing.T) {
	h := newFixture(t)
	m := mailertest.New(t, nil, false)
	h.cfg.Mails.Server = &mailer.Server{Address: m.Address, From: "Muniment <sign-in@muniment.example>", TLS: mailer.NoTLS}
	made, other := h.owned("acme", "", "*"), h.owned("other", "", "*")
	h.invited(h.key(made.KeyID), "ada@example.org", Finance)
	m.Answers = []error{os.ErrDeadlineExceeded}
	require.Len(t, h.jobs(), 1)
	require.Contains(t, h.log.String(), "not sent")
	h.clock.Advance(time.Minute)
	require.Empty(t, h.jobs())
	letter, text := m.Took().Read(t)
	require.Equal(t, "<ada@example.org>", letter.Header.Get("To"))
	require.Equal(t, "You can sign in to the Muniment console of org_acme", letter.Header.Get("Subject"))
	require.Contains(t, text, "with the role finance")
	require.Contains(t, text, public+SignInPath+"\r\n")
	require.NotContains(t, text, "token")
	require.NotContains(t, text, "Ada", "nobody can have us send texts to others")

	h.invited(h.key(other.KeyID), "ada@example.org", Viewer)
	require.Empty(t, h.jobs())
	m.Took()
	require.NoError(t, h.RequestLink(request("POST", public+SignInPath), "ada@example.org"))
	require.Empty(t, h.jobs())
	require.Len(t, m.Letters, 2)
	tenants := map[string]bool{}
	for _, l := range m.Letters {
		_, text := l.Read(t)
		c, err := h.SignInByLink(request("POST", public+SignInPath), tokenIn(t, text))
		require.NoError(t, err)
		s, err := h.is(c)
		require.NoError(t, err)
		tenants[s.TenantID] = true
	}
	require.Len(t, tenants, 2)
	require.NotContains(t, h.log.String(), "ada@example.org")
}

// TestOutbox: a mail is removed once its member has signed in, was removed or was erased.
func TestOutbox(t *testing.T) {
	h := newFixture(t)
	made := h.owned("acme", "", "*")
	by := h.key(made.KeyID)
	bob, eve, ada := h.invited(by, "bob@example.org", Viewer).Member, h.invited(by, "eve@example.org", Viewer).Member, h.invited(by, "ada@example.org", Viewer).Member
	require.Empty(t, h.jobs())
	other := filepath.Join(h.outbox, "app_01M7Y45MG0YQ2E2D8Z1V5K3T9B"+mailer.File)
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	kept := func() (ids []string) {
		require.NoError(t, h.Forget(t.Context()))
		for _, m := range []Member{bob, eve, ada} {
			if h.mailed(m.ID) != "" {
				ids = append(ids, m.ID)
			}
		}
		return ids
	}
	require.Equal(t, []string{bob.ID, eve.ID, ada.ID}, kept())
	c := h.member(bob)
	require.Equal(t, []string{eve.ID, ada.ID}, kept())
	require.Empty(t, h.call(by, "DELETE", "/v1/members/"+eve.ID, "", nil))
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, made.TenantID, sealer.NewPerson("ada@example.org"), "erased", nil, nil)
		return err
	}))
	require.Empty(t, kept())
	_, err := h.is(c)
	require.NoError(t, err)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, made.TenantID, sealer.NewPerson("bob@example.org"), "erased too", nil, nil)
		return err
	}))
	_, err = h.is(c)
	require.Equal(t, errEnded, err, "erased")
	require.FileExists(t, other)
	gone, err := findAny(t.Context(), h.db.Read(), ada.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"erased", "erased"}, []string{gone.Email, gone.Name})
}

// TestErasedMembers: who is erased holds nothing and is no owner that counts. What the member has set ends with the
// erasure, that of the last owner, too.
func TestErasedMembers(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	ended := 0
	h.cfg.Ended = func(context.Context, *store.Tx, string) error { ended++; return nil }
	made := h.owned("acme", "ada@example.org", "*")
	key, ada := h.key(made.KeyID), h.all(made.TenantID)[0]
	bob := h.invited(key, "bob@example.org", Owner)
	eve := h.invited(key, "eve@example.org", Owner)
	by := h.acting(h.member(ada))
	h.member(bob.Member)
	h.clock.Advance(10 * time.Second) // for more requests
	open := h.link(eve.Member)
	erase := func(email string) {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			found, err := Tables.Erase(t.Context(), tx, made.TenantID, sealer.NewPerson(email), "erased", nil, nil)
			require.NoError(t, err)
			return h.Erased(t.Context(), tx, made.TenantID, found.Rows)
		}))
	}
	erase("eve@example.org")
	_, err := h.SignInByLink(request("POST", public+SignInPath), open)
	require.Equal(t, errLink, err)
	erase("bob@example.org")
	held, err := ScopesInForce(t.Context(), h.db.Read(), bob.ID, begin)
	require.NoError(t, err)
	require.Zero(t, held)
	require.Equal(t, api.StateConflict, h.call(by, "DELETE", "/v1/members/"+ada.ID, "", nil), "the only owner who may sign in")
	require.Equal(t, 2, ended)
	require.NotContains(t, h.log.String(), "no owner")
	erase("nobody@example.org")
	require.Equal(t, 2, ended)
	erase("ada@example.org")
	require.Equal(t, 3, ended)
	require.Contains(t, h.log.String(), "no owner who may sign in")
	require.Equal(t, api.AuthInvalid, h.call(by, "POST", "/v1/members", `{"email":"c@example.org","role":"viewer"}`, nil), "admitted before")
	require.Empty(t, h.call(key, "DELETE", "/v1/members/"+ada.ID, "", nil), "who is erased is no owner that has to stay")
}

// TestReplay: in an older copy of the database a member who was removed, or has a lower role by now, is that again.
func TestReplay(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	made := h.owned("acme", "ada@example.org", "*")
	by := h.key(made.KeyID)
	bob, eve := h.invited(by, "bob@example.org", Owner).Member, h.invited(by, "eve@example.org", Finance).Member
	older := h.all(made.TenantID)
	require.Empty(t, h.call(by, "DELETE", "/v1/members/"+bob.ID, "", nil))
	require.Empty(t, h.call(by, "PATCH", "/v1/members/"+eve.ID, `{"role":"viewer"}`, nil))
	newer := h.all(made.TenantID)
	events := roomtest.Events(t, h.db)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		for _, m := range older {
			if _, err := tx.ExecContext(t.Context(), `UPDATE members SET role = $2, state = $3, updated_at = $4, revision = $5 WHERE member_id = $1`, m.ID, string(m.Role), string(m.State), m.UpdatedAt, m.Revision); err != nil {
				return err
			}
		}
		for _, e := range events[len(events)-2:] {
			changed, err := Replay(t.Context(), tx, &e)
			require.NoError(t, err)
			require.True(t, changed)
			changed, err = Replay(t.Context(), tx, &e)
			require.NoError(t, err)
			require.False(t, changed)
		}
		return nil
	}))
	require.Equal(t, newer, h.all(made.TenantID))
}

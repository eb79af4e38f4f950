package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/control/mailer"
	people "muniment.example/control/member"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// signedIn has a link mailed to the newest member of an address, and returns the member's cookie.
func (h *fixture) signedIn(email string) *http.Cookie {
	h.t.Helper()
	post := func() *http.Request {
		return httptest.NewRequest("POST", "https://muniment.example"+people.SignInPath, nil)
	}
	id, err := store.One(h.t.Context(), h.db.Read(), "a member", store.Text, `SELECT member_id FROM members WHERE email = $1 ORDER BY member_id DESC LIMIT 1`, email)
	require.NoError(h.t, err)
	require.NotNil(h.t, id)
	require.NoError(h.t, h.members.RequestLink(post(), email))
	done := func(kind string, do func(*store.Job) error) {
		for {
			job, err := h.db.Jobs.Claim(h.t.Context(), kind, time.Minute)
			require.NoError(h.t, err)
			if job == nil {
				return
			}
			require.NoError(h.t, do(job))
			require.NoError(h.t, job.Done(h.t.Context()))
		}
	}
	done(people.AdmitJob, func(j *store.Job) error { return h.members.Admit(h.t.Context(), j) })
	done(people.MailJob, func(j *store.Job) error { return h.members.SendMail(h.t.Context(), j) })
	mail, err := os.ReadFile(filepath.Join(h.outbox, *id+mailer.File))
	require.NoError(h.t, err)
	_, rest, found := strings.Cut(string(mail), "?token=")
	require.True(h.t, found, string(mail))
	token, _, _ := strings.Cut(rest, "\r\n")
	c, err := h.members.SignInByLink(post(), token)
	require.NoError(h.t, err)
	return c
}

// session is the session of a cookie.
func (h *fixture) session(c *http.Cookie) people.Session {
	h.t.Helper()
	r := httptest.NewRequest("GET", "https://muniment.example"+people.Path, nil)
	r.AddCookie(c)
	s, err := h.members.Session(r)
	require.NoError(h.t, err)
	return s
}

// as calls an operation as a page does, by a session.
func (h *fixture) as(s people.Session, method, path, body string) answer {
	h.t.Helper()
	status, text, err := h.control().Call(h.t.Context(), s.Caller, method, path, []byte(body))
	require.NoError(h.t, err)
	return answer{t: h.t, status: status, text: string(text)}
}

// TestSessionsAskAgain: what a stolen session must not do asks to sign in again after 10 minutes, and nothing else does.
func TestSessionsAskAgain(t *testing.T) {
	h, registered, _ := openService(t)
	_, key := h.tenant("*")
	token, _ := auth.ParseToken(key)
	known, err := store.Newest(t.Context(), h.db, api.Keys, token.KeyID)
	require.NoError(t, err)
	caller := auth.Principal{Key: known, Unconfirmed: true}
	var confirms []string
	for path, item := range registered.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil || !route.Of(op).Confirms {
				continue
			}
			confirms = append(confirms, op.OperationID)
			status, text, err := h.control().Call(t.Context(), caller, op.Method, strings.NewReplacer("{keyId}", caller.ID, "{memberId}", "mbr_none").Replace(path), []byte(`{}`))
			require.NoError(t, err)
			require.Equal(t, 401, status, op.OperationID)
			require.Contains(t, string(text), "sign in again")
		}
	}
	slices.Sort(confirms)
	require.Equal(t, []string{"change-member", "create-api-key", "erase", "invite-member", "remove-member", "rotate-api-key"}, confirms)
	status, _, err := h.control().Call(t.Context(), caller, "GET", "/v1/api-keys", nil)
	require.NoError(t, err)
	require.Equal(t, 200, status)
}

// TestActsOfAMember: an act by a session is the member's, with the scopes of the role, in the tenant alone; a webhook
// that the member has set is paused once the role may not set it, and once the member was removed or erased.
func TestActsOfAMember(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant("*")
	_, other := h.tenant("*")
	foreign := get[string](t, h.call(other, "POST", "/v1/bases", `{"kind":"LICENSE","title":"theirs"}`).ok(), "basis", "id")
	id := get[string](t, h.call(key, "POST", "/v1/members", `{"email":"ada@example.org","role":"operations"}`).ok(), "member", "id")
	s := h.session(h.signedIn("ada@example.org"))
	require.Equal(t, tenantID, s.TenantID)
	basis := get[string](t, h.as(s, "POST", "/v1/bases", `{"kind":"LICENSE","title":"ours"}`).ok(), "basis", "id")
	require.NotEmpty(t, basis)
	require.Equal(t, 404, h.as(s, "GET", "/v1/bases/"+foreign, "").status)
	require.Equal(t, 403, h.as(s, "POST", "/v1/api-keys", `{"label":"x"}`).status)
	require.Equal(t, 403, h.as(s, "GET", "/v1/members", "").status)
	require.Contains(t, h.as(s, "POST", "/v1/delivery/beacons", `{"rightId":"rgh_x","spatialAnchorId":"a","expiresAt":"2099-01-01","maxReceiptsPerHour":1}`).text, "as a member")
	hook := get[string](t, h.as(s, "POST", "/v1/webhooks", `{"url":"https://receiver.example/","events":["right.*"]}`).ok(), "webhook", "id")
	state := func() (state, reason, keyID any) {
		w := get[map[string]any](t, h.call(key, "GET", "/v1/webhooks/"+hook, "").ok(), "webhook")
		return w["state"], w["stateReason"], w["keyId"]
	}
	is, why, by := state()
	require.Equal(t, []any{"ACTIVE", nil, id}, []any{is, why, by})

	h.call(key, "PATCH", "/v1/members/"+id, `{"role":"finance"}`).ok()
	is, why, _ = state()
	require.Equal(t, []any{"PAUSED", "MEMBER_CHANGED"}, []any{is, why})
	h.call(key, "PATCH", "/v1/webhooks/"+hook, `{"state":"ACTIVE"}`).ok()
	is, _, by = state()
	require.Equal(t, "ACTIVE", is)
	require.NotEqual(t, id, by, "who resumes it takes it over")
	require.Equal(t, 403, h.as(h.session(h.signedIn("ada@example.org")), "POST", "/v1/bases", `{"kind":"LICENSE","title":"late"}`).status)

	h.call(key, "PATCH", "/v1/members/"+id, `{"role":"operations"}`).ok()
	hook = get[string](t, h.as(h.session(h.signedIn("ada@example.org")), "POST", "/v1/webhooks", `{"url":"https://receiver.example/","events":["right.*"]}`).ok(), "webhook", "id")
	h.call(key, "DELETE", "/v1/members/"+id, "").ok()
	is, why, _ = state()
	require.Equal(t, []any{"PAUSED", "MEMBER_CHANGED"}, []any{is, why})

	h.call(key, "POST", "/v1/members", `{"email":"bob@example.org","role":"operations"}`).ok()
	hook = get[string](t, h.as(h.session(h.signedIn("bob@example.org")), "POST", "/v1/webhooks", `{"url":"https://receiver.example/","events":["right.*"]}`).ok(), "webhook", "id")
	var refused struct{ ConfirmationToken string }
	require.NoError(t, json.Unmarshal([]byte(h.call(key, "POST", "/v1/compliance/erase", `{"dataSubjectId":"bob@example.org"}`).text), &refused))
	is, _, _ = state()
	require.Equal(t, "ACTIVE", is)
	h.call(key, "POST", "/v1/compliance/erase", `{"dataSubjectId":"bob@example.org","confirmationToken":"`+refused.ConfirmationToken+`"}`).ok()
	is, why, _ = state()
	require.Equal(t, []any{"PAUSED", "MEMBER_CHANGED"}, []any{is, why})

	var actors []string
	for _, e := range h.events(tenantID) {
		if e.Actor.ID == id {
			actors = append(actors, e.Actor.Kind+" "+e.Type)
		}
	}
	require.Equal(t, []string{"member member.joined", "member basis.created", "member webhook.created", "member webhook.created"}, actors)
}

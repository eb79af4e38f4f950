package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	page "muniment.example/control/playground"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// playground is a fixture with the sandbox and its page, whose limits are out of the way.
type playground struct {
	*fixture
	feed *page.Feed
}

func newPlayground(t *testing.T) *playground {
	t.Helper()
	return openPlayground(t, newFixture(t), sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
}

func openPlayground(t *testing.T, h *fixture, cfg sandbox.Config) *playground {
	t.Helper()
	p := &playground{h, page.NewFeed()}
	cfg.DB, cfg.Tables, cfg.Keys = h.db, control.Tables, h.keys
	if cfg.Deliver == nil {
		cfg.Deliver = noDelivery
	}
	if cfg.Call == nil {
		cfg.Call = p.callWithoutLog
	}
	cfg.Deliver, cfg.Dropped = p.feed.Watch(cfg.Deliver), p.feed.Dropped
	var err error
	h.sandbox, err = sandbox.New(t.Context(), cfg)
	require.NoError(t, err)
	served, err := page.New(page.Config{Visitors: h.sandbox, Feed: p.feed})
	require.NoError(t, err)
	h.services, h.made = append(h.services, h.sandbox, served), nil
	return p
}

// noDelivery is for a fixture without a gateway.
func noDelivery(context.Context, string, string, []byte) ([]byte, error) {
	return nil, api.Unavailable(api.Draining, "there is no node", time.Second)
}

// callWithoutLog is control's Call, except for the services of the log, which this fixture does not
// have: for them the log is empty.
func (p *playground) callWithoutLog(ctx context.Context, caller auth.Principal, method, target string, body []byte) (int, []byte, error) {
	for _, list := range []string{"events", "packs"} {
		if strings.HasPrefix(strings.Replace(target, "proof-", "", 1), "/v1/"+list+"?") {
			return 200, fmt.Appendf(nil, `{"data":{%q:[],"nextCursor":null}}`, list), nil
		}
	}
	return p.control().Call(ctx, caller, method, target, body)
}

// hold keeps a tenant from being dropped, as something else refers to it.
func (p *playground) hold(tenant map[string]any) {
	p.t.Helper()
	require.NoError(p.t, p.db.Change(p.t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(p.t.Context(), `CREATE TABLE held (tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id))`); err != nil {
			return err
		}
		_, err := tx.ExecContext(p.t.Context(), `INSERT INTO held (tenant_id) VALUES ($1)`, tenant["tenantId"])
		return err
	}))
}

// copyRight makes rights of a tenant that are as one that it has, but older, with a substrate and a
// state.
func (p *playground) copyRight(id any, n int, substrate string, state api.RightState) {
	p.t.Helper()
	require.NoError(p.t, p.db.Change(p.t.Context(), func(tx *store.Tx) error {
		for i := range n {
			_, err := tx.ExecContext(p.t.Context(), `INSERT INTO rights (right_id, tenant_id, basis_id, substrate, scope, effective_from, ancestors, holder_org_id, state, created_at, updated_at, revision)
				SELECT $1, tenant_id, basis_id, $2, scope, effective_from, ancestors, holder_org_id, $3, created_at, updated_at, revision FROM rights WHERE right_id = $4`,
				fmt.Sprintf("rgh_00%s_%s_%d", substrate, state, i), substrate, string(state), id)
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// visitor is a browser: it keeps the cookie.
type visitor struct {
	*playground
	cookie string
	from   string // its address; empty is that of the connection
}

// visit has a new visitor provisioned.
func (p *playground) visit() (v *visitor, tenant map[string]any) {
	p.t.Helper()
	v = &visitor{playground: p}
	return v, v.does("POST", "/tenant", "")
}

// send sends a request to the sandbox, and keeps the cookie of the response.
func (v *visitor) send(method, path, body string, headers ...string) answer {
	v.t.Helper()
	if v.cookie != "" {
		headers = append(headers, "Cookie", "theme=dark; svc_sandbox_tenant="+v.cookie)
	}
	if v.from != "" {
		headers = append(headers, "X-Forwarded-For", v.from)
	}
	a := v.call("", method, "/api/sandbox"+path, body, headers...)
	require.Equal(v.t, "application/json", a.header.Get("Content-Type"))
	require.NotContains(v.t, a.text, "contractVersion")
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		require.Equal(v.t, "svc_sandbox_tenant", c.Name)
		v.cookie = c.Value
	}
	return a
}

// does is send with a success, and its data.
func (v *visitor) does(method, path, body string) map[string]any {
	v.t.Helper()
	a := v.send(method, path, body)
	require.Equal(v.t, 200, a.status, a.text)
	var envelope struct {
		OK   bool
		Data map[string]any
	}
	require.NoError(v.t, json.Unmarshal([]byte(a.text), &envelope))
	require.True(v.t, envelope.OK)
	return envelope.Data
}

// isRefused is send with an error, and its message.
func (v *visitor) isRefused(status int, code sandbox.Code, method, path, body string) string {
	v.t.Helper()
	return refusal(v.t, v.send(method, path, body), status, code)
}

func refusal(t *testing.T, a answer, status int, code sandbox.Code) string {
	t.Helper()
	require.Equal(t, status, a.status, a.text)
	var e map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.text), &e))
	require.Equal(t, map[string]any{"ok": false, "error": string(code), "message": e["message"]}, e)
	require.NotEmpty(t, e["message"])
	return e["message"].(string)
}

// list reads a list of objects.
func list(t *testing.T, from map[string]any, names ...string) (objects []map[string]any) {
	t.Helper()
	for _, o := range get[[]any](t, from, names...) {
		objects = append(objects, o.(map[string]any))
	}
	return objects
}

// TestSandboxSpellsAllErrors: what reaches none of its operations is refused as the
// operations refuse.
func TestSandboxSpellsAllErrors(t *testing.T) {
	p := newPlayground(t)
	v := &visitor{playground: p}
	for _, path := range []string{"", "/", "/nothing", "/tenant/", "/tenant/x", "//tenant", "/../sandbox/tenant"} {
		require.Equal(t, "RESOURCE_NOT_FOUND: there is nothing under this path", v.isRefused(404, sandbox.HandlerError, "GET", path, ""), path)
	}
	for path, allowed := range map[string]string{"/tenant": "GET, HEAD, POST", "/runtime-keys": "GET, HEAD", "/proof-packs/x": "GET, HEAD", "/run-demo": "POST"} {
		a := v.send("DELETE", path, "")
		require.Equal(t, "BAD_REQUEST: the path does not have this method", refusal(t, a, 405, sandbox.HandlerError), path)
		require.Equal(t, allowed, a.header.Get("Allow"), path)
	}
	p.call("", "GET", "/api/sandboxes", "").refused(404, api.ResourceNotFound)
}

func TestSandboxRights(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	ctv := list(t, tenant, "rights")[1]
	issue := fmt.Sprintf(`{"basisId":%q,"substrate":"AUDIO","scope":{"campaigns":["x"]},"effectiveFrom":"2026-01-01T00:00:00Z"}`, ctv["basisId"])
	issued := v.does("POST", "/rights/issue", issue)
	id := get[string](t, issued, "right", "id")
	derived := v.does("POST", "/rights/issue", fmt.Sprintf(
		`{"basisId":%q,"substrate":"CTV","scope":{"campaigns":["sandbox"],"regions":["US"]},"effectiveFrom":%q,"parentRightId":%q}`,
		ctv["basisId"], ctv["effectiveFrom"], ctv["id"]))
	child := get[string](t, derived, "right", "id")

	lineage := v.does("GET", "/provenance?rightId="+child, "")
	require.Equal(t, ctv["id"], get[string](t, lineage, "rootRight", "id"))
	require.Equal(t, child, get[string](t, lineage, "targetRight", "id"))
	require.Empty(t, list(t, lineage, "derivedRights"))
	require.Equal(t, ctv["basisId"], get[string](t, lineage, "basis", "id"))
	grandchild := get[string](t, v.does("POST", "/rights/issue", fmt.Sprintf(
		`{"basisId":%q,"substrate":"CTV","scope":{"campaigns":["sandbox"],"regions":["US"]},"effectiveFrom":%q,"parentRightId":%q}`,
		ctv["basisId"], ctv["effectiveFrom"], child)), "right", "id")
	lineage = v.does("GET", "/provenance?rightId="+grandchild, "")
	require.Len(t, list(t, lineage, "derivedRights"), 1)
	require.Equal(t, child, list(t, lineage, "derivedRights")[0]["id"])
	lineage = v.does("GET", "/provenance?rightId="+ctv["id"].(string), "")
	require.Equal(t, lineage["rootRight"], lineage["targetRight"])
	require.Len(t, list(t, lineage, "descendants"), 1)

	body := fmt.Sprintf(`{"rightId":%q,"reason":"a test"}`, id)
	require.Equal(t, "SUSPENDED", get[string](t, v.does("POST", "/rights/suspend", body), "right", "state"))
	require.Equal(t, "STATE_CONFLICT: ", v.isRefused(409, sandbox.HandlerError, "POST", "/rights/suspend", body)[:16])
	resume := fmt.Sprintf(`{"rightId":%q,"action":"resume"}`, id)
	require.Equal(t, "ACTIVE", get[string](t, v.does("POST", "/rights/suspend", resume), "right", "state"))
	require.Equal(t, "SUSPENDED", get[string](t, v.does("POST", "/rights/suspend", fmt.Sprintf(`{"rightId":%q,"action":"suspend"}`, id)), "right", "state"))
	require.Equal(t, "REVOKED", get[string](t, v.does("POST", "/rights/revoke", body), "right", "state"))
	v.isRefused(409, sandbox.HandlerError, "POST", "/rights/suspend", resume)
	v.isRefused(404, sandbox.HandlerError, "POST", "/rights/revoke", `{"rightId":"rgh_00000000000000000000000000"}`)
	v.isRefused(404, sandbox.HandlerError, "POST", "/rights/revoke", `{"rightId":"../bases"}`)
	require.Equal(t, "missing: rightId", v.isRefused(422, sandbox.MissingFields, "POST", "/rights/revoke", `{"rightId":""}`))
	require.Equal(t, "VALIDATION_FAILED: reason: expected length <= 1024",
		v.isRefused(422, sandbox.HandlerError, "POST", "/rights/revoke", fmt.Sprintf(`{"rightId":%q,"reason":%q}`, id, strings.Repeat("x", 1025))))
	v.isRefused(404, sandbox.HandlerError, "GET", "/provenance?rightId=rgh_1", "")
	v.isRefused(422, sandbox.MissingFields, "GET", "/provenance", "")
	v.isRefused(422, sandbox.HandlerError, "POST", "/rights/suspend", fmt.Sprintf(`{"rightId":%q,"action":"revoke"}`, id))
	v.isRefused(422, sandbox.HandlerError, "POST", "/rights/issue", strings.Replace(issue, "AUDIO", "RADIO", 1))
	require.Equal(t, "missing: effectiveFrom, scope, substrate",
		v.isRefused(422, sandbox.MissingFields, "POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q}`, ctv["basisId"])))
	for _, none := range []string{`"parentRightId":null`, `"scope":null`, `"scope":""`, `"scope":null,"parentRightId":null`} {
		require.Equal(t, "missing: scope",
			v.isRefused(422, sandbox.MissingFields, "POST", "/rights/issue", strings.Replace(issue, `"scope":{"campaigns":["x"]}`, none, 1)), none)
	}
	v.isRefused(400, sandbox.InvalidBody, "POST", "/rights/issue", issue[:40])
	v.isRefused(400, sandbox.InvalidBody, "POST", "/rights/issue", "")
	v.isRefused(413, sandbox.InvalidBody, "POST", "/rights/issue", `"`+strings.Repeat("x", 1<<20)+`"`)
	v.isRefused(422, sandbox.HandlerError, "POST", "/rights/issue", strings.Replace(issue, `"AUDIO"`, "7", 1))
	long := v.isRefused(422, sandbox.HandlerError, "POST", "/rights/issue", strings.Replace(issue, `"x"`, `"`+strings.Repeat("<", 400_000)+`"`, 1))
	require.Contains(t, long, "scope", "it is as long here as it was there")
	_, foreign := p.visit()
	v.isRefused(404, sandbox.HandlerError, "POST", "/rights/revoke", fmt.Sprintf(`{"rightId":%q}`, list(t, foreign, "rights")[0]["id"]))
}

func TestSandboxOffers(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	right := list(t, tenant, "rights")[0]["id"].(string)
	propose := fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"campaigns":["sandbox"],"regions":["US"]}}`, right)
	offer := func() map[string]any {
		return get[map[string]any](t, v.does("POST", "/offers/propose", propose), "offer")
	}
	first := offer()
	made, err := time.Parse(time.RFC3339, first["createdAt"].(string))
	require.NoError(t, err)
	ends, err := time.Parse(time.RFC3339, first["expiresAt"].(string))
	require.NoError(t, err)
	require.Equal(t, 7*24*time.Hour, ends.Sub(made))
	byID := func(o map[string]any) string { return fmt.Sprintf(`{"offerId":%q}`, o["id"]) }

	countered := v.does("POST", "/offers/counter", fmt.Sprintf(`{"offerId":%q,"scope":{"campaigns":["sandbox"],"regions":["US-NY"]}}`, first["id"]))
	require.Equal(t, "COUNTERED", get[string](t, countered, "countered", "state"))
	require.Equal(t, "counter_of:"+first["id"].(string), get[string](t, countered, "offer", "termsRef"))
	require.Equal(t, first["fromOrgId"], get[string](t, countered, "offer", "toOrgId"))
	accepted := v.does("POST", "/offers/accept", byID(get[map[string]any](t, countered, "offer")))
	require.Equal(t, "ACCEPTED", get[string](t, accepted, "offer", "state"))
	require.Equal(t, right, get[string](t, accepted, "right", "parentRightId"))
	require.NotEmpty(t, get[string](t, accepted, "right", "contentHash"))
	v.isRefused(409, sandbox.HandlerError, "POST", "/offers/accept", byID(first))

	require.Equal(t, "WITHDRAWN", get[string](t, v.does("POST", "/offers/withdraw", byID(offer())), "offer", "state"))
	rejected := v.does("POST", "/offers/withdraw", fmt.Sprintf(`{"offerId":%q,"action":"reject","reason":"too small"}`, offer()["id"]))
	require.Equal(t, "REJECTED", get[string](t, rejected, "offer", "state"))
	require.Equal(t, "too small", get[string](t, rejected, "offer", "stateReason"))
	v.isRefused(422, sandbox.HandlerError, "POST", "/offers/withdraw", fmt.Sprintf(`{"offerId":%q,"action":"burn"}`, offer()["id"]))
	require.Equal(t, "missing: offerId, scope", v.isRefused(422, sandbox.MissingFields, "POST", "/offers/counter", `{"termsRef":"x"}`))
	v.isRefused(422, sandbox.HandlerError, "POST", "/offers/propose", strings.Replace(propose, "org_b", tenant["orgId"].(string), 1))
}

// TestFirstOffer is the offer that a new visitor sends: on a right of the seed, with a scope that names
// no limit.
func TestFirstOffer(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	seeded := list(t, tenant, "rights")[3] // with two limits
	limits := maps.Clone(seeded["scope"].(map[string]any))
	delete(limits, "description")
	for _, scope := range []string{`,"scope":"sublet"`, `,"scope":{}`} {
		made := v.does("POST", "/offers/propose", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b"%s}`, seeded["id"], scope))
		countered := v.does("POST", "/offers/counter", fmt.Sprintf(`{"offerId":%q%s}`, get[string](t, made, "offer", "id"), scope))
		accepted := v.does("POST", "/offers/accept", fmt.Sprintf(`{"offerId":%q}`, get[string](t, countered, "offer", "id")))
		granted := get[map[string]any](t, accepted, "right", "scope")
		for key, limit := range limits {
			require.Equal(t, limit, granted[key], "%s of %s", key, scope)
		}
		issued := v.does("POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q,"substrate":%q,"effectiveFrom":%q,"parentRightId":%q%s}`,
			seeded["basisId"], seeded["substrate"], seeded["effectiveFrom"], seeded["id"], scope))
		require.Equal(t, granted, get[map[string]any](t, issued, "right", "scope"))
	}
	require.Contains(t, v.isRefused(422, sandbox.HandlerError, "POST", "/offers/propose",
		fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"channel":["sms"]}}`, seeded["id"])), `the nearest is "channels"`)
}

func TestSandboxChallenges(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	open := func(right int) string {
		made := v.does("POST", "/challenges/open", fmt.Sprintf(`{"rightId":%q,"reason":"ours"}`, list(t, tenant, "rights")[right]["id"]))
		require.Equal(t, "org_thirdparty_sandbox", get[string](t, made, "challenge", "challengerOrgId"))
		return get[string](t, made, "challenge", "id")
	}
	resolve := func(id, rest string) map[string]any {
		return v.does("POST", "/challenges/resolve", fmt.Sprintf(`{"challengeId":%q%s}`, id, rest))
	}
	overturned := resolve(open(0), `,"resolution":"no"`)
	require.Equal(t, "OVERTURNED", get[string](t, overturned, "challenge", "state"))
	require.Equal(t, "ACTIVE", get[string](t, overturned, "right", "state"))
	require.Equal(t, "WITHDRAWN", get[string](t, resolve(open(0), `,"action":"withdraw","resolution":"settled"`), "challenge", "state"))
	upheld := resolve(open(0), `,"upheld":true,"action":"resolve"`)
	require.Equal(t, "UPHELD", get[string](t, upheld, "challenge", "state"))
	require.Equal(t, "REVOKED", get[string](t, upheld, "right", "state"))
	v.isRefused(409, sandbox.HandlerError, "POST", "/challenges/open", fmt.Sprintf(`{"rightId":%q,"reason":"ours"}`, list(t, tenant, "rights")[0]["id"]))
	v.isRefused(409, sandbox.HandlerError, "POST", "/challenges/resolve", fmt.Sprintf(`{"challengeId":%q}`, get[string](t, upheld, "challenge", "id")))
	v.isRefused(422, sandbox.MissingFields, "POST", "/challenges/open", fmt.Sprintf(`{"rightId":%q}`, list(t, tenant, "rights")[1]["id"]))
	other := v.does("POST", "/challenges/open", fmt.Sprintf(`{"rightId":%q,"reason":"ours","challengerOrgId":"org_c"}`, list(t, tenant, "rights")[1]["id"]))
	require.Equal(t, "org_c", get[string](t, other, "challenge", "challengerOrgId"))
}

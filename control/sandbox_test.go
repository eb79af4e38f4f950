package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control"
	"muniment/control/node"
	"muniment/control/sandbox"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// playground is a house with the sandbox, whose limits are out of the way.
type playground struct {
	*house
	sandbox *sandbox.Room
}

func newPlayground(t *testing.T) *playground {
	t.Helper()
	return openPlayground(t, newHouse(t), sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
}

func openPlayground(t *testing.T, h *house, cfg sandbox.Config) *playground {
	t.Helper()
	p := &playground{house: h}
	cfg.DB, cfg.Keys = h.db, h.nodes
	if cfg.Deliver == nil {
		cfg.Deliver = noDelivery
	}
	if cfg.Ask == nil {
		cfg.Ask = p.ask
	}
	var err error
	p.sandbox, err = sandbox.New(t.Context(), cfg)
	require.NoError(t, err)
	h.rooms = append(h.rooms, p.sandbox)
	h.control, err = control.New(h.config())
	require.NoError(t, err)
	return p
}

// noDelivery is for a house without a gateway.
func noDelivery(context.Context, string, string, []byte) (int, []byte, error) {
	return 0, nil, api.Unavailable(api.Draining, "there is no node", time.Second)
}

// ask answers for the rooms of the log, which this house does without: it is empty.
func (p *playground) ask(ctx context.Context, caller auth.Principal, method, target string, body []byte) (int, []byte, error) {
	for _, list := range []string{"events", "packs"} {
		if strings.HasPrefix(strings.Replace(target, "proof-", "", 1), "/v1/"+list+"?") {
			return 200, fmt.Appendf(nil, `{"data":{%q:[],"nextCursor":null}}`, list), nil
		}
	}
	return p.control.Ask(ctx, caller, method, target, body)
}

// visitor is a browser: it keeps the cookie.
type visitor struct {
	*playground
	cookie string
}

// visit has a new visitor provisioned.
func (p *playground) visit() (v *visitor, tenant map[string]any) {
	p.t.Helper()
	v = &visitor{playground: p}
	return v, v.does("POST", "/tenant", "")
}

// send asks the sandbox, and keeps the cookie that comes with the answer.
func (v *visitor) send(method, path, body string, headers ...string) answer {
	v.t.Helper()
	if v.cookie != "" {
		headers = append(headers, "Cookie", "theme=dark; svc_sandbox_tenant="+v.cookie)
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
	var told struct {
		OK   bool
		Data map[string]any
	}
	require.NoError(v.t, json.Unmarshal([]byte(a.text), &told))
	require.True(v.t, told.OK)
	return told.Data
}

// isRefused is send with an error, and its message.
func (v *visitor) isRefused(status int, code sandbox.Code, method, path, body string) string {
	v.t.Helper()
	return told(v.t, v.send(method, path, body), status, code)
}

func told(t *testing.T, a answer, status int, code sandbox.Code) string {
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

func TestSandboxProvisions(t *testing.T) {
	p := newPlayground(t)
	v := &visitor{playground: p}
	first := v.send("POST", "/tenant", "whatever, it is not read")
	require.Contains(t, first.text, `"rebound":false`)
	c := first.header.Get("Set-Cookie")
	require.Contains(t, c, "; Path=/; HttpOnly; Secure; SameSite=Lax", "example.com is not this machine")
	tenant := v.does("GET", "/tenant", "")
	require.Regexp(t, `^tnt_`, tenant["tenantId"])
	require.True(t, strings.HasPrefix(v.cookie, tenant["tenantId"].(string)+"."))
	require.Regexp(t, `^org_sandbox_`, tenant["orgId"])
	counts := get[map[string]any](t, tenant, "counts")
	require.Equal(t, []any{3.0, 4.0, 0.0, 0.0}, []any{counts["bases"], counts["rights"], counts["offers"], counts["challenges"]})
	var substrates []string
	for _, r := range list(t, tenant, "rights") {
		substrates = append(substrates, r["substrate"].(string))
		require.Equal(t, "ACTIVE", r["effectiveState"])
	}
	require.Equal(t, []string{"DOOH", "CTV", "MOBILE", "MESSAGING"}, substrates)

	again := v.send("POST", "/tenant", "")
	require.Contains(t, again.text, `"rebound":true`)
	require.Contains(t, again.text, `"data":{"tenantId":"`+tenant["tenantId"].(string))
	other, _ := p.visit()
	require.NotEqual(t, v.cookie, other.cookie)

	var kinds []string
	for _, e := range p.events(tenant["tenantId"].(string)) {
		kinds = append(kinds, e.Type)
	}
	require.Equal(t, append(slices.Concat([]string{"tenant.created", "key.created"}, slices.Repeat([]string{"basis.created"}, 3),
		slices.Repeat([]string{"right.issued"}, 4)), "counterparty.created", "settlement_rule.created"), kinds)
}

// TestSandboxCookieBehindAProxy: that names itself in the Host header.
func TestSandboxCookieBehindAProxy(t *testing.T) {
	p := newPlayground(t)
	for from, secure := range map[string]bool{"203.0.113.9": true, "127.0.0.1": false} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/sandbox/tenant", nil)
		r.Host = "127.0.0.1:8080"
		r.Header.Set("X-Forwarded-For", from)
		w := httptest.NewRecorder()
		p.control.Handler().ServeHTTP(w, r)
		require.Equal(t, 200, w.Code, w.Body.String())
		require.Equal(t, secure, strings.Contains(w.Header().Get("Set-Cookie"), "; Secure"), from)
	}
}

func TestSandboxWithoutTenant(t *testing.T) {
	p := newPlayground(t)
	v, _ := p.visit()
	routes := []string{
		"GET /tenant", "GET /inspect", "GET /provenance", "GET /proof-packs", "POST /rights/issue", "POST /rights/suspend", "POST /rights/revoke",
		"POST /offers/propose", "POST /offers/accept", "POST /offers/counter", "POST /offers/withdraw", "POST /challenges/open", "POST /challenges/resolve",
		"POST /run-demo", "POST /constraint-demo", "GET /proof-packs/ppk_1",
	}
	all := func(v *visitor, status int, code sandbox.Code) {
		for _, route := range routes {
			method, path, _ := strings.Cut(route, " ")
			v.isRefused(status, code, method, path, "{") // before the body is read
		}
	}
	all(&visitor{playground: p}, 404, sandbox.NoTenant)
	tampered := &visitor{p, v.cookie[:len(v.cookie)-1]}
	all(tampered, 404, sandbox.NoTenant)

	stale := &visitor{p, v.cookie}
	require.Equal(t, true, v.does("POST", "/reset", "")["dropped"])
	require.Empty(t, v.cookie, "the cookie is cleared")
	all(stale, 410, sandbox.TenantEvicted)
	require.Equal(t, false, v.does("POST", "/reset", "")["dropped"])
	require.Equal(t, false, stale.does("POST", "/reset", "")["dropped"], "after an eviction")
	gone := &visitor{p, v.cookie}
	require.Contains(t, gone.send("POST", "/tenant", "").text, `"rebound":false`)
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
		require.Equal(t, "BAD_REQUEST: the path does not have this method", told(t, a, 405, sandbox.HandlerError), path)
		require.Equal(t, allowed, a.header.Get("Allow"), path)
	}
	p.call("", "GET", "/api/sandboxes", "").refused(404, api.ResourceNotFound)
}

// TestSandboxDropsAll: nothing of the tenant is left in the database but what is to be.
func TestSandboxDropsAll(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	id := tenant["tenantId"].(string)
	right := list(t, tenant, "rights")[0]["id"].(string)
	offer := v.does("POST", "/offers/propose", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"campaigns":["sandbox"]}}`, right))
	v.does("POST", "/offers/accept", fmt.Sprintf(`{"offerId":%q}`, get[string](t, offer, "offer", "id")))
	v.does("POST", "/challenges/open", fmt.Sprintf(`{"rightId":%q,"reason":"ours"}`, right))
	_, keep := p.visit()
	keys, err := p.db.Feed(t.Context(), feedOfAll)
	require.NoError(t, err)
	held := len(keys.Changes)
	v.does("POST", "/reset", "")

	rows, err := p.db.Read().QueryContext(t.Context(), tablesOfTenants(p.db))
	require.NoError(t, err)
	var tables []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		tables = append(tables, name)
	}
	require.NoError(t, rows.Err())
	require.Subset(t, tables, []string{"tenants", "rights", "offers", "sandbox_tenants"})
	for _, name := range tables {
		var left, others int
		require.NoError(t, p.db.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM `+name+` WHERE tenant_id = $1`, id).Scan(&left))
		require.NoError(t, p.db.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM `+name+` WHERE tenant_id = $1`, keep["tenantId"]).Scan(&others))
		if name != "outbox" {
			require.Zero(t, left, name)
		}
		if slices.Contains([]string{"tenants", "bases", "rights", "api_keys", "developers", "counterparties", "settlement_rules", "sandbox_tenants"}, name) {
			require.NotZero(t, others, "of another tenant: %s", name)
		}
	}
	after, err := p.db.Feed(t.Context(), feedOfAll)
	require.NoError(t, err)
	require.Len(t, after.Changes, held-6, "four rights, one derived, and a key")
	events := p.events(id)
	last := events[len(events)-1]
	require.Equal(t, "tenant.dropped", last.Type)
	require.JSONEq(t, fmt.Sprintf(`{"tenantId":%q,"reason":"RESET"}`, id), string(last.Data))
}

func TestSandboxEvictsTheIdle(t *testing.T) {
	now := time.Now()
	h := newHouseOn(t, t.TempDir(), node.Config{}, func() time.Time { return now })
	p := openPlayground(t, h, sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	idle, tenant := p.visit()
	busy, _ := p.visit()
	now = now.Add(23*time.Hour + 59*time.Minute)
	busy.does("GET", "/tenant", "")
	require.NoError(t, p.sandbox.Evict(t.Context()))
	idle.does("GET", "/tenant", "")
	now = now.Add(24*time.Hour - time.Minute)
	busy.does("GET", "/tenant", "")
	now = now.Add(2 * time.Minute)
	require.NoError(t, p.sandbox.Evict(t.Context()))
	idle.isRefused(410, sandbox.TenantEvicted, "GET", "/tenant", "")
	busy.does("GET", "/tenant", "")
	events := p.events(tenant["tenantId"].(string))
	require.JSONEq(t, fmt.Sprintf(`{"tenantId":%q,"reason":"IDLE"}`, tenant["tenantId"]), string(events[len(events)-1].Data))
}

// TestSandboxEvictsBehindAFailure has a tenant that can't be dropped, since something else
// holds on to it.
func TestSandboxEvictsBehindAFailure(t *testing.T) {
	now := time.Now()
	h := newHouseOn(t, t.TempDir(), node.Config{}, func() time.Time { return now })
	p := openPlayground(t, h, sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	held, tenant := p.visit()
	require.NoError(t, p.db.Change(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `CREATE TABLE held (tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id))`); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), `INSERT INTO held (tenant_id) VALUES ($1)`, tenant["tenantId"])
		return err
	}))
	now = now.Add(time.Minute)
	other, _ := p.visit()
	now = now.Add(24*time.Hour + time.Minute)
	require.ErrorContains(t, p.sandbox.Evict(t.Context()), tenant["tenantId"].(string))
	other.isRefused(410, sandbox.TenantEvicted, "GET", "/tenant", "")
	held.does("GET", "/tenant", "")
}

// TestSandboxProvisionsAsOne: a tenant that can't be evicted is not made.
func TestSandboxProvisionsAsOne(t *testing.T) {
	p := newPlayground(t)
	do := func(statement string) {
		require.NoError(t, p.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		}))
	}
	do(`ALTER TABLE sandbox_tenants RENAME TO away`)
	(&visitor{playground: p}).isRefused(500, sandbox.HandlerError, "POST", "/tenant", "")
	do(`ALTER TABLE away RENAME TO sandbox_tenants`)
	var made int
	require.NoError(t, p.db.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM tenants WHERE sandbox = 1`).Scan(&made))
	require.Zero(t, made)
	p.visit()
}

func TestSandboxRotation(t *testing.T) {
	p := newPlayground(t)
	v, _ := p.visit()
	_, err := p.sandbox.RotateSecret(t.Context(), store.ByOperator())
	require.NoError(t, err)
	v.isRefused(404, sandbox.NoTenant, "GET", "/tenant", "")
	require.Contains(t, v.send("POST", "/tenant", "").text, `"rebound":false`)
	v.does("GET", "/tenant", "")
}

// TestSandboxKeyRevoked: an operator has means against a visitor, and gives no key of one
// away.
func TestSandboxKeyRevoked(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	create := fmt.Sprintf(`{"tenantId":%q,"label":"ours"}`, tenant["tenantId"])
	require.Contains(t, p.admin("POST", "/admin/api-keys", create).refused(409, api.StateConflict), "sandbox")
	listed := p.admin("GET", "/admin/api-keys?tenantId="+tenant["tenantId"].(string), "").ok()
	keys := list(t, listed, "keys")
	require.Len(t, keys, 1)
	id := keys[0]["keyId"].(string)
	require.Contains(t, p.admin("POST", "/admin/api-keys/"+id+"/rotate", "").refused(409, api.StateConflict), "sandbox")
	p.admin("POST", "/admin/api-keys/key_00000000000000000000000000/rotate", "").refused(404, api.ResourceNotFound)
	v.does("GET", "/tenant", "")

	p.admin("POST", "/admin/api-keys/"+id+"/revoke", "").ok()
	v.isRefused(410, sandbox.TenantEvicted, "GET", "/tenant", "")
	v.isRefused(410, sandbox.TenantEvicted, "POST", "/run-demo", "")
	require.Contains(t, v.send("POST", "/tenant", "").text, `"rebound":false`)
	v.does("GET", "/tenant", "")
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
	require.Equal(t, "VALIDATION_FAILED: rightId: expected length >= 1", v.isRefused(422, sandbox.HandlerError, "POST", "/rights/revoke", `{"rightId":""}`))
	require.Equal(t, "VALIDATION_FAILED: reason: expected length <= 1024",
		v.isRefused(422, sandbox.HandlerError, "POST", "/rights/revoke", fmt.Sprintf(`{"rightId":%q,"reason":%q}`, id, strings.Repeat("x", 1025))))
	v.isRefused(404, sandbox.HandlerError, "GET", "/provenance?rightId=rgh_1", "")
	v.isRefused(422, sandbox.MissingFields, "GET", "/provenance", "")
	v.isRefused(422, sandbox.HandlerError, "POST", "/rights/suspend", fmt.Sprintf(`{"rightId":%q,"action":"revoke"}`, id))
	v.isRefused(422, sandbox.HandlerError, "POST", "/rights/issue", strings.Replace(issue, "AUDIO", "RADIO", 1))
	require.Equal(t, "missing: effectiveFrom, scope, substrate",
		v.isRefused(422, sandbox.MissingFields, "POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q}`, ctv["basisId"])))
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
	v.isRefused(422, sandbox.MissingFields, "POST", "/offers/counter", byID(offer()))
	v.isRefused(422, sandbox.HandlerError, "POST", "/offers/propose", strings.Replace(propose, "org_b", tenant["orgId"].(string), 1))
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

// feedOfAll asks for all of the feed.
var feedOfAll = api.FeedRequest{After: 1, Limit: 10_000}

// tablesOfTenants asks for the tables whose rows belong to tenants.
func tablesOfTenants(db *store.DB) string {
	if strings.HasPrefix(fmt.Sprintf("%T", db.Read().Driver()), "*stdlib") {
		return `SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id' AND table_schema = 'public'`
	}
	return `SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'tenant_id'`
}

func TestSandboxConstraints(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	for scenario, code := range map[string]string{
		"messaging-optout": "MESSAGING_OPTED_OUT", "automotive-speed": "AUTOMOTIVE_SPEED_EXCEEDED", "drone-remote-id-missing": "DRONE_REMOTE_ID_MISSING",
	} {
		d := v.does("POST", "/constraint-demo", fmt.Sprintf(`{"scenario":%q}`, scenario))
		require.Equal(t, scenario, d["scenario"])
		require.Equal(t, true, d["refused"], scenario)
		require.Nil(t, d["receipt"])
		var codes []string
		for _, violation := range list(t, d, "violations") {
			codes = append(codes, violation["code"].(string))
			require.NotEmpty(t, violation["message"])
			require.Contains(t, violation, "observed")
		}
		require.Equal(t, []string{code}, codes, scenario)
	}
	v.isRefused(422, sandbox.UnknownScenario, "POST", "/constraint-demo", `{"scenario":"flying-car"}`)
	v.isRefused(422, sandbox.UnknownScenario, "POST", "/constraint-demo", `{"scenario":7}`)
	v.isRefused(422, sandbox.MissingFields, "POST", "/constraint-demo", `{}`)
	v.isRefused(400, sandbox.InvalidBody, "POST", "/constraint-demo", `scenario`)
	require.Len(t, p.events(tenant["tenantId"].(string)), 11, "nothing has happened to the tenant")
}

func TestSandboxDemoRefuses(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	for _, body := range []string{`{"eventCount":0}`, `{"eventCount":101}`, `{"eventCount":1.5}`, `{"eventCount":"12"}`, `{"seed":"x"}`} {
		v.isRefused(422, sandbox.HandlerError, "POST", "/run-demo", body)
	}
	a := v.send("POST", "/run-demo", "")
	told(t, a, 503, sandbox.HandlerError)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	for _, r := range list(t, tenant, "rights") {
		v.does("POST", "/rights/revoke", fmt.Sprintf(`{"rightId":%q}`, r["id"]))
	}
	v.isRefused(409, sandbox.HandlerError, "POST", "/run-demo", `{}`)
}

// TestSandboxDroppedUnderARequest: to the visitor it is gone, and no fault of the service.
func TestSandboxDroppedUnderARequest(t *testing.T) {
	var p *playground
	drop := func() {}
	lost := errors.New("the tenant is none of the sandbox")
	p = openPlayground(t, newHouse(t), sandbox.Config{
		Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
		Ask: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			drop()
			return p.ask(ctx, of, method, target, body)
		},
		Deliver: func(context.Context, string, string, []byte) (int, []byte, error) { return 0, nil, lost },
	})
	v, _ := p.visit()
	v.isRefused(500, sandbox.HandlerError, "POST", "/run-demo", "")
	for _, route := range []string{"GET /tenant", "GET /inspect", "POST /tenant"} {
		v, tenant := p.visit()
		drop = func() {
			drop = func() {}
			other := &visitor{playground: p, cookie: v.cookie}
			require.Equal(t, true, other.does("POST", "/reset", "")["dropped"])
		}
		method, path, _ := strings.Cut(route, " ")
		if route != "POST /tenant" {
			v.isRefused(410, sandbox.TenantEvicted, method, path, "")
			continue
		}
		a := v.send(method, path, "")
		require.Equal(t, 200, a.status, a.text)
		require.Contains(t, a.text, `"rebound":false`)
		require.NotContains(t, a.text, tenant["tenantId"])
	}
}

// TestSandboxDemoNamesItsPack: not the one that another tab of the visitor sealed meanwhile.
func TestSandboxDemoNamesItsPack(t *testing.T) {
	var p *playground
	p = openPlayground(t, newHouse(t), sandbox.Config{
		Ask: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			answers := map[string]string{
				"/v1/proof-packs/seal":     `{"data":{"packs":[],"pack":{"packId":"ppk_other","metering":["other"],"settlement":[]},"pending":[]}}`,
				"/v1/receipts/rcp_1":       `{"data":{"sealed":{"packId":"ppk_ours","leafIndex":7}}}`,
				"/v1/proof-packs/ppk_ours": `{"data":{"header":{"packId":"ppk_ours","metering":["ours"],"settlement":[]}}}`,
			}
			if text, own := answers[target]; own {
				return 200, []byte(text), nil
			}
			return p.ask(ctx, of, method, target, body)
		},
		Deliver: func(context.Context, string, string, []byte) (int, []byte, error) {
			return 200, []byte(`{"ok":true,"data":{"receipt":{"receiptId":"rcp_1"},"signature":{},"metering":{}}}`), nil
		},
	})
	v, _ := p.visit()
	d := v.does("POST", "/run-demo", `{"eventCount":2.0}`)
	require.Equal(t, []any{"ppk_ours", []any{"ours"}}, []any{d["packId"], d["metering"]})
	require.Equal(t, "ppk_ours", get[string](t, d, "pack", "packId"))
	require.Len(t, d["deliveries"], 2)
}

// TestSandboxKeyRevokedMeanwhile: a run of the demo ends where an operator stops it.
func TestSandboxKeyRevokedMeanwhile(t *testing.T) {
	asked := 0
	p := openPlayground(t, newHouse(t), sandbox.Config{
		Deliver: func(context.Context, string, string, []byte) (int, []byte, error) {
			if asked++; asked < 3 {
				return 200, []byte(`{"ok":true,"data":{"receipt":{"receiptId":"rcp_1"},"signature":{},"metering":{}}}`), nil
			}
			return 401, []byte(`{"ok":false,"error":"AUTH_INVALID","message":"the API key is not valid"}`), nil
		},
	})
	v, _ := p.visit()
	v.isRefused(410, sandbox.TenantEvicted, "POST", "/run-demo", `{"eventCount":100}`)
	require.Equal(t, 3, asked)
}

// TestSandboxDemoFindsItsRights behind many long ones on a substrate that it doesn't play on,
// and behind stopped ones on one that it does.
func TestSandboxDemoFindsItsRights(t *testing.T) {
	var p *playground
	played := map[string]bool{}
	p = openPlayground(t, newHouse(t), sandbox.Config{
		Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
		Ask: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			if target == "/v1/proof-packs/seal" {
				return 200, []byte(`{"data":{"packs":[],"pack":{"packId":"ppk_1","metering":[],"settlement":[]},"pending":[]}}`), nil
			}
			return p.ask(ctx, of, method, target, body)
		},
		Deliver: func(_ context.Context, _, _ string, body []byte) (int, []byte, error) {
			var asked struct{ RightID string }
			err := json.Unmarshal(body, &asked)
			played[asked.RightID] = true
			return 409, []byte(`{"ok":false,"error":"STATE_CONFLICT","message":"no"}`), err
		},
	})
	v, tenant := p.visit()
	seed := list(t, tenant, "rights")
	issue := func(of map[string]any, substrate string) string {
		return get[string](t, v.does("POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q,"substrate":%q,"scope":%q,"effectiveFrom":%q}`,
			of["basisId"], substrate, strings.Repeat("x", 16_000), of["effectiveFrom"])), "right", "id")
	}
	for range 200 {
		issue(seed[0], "AUDIO")
	}
	for range 200 {
		v.does("POST", "/rights/revoke", fmt.Sprintf(`{"rightId":%q}`, issue(seed[0], "DOOH")))
	}
	v.does("POST", "/run-demo", `{"eventCount":100,"seed":1}`)
	want := map[string]bool{}
	for _, r := range seed {
		want[r["id"].(string)] = true
	}
	require.Equal(t, want, played)
}

package control_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

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
		p.control().Handler().ServeHTTP(w, r)
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
	tampered := &visitor{playground: p, cookie: v.cookie[:len(v.cookie)-1]}
	all(tampered, 404, sandbox.NoTenant)

	stale := &visitor{playground: p, cookie: v.cookie}
	require.Equal(t, true, v.does("POST", "/reset", "")["dropped"])
	require.Empty(t, v.cookie, "the cookie is cleared")
	all(stale, 410, sandbox.TenantEvicted)
	require.Equal(t, false, v.does("POST", "/reset", "")["dropped"])
	require.Equal(t, false, stale.does("POST", "/reset", "")["dropped"], "after an eviction")
	gone := &visitor{playground: p, cookie: v.cookie}
	require.Contains(t, gone.send("POST", "/tenant", "").text, `"rebound":false`)
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
	keys, err := p.db.Feed.Changes(t.Context(), feedOfAll)
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
	after, err := p.db.Feed.Changes(t.Context(), feedOfAll)
	require.NoError(t, err)
	require.Len(t, after.Changes, held-6, "four rights, one derived, and a key")
	events := p.events(id)
	last := events[len(events)-1]
	require.Equal(t, "tenant.dropped", last.Type)
	require.JSONEq(t, fmt.Sprintf(`{"tenantId":%q,"reason":"RESET"}`, id), string(last.Data))
}

func TestSandboxEvictsTheIdle(t *testing.T) {
	now := time.Now()
	h := newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now })
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
	h := newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now })
	p := openPlayground(t, h, sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	held, tenant := p.visit()
	p.hold(tenant)
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
	var read atomic.Int64 // how often the clock was, which goes on each time
	h := newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return time.Now().Add(time.Duration(read.Add(1)) * time.Millisecond) })
	p := openPlayground(t, h, sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	v, _ := p.visit()
	at, err := p.sandbox.RotateSecret(t.Context(), store.ByOperator())
	require.NoError(t, err)
	events := h.events(api.SystemTenant)
	last := events[len(events)-1]
	require.Equal(t, "sandbox.secret_rotated", last.Type)
	require.Equal(t, at.UTC(), last.At.UTC(), "the log, the answer and the database name one moment")
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

// feedOfAll selects the whole feed.
var feedOfAll = api.FeedRequest{After: 1}

// tablesOfTenants selects the tables whose rows belong to tenants.
func tablesOfTenants(db *store.DB) string {
	if strings.HasPrefix(fmt.Sprintf("%T", db.Read().Driver()), "*stdlib") {
		return `SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id' AND table_schema = 'public'`
	}
	return `SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'tenant_id'`
}

// TestSandboxDroppedUnderARequest: to the visitor it is gone, and no fault of the service.
func TestSandboxDroppedUnderARequest(t *testing.T) {
	var p *playground
	drop := func() {}
	lost := errors.New("the tenant is none of the sandbox")
	p = openPlayground(t, newFixture(t), sandbox.Config{
		Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
		Call: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			drop()
			return p.callWithoutLog(ctx, of, method, target, body)
		},
		Deliver: func(context.Context, string, string, []byte) ([]byte, error) { return nil, lost },
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

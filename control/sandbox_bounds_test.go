package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// TestSandboxIsFull: a tenant that was used within the hour is not dropped for a later visitor.
func TestSandboxIsFull(t *testing.T) {
	now := time.Now()
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{MaxTenants: 2, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	first, _ := p.visit()
	second, _ := p.visit()
	late := &visitor{playground: p}
	refused := late.send("POST", "/tenant", "")
	require.Contains(t, refusal(t, refused, 503, sandbox.HandlerError), isFull)
	requireRetryAfter(t, 3660, refused.header.Get("Retry-After"))
	require.Empty(t, late.cookie)
	require.Contains(t, first.send("POST", "/tenant", "").text, `"rebound":true`)
	second.does("POST", "/reset", "")
	late.does("POST", "/tenant", "")
	first.does("GET", "/tenant", "")
	second.isRefused(503, sandbox.HandlerError, "POST", "/tenant", "")
}

// TestSandboxWithoutAnAnswer: a tenant whose visitor gets an error in place of the cookie keeps no
// place from others.
func TestSandboxWithoutAnAnswer(t *testing.T) {
	h := newFixture(t)
	p := openPlayground(t, h, sandbox.Config{MaxTenants: 1, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	h.uncounted = api.Unavailable(api.EngineUnavailable, "the warehouse is away", time.Second)
	v := &visitor{playground: p}
	for range 2 {
		require.NotContains(t, refusal(t, v.send("POST", "/tenant", ""), 503, sandbox.HandlerError), isFull)
	}
	require.Empty(t, v.cookie)
	h.uncounted = nil
	v.does("POST", "/tenant", "")
}

// TestSandboxMakesSpace: a full sandbox is closed to no visitor for longer than an hour because
// of unused tenants.
func TestSandboxMakesSpace(t *testing.T) {
	now := time.Now()
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{
		MaxTenants: 3, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
	})
	held, tenant := p.visit() // can't be dropped
	p.hold(tenant)
	now = now.Add(time.Second)
	busy, _ := p.visit()
	now = now.Add(time.Second)
	left, tenant := p.visit()
	now = now.Add(time.Hour)
	busy.does("GET", "/tenant", "")
	late := &visitor{playground: p}
	late.isRefused(503, sandbox.HandlerError, "POST", "/tenant", "")
	left.does("GET", "/tenant", "") // as it is there, and from now on in use for an hour
	now = now.Add(time.Hour + 59*time.Second)
	busy.does("GET", "/tenant", "")
	late.isRefused(503, sandbox.HandlerError, "POST", "/tenant", "")
	now = now.Add(time.Second)
	late.does("POST", "/tenant", "")
	left.isRefused(410, sandbox.TenantEvicted, "GET", "/tenant", "")
	busy.does("GET", "/tenant", "")
	held.does("GET", "/tenant", "")
	events := p.events(tenant["tenantId"].(string))
	require.JSONEq(t, fmt.Sprintf(`{"tenantId":%q,"reason":"IDLE"}`, tenant["tenantId"]), string(events[len(events)-1].Data))
	left.isRefused(503, sandbox.HandlerError, "POST", "/tenant", "")
}

// TestSandboxIsClosed: without a sandbox its paths do not exist.
func TestSandboxIsClosed(t *testing.T) {
	h := newFixture(t)
	for _, route := range []string{"POST /tenant", "GET /tenant", "GET /runtime-keys", "POST /run-demo"} {
		method, path, _ := strings.Cut(route, " ")
		refusal(t, h.call("", method, "/api/sandbox"+path, ""), 404, sandbox.HandlerError)
	}
	require.NotContains(t, h.call("", "GET", "/openapi.json", "").text, `"/api/sandbox`)
	h.admin("POST", "/admin/sandbox/rotate-secret", "").refused(404, api.ResourceNotFound)
	_, key := h.tenant()
	h.call(key, "GET", "/v1/bases", "").ok()
}

func TestSandboxLimits(t *testing.T) {
	now := time.Now()
	p := openPlayground(t, newFixture(t), sandbox.Config{Now: func() time.Time { return now }})
	v := &visitor{playground: p}
	request := func(hops string) answer { return v.send("GET", "/tenant", "", "X-Forwarded-For", hops) }
	for range 10 {
		refusal(t, request("198.51.100.1"), 404, sandbox.NoTenant)
		now = now.Add(100 * time.Millisecond)
	}
	refused := request("198.51.100.1")
	refusal(t, refused, 429, sandbox.RateLimited)
	requireRetryAfter(t, 9, refused.header.Get("Retry-After"))
	require.Equal(t, 429, request("198.51.100.9, 198.51.100.1").status, "only the last hop counts")
	require.Equal(t, 404, request("198.51.100.2").status)
	now = now.Add(9*time.Second - time.Millisecond)
	refused = request("198.51.100.1")
	require.Equal(t, 429, refused.status)
	requireRetryAfter(t, 1, refused.header.Get("Retry-After"))
	now = now.Add(time.Millisecond)
	require.Equal(t, 404, request("198.51.100.1").status)
	require.Equal(t, 404, v.send("GET", "/tenant", "").status, "of the connection's address")
}

// TestSandboxLimitsOfAllProcesses: two processes on one database count together.
func TestSandboxLimitsOfAllProcesses(t *testing.T) {
	stacktest.Both(t)
	now := time.Now()
	var processes []*visitor
	dir := t.TempDir()
	for range 2 {
		h := newFixtureOn(t, dir, node.Config{}, func() time.Time { return now })
		processes = append(processes, &visitor{playground: openPlayground(t, h, sandbox.Config{Shared: true})})
	}
	request := func(i int) answer {
		return processes[i%2].send("GET", "/tenant", "", "X-Forwarded-For", "198.51.100.1")
	}
	for i := range 10 {
		refusal(t, request(i), 404, sandbox.NoTenant)
		now = now.Add(100 * time.Millisecond)
	}
	for i := range 2 {
		refused := request(i)
		refusal(t, refused, 429, sandbox.RateLimited)
		requireRetryAfter(t, 9, refused.header.Get("Retry-After"))
	}
	now = now.Add(9*time.Second - time.Millisecond)
	for i := range 2 {
		require.Equal(t, 429, request(i).status)
	}
	now = now.Add(time.Millisecond)
	require.Equal(t, 404, request(1).status)
	require.Equal(t, 429, request(0).status, "the second of the first ten is younger than 10 s")
	for i := range 189 {
		now = now.Add(10 * time.Second)
		require.Equal(t, 404, request(i).status)
	}
	now = now.Add(10 * time.Second)
	refused := request(0)
	require.Equal(t, 429, refused.status, "the 201st within the hour")
	requireRetryAfter(t, 3600-1910, refused.header.Get("Retry-After"))
}

// TestVisitorLimit: the requests in flight of one visitor, and of all visitors together, are
// limited, with lower limits for requests that hold whole tenants in memory.
func TestVisitorLimit(t *testing.T) {
	h := newFixture(t)
	begun, answer := make(chan struct{}), make(chan struct{})
	var p *playground
	held := false
	p = openPlayground(t, h, sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}, Call: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
		if held && target == "/v1/tenant" {
			begun <- struct{}{}
			<-answer
		}
		return p.callWithoutLog(ctx, of, method, target, body)
	}})
	var visitors []*visitor
	for range 9 {
		v, _ := p.visit()
		visitors = append(visitors, v)
	}
	var waiting sync.WaitGroup
	hold := func(v *visitor, path string, n int) {
		for range n {
			waiting.Go(func() { v.send("GET", path, "") })
			<-begun
		}
	}
	refused := func(v *visitor, path string) {
		t.Helper()
		a := v.send("GET", path, "")
		refusal(t, a, 429, sandbox.RateLimited)
		requireRetryAfter(t, 1, a.header.Get("Retry-After"))
	}
	held = true
	for i, v := range visitors[:8] {
		switch {
		case i < 3:
			hold(v, "/inspect", 2)
			refused(v, "/inspect")
			hold(v, "/tenant", 6)
		default:
			refused(v, "/inspect")
			hold(v, "/tenant", 8)
		}
		refused(v, "/tenant")
	}
	refused(visitors[8], "/tenant")
	refusal(t, (&visitor{playground: p}).send("POST", "/tenant", ""), 429, sandbox.RateLimited)
	require.Equal(t, 200, p.call("", "GET", "/api/sandbox/runtime-keys", "").status, "whose size is not a visitor's")
	_, key := p.tenant()
	p.call(key, "GET", "/v1/bases", "").ok()
	for range 64 {
		answer <- struct{}{}
	}
	waiting.Wait()
	held = false
	waittest.Until(t, func() bool { return visitors[8].send("GET", "/inspect", "").status == 200 })
}

// TestSandboxAnswersAreBounded: a response does not have all of a visitor's long scopes.
func TestSandboxAnswersAreBounded(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	right := list(t, tenant, "rights")[0]
	long := get[string](t, v.does("POST", "/rights/issue", fmt.Sprintf(
		`{"basisId":%q,"substrate":"AUDIO","scope":%q,"effectiveFrom":%q}`, right["basisId"], strings.Repeat("x", 16_000), right["effectiveFrom"])), "right", "id")
	p.copyRight(long, 299, "AUDIO", api.RightActive)
	last := get[string](t, v.does("POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q,"substrate":"AUDIO","scope":"last","effectiveFrom":%q}`, right["basisId"], right["effectiveFrom"])), "right", "id")
	inspected := v.send("GET", "/inspect", "")
	require.Equal(t, 200, inspected.status)
	require.Less(t, len(inspected.text), 6<<20)
	require.Contains(t, inspected.text, last)
	parts := v.inspections()
	require.Greater(t, len(parts), 2)
	var listed []string
	for i, part := range parts {
		for _, r := range list(t, part, "rights") {
			listed = append(listed, r["id"].(string))
		}
		require.Equal(t, i == 0, len(list(t, part, "bases")) == 3, "a part has only the lists that continue")
		require.Equal(t, tenant["tenantId"], get[string](t, part, "tenant", "tenantId"))
	}
	require.Equal(t, last, listed[0], "newest first, through all parts")
	require.Len(t, listed, 4+301)
	slices.Sort(listed)
	require.Len(t, slices.Compact(listed), 4+301)
	v.isRefused(422, sandbox.HandlerError, "GET", "/inspect?rights=x", "")
	v.isRefused(422, sandbox.HandlerError, "GET", "/inspect?packs=x", "")
	rights := list(t, v.does("GET", "/tenant", ""), "rights")
	require.Equal(t, last, rights[len(rights)-1]["id"])
	require.InDelta(t, 2<<20, len(rights)*16_000, 1<<20)
}

// TestSandboxListsTheNewestPacks: a visitor has more packs than are listed.
func TestSandboxListsTheNewestPacks(t *testing.T) {
	const packs = 1203
	var p *playground
	p = openPlayground(t, newFixture(t), sandbox.Config{
		CountPacks: func(context.Context, string) (int64, error) { return packs, nil },
		Call: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			if id, one := strings.CutPrefix(target, "/v1/proof-packs/ppk_"); one {
				return 200, fmt.Appendf(nil, `{"data":{"header":{"n":%s}}}`, id), nil
			}
			query, listed := strings.CutPrefix(target, "/v1/proof-packs?")
			if !listed {
				return p.callWithoutLog(ctx, of, method, target, body)
			}
			parameters, err := url.ParseQuery(query)
			require.NoError(t, err)
			seen, err := route.PageOf("/v1/proof-packs", parameters.Get("cursor")).Slice()
			require.NoError(t, err)
			n, err := strconv.Atoi("0" + seen.Behind)
			require.NoError(t, err)
			page := map[string]any{"nextCursor": nil}
			var found []map[string]string
			for ; len(found) < 50 && n < packs; n++ {
				found = append(found, map[string]string{"id": fmt.Sprint("ppk_", n+1)})
			}
			page["packs"] = found
			if n < packs {
				page["nextCursor"] = route.PageOf("/v1/proof-packs", "").Next(strconv.Itoa(n))
			}
			text, err := json.Marshal(map[string]any{"data": page})
			return 200, text, err
		},
	})
	v, _ := p.visit()
	listed := list(t, v.does("GET", "/proof-packs", ""), "packs")
	require.Len(t, listed, 500)
	require.Equal(t, []any{"ppk_704", "ppk_1203"}, []any{listed[0]["id"], listed[499]["id"]})
	var ends []any
	for _, part := range v.inspections() {
		headers := list(t, part, "packs")
		ends = append(ends, headers[0]["n"], headers[len(headers)-1]["n"])
	}
	require.Equal(t, []any{704.0, 1203.0, 204.0, 703.0, 1.0, 203.0}, ends, "the newest first, each part in its order")
}

// inspections are all parts of an inspection.
func (v *visitor) inspections() (parts []map[string]any) {
	v.t.Helper()
	for query := ""; ; {
		part := v.does("GET", "/inspect"+query, "")
		parts = append(parts, part)
		goesOn := url.Values{}
		for name, cursor := range get[map[string]any](v.t, part, "truncated") {
			goesOn.Set(name, cursor.(string))
		}
		if len(goesOn) == 0 {
			return parts
		}
		query = "?" + goesOn.Encode()
	}
}

// TestSandboxClockAhead: a process whose clock was wrong refuses no visitor once it is right.
func TestSandboxClockAhead(t *testing.T) {
	now := time.Now()
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{Shared: true})
	v := &visitor{playground: p}
	now = now.Add(24 * time.Hour)
	for range 10 {
		v.isRefused(404, sandbox.NoTenant, "GET", "/tenant", "")
	}
	now = now.Add(-24 * time.Hour)
	for range 10 {
		v.isRefused(404, sandbox.NoTenant, "GET", "/tenant", "")
	}
	v.isRefused(429, sandbox.RateLimited, "GET", "/tenant", "")
}

// TestSandboxCountsBesideChanges: counting visitors' requests does not wait for a store.DB.Change,
// nor delay one such as the revocation of a right.
func TestSandboxCountsBesideChanges(t *testing.T) {
	stacktest.Postgres(t)
	now := time.Now()
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{Shared: true})
	v := &visitor{playground: p}
	require.NoError(t, p.db.Change(t.Context(), func(tx *store.Tx) error {
		for range 10 {
			v.isRefused(404, sandbox.NoTenant, "GET", "/tenant", "")
			if _, err := tx.ExecContext(t.Context(), `SELECT 1`); err != nil { // it does not stand still, which would end it
				return err
			}
		}
		v.isRefused(429, sandbox.RateLimited, "GET", "/tenant", "")
		return nil
	}))
	var requests sync.WaitGroup
	var accepted atomic.Int64
	for range 40 {
		requests.Go(func() {
			if v.send("GET", "/tenant", "", "X-Forwarded-For", "198.51.100.7").status == 404 {
				accepted.Add(1)
			}
		})
	}
	requests.Wait()
	require.EqualValues(t, 10, accepted.Load(), "of forty at once")
}

// TestSandboxPackTooLong: a pack that visitors made too long is not read into memory.
func TestSandboxPackTooLong(t *testing.T) {
	var p *playground
	size := 8<<20 + 1
	var requested []string
	p = openPlayground(t, newFixture(t), sandbox.Config{
		Call: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			suffix, packs := strings.CutPrefix(target, "/v1/proof-packs/ppk_1")
			if !packs {
				return p.callWithoutLog(ctx, of, method, target, body)
			}
			requested = append(requested, suffix)
			if suffix == "" {
				return 200, fmt.Appendf(nil, `{"data":{"header":{},"summary":{"bytes":%d,"sha256":"of it"}}}`, size), nil
			}
			return 404, []byte(`{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"the file"}`), nil
		},
	})
	v, _ := p.visit()
	message := v.isRefused(422, sandbox.HandlerError, "GET", "/proof-packs/ppk_1", "")
	require.Contains(t, message, "the pack has 8388609 bytes, and the sandbox sends packs of at most 8388608")
	require.Contains(t, message, "the SHA-256 of it")
	require.Equal(t, []string{""}, requested)
	size--
	v.isRefused(404, sandbox.HandlerError, "GET", "/proof-packs/ppk_1", "")
	require.Equal(t, []string{"", "", "/bundle"}, requested)
}

package control_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

// freeJSON are the members that take any JSON, and what bounds them.
var freeJSON = map[string]string{
	"scope":     "control/right takes 16 KiB",
	"telemetry": "the gateway takes bodies of 64 KiB",
}

// TestEveryBodyIsBounded: the schema of every array, map and string that a caller, an operator or a
// node may send has a limit.
func TestEveryBodyIsBounded(t *testing.T) {
	h, _, _ := openService(t)
	bodies := 0
	for _, declared := range h.control().Declared() {
		var walk func(s *huma.Schema, at, name string)
		walk = func(s *huma.Schema, at, name string) {
			for s.Ref != "" {
				s = declared.Components.Schemas.SchemaFromRef(s.Ref)
			}
			of, isMap := s.AdditionalProperties.(*huma.Schema)
			switch {
			case s.Type == "":
				require.Contains(t, freeJSON, name, "%s takes any JSON", at)
			case s.Type == huma.TypeString:
				require.True(t, s.MaxLength != nil || len(s.Enum) > 0, "%s has no maxLength", at)
			case s.Type == huma.TypeArray:
				require.NotNil(t, s.MaxItems, "%s has no maxItems", at)
				walk(s.Items, at+"[]", "")
			case isMap:
				require.NotNil(t, s.MaxProperties, "%s has no maxProperties", at)
				walk(of, at+"{}", "")
			}
			for name, p := range s.Properties {
				walk(p, at+"."+name, name)
			}
		}
		for path, item := range declared.Paths {
			for _, op := range []*huma.Operation{item.Post, item.Put, item.Patch} {
				if op != nil && op.RequestBody != nil && len(route.Of(op).Text) == 0 { // control/ingest takes 5,000 lines, of 1 MiB
					bodies++
					walk(op.RequestBody.Content["application/json"].Schema, op.Method+" "+path, "")
				}
			}
		}
	}
	require.Greater(t, bodies, 30)
}

// TestAnswersToHostileRequestsAreShort: whatever is wrong with a request, and how often, at
// most 20 faults are listed, and the answer is at most 64 KiB long.
func TestAnswersToHostileRequestsAreShort(t *testing.T) {
	h, _, _ := openService(t)
	_, key := h.tenant()
	right := h.right(key, h.basis(key))
	visitor := h.call("", "POST", "/api/sandbox/tenant", "").header.Get("Set-Cookie")
	node := h.admit(newNewcomer(t), h.invite())

	list := func(n int, item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	long := func(n int) string { return strings.Repeat("n", n) }
	deep := func(n int, name string) string {
		return strings.Repeat(`{"`+name+`":`, 30) + `{"a":1,"a":2}` + strings.Repeat("}", 30)
	}
	var regions []string
	for i := range 1500 {
		regions = append(regions, fmt.Sprintf(`"r%d"`, i))
	}
	var query []string
	for i := range 60 {
		query = append(query, fmt.Sprintf("%s%d=%s", long(100), i, url.QueryEscape(strings.Repeat("<", 30))))
	}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		message                  string
	}{
		{"520,000 wrong scopes", "POST", "/v1/api-keys", `{"label":"x","scopes":` + list(520_000, "1") + `}`, 400, "the body has more than 10000 names and values"},
		{"many wrong scopes", "POST", "/v1/api-keys", `{"label":"x","scopes":` + list(9_000, "1") + `}`, 422, "scopes: expected array length <= 64"},
		{"many unknown scopes", "POST", "/v1/api-keys", `{"label":"x","scopes":` + list(9_000, `"`+long(20)+`"`) + `}`, 422, "scopes: expected array length <= 64"},
		{"more wrong scopes than are listed", "POST", "/v1/api-keys", `{"label":"x","scopes":` + list(64, "1") + `}`, 422, "several fields are not valid: the first 20 faults are listed, 44 more are not"},
		{"one scope of 1 MiB", "POST", "/v1/api-keys", `{"label":"x","scopes":["` + long(1<<20-40) + `"]}`, 422, "scopes[0]: expected length <= 64"},
		{"a label of 1 MiB", "POST", "/v1/api-keys", `{"label":"` + long(1<<20-40) + `"}`, 422, "label: expected length <= 128"},
		{"520,000 members", "POST", "/v1/bases", `{"x":` + list(250_000, `{}`) + `}`, 400, "the body has more than 10000 names and values"},
		{"a long name twice", "POST", "/v1/bases", `{"` + long(500_000) + `":1,"` + long(500_000) + `":2}`, 422, long(256) + "…: is given twice"},
		{"a name twice, deep inside", "POST", "/v1/bases", deep(30, long(30_000)), 422, long(256) + "…: is given twice"},
		{"U+0000 behind a long name", "POST", "/v1/bases", `{"` + long(1<<20-40) + `":"\u0000"}`, 422, long(256) + "…: must not contain control characters, except tabs and line breaks: it contains U+0000"},
		{"a long name out of range", "POST", "/v1/bases", `{"` + strings.Repeat("é", 1<<19-40) + `":1e400}`, 422, strings.Repeat("é", 128) + "…: must be a number that a double holds"},
		{"a kind of 1 MiB", "POST", "/v1/bases", `{"title":"x","kind":"` + long(1<<20-40) + `"}`, 422, ""},
		{"an organisation of 1 MiB", "POST", "/v1/bases", `{"title":"x","kind":"LICENSE","holderOrgId":"` + long(1<<20-60) + `"}`, 422, ""},
		{"a time of 1 MiB", "POST", "/v1/bases", `{"title":"x","kind":"LICENSE","effectiveFrom":"2026-01-01T00:00:00.` + strings.Repeat("0", 1<<20-100) + `Z"}`, 422, ""},
		{"a scope wider than its parent's", "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"regions":[%s]}}`, right, strings.Join(regions, ",")), 422, ""},
		{"a scope of 1 MiB", "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"description":%q}}`, right, long(1<<20-200)), 422, ""},
		{"a long path", "GET", "/v1/rights/" + long(1<<16), "", 404, ""},
		{"a long cursor", "GET", "/v1/rights?cursor=" + long(1<<16), "", 422, ""},
		{"a long state", "GET", "/v1/rights?state=" + long(1<<16), "", 422, ""},
		{"many unknown parameters", "GET", "/v1/rights?" + strings.Join(query, "&"), "", 422, ""},
		{"a visitor's long name", "POST", "/api/sandbox/rights/issue", `{"` + long(500_000) + `":1,"` + long(500_000) + `":2}`, 422, ""},
		{"a visitor's long id", "POST", "/api/sandbox/rights/revoke", `{"rightId":"` + long(1<<20-40) + `"}`, 422, ""},
		{"a visitor's wide scope", "POST", "/api/sandbox/rights/issue", `{"scope":` + list(500_000, "1") + `}`, 400, ""},
		{"an operator's long name", "POST", "/admin/tenants", `{"` + long(500_000) + `":1,"` + long(500_000) + `":2}`, 422, ""},
		{"an operator's scopes", "POST", "/admin/tenants", `{"org":"acme","scopes":` + list(9_000, "1") + `}`, 422, ""},
		{"an operator's positions", "POST", "/admin/quarantine/release", `{"reason":"x","positions":` + list(500, "1") + `}`, 422, "several fields are not valid: the first 20 faults are listed, 480 more are not"},
		{"an operator's long position", "POST", "/admin/quarantine/release", `{"reason":"x","positions":["` + long(1<<20-60) + `"]}`, 422, ""},
		{"a node's keys", "POST", "/nodes/start", `{"signingKeys":` + list(100, "1") + `}`, 422, "several fields are not valid: the first 20 faults are listed, 80 more are not"},
		{"a node's long id", "POST", "/nodes/join", `{"nodeId":"` + long(1<<20-40) + `"}`, 422, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var to http.Handler = h.control().Handler()
			credential := key
			switch {
			case strings.HasPrefix(c.path, "/admin/"):
				to, credential = h.control().Admin(), adminToken
			case strings.HasPrefix(c.path, "/nodes/"):
				to, credential = h.control().Nodes(), node
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a := send(t, to, credential, c.method, c.path, c.body, "Cookie", visitor)
			runtime.ReadMemStats(&after)
			require.Less(t, int(after.TotalAlloc-before.TotalAlloc), 24<<20, "memory")
			require.LessOrEqual(t, len(a.text), 64<<10)
			require.Equal(t, c.status, a.status, "%.1000s", a.text)
			var body api.ErrorBody
			require.NoError(t, json.Unmarshal([]byte(a.text), &body))
			require.LessOrEqual(t, len(body.ValidationErrors), 20)
			if c.message != "" {
				require.Equal(t, c.message, body.Message)
			}
		})
	}
}

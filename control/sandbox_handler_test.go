package control_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/sandbox"
)

// sandboxBodies are the bodies of all operations that take one, with every required field.
var sandboxBodies = map[string]string{
	"/rights/issue":       `{"basisId":"x","substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`,
	"/rights/suspend":     `{"rightId":"x"}`,
	"/rights/revoke":      `{"rightId":"x"}`,
	"/offers/propose":     `{"rightId":"x","toOrgId":"org_b","scope":{}}`,
	"/offers/accept":      `{"offerId":"x"}`,
	"/offers/counter":     `{"offerId":"x","scope":{}}`,
	"/offers/withdraw":    `{"offerId":"x"}`,
	"/challenges/open":    `{"rightId":"x","reason":"x"}`,
	"/challenges/resolve": `{"challengeId":"x"}`,
	"/constraint-demo":    `{"scenario":"automotive-speed"}`,
}

// TestSandboxEmptyFieldsAreMissing: null and "" in a required field count as missing.
func TestSandboxEmptyFieldsAreMissing(t *testing.T) {
	p := newPlayground(t)
	v, _ := p.visit()
	for path, body := range sandboxBodies {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(body), &fields))
		for name, given := range fields {
			for _, empty := range []any{nil, ""} {
				fields[name] = empty
				text, err := json.Marshal(fields)
				require.NoError(t, err)
				require.Equal(t, "missing: "+name, v.isRefused(422, sandbox.MissingFields, "POST", path, string(text)), "%s %s", path, text)
			}
			fields[name] = given
		}
	}
	require.Equal(t, "missing: basisId, effectiveFrom, scope, substrate", v.isRefused(422, sandbox.MissingFields, "POST", "/rights/issue",
		`{"basisId":null,"substrate":""}`), "all of them are named")
	require.Equal(t, "missing: rightId", v.isRefused(422, sandbox.MissingFields, "GET", "/provenance?rightId=", ""))
	for body, missing := range map[string]string{
		`{"scenaroi":"automotive-speed"}`: "scenario", `{"Scenario":"automotive-speed","more":1}`: "scenario",
	} {
		require.Contains(t, v.isRefused(422, sandbox.MissingFields, "POST", "/constraint-demo", body), "missing: "+missing)
	}
	require.Contains(t, v.isRefused(422, sandbox.HandlerError, "POST", "/constraint-demo", `{"scenario":"automotive-speed","scenarios":""}`), "did you mean scenario?")
	v.isRefused(404, sandbox.HandlerError, "POST", "/rights/suspend", `{"rightId":"x","reason":null,"action":null}`) // which may be absent
	v.isRefused(404, sandbox.HandlerError, "POST", "/rights/suspend", `{"rightId":" ","reason":""}`)
}

// TestSandboxBodiesAreObjects for every operation.
func TestSandboxBodiesAreObjects(t *testing.T) {
	p := newPlayground(t)
	v, _ := p.visit()
	for path := range sandboxBodies {
		for _, body := range []string{`[]`, `["x"]`, `"x"`, `7`, `true`, ` null `, ``, ` `} {
			v.isRefused(400, sandbox.InvalidBody, "POST", path, body)
		}
	}
	for _, body := range []string{`[]`, `"x"`, `7`, `false`, `null`} {
		v.isRefused(400, sandbox.InvalidBody, "POST", "/run-demo", body)
	}
	for _, none := range []string{``, `{}`} { // it needs no body
		v.isRefused(503, sandbox.HandlerError, "POST", "/run-demo", none) // this fixture has no node
	}
}

// TestSandboxUnknownPathsAreLimited: requests to unknown paths count towards the limits.
func TestSandboxUnknownPathsAreLimited(t *testing.T) {
	now := time.Now()
	p := openPlayground(t, newFixture(t), sandbox.Config{Now: func() time.Time { return now }})
	v := &visitor{playground: p}
	for _, path := range []string{"", "/", "/nothing", "/tenant/", "//tenant", "/../sandbox/tenant", "/a", "/b", "/c"} {
		v.isRefused(404, sandbox.HandlerError, "GET", path, "")
	}
	v.isRefused(405, sandbox.HandlerError, "DELETE", "/tenant", "")
	for range 2 {
		refused := v.send("GET", "/nothing", "")
		refusal(t, refused, 429, sandbox.RateLimited)
		requireRetryAfter(t, 10, refused.header.Get("Retry-After"))
	}
	v.isRefused(429, sandbox.RateLimited, "DELETE", "/tenant", "")
	v.isRefused(429, sandbox.RateLimited, "GET", "/tenant", "")
	require.Equal(t, 404, v.send("GET", "/nothing", "", "X-Forwarded-For", "198.51.100.2").status, "of another address")
	require.Equal(t, 404, p.call("", "GET", "/api/sandboxes", "").status, "which is not the sandbox's")
	now = now.Add(10 * time.Second)
	v.isRefused(404, sandbox.HandlerError, "GET", "/nothing", "")
}

// TestSandboxRefusesOtherSites: a page of another site can't make a browser do anything here.
func TestSandboxRefusesOtherSites(t *testing.T) {
	p := newPlayground(t)
	v, _ := p.visit()
	foreign := [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site", "Origin", "http://example.com"},
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", "http://example.com:8080"},
	}
	own := [][]string{{}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "http://example.com"}, {"Origin", "https://example.com"}}
	paths := []string{"/tenant", "/reset", "/run-demo"}
	for path := range sandboxBodies {
		paths = append(paths, path)
	}
	for _, headers := range foreign {
		for _, path := range paths {
			require.Equal(t, "BAD_REQUEST: the request comes from another site", refusal(t, v.send("POST", path, sandboxBodies[path], headers...), 403, sandbox.HandlerError), path)
		}
		require.Equal(t, 200, v.send("GET", "/tenant", "", headers...).status, "reading changes nothing, and the browser keeps the answer from the page")
	}
	for _, headers := range own {
		require.Equal(t, 200, v.send("POST", "/constraint-demo", sandboxBodies["/constraint-demo"], headers...).status, headers)
	}
}

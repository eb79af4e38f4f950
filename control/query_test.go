package control_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

// TestUnknownQueryParameters sends every operation under /v1 a parameter that it does not
// have: the response names it, and the known ones.
func TestUnknownQueryParameters(t *testing.T) {
	h, _, document := openService(t)
	_, key := h.tenant("*")
	requests := 0
	for _, o := range operations(t, document) {
		op := o.method + " " + o.path
		if !strings.HasPrefix(o.path, "/v1/") || slices.Contains(edge, op) {
			continue
		}
		requests++
		var has []string
		for _, p := range optional(o.text["parameters"]) {
			if p := p.(map[string]any); p["in"] == "query" {
				has = append(has, p["name"].(string))
			}
		}
		slices.Sort(has)
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(o.path, "x")
		for query, name := range map[string]string{"?Limit=1": "Limit", "?nope": "nope", "?a%3Cb=": "a<b"} {
			require.Equal(t, fmt.Sprintf(`{"contractVersion":"v1.0","error":"VALIDATION_FAILED","field":%[1]q,"message":"%[1]s: %[2]s","ok":false,"validationErrors":[{"field":%[1]q,"message":"%[2]s"}]}`, name, "is an unknown parameter"+route.Instead(name, has)),
				h.call(key, o.method, path+query, "").refused(422, api.ValidationFailed), op+query)
		}
	}
	require.Greater(t, requests, 40)

	both := h.call(key, "GET", "/v1/rights?state=&nope=1", "").refused(422, api.ValidationFailed)
	require.Contains(t, both, `{"field":"nope",`)
	require.Contains(t, both, `{"field":"state",`)
	for _, bad := range []string{"?state=%zz", "?state=ACTIVE;limit=1", "?%"} {
		require.Contains(t, h.call(key, "GET", "/v1/rights"+bad, "").refused(400, api.BadRequest), "the query is not valid", bad)
	}
	require.Equal(t, 200, h.call("", "GET", "/openapi.json?v=2", "").status, "not under /v1")
}

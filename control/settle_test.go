package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestFaultsBesideTheSchema: what the schema finds wrong with a body and what the operation
// does are one list, each field once; a body that does not fit its type is the schema's alone.
func TestFaultsBesideTheSchema(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	payee := get[string](t, h.call(key, "POST", "/v1/settlement/counterparties", `{"name":"Studio","kind":"OTHER","currency":"EUR"}`).ok(), "counterparty", "id")
	list := func(rule string) (fields []string) {
		t.Helper()
		a := h.call(key, "POST", "/v1/settlement/rules", rule)
		require.Equal(t, 422, a.status, a.text)
		var body api.ErrorBody
		require.NoError(t, json.Unmarshal([]byte(a.text), &body))
		for _, f := range body.ValidationErrors {
			fields = append(fields, f.Field)
		}
		if fields == nil {
			fields = []string{body.Field}
		}
		require.Equal(t, fields[0], body.Field)
		return fields
	}
	rule := func(more string, bps int) string {
		return fmt.Sprintf(`{"unit":"EVENT","currency":"EUR","shares":[{"counterpartyId":%q,"bps":%d}]%s}`, payee, bps, more)
	}
	require.Equal(t, []string{"price", "shares"}, list(rule("", 9_000)))
	require.Equal(t, []string{"price", "priority", "shares"}, list(rule(`,"priority":-1`, 9_000)))
	require.Equal(t, []string{"price"}, list(rule("", 10_000)), "no second time")
	require.Equal(t, []string{"price"}, list(rule(`,"price":1`, 9_000)), "what is no text can't be read")
	require.Equal(t, []string{"price", "shares"}, list(rule(`,"price":"x"`, 9_000)), "what the schema takes")
	require.Equal(t, []string{"price", "shares[0].bps", "shares[0].counterpartyId"}, list(`{"unit":"EVENT","currency":"EUR","shares":[{"counterpartyId":"cp_x","bps":0}]}`))
}

// TestRulesOfScopes: a rule names a campaign or a label, with an empty value or without any, and never an empty name.
func TestRulesOfScopes(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	payee := get[string](t, h.call(key, "POST", "/v1/settlement/counterparties", `{"name":"Studio","kind":"OTHER","currency":"EUR"}`).ok(), "counterparty", "id")
	post := func(match string) answer {
		t.Helper()
		return h.call(key, "POST", "/v1/settlement/rules", fmt.Sprintf(`{"unit":"EVENT","price":"1","currency":"EUR","match":%s,"shares":[{"counterpartyId":%q,"bps":10000}]}`, match, payee))
	}
	for match, want := range map[string]string{
		`{"campaign":"spring"}`:                           `"campaign":"spring","label":null`,
		`{"campaign":null}`:                               `"campaign":null,"label":null`,
		`{"label":{"name":"venue","value":"north"}}`:      `"label":{"name":"venue","value":"north"}`,
		`{"label":{"name":"team","value":""}}`:            `"label":{"name":"team","value":""}`,
		`{"campaign":"` + strings.Repeat("é", 256) + `"}`: strings.Repeat("é", 256),
	} {
		a := post(match)
		require.Equal(t, 200, a.status, a.text)
		id := get[string](t, a.ok(), "rule", "id")
		require.Contains(t, h.call(key, "GET", "/v1/settlement/rules/"+id, "").text, want, match)
	}
	for match, field := range map[string]string{
		`{"campaign":""}`:                                 "match.campaign",
		`{"campaign":["spring"]}`:                         "match.campaign",
		`{"campaign":"` + strings.Repeat("é", 257) + `"}`: "match.campaign",
		`{"label":{}}`:                                    "match.label.name",
		`{"label":null}`:                                  "match.label",
		`{"label":{"name":"venue"}}`:                      "match.label.value",
		`{"label":{"name":"","value":"north"}}`:           "match.label.name",
		`{"label":{"name":"venue","value":null}}`:         "match.label.value",
		`{"label":{"name":"venue","value":"n","x":1}}`:    "match.label.x",
		`{"label":{"venue":"north"}}`:                     "match.label.venue",
	} {
		a := post(match)
		require.Equal(t, 422, a.status, "%s: %s", match, a.text)
		require.Contains(t, a.text, `"field":"`+field, match)
	}
}

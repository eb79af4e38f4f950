package control_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
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

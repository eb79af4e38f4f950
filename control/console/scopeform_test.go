package console

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScopeOfAForm: what is left empty limits nothing, and what can't be read is a fault of its field.
func TestScopeOfAForm(t *testing.T) {
	body, err := withScope(nil, map[string]any{
		"substrate": "DOOH", "scope.regions": "DE,  US-NY,", "scope.maxSpeedMph": "7.5", "scope.bvlos": "no",
		"scope.labels": "venue = central-station\n\nfloor=1=a\n", "scope.description": "Berlin", "scope": json.RawMessage(`{"x-contract":"7"}`),
	})
	require.NoError(t, err)
	text, err := json.Marshal(body)
	require.NoError(t, err)
	require.JSONEq(t, `{"substrate":"DOOH","scope":{"regions":["DE","US-NY"],"maxSpeedMph":7.5,"bvlos":false,"labels":{"venue":"central-station","floor":"1=a"},"description":"Berlin","x-contract":"7"}}`, string(text))
	body, err = withScope(nil, map[string]any{})
	require.NoError(t, err)
	require.Empty(t, body.(map[string]any)["scope"])
	for field, text := range map[string]string{"scope.maxSpeedMph": "fast", "scope.labels": "venue"} {
		_, err := withScope(nil, map[string]any{field: text})
		require.ErrorContains(t, err, field)
	}
	_, err = withScope(nil, map[string]any{"scope.regions": "DE", "scope": json.RawMessage(`{"regions":["US-CONUS"]}`)})
	require.ErrorContains(t, err, "scope.regions: is in the last field, too")
	_, err = withScope(nil, map[string]any{"scope": json.RawMessage(`[]`)})
	require.ErrorContains(t, err, "JSON object")
}

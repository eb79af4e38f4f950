package systemtest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireEnvelope requires a refusal in the contract's envelope that names its request.
func RequireEnvelope(t *testing.T, a Response) {
	t.Helper()
	var r Refusal
	require.NoError(t, json.Unmarshal([]byte(a.Body), &r), "%q", a.Body)
	require.NotNil(t, r.OK)
	require.False(t, *r.OK)
	require.NotEmpty(t, r.Error)
	require.NotEmpty(t, r.RequestID)
	require.Equal(t, a.Header.Get("X-Request-Id"), r.RequestID)
}

package control_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keyOf makes a key of some scopes, and returns its id and the key itself.
func (h *fixture) keyOf(key string, scopes ...string) (keyID, made string) {
	h.t.Helper()
	answered := h.call(key, "POST", "/v1/api-keys", fmt.Sprintf(`{"label":"x","scopes":["%s"]}`, strings.Join(scopes, `","`))).ok()
	return get[string](h.t, answered, "key", "keyId"), get[string](h.t, answered, "apiKey")
}

// TestWebhookOfARevokedKey: with the revocation of the key under which it sends, a webhook is paused,
// unless the key has a successor; a key that has the scopes resumes it.
func TestWebhookOfARevokedKey(t *testing.T) {
	h := newFixture(t)
	_, root := h.tenant("*")
	firstID, first := h.keyOf(root, "webhooks:write", "webhooks:read", "rights:read", "keys:write")
	_, stranger := h.keyOf(root, "webhooks:write", "webhooks:read")
	nextID, next := h.keyOf(root, "webhooks:write", "rights:read")

	const body = `{"url":"https://receiver.example/in","events":["right.*"]}`
	refused := h.call(stranger, "POST", "/v1/webhooks", body)
	require.Equal(t, 403, refused.status)
	require.Contains(t, refused.text, `"requiredScopes":["rights:read"]`)
	require.Equal(t, 422, h.call(stranger, "POST", "/v1/webhooks", `{"url":"https://receiver.example/in","events":["right.revokd"]}`).status, "faults come first")
	require.Equal(t, 403, h.call(next, "POST", "/v1/webhooks", `{"url":"https://receiver.example/in","events":["*"]}`).status)
	h.call(root, "POST", "/v1/webhooks", `{"url":"https://receiver.example/in","events":["*","delivery.recorded"]}`).ok()

	id := get[string](t, h.call(first, "POST", "/v1/webhooks", body).ok(), "webhook", "id")
	state := func() any {
		w := get[map[string]any](t, h.call(root, "GET", "/v1/webhooks/"+id, "").ok(), "webhook")
		return []any{w["state"], w["stateReason"], w["keyId"]}
	}
	require.Equal(t, []any{"ACTIVE", nil, firstID}, state())

	// Its successor takes the key's place, also once the key itself is over.
	rotated := h.call(first, "POST", "/v1/api-keys/"+firstID+"/rotate", `{"overlapSeconds":0}`).ok()
	successorID := get[string](t, rotated, "key", "keyId")
	h.call(root, "DELETE", "/v1/api-keys/"+firstID, "").ok()
	require.Equal(t, []any{"ACTIVE", nil, firstID}, state())

	h.call(root, "DELETE", "/v1/api-keys/"+successorID, "").ok()
	require.Equal(t, []any{"PAUSED", "KEY_REVOKED", firstID}, state())
	require.Equal(t, 403, h.call(stranger, "PATCH", "/v1/webhooks/"+id, `{"state":"ACTIVE"}`).status)
	require.Equal(t, []any{"PAUSED", "KEY_REVOKED", firstID}, state())
	h.call(next, "PATCH", "/v1/webhooks/"+id, `{"state":"ACTIVE"}`).ok()
	require.Equal(t, []any{"ACTIVE", nil, nextID}, state())
}

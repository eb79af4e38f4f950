package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestWebhookOfAService: an event is sent although the service is killed while it sends it, under
// the same id, and so is what happened while it was away. Each message is verified by what the
// service publishes, and holds nothing that is private or secret.
func TestWebhookOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t, "--webhook-allow", "127.0.0.1")
	storytest.Webhooks(t, s, 1, func() { s.Server.Kill() }, s.StartAgain)
	require.Contains(t, s.Log(), "muniment is ready")
}

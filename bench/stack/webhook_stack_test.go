package stack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/storytest"
)

// TestWebhooksOnTheStack runs TestWebhookOfAService on two control processes, of
// which one is killed while both send.
func TestWebhooksOnTheStack(t *testing.T) {
	t.Parallel()
	s, c := scaledOut(t, "MUNIMENT_WEBHOOK_ALLOW=127.0.0.1")
	s.Settle()
	storytest.Webhooks(t, s, len(c.Controls), func() { c.Controls[0].Kill() }, func() { require.NoError(t, c.StartControl(t.Context(), 0)) })
}

package signing

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route/routetest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestRotateCommandOfAJoinedNode prints that the node still has to make its next key.
func TestRotateCommandOfAJoinedNode(t *testing.T) {
	day := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	id := api.NewID(api.PrefixNode, day)
	server := routetest.Admin{Operation: "POST /admin/signing-keys/0123/rotate", Data: Succession{Replaced: &SigningKey{KeyID: "0123", NodeID: id, NotAfter: store.At(day)}}}
	var out bytes.Buffer
	require.NoError(t, (&RotateCommand{KeyID: "0123"}).Run(server, &out))
	require.Contains(t, out.String(), "The node "+id+" has to make a new key")
}

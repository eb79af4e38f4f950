package tenant

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/store"
)

// revoking is a server that answers a revocation.
type revoking struct{ answer Revocation }

func (s revoking) Do(_, _ string, _, out any) error {
	*out.(*Revocation) = s.answer
	return nil
}

func (revoking) Base() (string, error) { return "", nil }

// TestRevokeCommandNamesKeys: the command names, once each, the keys that a thief of the key may
// have.
func TestRevokeCommandNamesKeys(t *testing.T) {
	day := store.At(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))
	answer := Revocation{
		Key: Key{KeyID: "key_a", RevokedAt: day}, Propagation: node.Propagation{Applied: true}, Successors: []string{"key_b"},
		MadeKeys: []MadeKey{{KeyID: "key_c", Label: "by the thief"}, {KeyID: "key_b", Label: "successor"}}, MoreMadeKeys: true,
	}
	var out bytes.Buffer
	require.NoError(t, (&RevokeCommand{KeyID: "key_a"}).Run(revoking{answer}, &out))
	require.Equal(t, "key_a was revoked at "+day.String()+", on every live node\n"+
		"Its successor key_b still works: revoke it too, unless you created it.\n"+
		"The key key_c, \"by the thief\", was created with it and still works: revoke it too, unless you created it.\n"+
		"It created more keys than are listed: revoke some of these, and run the command again.\n", out.String())
}

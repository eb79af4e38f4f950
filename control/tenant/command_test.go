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

// TestRevokeCommandNamesKeys: the command names, once each, what a thief of the key may have made.
func TestRevokeCommandNamesKeys(t *testing.T) {
	day := store.At(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))
	answer := Revocation{
		Key: Key{KeyID: "key_a", RevokedAt: day}, Propagation: node.Propagation{Applied: true}, Successors: []string{"key_b"},
		Outlasting: Outlasting{
			MadeKeys: []MadeKey{{KeyID: "key_c", Label: "by the thief"}, {KeyID: "key_b", Label: "successor"}}, MoreMadeKeys: true,
			MadeMembers: []MadeMember{{MemberID: "mbr_a", Role: "owner"}}, MadePayeeLinks: []MadePayeeLink{{PayeeLinkID: "pln_a"}},
		}, WithdrawnInvitations: []string{"mbr_b"},
	}
	var out bytes.Buffer
	require.NoError(t, (&RevokeCommand{KeyID: "key_a"}).Run(revoking{answer}, &out))
	require.Equal(t, "key_a was revoked at "+day.String()+", on every live node\n"+
		"Its successor key_b still works: revoke it too, unless you created it.\n"+
		"The key key_c, \"by the thief\", was created with it and still works: revoke it too, unless you created it.\n"+
		"The member mbr_a, with the role owner, was invited with it and may sign in: remove the member, unless you know who it is.\n"+
		"The payee's link pln_a was made with it and still works: revoke it too, unless you made it.\n"+
		"The member mbr_b, whom it had invited and who had not signed in, was removed.\n"+
		"It made more than is listed: end some of these, and run the command again.\n", out.String())
}

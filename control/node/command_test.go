package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
	"muniment/gateway/api"
)

// answering is a Server that answers one operation.
type answering struct {
	operation string
	data      any
}

func (s answering) Do(method, path string, _, out any) error {
	if method+" "+path != s.operation {
		return errors.New("asked for " + method + " " + path)
	}
	text, err := json.Marshal(s.data)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

func TestInviteCommand(t *testing.T) {
	room, stop := newPlace(t).mustStart(t)
	defer stop()
	v, err := room.Invite(t.Context(), store.ByOperator())
	require.NoError(t, err)
	server := answering{"POST /admin/nodes/invitations", v}
	var out bytes.Buffer
	require.NoError(t, (&InviteCommand{}).Run(server, &out))
	require.Contains(t, out.String(), v.Token+"\n")
	require.Contains(t, out.String(), v.ExpiresAt.String())

	out.Reset()
	require.NoError(t, (&InviteCommand{JSON: true}).Run(server, &out))
	var again Invitation
	require.NoError(t, json.Unmarshal(out.Bytes(), &again))
	require.Equal(t, v.Token, again.Token)
	require.ErrorContains(t, (&InviteCommand{}).Run(answering{}, &out), "cannot invite a node")
}

func TestExpelCommand(t *testing.T) {
	day := store.At(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC))
	v := Expelled{NodeID: "nod_a", ExpelledAt: day, Spooled: 7, Keys: []SigningKey{{KeyID: "0123", RevokedAt: day}}, Unsealed: []Unsealed{{TenantID: "tnt_a", Reason: "held"}}}
	server := answering{"POST /admin/nodes/nod_a/expel", v}
	var out bytes.Buffer
	require.NoError(t, (&ExpelCommand{NodeID: "nod_a"}).Run(server, &out))
	require.Equal(t, "tnt_a could not be sealed before: held\n0123 is revoked since "+day.String()+"\n7 records are in its spool alone: seals name them until they are given up, by --abandon-spool\nnod_a is expelled since "+day.String()+"\n", out.String())
	require.ErrorContains(t, (&ExpelCommand{NodeID: "nod_b"}).Run(server, &out), "cannot expel the node")
}

// TestRotateCommandOfAJoinedNode tells that the node is still to make its next key.
func TestRotateCommandOfAJoinedNode(t *testing.T) {
	day := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	id := api.NewID(api.PrefixNode, day)
	server := answering{"POST /admin/signing-keys/0123/rotate", Succession{Replaced: &SigningKey{KeyID: "0123", NodeID: id, NotAfter: store.At(day)}}}
	var out bytes.Buffer
	require.NoError(t, (&RotateCommand{KeyID: "0123"}).Run(server, &out))
	require.Contains(t, out.String(), "The node "+id+" was asked for another key")
}

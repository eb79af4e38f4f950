package node

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route/routetest"
	"muniment.example/control/signing"
	"muniment.example/control/store"
)

func TestInviteCommand(t *testing.T) {
	members, stop := newFixture(t).mustStart(t)
	defer stop()
	v, err := members.Invite(t.Context(), store.ByOperator())
	require.NoError(t, err)
	server := routetest.Admin{Operation: "POST /admin/nodes/invitations", Data: v}
	var out bytes.Buffer
	require.NoError(t, (&InviteCommand{}).Run(server, &out))
	require.Contains(t, out.String(), v.Token+"\n")
	require.Contains(t, out.String(), v.ExpiresAt.String())

	out.Reset()
	require.NoError(t, (&InviteCommand{JSON: true}).Run(server, &out))
	var again Invitation
	require.NoError(t, json.Unmarshal(out.Bytes(), &again))
	require.Equal(t, v.Token, again.Token)
	require.ErrorContains(t, (&InviteCommand{}).Run(routetest.Admin{}, &out), "cannot invite a node")
}

func TestExpelCommand(t *testing.T) {
	day := store.At(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC))
	v := Expelled{NodeID: "nod_a", Name: "edge-0", ExpelledAt: day, Spooled: 7, Keys: []signing.SigningKey{{KeyID: "0123", RevokedAt: day}}, Unsealed: []signing.Unsealed{{TenantID: "tnt_a", Reason: "held"}}}
	server := routetest.Admin{Operation: "POST /admin/nodes/nod_a/expel", Data: v}
	var out bytes.Buffer
	require.NoError(t, (&ExpelCommand{NodeID: "nod_a"}).Run(server, &out))
	require.Equal(t, "tnt_a could not be sealed before the expulsion: held\nkey 0123 was revoked at "+day.String()+"\n7 records are only in the node's spool: seals list them until you give them up with --abandon-spool\nno node can join as edge-0 until you run muniment node unbar edge-0\nnode nod_a was expelled at "+day.String()+"\n", out.String())
	require.ErrorContains(t, (&ExpelCommand{NodeID: "nod_b"}).Run(server, &out), "cannot expel the node")
}

func TestUnbarCommand(t *testing.T) {
	server := routetest.Admin{Operation: "POST /admin/nodes/unbar", Data: Unbarred{Name: "edge-0", NodeID: "nod_a"}}
	var out bytes.Buffer
	require.NoError(t, (&UnbarCommand{Name: "edge-0"}).Run(server, &out))
	require.Equal(t, "another node may join as edge-0, formerly the name of nod_a\n", out.String())
	out.Reset()
	require.NoError(t, (&UnbarCommand{Name: "edge-0", JSON: true}).Run(server, &out))
	require.JSONEq(t, `{"name":"edge-0","nodeId":"nod_a"}`, out.String())
	require.ErrorContains(t, (&UnbarCommand{Name: "edge-0"}).Run(routetest.Admin{}, &out), "cannot lift the bar on the name")
}

package control_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// TestExpelNode: only force removes a node that does not answer, and what is out
// stays out.
func TestExpelNode(t *testing.T) {
	h := newFixture(t)
	expel := func(nodeID, body string) answer { return h.admin("POST", "/admin/nodes/"+nodeID+"/expel", body) }
	expel(newNewcomer(t).id, "").refused(404, api.ResourceNotFound)

	n, invitation := newNewcomer(t), h.invite()
	credential := h.admit(n, invitation)
	start := func() answer { return send(t, h.control().Nodes(), credential, "POST", api.PathStart, "") }
	start().ok()
	refused := expel(n.id, `{"reason":"not needed"}`).refused(409, api.StateConflict)
	require.Contains(t, refused, "its spool may hold receipts")
	require.Contains(t, refused, "it permanently stops signing")
	events := h.events(api.SystemTenant)
	last := events[len(events)-1]
	require.Equal(t, "node.recalled", last.Type)
	require.Equal(t, sealer.Ref{Kind: "node", ID: n.id}, last.Subject)
	require.JSONEq(t, `{"nodeId":"`+n.id+`","reason":"not needed"}`, string(last.Data))
	keys, err := h.keys.SigningKeys(t.Context())
	require.NoError(t, err)
	for _, k := range keys.Keys {
		require.Equal(t, k.NodeID == n.id, k.Leaving)
	}
	expel(n.id, "").refused(409, api.StateConflict)
	require.Equal(t, events, h.events(api.SystemTenant), "recalled once")
	recalled := last
	start().ok()
	require.Contains(t, n.enrol(h, credential, newNewcomer(t).key, time.Now()).refused(409, api.StateConflict), "is to leave")

	v := expel(n.id, `{"force":true,"reason":"stolen"}`).ok()
	require.Equal(t, 2., get[float64](t, v, "epoch"))
	require.Equal(t, "REVOKED", get[string](t, get[[]any](t, v, "keys")[0].(map[string]any), "state"))
	require.Equal(t, []string{"key.revoked", "node.expelled"}, h.newest(api.SystemTenant, 2))
	events = h.events(api.SystemTenant)
	last = events[len(events)-1]
	require.Equal(t, sealer.Ref{Kind: "node", ID: n.id}, last.Subject)
	require.Contains(t, string(last.Data), `"reason":"stolen"`)
	require.Contains(t, start().refused(403, api.AuthInvalid), "the node "+n.id+" was expelled")
	h.join(n.request(invitation)).refused(401, api.AuthInvalid)
	require.Contains(t, h.join(n.request(h.invite())).refused(403, api.AuthInvalid), "was expelled")
	events = h.events(api.SystemTenant)
	require.Equal(t, v, expel(n.id, "").ok(), "once more changes nothing")
	require.Equal(t, events, h.events(api.SystemTenant))

	// An older database learns it from the log.
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE nodes SET expelled_at = NULL, leaving_at = NULL WHERE node_id = $1`, n.id)
		return err
	}))
	h.join(n.request(h.invite())).refused(409, api.StateConflict)
	for _, changed := range []bool{true, false} {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			again, err := node.Replay(t.Context(), tx, &recalled)
			require.Equal(t, changed, again)
			return err
		}))
	}
	for _, before := range []string{"the expulsion", "it joined"} {
		if before == "it joined" {
			require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
				if _, err := tx.ExecContext(t.Context(), `DELETE FROM nodes WHERE node_id = $1`, n.id); err != nil {
					return err
				}
				_, err := node.Replay(t.Context(), tx, &recalled)
				return err
			}))
		}
		for _, changed := range []bool{true, false} {
			require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
				again, err := node.Replay(t.Context(), tx, &last)
				require.Equal(t, changed, again, before)
				return err
			}))
		}
		h.join(n.request(h.invite())).refused(403, api.AuthInvalid)
	}
	require.Equal(t, 2., get[float64](t, expel(n.id, "").ok(), "epoch"))

	// Nor is it a part of control because a database from before knows only that it is to leave.
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `DELETE FROM nodes WHERE node_id = $1`, n.id); err != nil {
			return err
		}
		_, err := node.Replay(t.Context(), tx, &recalled)
		return err
	}))
	expel(n.id, `{"force":true}`).ok()
	h.join(n.request(h.invite())).refused(403, api.AuthInvalid)
}

// TestLeavingNodeGetsNoKey: a node that is to leave can't enrol a key, even if
// all its keys were revoked before, or are revoked later.
func TestLeavingNodeGetsNoKey(t *testing.T) {
	for _, first := range []string{"revoked", "leaving"} {
		t.Run(first+" first", func(t *testing.T) {
			h := newFixture(t)
			n, next := newNewcomer(t), newNewcomer(t).key
			id := keydir.KeyID(n.key.Public().(ed25519.PublicKey))
			credential := h.admit(n, h.invite())
			start := func() api.Started {
				body, err := json.Marshal(api.StartRequest{SigningKeys: []string{id}})
				require.NoError(t, err)
				text, err := json.Marshal(send(t, h.control().Nodes(), credential, "POST", api.PathStart, string(body)).ok())
				require.NoError(t, err)
				var v api.Started
				require.NoError(t, json.Unmarshal(text, &v))
				return v
			}
			revoke := func() { h.admin("POST", "/admin/signing-keys/"+id+"/revoke", `{"force":true}`).ok() }
			if first == "revoked" {
				revoke()
			}
			expelled := false
			expel := func() {
				_, err := h.nodes.Expel(t.Context(), n.id, node.Expulsion{Revocation: signing.Revocation{Seal: func(_ context.Context, _, purpose string) ([]signing.Unsealed, error) {
					require.Equal(t, keydir.PurposeReceipt, purpose)
					message := n.enrolVouched(h, credential, next, nil, time.Now().Add(time.Second)).refused(409, api.StateConflict)
					require.Contains(t, message, "is to leave")
					v := start()
					require.True(t, v.Last)
					require.Len(t, v.SigningKeys, 1)
					require.True(t, v.SigningKeys[0].Last)
					return nil, nil
				}}}, store.ByOperator())
				expelled = err == nil
			}
			expel()
			if first == "leaving" {
				require.False(t, expelled)
				revoke()
				expel()
			}
			require.True(t, expelled)
			keys, err := h.keys.SigningKeys(t.Context())
			require.NoError(t, err)
			require.False(t, slices.ContainsFunc(keys.Keys, func(k signing.SigningKey) bool { return k.NodeID == n.id && k.KeyID != id }))
		})
	}
}

// TestLeavingNodeDisownsNothing: a holder of the credential of a node that is to leave can't
// put what its key signed until then outside the key's window.
func TestLeavingNodeDisownsNothing(t *testing.T) {
	h := newFixture(t)
	n := newNewcomer(t)
	credential := h.admit(n, h.invite())
	id := keydir.KeyID(n.key.Public().(ed25519.PublicKey))
	h.admin("POST", "/admin/nodes/"+n.id+"/expel", "").refused(409, api.StateConflict)
	signed := time.Now().UTC().Truncate(time.Millisecond)
	v := h.retire(credential, id, signed.Add(-time.Hour)).ok()
	end, err := time.Parse(time.RFC3339Nano, get[string](t, v, "notAfter"))
	require.NoError(t, err)
	require.False(t, end.Before(signed))
}

// TestNodesReportTheirSpools with each question.
func TestNodesReportTheirSpools(t *testing.T) {
	h := newFixtureOn(t, t.TempDir(), node.Config{Clock: func() time.Duration { return 0 }})
	poll := func(credential, spooled string) answer {
		return send(t, h.control().Nodes(), credential, "POST", api.PathFeed, `{"nodeId":"x","after":0,"limit":0,"spooled":`+spooled+`}`)
	}
	n, other := newNewcomer(t), newNewcomer(t)
	credential := h.admit(n, h.invite())
	poll(credential, "5").ok()
	poll(h.admit(other, h.invite()), "0").ok()
	live, silent, err := h.nodes.Spooled(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{n.id: 5}, live)
	require.Empty(t, silent)
	poll(credential, "-1").refused(422, api.ValidationFailed)
}

// TestAbandonSpool: what was left in the spool of a node that is lost is named until an
// operator gives it up, by one event.
func TestAbandonSpool(t *testing.T) {
	for _, at := range []string{"once", "later"} {
		t.Run(at, func(t *testing.T) {
			ran := new(atomic.Int64)
			h := newFixtureOn(t, t.TempDir(), node.Config{LeaseBound: 30 * time.Second, Clock: func() time.Duration { return time.Duration(ran.Load()) }})
			expel := func(n newcomer, body string) answer { return h.admin("POST", "/admin/nodes/"+n.id+"/expel", body) }
			n := newNewcomer(t)
			credential := h.admit(n, h.invite())
			send(t, h.control().Nodes(), credential, "POST", api.PathStart, "").ok()
			send(t, h.control().Nodes(), credential, "POST", api.PathFeed, `{"nodeId":"x","after":0,"limit":0,"spooled":7}`).ok()
			require.Contains(t, expel(n, `{"abandonSpool":true,"force":true}`).refused(409, api.StateConflict), "stop it first")
			ran.Add(int64(time.Minute))
			abandon := `{"abandonSpool":true,"reason":"the disk burnt"}`
			if at == "later" {
				v := expel(n, `{"force":true}`).ok()
				require.Equal(t, 7., get[float64](t, v, "spooled"))
				_, silent, err := h.nodes.Spooled(t.Context())
				require.NoError(t, err)
				require.Equal(t, map[string]int64{n.id: 7}, silent, "seals name it")
			}
			v := expel(n, abandon).ok()
			require.Equal(t, 0., get[float64](t, v, "spooled"))
			_, silent, err := h.nodes.Spooled(t.Context())
			require.NoError(t, err)
			require.Empty(t, silent)
			require.Equal(t, []string{"node.expelled", "spool.abandoned"}, h.newest(api.SystemTenant, 2))
			events := h.events(api.SystemTenant)
			require.JSONEq(t, `{"nodeId":"`+n.id+`","epoch":1,"spooled":7,"reason":"the disk burnt"}`, string(events[len(events)-1].Data))
			expel(n, abandon).ok()
			require.Equal(t, events, h.events(api.SystemTenant), "once")
		})
	}
}

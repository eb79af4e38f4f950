package control_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer/keydir"
)

// newcomer is a node that wants to join.
type newcomer struct {
	id, credential string
	key            ed25519.PrivateKey
}

func newNewcomer(t *testing.T) newcomer {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	n := newcomer{id: api.NewID(api.PrefixNode, time.Now()), key: key}
	n.credential, _ = api.NewBearer(n.id)
	return n
}

func (n newcomer) request(invitation string) api.JoinRequest {
	pub := base64.RawURLEncoding.EncodeToString(n.key.Public().(ed25519.PublicKey))
	_, hash, _ := api.ReadBearer(api.PrefixNode, n.credential)
	return api.JoinRequest{
		Invitation: invitation, NodeID: n.id, PublicKey: pub, CredentialHash: hash,
		Signature: base64.RawURLEncoding.EncodeToString(ed25519.Sign(n.key, api.JoinText(n.id, pub, hash, invitation, ""))),
	}
}

func (h *fixture) invite() string {
	h.t.Helper()
	return get[string](h.t, h.admin("POST", "/admin/nodes/invitations", "").ok(), "token")
}

func (h *fixture) join(q api.JoinRequest) answer {
	h.t.Helper()
	body, err := json.Marshal(q)
	require.NoError(h.t, err)
	return send(h.t, h.control().Nodes(), "", "POST", api.PathJoin, string(body))
}

// admit lets a node join, and returns its credential. Its next key may be in force at once:
// that is a millisecond later than the first.
func (h *fixture) admit(n newcomer, invitation string) string {
	h.t.Helper()
	first, err := time.Parse(time.RFC3339Nano, get[string](h.t, h.join(n.request(invitation)).ok(), "notBefore"))
	require.NoError(h.t, err)
	<-time.After(time.Until(first.Add(time.Millisecond)))
	return n.credential
}

// start counts a start of the node.
func (n newcomer) start(h *fixture) answer {
	h.t.Helper()
	return send(h.t, h.control().Nodes(), n.credential, "POST", api.PathStart, "")
}

func TestJoin(t *testing.T) {
	h := newFixture(t)
	n, invitation := newNewcomer(t), h.invite()
	n.start(h).refused(401, api.AuthInvalid)
	joined := h.join(n.request(invitation)).ok()

	directory, err := keydir.Read([]byte(h.call("", "GET", "/.well-known/muniment/keys.json", "").text))
	require.NoError(t, err)
	keyID := keydir.KeyID(n.key.Public().(ed25519.PublicKey))
	i := -1
	for at, k := range directory.Keys {
		if k.KeyID == keyID {
			i = at
		}
	}
	require.GreaterOrEqual(t, i, 0, "the node's key is in the directory")
	require.Equal(t, keydir.PurposeReceipt, directory.Keys[i].Purpose)
	require.Equal(t, directory.Keys[i].NotBefore.Format(time.RFC3339Nano), get[string](t, joined, "notBefore"))
	require.Equal(t, []string{"node.invited", "node.joined", "key.enrolled"}, h.newest(api.SystemTenant, 3))
	for epoch := 1.; epoch < 3; epoch++ {
		require.Equal(t, epoch, get[float64](t, n.start(h).ok(), "epoch"))
	}

	// The invitation was for one node.
	h.join(newNewcomer(t).request(invitation)).refused(401, api.AuthInvalid)
	require.Equal(t, []string{"node.invited", "node.joined", "key.enrolled"}, h.newest(api.SystemTenant, 3))
}

// TestJoinAgain: a node that did not get the response, or was killed, joins again. Nothing changes,
// and the response is the same.
func TestJoinAgain(t *testing.T) {
	ahead := new(atomic.Int64) // of the clock
	h := newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	join := func(n newcomer, invitation string) string {
		return get[string](t, h.join(n.request(invitation)).ok(), "notBefore")
	}
	n, invitation := newNewcomer(t), h.invite()
	first := join(n, invitation)
	require.Equal(t, 1., get[float64](t, n.start(h).ok(), "epoch"))
	require.Equal(t, first, join(n, invitation))
	fresh := h.invite()
	events := h.newest(api.SystemTenant, 4)
	require.Equal(t, first, join(n, fresh))
	require.Equal(t, events, h.newest(api.SystemTenant, 4), "nothing was enrolled again")
	require.Equal(t, 2., get[float64](t, n.start(h).ok(), "epoch"), "the credential is what it was")

	h.join(newNewcomer(t).request(fresh)).refused(401, api.AuthInvalid) // the node has used it up
	other := h.invite()
	ahead.Store(int64(time.Hour))
	require.Equal(t, first, join(n, invitation), "even after an hour")
	require.Equal(t, first, join(n, fresh))
	h.join(n.request(other)).refused(401, api.AuthInvalid)
	h.join(newNewcomer(t).request(other)).refused(401, api.AuthInvalid)
	require.Equal(t, 3., get[float64](t, n.start(h).ok(), "epoch"))
}

// TestJoinAfterRestore: a restored database has the node's keys from the log, but not the node. The
// node joins again, with the newest of them and no other, whose record is kept. No other joins with
// the node's name, and an expelled node stays expelled.
func TestJoinAfterRestore(t *testing.T) {
	lost, h := newFixture(t), newFixture(t)
	for name, c := range map[string]struct {
		before func(h *fixture, n newcomer, key string)
		status int
	}{
		"in force": {func(*fixture, newcomer, string) {}, 200},
		"is to leave": {func(h *fixture, n newcomer, _ string) {
			h.admin("POST", "/admin/nodes/"+n.id+"/expel", "").refused(409, api.StateConflict)
		}, 200},
		"out of use": {func(h *fixture, n newcomer, key string) {
			h.admin("POST", "/admin/nodes/"+n.id+"/expel", "").refused(409, api.StateConflict)
			h.retire(n.credential, key, time.Now()).ok()
			waittest.Until(h.t, func() bool { return h.key(key).State == "RETIRED" }, "a moment later")
		}, 409},
		"revoked": {func(h *fixture, _ newcomer, key string) {
			h.admin("POST", "/admin/signing-keys/"+key+"/revoke", `{"force":true}`).ok()
		}, 409},
		"expelled": {func(h *fixture, n newcomer, _ string) {
			h.admin("POST", "/admin/nodes/"+n.id+"/expel", `{"force":true}`).ok()
		}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			n, newest, stranger := newNewcomer(t), newNewcomer(t), newNewcomer(t)
			lost.admit(n, lost.invite())
			n.enrol(lost, n.credential, newest.key, time.Now()).ok()
			newest.id, newest.credential = n.id, n.credential
			c.before(lost, n, newest.keyID())
			for _, e := range lost.events(api.SystemTenant) {
				if strings.Contains(string(e.Data), n.id) {
					require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
						apply := node.Replay
						if e.Subject.Kind == "signing_key" {
							apply = signing.Replay
						}
						_, err := apply(t.Context(), tx, &e)
						return err
					}))
				}
			}
			key := h.key(newest.keyID())
			require.Equal(t, lost.key(newest.keyID()), key)
			unknown := map[bool]int{false: 401, true: 403}[name == "expelled"]
			require.Equal(t, unknown, n.start(h).status)

			sandbox, err := h.nodes.InviteSandbox(t.Context())
			require.NoError(t, err)
			invitation, refused := h.invite(), 409
			if c.status == 403 {
				refused = 403
			}
			stranger.id = n.id
			for _, q := range []api.JoinRequest{stranger.request(invitation), n.request(invitation), newest.request(sandbox.Token)} {
				require.Equal(t, refused, h.join(q).status)
			}
			require.Equal(t, c.status, h.join(newest.request(invitation)).status)
			require.Equal(t, key, h.key(newest.keyID()))
			if c.status != 200 {
				require.Equal(t, unknown, n.start(h).status)
				return
			}
			require.Equal(t, []string{"node.invited", "node.joined"}, h.newest(api.SystemTenant, 2))
			started := n.start(h).ok()
			require.Equal(t, name == "is to leave", started["last"] == true)
			require.Equal(t, 409, h.join(stranger.request(h.invite())).status)
		})
	}
}

func (n newcomer) keyID() string { return keydir.KeyID(n.key.Public().(ed25519.PublicKey)) }

// key is what operators see of a signing key.
func (h *fixture) key(id string) signing.SigningKey {
	h.t.Helper()
	list, err := h.keys.SigningKeys(h.t.Context())
	require.NoError(h.t, err)
	i := slices.IndexFunc(list.Keys, func(k signing.SigningKey) bool { return k.KeyID == id })
	require.GreaterOrEqual(h.t, i, 0)
	return list.Keys[i]
}

// TestLeakedInvitation: a thief has the invitation and everything that the node sent. These neither
// let the thief join, nor make control return anything that does, nor change the node.
func TestLeakedInvitation(t *testing.T) {
	h := newFixture(t)
	n, thief := newNewcomer(t), newNewcomer(t)
	seen := n.request(h.invite())
	h.join(seen).ok()
	before := h.newest(api.SystemTenant, 3)

	// The same request again returns only a time that is in the public directory.
	require.Equal(t, []string{"notBefore"}, slices.Collect(maps.Keys(h.join(seen).ok())))

	// With the thief's own name; or with the node's, and a key or a credential of the thief's.
	theirs := thief
	theirs.id = n.id
	h.join(thief.request(seen.Invitation)).refused(401, api.AuthInvalid)
	require.Contains(t, h.join(theirs.request(seen.Invitation)).refused(409, api.StateConflict), "is already known")
	forged := seen
	forged.CredentialHash = thief.request("").CredentialHash
	h.join(forged).refused(422, api.ValidationFailed)
	forged.Signature = theirs.request(seen.Invitation).Signature
	h.join(forged).refused(422, api.ValidationFailed)
	theirs.start(h).refused(401, api.AuthInvalid)

	// With an unused invitation the thief may join, but not as the node. Nor does the node's own
	// key change anything about a node that has joined.
	fresh := h.invite()
	h.join(theirs.request(fresh)).refused(409, api.StateConflict)
	forged = seen
	forged.Invitation = fresh
	h.join(forged).refused(422, api.ValidationFailed)
	other := n
	other.credential, _ = api.NewBearer(n.id)
	h.join(other.request(fresh)).refused(409, api.StateConflict)
	h.join(other.request(seen.Invitation)).refused(409, api.StateConflict)
	renamed := n
	renamed.id = thief.id
	h.join(renamed.request(fresh)).refused(409, api.StateConflict)
	require.Equal(t, append(before[1:], "node.invited"), h.newest(api.SystemTenant, 3))
	require.Equal(t, 1., get[float64](t, n.start(h).ok(), "epoch"))
	h.admit(thief, fresh)
}

// processes are two control processes on one database: on SQLite, whose file is one
// process's, it is one.
func processes(t *testing.T) []*fixture {
	stacktest.Both(t)
	dir := t.TempDir()
	houses := []*fixture{newFixtureOn(t, dir, node.Config{})}
	if stacktest.PostgresIfUp() != "" {
		houses = append(houses, newFixtureOn(t, dir, node.Config{}))
	}
	return houses
}

// TestJoinAtSeveralProcesses: one request at two control processes, and again and again.
func TestJoinAtSeveralProcesses(t *testing.T) {
	houses := processes(t)
	h := houses[0]
	n := newNewcomer(t)
	invitations := []string{h.invite(), h.invite()}
	answers := make(chan answer, 16)
	for i := range cap(answers) {
		q := n.request(invitations[i/2%2])
		go func() { answers <- houses[i%len(houses)].join(q) }()
	}
	first := get[string](t, (<-answers).ok(), "notBefore")
	for range cap(answers) - 1 {
		require.Equal(t, first, get[string](t, (<-answers).ok(), "notBefore"))
	}
	require.Equal(t, []string{"node.invited", "node.invited", "node.joined", "key.enrolled"}, h.newest(api.SystemTenant, 4))
	for _, table := range []string{"nodes", "node_credentials"} {
		var rows int
		require.NoError(t, h.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&rows))
		require.Equal(t, 1, rows, table)
	}
	for i, h := range houses {
		require.Equal(t, float64(i+1), get[float64](t, n.start(h).ok(), "epoch"))
	}
}

// TestOneInvitationAtSeveralProcesses: of two nodes that come with it at a time one is let
// in, and the other is not listed.
func TestOneInvitationAtSeveralProcesses(t *testing.T) {
	houses := processes(t)
	h := houses[0]
	for range 8 {
		invitation, answers := h.invite(), make(chan answer, 2)
		for i := range cap(answers) {
			q := newNewcomer(t).request(invitation)
			go func() { answers <- houses[i%len(houses)].join(q) }()
		}
		require.ElementsMatch(t, []int{200, 401}, []int{(<-answers).status, (<-answers).status})
		require.Equal(t, []string{"node.invited", "node.joined", "key.enrolled"}, h.newest(api.SystemTenant, 3))
	}
}

// TestStrangerDelaysNoChange: a request without a valid invitation neither delays the changes of
// others nor waits for them, and the response names no node.
func TestStrangerDelaysNoChange(t *testing.T) {
	h := newFixture(t)
	n, invitation := newNewcomer(t), h.invite()
	h.admit(n, invitation)
	h.admin("POST", "/admin/nodes/"+n.id+"/expel", `{"force":true}`).ok()
	stranger, _ := api.NewBearer(api.NewID("inv_", time.Now()))
	requests := []api.JoinRequest{newNewcomer(t).request(stranger), n.request(stranger), n.request(invitation)}
	require.NoError(t, h.db.Change(t.Context(), func(*store.Tx) error { // no other change can run meanwhile
		for _, q := range requests {
			require.NotContains(t, h.join(q).refused(401, api.AuthInvalid), "was expelled")
		}
		return nil
	}))
}

// TestSandboxNode joins for the sandbox: all of its keys are for that.
func TestSandboxNode(t *testing.T) {
	h := newFixture(t)
	invitation, err := h.nodes.InviteSandbox(t.Context())
	require.NoError(t, err)
	n, next := newNewcomer(t), newNewcomer(t).key
	credential := h.admit(n, invitation.Token)
	n.enrol(h, credential, next, time.Now().UTC().Truncate(time.Millisecond).Add(time.Second)).ok()

	directory, err := keydir.Read([]byte(h.call("", "GET", "/.well-known/muniment/keys.json", "").text))
	require.NoError(t, err)
	for _, key := range []ed25519.PrivateKey{n.key, next} {
		id := keydir.KeyID(key.Public().(ed25519.PublicKey))
		i := slices.IndexFunc(directory.Keys, func(k keydir.Key) bool { return k.KeyID == id })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, keydir.PurposeSandbox, directory.Keys[i].Purpose)
	}
	expelled := h.admin("POST", "/admin/nodes/"+n.id+"/expel", `{"force":true}`).ok()
	require.Len(t, get[[]any](t, expelled, "keys"), 2)
}

// TestJoinRefusesWeakKeys: with a key of small order anybody can sign, so the signature of
// the request proves nothing. The signature here is over every message.
func TestJoinRefusesWeakKeys(t *testing.T) {
	h := newFixture(t)
	n := newNewcomer(t)
	credential := h.admit(n, h.invite())
	identity, signature := make([]byte, ed25519.PublicKeySize), make([]byte, ed25519.SignatureSize)
	identity[0], signature[0] = 1, 1
	require.True(t, ed25519.Verify(identity, []byte("anything"), signature))
	weak, forged := base64.RawURLEncoding.EncodeToString(identity), base64.RawURLEncoding.EncodeToString(signature)

	q := newNewcomer(t).request(h.invite())
	q.PublicKey, q.Signature = weak, forged
	require.Contains(t, h.join(q).refused(422, api.ValidationFailed), `"field":"publicKey"`)
	next, err := json.Marshal(api.EnrolRequest{
		PublicKey: weak, NotBefore: time.Now(), Signature: forged,
		Voucher: base64.RawURLEncoding.EncodeToString(ed25519.Sign(n.key, api.EnrolText(n.id, weak))),
	})
	require.NoError(t, err)
	require.Contains(t, send(t, h.control().Nodes(), credential, "POST", api.PathEnrol, string(next)).refused(422, api.ValidationFailed), `"field":"publicKey"`)
}

func TestJoinRefusesWhatIsForged(t *testing.T) {
	h := newFixture(t)
	good := newNewcomer(t).request(h.invite())
	for name, spoil := range map[string]func(*api.JoinRequest){
		"nodeId":         func(q *api.JoinRequest) { q.NodeID = "nod_embedded" },
		"publicKey":      func(q *api.JoinRequest) { q.PublicKey += "AA" },
		"credentialHash": func(q *api.JoinRequest) { q.CredentialHash = strings.ToUpper(q.CredentialHash) },
		"signature":      func(q *api.JoinRequest) { q.Signature = newNewcomer(t).request(q.Invitation).Signature },
	} {
		q := good
		spoil(&q)
		require.Contains(t, h.join(q).refused(422, api.ValidationFailed), `"field":"`+name+`"`)
	}
	// Every character of an invitation counts, and the error for anything else reveals nothing.
	id, secret, _ := strings.Cut(good.Invitation, ".")
	var tampered []string
	for i := range good.Invitation {
		c := byte('A')
		if good.Invitation[i] == c {
			c = 'B'
		}
		tampered = append(tampered, good.Invitation[:i]+string(c)+good.Invitation[i+1:])
	}
	var messages []string
	for _, invitation := range append(tampered, "", ".", id, id+".", "."+secret, good.Invitation+"A", strings.ToLower(id)+"."+secret) {
		messages = append(messages, h.join(newNewcomer(t).request(invitation)).refused(401, api.AuthInvalid))
	}
	for _, one := range messages {
		require.Equal(t, messages[0], one)
	}
	h.join(good).ok()
}

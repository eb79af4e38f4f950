package control_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/node"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/sealer"
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
		Signature: base64.RawURLEncoding.EncodeToString(ed25519.Sign(n.key, api.JoinText(n.id, pub, hash, invitation))),
	}
}

func (h *house) invite() string {
	h.t.Helper()
	return get[string](h.t, h.admin("POST", "/admin/nodes/invitations", "").ok(), "token")
}

func (h *house) join(q api.JoinRequest) answer {
	h.t.Helper()
	body, err := json.Marshal(q)
	require.NoError(h.t, err)
	return send(h.t, h.control.Nodes(), "", "POST", api.PathJoin, string(body))
}

// admit lets a node join, and returns its credential. Its next key may be in force at once:
// that is a millisecond later than the first.
func (h *house) admit(n newcomer, invitation string) string {
	h.t.Helper()
	first, err := time.Parse(time.RFC3339Nano, get[string](h.t, h.join(n.request(invitation)).ok(), "notBefore"))
	require.NoError(h.t, err)
	<-time.After(time.Until(first.Add(time.Millisecond)))
	return n.credential
}

// start counts a start of the node.
func (n newcomer) start(h *house) answer {
	h.t.Helper()
	return send(h.t, h.control.Nodes(), n.credential, "POST", api.PathStart, "")
}

func TestJoin(t *testing.T) {
	h := newHouse(t)
	n, invitation := newNewcomer(t), h.invite()
	n.start(h).refused(401, api.AuthInvalid)
	joined := h.join(n.request(invitation)).ok()

	directory, err := sealer.ReadDirectory([]byte(h.call("", "GET", "/.well-known/muniment/keys.json", "").text))
	require.NoError(t, err)
	keyID := sealer.KeyID(n.key.Public().(ed25519.PublicKey))
	i := -1
	for at, k := range directory.Keys {
		if k.KeyID == keyID {
			i = at
		}
	}
	require.GreaterOrEqual(t, i, 0, "the node's key is in the directory")
	require.Equal(t, sealer.PurposeReceipt, directory.Keys[i].Purpose)
	require.Equal(t, directory.Keys[i].NotBefore.Format(time.RFC3339Nano), get[string](t, joined, "notBefore"))
	require.Equal(t, []string{"node.invited", "node.enrolled", "key.enrolled"}, h.newest(api.SystemTenant, 3))
	for epoch := 1.; epoch < 3; epoch++ {
		require.Equal(t, epoch, get[float64](t, n.start(h).ok(), "epoch"))
	}

	// The invitation was for one node.
	h.join(newNewcomer(t).request(invitation)).refused(401, api.AuthInvalid)
	require.Equal(t, []string{"node.invited", "node.enrolled", "key.enrolled"}, h.newest(api.SystemTenant, 3))
}

// TestJoinAgain is asked for by a node that did not get the answer, or was killed: nothing
// changes, and the answer is the same.
func TestJoinAgain(t *testing.T) {
	ahead := new(atomic.Int64) // of the clock
	h := newHouseOn(t, t.TempDir(), node.Config{}, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	join := func(n newcomer, invitation string) string {
		return get[string](t, h.join(n.request(invitation)).ok(), "notBefore")
	}
	n, invitation := newNewcomer(t), h.invite()
	first := join(n, invitation)
	require.Equal(t, 1., get[float64](t, n.start(h).ok(), "epoch"))
	require.Equal(t, first, join(n, invitation))
	fresh := h.invite()
	told := h.newest(api.SystemTenant, 4)
	require.Equal(t, first, join(n, fresh))
	require.Equal(t, told, h.newest(api.SystemTenant, 4), "nothing was enrolled again")
	require.Equal(t, 2., get[float64](t, n.start(h).ok(), "epoch"), "the credential is what it was")

	h.join(newNewcomer(t).request(fresh)).refused(401, api.AuthInvalid) // the node has used it up
	other := h.invite()
	ahead.Store(int64(time.Hour))
	require.Equal(t, first, join(n, invitation), "it took the node so long to ask again")
	require.Equal(t, first, join(n, fresh))
	h.join(n.request(other)).refused(401, api.AuthInvalid)
	h.join(newNewcomer(t).request(other)).refused(401, api.AuthInvalid)
	require.Equal(t, 3., get[float64](t, n.start(h).ok(), "epoch"))
}

// TestJoinAfterRestore: the log has told a restored database of the node's keys, but not of
// the node. It joins once more, with the newest of them and no other, and what was said of
// that key stays; nobody else joins by the node's name, and who was put out stays out.
func TestJoinAfterRestore(t *testing.T) {
	for name, c := range map[string]struct {
		before func(h *house, n newcomer, key string)
		status int
	}{
		"in force": {func(*house, newcomer, string) {}, 200},
		"asked to leave": {func(h *house, n newcomer, _ string) {
			h.admin("POST", "/admin/nodes/"+n.id+"/expel", "").refused(409, api.StateConflict)
		}, 200},
		"out of use": {func(h *house, n newcomer, key string) {
			h.admin("POST", "/admin/nodes/"+n.id+"/expel", "").refused(409, api.StateConflict)
			h.retire(n.credential, key, time.Now()).ok()
			require.Eventually(h.t, func() bool { return h.key(key).State == "RETIRED" }, time.Minute, time.Millisecond, "a moment later")
		}, 409},
		"revoked": {func(h *house, _ newcomer, key string) {
			h.admin("POST", "/admin/signing-keys/"+key+"/revoke", `{"force":true}`).ok()
		}, 409},
		"expelled": {func(h *house, n newcomer, _ string) {
			h.admin("POST", "/admin/nodes/"+n.id+"/expel", `{"force":true}`).ok()
		}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			lost, h := newHouse(t), newHouse(t)
			n, newest, stranger := newNewcomer(t), newNewcomer(t), newNewcomer(t)
			lost.admit(n, lost.invite())
			n.enrol(lost, n.credential, newest.key, time.Now()).ok()
			newest.id, newest.credential = n.id, n.credential
			c.before(lost, n, newest.keyID())
			for _, e := range lost.events(api.SystemTenant) {
				if strings.Contains(string(e.Data), n.id) {
					require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
						_, err := node.Replay(t.Context(), tx, &e)
						return err
					}))
				}
			}
			told := h.key(newest.keyID())
			require.Equal(t, lost.key(newest.keyID()), told)
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
			require.Equal(t, told, h.key(newest.keyID()))
			if c.status != 200 {
				require.Equal(t, unknown, n.start(h).status)
				return
			}
			require.Equal(t, []string{"node.invited", "node.enrolled"}, h.newest(api.SystemTenant, 2))
			started := n.start(h).ok()
			require.Equal(t, name == "asked to leave", started["last"] == true)
			require.Equal(t, 409, h.join(stranger.request(h.invite())).status)
		})
	}
}

func (n newcomer) keyID() string { return sealer.KeyID(n.key.Public().(ed25519.PublicKey)) }

// key is what operators are told of a signing key.
func (h *house) key(id string) node.SigningKey {
	h.t.Helper()
	list, err := h.nodes.SigningKeys(h.t.Context())
	require.NoError(h.t, err)
	i := slices.IndexFunc(list.Keys, func(k node.SigningKey) bool { return k.KeyID == id })
	require.GreaterOrEqual(h.t, i, 0)
	return list.Keys[i]
}

// TestLeakedInvitation is in the hands of somebody else, and with it all that the node
// sent: neither lets him in, nor has control tell him anything that lets him in, nor
// takes from the node what it has.
func TestLeakedInvitation(t *testing.T) {
	h := newHouse(t)
	n, thief := newNewcomer(t), newNewcomer(t)
	seen := n.request(h.invite())
	h.join(seen).ok()
	before := h.newest(api.SystemTenant, 3)

	// What was seen once more: a moment that the directory tells everybody.
	require.Equal(t, []string{"notBefore"}, slices.Collect(maps.Keys(h.join(seen).ok())))

	// By his own name; by the node's with a key or a credential of his own, which he can
	// sign for as himself only.
	theirs := thief
	theirs.id = n.id
	h.join(thief.request(seen.Invitation)).refused(401, api.AuthInvalid)
	require.Contains(t, h.join(theirs.request(seen.Invitation)).refused(409, api.StateConflict), "is known already")
	forged := seen
	forged.CredentialHash = thief.request("").CredentialHash
	h.join(forged).refused(422, api.ValidationFailed)
	forged.Signature = theirs.request(seen.Invitation).Signature
	h.join(forged).refused(422, api.ValidationFailed)
	theirs.start(h).refused(401, api.AuthInvalid)

	// With an invitation that nobody has used he is somebody, but not the node. Nor is
	// anything of the node changed by its own key: what joined stays as it joined.
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
func processes(t *testing.T) []*house {
	dir := t.TempDir()
	houses := []*house{newHouseOn(t, dir, node.Config{})}
	if os.Getenv("MUNIMENT_TEST_POSTGRES") != "" {
		houses = append(houses, newHouseOn(t, dir, node.Config{}))
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
	require.Equal(t, []string{"node.invited", "node.invited", "node.enrolled", "key.enrolled"}, h.newest(api.SystemTenant, 4))
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
// in, and nobody hears of the other.
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
		require.Equal(t, []string{"node.invited", "node.enrolled", "key.enrolled"}, h.newest(api.SystemTenant, 3))
	}
}

// TestStrangerTakesNoTurn: who has no invitation does not hold up the changes of others, nor
// wait for them, and is told of no node.
func TestStrangerTakesNoTurn(t *testing.T) {
	h := newHouse(t)
	n, invitation := newNewcomer(t), h.invite()
	h.admit(n, invitation)
	h.admin("POST", "/admin/nodes/"+n.id+"/expel", `{"force":true}`).ok()
	stranger, _ := api.NewBearer(api.NewID("inv_", time.Now()))
	asked := []api.JoinRequest{newNewcomer(t).request(stranger), n.request(stranger), n.request(invitation)}
	require.NoError(t, h.db.Change(t.Context(), func(*store.Tx) error { // it has the turn
		for _, q := range asked {
			require.NotContains(t, h.join(q).refused(401, api.AuthInvalid), "was expelled")
		}
		return nil
	}))
}

// TestSandboxNode joins for the sandbox: all of its keys are for that.
func TestSandboxNode(t *testing.T) {
	h := newHouse(t)
	invitation, err := h.nodes.InviteSandbox(t.Context())
	require.NoError(t, err)
	n, next := newNewcomer(t), newNewcomer(t).key
	credential := h.admit(n, invitation.Token)
	n.enrol(h, credential, next, time.Now().UTC().Truncate(time.Millisecond).Add(time.Second)).ok()

	directory, err := sealer.ReadDirectory([]byte(h.call("", "GET", "/.well-known/muniment/keys.json", "").text))
	require.NoError(t, err)
	for _, key := range []ed25519.PrivateKey{n.key, next} {
		id := sealer.KeyID(key.Public().(ed25519.PublicKey))
		i := slices.IndexFunc(directory.Keys, func(k sealer.Key) bool { return k.KeyID == id })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, sealer.PurposeSandbox, directory.Keys[i].Purpose)
	}
	expelled := h.admin("POST", "/admin/nodes/"+n.id+"/expel", `{"force":true}`).ok()
	require.Len(t, get[[]any](t, expelled, "keys"), 2)
}

// TestJoinRefusesWeakKeys: with a key of small order anybody can sign, so the signature of
// the request proves nothing. The signature here is over every message.
func TestJoinRefusesWeakKeys(t *testing.T) {
	h := newHouse(t)
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
	require.Contains(t, send(t, h.control.Nodes(), credential, "POST", api.PathEnrol, string(next)).refused(422, api.ValidationFailed), `"field":"publicKey"`)
}

func TestJoinRefusesWhatIsForged(t *testing.T) {
	h := newHouse(t)
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
	// Every character of an invitation counts, and what is no invitation tells nothing.
	id, secret, _ := strings.Cut(good.Invitation, ".")
	var tampered []string
	for i := range good.Invitation {
		c := byte('A')
		if good.Invitation[i] == c {
			c = 'B'
		}
		tampered = append(tampered, good.Invitation[:i]+string(c)+good.Invitation[i+1:])
	}
	var told []string
	for _, invitation := range append(tampered, "", ".", id, id+".", "."+secret, good.Invitation+"A", strings.ToLower(id)+"."+secret) {
		told = append(told, h.join(newNewcomer(t).request(invitation)).refused(401, api.AuthInvalid))
	}
	for _, one := range told {
		require.Equal(t, told[0], one)
	}
	h.join(good).ok()
}

// TestNodeFollowsOverHTTP has a view in another process: it holds a lease, reads
// rights and keys, and knows of a revocation when that is acknowledged.
func TestNodeFollowsOverHTTP(t *testing.T) {
	h := newHouse(t, time.Minute)
	tenantID, key := h.tenant()
	rightID := h.right(key, h.basis(key))
	server := httptest.NewServer(h.control.Nodes())
	defer server.Close()
	n := newNewcomer(t)
	credential := h.admit(n, h.invite())
	source, err := snapshot.NewRemote(server.URL, credential, server.Client())
	require.NoError(t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: "nod_somebody_else"})
	require.NoError(t, err)
	defer view.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- view.Run(ctx) }()
	require.Eventually(t, func() bool { return view.Fresh() == nil }, time.Minute, time.Millisecond)

	r, err := view.Right(t.Context(), tenantID, rightID)
	require.NoError(t, err)
	require.Equal(t, rightID, r.ID)
	none, err := source.Snapshot(t.Context(), api.Rights.Name, api.NewID(api.PrefixRight, time.Now()))
	require.NoError(t, err)
	require.Nil(t, none.Change)
	known, err := view.Key(t.Context(), "key_"+strings.Split(key, "_")[2])
	require.NoError(t, err)
	require.Equal(t, tenantID, known.TenantID)
	missing, err := view.Key(t.Context(), api.NewID(api.PrefixKey, time.Now()))
	require.NoError(t, err)
	require.Nil(t, missing)

	revoked := h.call(key, "POST", "/v1/rights/"+rightID+"/revoke", "").ok()
	nodes := get[[]any](t, revoked, "propagation", "nodes")
	require.Equal(t, n.id, get[string](t, nodes[0].(map[string]any), "nodeId"), "a node speaks for itself, whatever it says its name is")
	require.Equal(t, true, get[bool](t, revoked, "propagation", "applied"))
	_, err = view.Right(t.Context(), tenantID, rightID)
	require.Equal(t, api.StateConflict, api.From(err).Code)
	stop()
	require.NoError(t, <-ended)
}

// TestNodeReadsMappingsOverHTTP has a view in another process resolve more vendors' ids than
// one question takes, and hear of one that comes to stand for something else.
func TestNodeReadsMappingsOverHTTP(t *testing.T) {
	h := newHouse(t)
	put := func(player int, right string) {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			revision, err := tx.Revision(t.Context())
			require.NoError(t, err)
			return store.Publish(t.Context(), tx, api.Mappings, &api.Mapping{
				ID: api.VendorKey("tnt_a", "acme", "player", fmt.Sprint(player)), TenantID: "tnt_a", Revision: revision,
				Windows: []api.MappingWindow{{RightID: right, From: time.Unix(0, 0)}},
			})
		}))
	}
	for player := range 20 {
		put(player, "rgh_a")
	}
	server := httptest.NewServer(h.control.Nodes())
	defer server.Close()
	source, err := snapshot.NewRemote(server.URL, h.admit(newNewcomer(t), h.invite()), server.Client())
	require.NoError(t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: "nod_a"})
	require.NoError(t, err)
	defer view.Close()
	var plays []snapshot.VendorPlay
	for player := range 2*api.MostSnapshots + 1 {
		plays = append(plays, snapshot.VendorPlay{Vendor: "acme", IDType: "player", VendorID: fmt.Sprint(player), At: time.Now()})
	}
	for player, m := range view.Mappings(t.Context(), "tnt_a", plays) {
		require.NoError(t, m.Err)
		if player >= 20 {
			require.Nil(t, m.Window)
			continue
		}
		require.Equal(t, "rgh_a", m.Window.RightID)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- view.Run(ctx) }()
	require.Eventually(t, func() bool { return view.Fresh() == nil }, time.Minute, time.Millisecond)
	put(1, "rgh_b")
	require.Eventually(t, func() bool { return view.Mapping(t.Context(), "tnt_a", plays[1]).Window.RightID == "rgh_b" }, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	server.Close()
	unknown := snapshot.VendorPlay{Vendor: "other", IDType: "player", VendorID: "1", At: time.Now()}
	require.Equal(t, api.ControlUnavailable, api.From(view.Mapping(t.Context(), "tnt_a", unknown).Err).Reason)
}

func TestNodeRoutesAskForTheCredential(t *testing.T) {
	h := newHouse(t)
	n := newNewcomer(t)
	credential := h.admit(n, h.invite())
	other := h.admit(newNewcomer(t), h.invite())
	_, key := h.tenant()
	id, secret, _ := strings.Cut(credential, ".")
	otherID, _, _ := strings.Cut(other, ".")
	for _, route := range [][2]string{
		{"POST", api.PathFeed}, {"POST", api.PathStart},
		{"POST", api.PathSnapshots + "/mapping"},
		{"GET", api.PathSnapshots + "/right/" + api.NewID(api.PrefixRight, time.Now())}, {"GET", api.PathSnapshots + "/key/" + api.NewID(api.PrefixKey, time.Now())},
	} {
		body := ""
		if route[1] == api.PathFeed {
			body = `{"nodeId":"x","after":0}`
		}
		if route[1] == api.PathSnapshots+"/mapping" {
			body = `{"ids":["vid_1"]}`
		}
		ask := func(as string) answer { return send(t, h.control.Nodes(), as, route[0], route[1], body) }
		ask(credential).ok()
		ask("").refused(401, api.AuthRequired)
		for _, bad := range []string{key, adminToken, id, id + ".", otherID + "." + secret, credential + "x", credential[:len(credential)-1]} {
			ask(bad).refused(401, api.AuthInvalid)
		}
		h.call(credential, route[0], route[1], body).refused(404, api.ResourceNotFound) // not on the public listener
	}
}

func TestRemoteNamesWhatIsWrong(t *testing.T) {
	h := newHouse(t)
	server := httptest.NewServer(h.control.Nodes())
	source, err := snapshot.NewRemote(server.URL, "nod_x.y", nil)
	require.NoError(t, err)
	_, err = source.Feed(t.Context(), api.FeedRequest{})
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	server.Close()
	_, err = source.Feed(t.Context(), api.FeedRequest{})
	require.ErrorContains(t, err, "control does not answer")
	require.NotContains(t, err.Error(), "nod_x.y")
	for _, bad := range []string{"", "control:9443", "http://control.internal:9443", "ftp://127.0.0.1", "https://"} {
		_, err := snapshot.NewRemote(bad, "nod_x.y", nil)
		require.Error(t, err, bad)
	}
	_, err = snapshot.NewRemote("https://control.internal:9443", "", nil)
	require.ErrorContains(t, err, "enrol it first")
}

// enrol asks for a next key of the node, in force from a moment on, for which the one
// that it joined with vouches.
func (n newcomer) enrol(h *house, credential string, key ed25519.PrivateKey, from time.Time) answer {
	h.t.Helper()
	return n.enrolVouched(h, credential, key, n.key, from)
}

// enrolVouched is enrol with the key that vouches, nil for none.
func (n newcomer) enrolVouched(h *house, credential string, key, voucher ed25519.PrivateKey, from time.Time) answer {
	h.t.Helper()
	pub := base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	by := func(key ed25519.PrivateKey) string {
		return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, api.EnrolText(n.id, pub)))
	}
	q := api.EnrolRequest{PublicKey: pub, NotBefore: from, Signature: by(key)}
	if voucher != nil {
		q.Voucher = by(voucher)
	}
	body, err := json.Marshal(q)
	require.NoError(h.t, err)
	return send(h.t, h.control.Nodes(), credential, "POST", api.PathEnrol, string(body))
}

func (h *house) retire(credential, keyID string, at time.Time) answer {
	h.t.Helper()
	body, err := json.Marshal(api.RetireRequest{KeyID: keyID, NotAfter: at})
	require.NoError(h.t, err)
	return send(h.t, h.control.Nodes(), credential, "POST", api.PathRetire, string(body))
}

// TestNodeKeys enrols a node's next key and retires the old one, each twice, and
// refuses what would harm what was signed before.
func TestNodeKeys(t *testing.T) {
	h := newHouse(t)
	n, next := newNewcomer(t), newNewcomer(t).key
	credential := h.admit(n, h.invite())
	other := newNewcomer(t)
	foreign := h.admit(other, h.invite())
	id := func(key ed25519.PrivateKey) string { return sealer.KeyID(key.Public().(ed25519.PublicKey)) }
	told := func(a answer) (k api.SigningKey) {
		text, err := json.Marshal(a.ok())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &k))
		return k
	}
	ending := func(credential string, keyIDs ...string) []any {
		body, err := json.Marshal(api.FeedRequest{SigningKeys: keyIDs})
		require.NoError(t, err)
		feed, _ := send(t, h.control.Nodes(), credential, "POST", api.PathFeed, string(body)).ok()["signingKeys"].([]any)
		return feed
	}

	h.retire(credential, id(n.key), time.Now()).refused(409, api.StateConflict) // it is the newest
	n.enrol(h, credential, next, time.Now().Add(time.Hour)).refused(409, api.StateConflict)
	n.enrol(h, credential, next, time.Now().Add(-time.Hour)).refused(409, api.StateConflict)
	n.enrol(h, credential, other.key, time.Now()).refused(409, api.StateConflict)
	other.enrol(h, credential, next, time.Now()).refused(422, api.ValidationFailed) // it names another node
	require.Empty(t, ending(credential, id(n.key)))

	from := time.Now().UTC().Truncate(time.Millisecond).Add(5 * time.Second)
	first := told(n.enrol(h, credential, next, from))
	require.Equal(t, api.SigningKey{KeyID: id(next), NotBefore: from}, first)
	require.Equal(t, "key.rotated", h.newest(api.SystemTenant, 1)[0])
	require.Equal(t, first, told(n.enrol(h, credential, next, from.Add(time.Second))), "the same key once more changes nothing")
	require.Len(t, ending(credential, id(n.key), id(next)), 1, "the feed tells that the old one ends")
	require.Empty(t, ending(foreign, id(n.key)), "and tells nobody else")

	h.retire(foreign, id(n.key), from).refused(404, api.ResourceNotFound)
	// A node can't disown what it signed before the next key.
	old := told(h.retire(credential, id(n.key), from.Add(-time.Hour)))
	require.Equal(t, from, old.NotAfter)
	require.Equal(t, "key.retired", h.newest(api.SystemTenant, 1)[0])
	require.Equal(t, old, told(h.retire(credential, id(n.key), from.Add(time.Minute))), "a window only gets shorter")

	// Who starts is told what the directory says of its keys.
	body, err := json.Marshal(api.StartRequest{SigningKeys: []string{id(n.key), id(next), id(other.key)}})
	require.NoError(t, err)
	started := send(t, h.control.Nodes(), credential, "POST", api.PathStart, string(body)).ok()
	require.Len(t, get[[]any](t, started, "signingKeys"), 2)
}

// TestStolenCredential enrols no key of the thief's: the node's newest key has to vouch
// for the next one, until it is revoked.
func TestStolenCredential(t *testing.T) {
	h := newHouse(t)
	n, second, third, thief := newNewcomer(t), newNewcomer(t).key, newNewcomer(t).key, newNewcomer(t).key
	credential := h.admit(n, h.invite())
	steal := func(vouchers ...ed25519.PrivateKey) {
		t.Helper()
		for _, voucher := range vouchers {
			told := n.enrolVouched(h, credential, thief, voucher, time.Now().Add(10*time.Second)).refused(409, api.StateConflict)
			require.Contains(t, told, "is not vouched for")
		}
	}
	steal(nil, thief)
	n.enrolVouched(h, credential, second, n.key, time.Now()).ok()
	steal(nil, thief, n.key)                                    // the old key vouches no more
	n.enrolVouched(h, credential, second, nil, time.Now()).ok() // the answer was lost: nothing is enrolled again
	id := sealer.KeyID(second.Public().(ed25519.PublicKey))
	h.admin("POST", "/admin/signing-keys/"+id+"/revoke", `{"force":true}`).ok()
	n.enrolVouched(h, credential, third, nil, time.Now().Add(time.Second)).ok()
	steal(nil, second)
}

// TestRevokeKeyOfANodeThatHasGone: what it signed may be in its spool alone, so only
// force, or the node itself, lets the key go.
func TestRevokeKeyOfANodeThatHasGone(t *testing.T) {
	h := newHouse(t)
	id := func(key ed25519.PrivateKey) string { return sealer.KeyID(key.Public().(ed25519.PublicKey)) }
	revoke := func(key ed25519.PrivateKey, body string) answer {
		return h.admin("POST", "/admin/signing-keys/"+id(key)+"/revoke", body)
	}
	gone, back := newNewcomer(t), newNewcomer(t)
	h.join(gone.request(h.invite())).ok()
	told := revoke(gone.key, "").refused(409, api.StateConflict)
	require.Contains(t, told, gone.id)
	require.Contains(t, told, "its spool may hold receipts")
	require.Equal(t, "REVOKED", get[string](t, revoke(gone.key, `{"force":true}`).ok(), "key", "state"))

	credential := h.admit(back, h.invite())
	revoke(back.key, "").refused(409, api.StateConflict)
	next := newNewcomer(t).key
	from, err := time.Parse(time.RFC3339Nano, get[string](t, back.enrol(h, credential, next, time.Now()).ok(), "notBefore"))
	require.NoError(t, err)
	revoke(back.key, "").refused(409, api.StateConflict) // it has not said that the old one is out of use
	h.retire(credential, id(back.key), from).ok()
	require.Equal(t, "REVOKED", get[string](t, revoke(back.key, "").ok(), "key", "state"))
}

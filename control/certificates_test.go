package control_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs/certstest"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// shown is a handler whose requests come over connections that showed certificates.
type shown struct {
	http.Handler
	chain []*x509.Certificate
}

func (s *shown) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.TLS = &tls.ConnectionState{PeerCertificates: s.chain}
	s.Handler.ServeHTTP(w, r)
}

func chainOf(t *testing.T, pair certstest.Pair) []*x509.Certificate {
	t.Helper()
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	return []*x509.Certificate{loaded.Leaf}
}

// named issues the certificate of a node.
func named(t *testing.T, a *certstest.Authority, name string) []*x509.Certificate {
	t.Helper()
	return chainOf(t, a.Issue(t, certstest.Leaf{Names: []string{}, URIs: []string{api.NodeURI + name}}))
}

func poolOf(t *testing.T, a *certstest.Authority) func() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate())
	return func() *x509.CertPool { return pool }
}

// certified is the request of a node that joins by a certificate.
func (n newcomer) certified(chain []*x509.Certificate) api.JoinRequest {
	pub := base64.RawURLEncoding.EncodeToString(n.key.Public().(ed25519.PublicKey))
	_, hash, _ := api.ReadBearer(api.PrefixNode, n.credential)
	sum := sha256.Sum256(chain[0].Raw)
	of := hex.EncodeToString(sum[:])
	return api.JoinRequest{
		CertificateHash: of, NodeID: n.id, PublicKey: pub, CredentialHash: hash,
		Signature: base64.RawURLEncoding.EncodeToString(ed25519.Sign(n.key, api.JoinText(n.id, pub, hash, "", of))),
	}
}

// joinOver sends a request over a connection that showed a certificate.
func (h *fixture) joinOver(chain []*x509.Certificate, q any) answer {
	h.t.Helper()
	body, err := json.Marshal(q)
	require.NoError(h.t, err)
	return send(h.t, &shown{h.control().Nodes(), chain}, "", "POST", api.PathJoin, string(body))
}

func TestJoinByCertificate(t *testing.T) {
	authority := certstest.New(t)
	h := newFixtureOn(t, t.TempDir(), node.Config{NodeCA: poolOf(t, authority)})
	n, chain := newNewcomer(t), named(t, authority, "edge-0.eu")
	q := n.certified(chain)
	first := get[string](t, h.joinOver(chain, struct {
		api.JoinRequest
		Purpose string `json:"purpose"`
	}{q, keydir.PurposePack}).ok(), "notBefore")
	require.Equal(t, []string{"node.joined", "key.enrolled"}, h.newest(api.SystemTenant, 2))
	events := h.events(api.SystemTenant)
	joined := events[len(events)-2]
	require.Equal(t, sealer.Ref{Kind: "node", ID: n.id}, joined.Actor)
	require.JSONEq(t, `{"nodeId":"`+n.id+`","how":"certificate","name":"edge-0.eu","certificateHash":"`+q.CertificateHash+`"}`, string(joined.Data))
	keys, err := h.keys.SigningKeys(t.Context())
	require.NoError(t, err)
	key := keys.Keys[len(keys.Keys)-1]
	require.Equal(t, n.id, key.NodeID)
	require.Equal(t, keydir.PurposeReceipt, key.Purpose, "whatever was requested")

	// The answer was lost, or the node was restarted, and its certificate renewed meanwhile.
	require.Equal(t, first, get[string](t, h.joinOver(chain, q).ok(), "notBefore"))
	renewed := named(t, authority, "edge-0.eu")
	require.Equal(t, first, get[string](t, h.joinOver(renewed, n.certified(renewed)).ok(), "notBefore"))
	require.Equal(t, events, h.events(api.SystemTenant))
	require.Equal(t, 1., get[float64](t, n.start(h).ok(), "epoch"))

	// It keeps that name, and a node that was invited has none.
	other := named(t, authority, "edge-1")
	require.Contains(t, h.joinOver(other, n.certified(other)).refused(409, api.StateConflict), "not as edge-1")
	invited := newNewcomer(t)
	h.admit(invited, h.invite())
	events = h.events(api.SystemTenant)
	require.Contains(t, string(events[len(events)-2].Data), `"how":"invitation"`)
	require.Contains(t, h.joinOver(other, invited.certified(other)).refused(409, api.StateConflict), "not as edge-1")
	require.Equal(t, events, h.events(api.SystemTenant))
	second := newNewcomer(t)
	h.joinOver(other, second.certified(other)).ok()
}

// TestJoinByCertificateIsRefused: each certificate that does not say that its holder is a node of
// that name, and each request that was not made for the connection it comes over.
func TestJoinByCertificateIsRefused(t *testing.T) {
	authority, transport := certstest.New(t), certstest.New(t)
	h := newFixtureOn(t, t.TempDir(), node.Config{NodeCA: poolOf(t, authority)})
	before := h.events(api.SystemTenant)
	now, good := time.Now(), []string{api.NodeURI + "edge-0"}
	for name, c := range map[string]struct {
		leaf certstest.Leaf
		says string
	}{
		"expired":        {certstest.Leaf{URIs: good, From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)}, "it expired at "},
		"of the future":  {certstest.Leaf{URIs: good, From: now.Add(time.Hour), Until: now.Add(2 * time.Hour)}, "it is not valid before "},
		"server alone":   {certstest.Leaf{URIs: good, ServerOnly: true}, "it lacks the extended key usage clientAuth"},
		"no usage":       {certstest.Leaf{URIs: good, NoUsage: true}, "it lacks the extended key usage clientAuth"},
		"no URI":         {certstest.Leaf{}, "it has 0 URIs (subjectAltName), and must have one, muniment://node/NAME"},
		"two URIs":       {certstest.Leaf{URIs: []string{good[0], api.NodeURI + "edge-1"}}, "it has 2 URIs"},
		"other scheme":   {certstest.Leaf{URIs: []string{"spiffe://node/edge-0"}}, `its URI is \"spiffe://node/edge-0\", and must be muniment://node/NAME`},
		"other host":     {certstest.Leaf{URIs: []string{"muniment://nodes/edge-0"}}, "its URI is"},
		"a query":        {certstest.Leaf{URIs: []string{good[0] + "?x"}}, "its URI is"},
		"a user":         {certstest.Leaf{URIs: []string{"muniment://a@node/edge-0"}}, "its URI is"},
		"a folder":       {certstest.Leaf{URIs: []string{good[0] + "/x"}}, "its URI is"},
		"escaped":        {certstest.Leaf{URIs: []string{api.NodeURI + "edge%2d0"}}, "its URI is"},
		"upper case":     {certstest.Leaf{URIs: []string{api.NodeURI + "Edge-0"}}, "its URI is"},
		"no name":        {certstest.Leaf{URIs: []string{api.NodeURI}}, "its URI is"},
		"64 characters":  {certstest.Leaf{URIs: []string{api.NodeURI + strings.Repeat("a", 64)}}, "its URI is"},
		"the name alone": {certstest.Leaf{Names: []string{"edge-0"}}, "it has 0 URIs"},
	} {
		chain := chainOf(t, authority.Issue(t, c.leaf))
		require.Contains(t, h.joinOver(chain, newNewcomer(t).certified(chain)).refused(401, api.AuthInvalid), c.says, name)
	}
	foreign := named(t, transport, "edge-0")
	require.Contains(t, h.joinOver(foreign, newNewcomer(t).certified(foreign)).refused(401, api.AuthInvalid), "it was not issued by an authority in control's --node-ca")

	// A request that somebody has seen is of no use to them.
	chain, theirs, n := named(t, authority, "edge-0"), named(t, authority, "thief"), newNewcomer(t)
	seen := n.certified(chain)
	require.Contains(t, h.joinOver(theirs, seen).refused(422, api.ValidationFailed), "the request was made for another connection")
	renewed := named(t, authority, "edge-0")
	require.Contains(t, h.joinOver(renewed, seen).refused(422, api.ValidationFailed), "the request was made for another connection")
	require.Contains(t, h.joinOver(nil, seen).refused(401, api.AuthInvalid), "the connection presented none")
	require.Contains(t, h.join(seen).refused(401, api.AuthInvalid), "the connection presented none")
	moved := seen
	moved.CertificateHash = n.certified(theirs).CertificateHash
	require.Contains(t, h.joinOver(theirs, moved).refused(422, api.ValidationFailed), `"field":"signature"`)
	bare := seen
	bare.CertificateHash = ""
	require.Contains(t, h.joinOver(chain, bare).refused(422, api.ValidationFailed), `"field":"signature"`)
	h.joinOver(chain, n.request("")).refused(401, api.AuthInvalid) // it does not name the certificate
	require.Equal(t, before, h.events(api.SystemTenant))
	both := n.request(h.invite())
	both.CertificateHash = seen.CertificateHash
	both.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(n.key, api.JoinText(n.id, both.PublicKey, both.CredentialHash, both.Invitation, both.CertificateHash)))
	require.Contains(t, h.joinOver(chain, both).refused(422, api.ValidationFailed), "excludes an invitation")

	// A key that was revoked, or is another node's, joins no more.
	h.joinOver(chain, seen).ok()
	keyID := keydir.KeyID(n.key.Public().(ed25519.PublicKey))
	_, err := h.keys.Revoke(t.Context(), keyID, signing.Revocation{Force: true}, store.ByOperator())
	require.NoError(t, err)
	again := newNewcomer(t)
	again.key = n.key
	require.Contains(t, h.joinOver(theirs, again.certified(theirs)).refused(409, api.StateConflict), `"field":"nodeId"`)

	h = newFixture(t)
	require.Contains(t, h.joinOver(chain, seen).refused(401, api.AuthInvalid), "control has no authority for nodes: start it with --node-ca")
	h.joinOver(chain, n.request(h.invite())).ok() // as it would without a certificate
}

// TestNameOfALiveNode belongs to that node, until its lease has ended: then another may take it, and
// the one before signs nothing more.
func TestNameOfALiveNode(t *testing.T) {
	stacktest.WithoutPostgres(t) // the database's clock
	authority, now, ran := certstest.New(t), time.Now(), time.Duration(0)
	dir := t.TempDir()
	cfg := node.Config{NodeCA: poolOf(t, authority), LeaseBound: 30 * time.Second, Clock: func() time.Duration { return ran }}
	h := newFixtureOn(t, dir, cfg, func() time.Time { return now })
	pass := func(d time.Duration) { now, ran = now.Add(d), ran+d }
	poll := func(n newcomer) {
		require.NoError(t, h.nodes.Polled(t.Context(), api.FeedRequest{NodeID: n.id, After: 0}))
	}
	chain := named(t, authority, "edge-0")
	first, second, third := newNewcomer(t), newNewcomer(t), newNewcomer(t)
	h.joinOver(chain, first.certified(chain)).ok()
	held := func(n, by newcomer) {
		t.Helper()
		require.Contains(t, h.joinOver(chain, n.certified(chain)).refused(409, api.StateConflict), "the name edge-0 belongs to the node "+by.id)
	}
	held(second, first) // it may be about to poll the feed
	pass(20 * time.Second)
	poll(first)
	pass(30 * time.Second)
	held(second, first)
	h.joinOver(chain, first.certified(chain)).ok()
	robbed := newNewcomer(t)
	robbed.id = first.id // with another key
	robbed.credential, _ = api.NewBearer(first.id)
	require.Contains(t, h.joinOver(chain, robbed.certified(chain)).refused(409, api.StateConflict), `"field":"nodeId"`)

	pass(time.Second)
	h.joinOver(chain, second.certified(chain)).ok()
	require.Equal(t, []string{"node.recalled", "node.joined", "key.enrolled"}, h.newest(api.SystemTenant, 3))
	events := h.events(api.SystemTenant)
	require.Equal(t, sealer.Ref{Kind: "node", ID: first.id}, events[len(events)-3].Subject)
	require.Equal(t, true, get[bool](t, first.start(h).ok(), "last"), "it brings its spool, and signs nothing")
	require.NotContains(t, second.start(h).ok(), "last")
	require.Contains(t, h.joinOver(chain, first.certified(chain)).refused(409, api.StateConflict), "belongs to the node "+second.id)
	pass(time.Minute)
	require.Contains(t, h.joinOver(chain, first.certified(chain)).refused(409, api.StateConflict), "the node has joined before")
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error { // it was restored from before that
		_, err := tx.ExecContext(t.Context(), `DELETE FROM node_credentials WHERE node_id = $1`, first.id)
		return err
	}))
	require.Contains(t, h.joinOver(chain, first.certified(chain)).refused(409, api.StateConflict), "the node is leaving, and the name edge-0 now belongs to the node "+second.id)
	h.admin("POST", "/admin/nodes/"+first.id+"/expel", `{"force":true}`).ok()
	pass(time.Minute)
	require.Contains(t, h.joinOver(chain, third.certified(chain)).refused(403, api.AuthInvalid), "is barred because its node "+first.id+" was expelled", "its certificate may be a thief's")
	second.start(h).ok()
	require.Equal(t, first.id, get[string](t, h.admin("POST", "/admin/nodes/unbar", `{"name":"edge-0"}`).ok(), "nodeId"))
	held(third, second) // it has just started

	// A control process that has just started knows no lease, and so none that has ended.
	pass(time.Minute)
	require.NoError(t, h.db.Close())
	h = newFixtureOn(t, dir, cfg, func() time.Time { return now })
	held(third, second)
	pass(31 * time.Second)
	h.joinOver(chain, third.certified(chain)).ok()
}

// TestNameOfAnExpelledNode is barred until an operator lifts that, also for a database from before.
func TestNameOfAnExpelledNode(t *testing.T) {
	authority := certstest.New(t)
	h := newFixtureOn(t, t.TempDir(), node.Config{NodeCA: poolOf(t, authority)})
	chain, n := named(t, authority, "edge-0"), newNewcomer(t)
	unbar := func(name string) answer { return h.admin("POST", "/admin/nodes/unbar", `{"name":"`+name+`"}`) }
	unbar("edge-0").refused(404, api.ResourceNotFound)
	h.joinOver(chain, n.certified(chain)).ok()
	require.Contains(t, unbar("edge-0").refused(409, api.StateConflict), "belongs to the node "+n.id)
	require.Equal(t, "edge-0", get[string](t, h.admin("POST", "/admin/nodes/"+n.id+"/expel", `{"force":true}`).ok(), "name"))
	events := h.events(api.SystemTenant)
	expelled := events[len(events)-1]
	require.Equal(t, "node.expelled", expelled.Type)
	barred := func() {
		t.Helper()
		require.Contains(t, h.joinOver(chain, newNewcomer(t).certified(chain)).refused(403, api.AuthInvalid), "an operator can lift the bar with muniment node unbar edge-0")
	}
	barred()
	require.Contains(t, h.joinOver(chain, n.certified(chain)).refused(403, api.AuthInvalid), "was expelled")

	// The database knows nothing of the expulsion, nor of the name.
	replay := func(e *sealer.Event, changed bool) {
		t.Helper()
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			again, err := node.Replay(t.Context(), tx, e)
			require.Equal(t, changed, again)
			return err
		}))
	}
	forget := func() {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			if _, err := tx.ExecContext(t.Context(), `DELETE FROM node_names`); err != nil {
				return err
			}
			_, err := tx.ExecContext(t.Context(), `UPDATE nodes SET expelled_at = NULL`)
			return err
		}))
	}
	forget()
	replay(&expelled, true)
	replay(&expelled, false)
	barred()

	require.Equal(t, map[string]any{"name": "edge-0", "nodeId": n.id}, unbar("edge-0").ok())
	events = h.events(api.SystemTenant)
	unbarred := events[len(events)-1]
	require.Equal(t, "node.unbarred", unbarred.Type)
	forget()
	replay(&expelled, true)
	barred()
	replay(&unbarred, true)
	replay(&unbarred, false)
	unbar("edge-0").refused(404, api.ResourceNotFound)
	next := newNewcomer(t)
	h.joinOver(chain, next.certified(chain)).ok()
	replay(&unbarred, false)
	other := named(t, authority, "edge-1")
	require.Contains(t, h.joinOver(other, n.certified(other)).refused(403, api.AuthInvalid), "was expelled", "the name is free, and the node is not back")
}

// TestNameOfALeavingNode is barred once an operator has asked the node to leave, also for a
// database from before. A successor that took over the name bars nothing.
func TestNameOfALeavingNode(t *testing.T) {
	stacktest.WithoutPostgres(t) // the database's clock
	authority, now, ran := certstest.New(t), time.Now(), time.Duration(0)
	cfg := node.Config{NodeCA: poolOf(t, authority), Clock: func() time.Duration { return ran }}
	h := newFixtureOn(t, t.TempDir(), cfg, func() time.Time { return now })
	pass := func() { now, ran = now.Add(time.Minute), ran+time.Minute }
	newest := func() sealer.Event {
		events := h.events(api.SystemTenant)
		return events[len(events)-1]
	}
	recall := func(n newcomer) sealer.Event {
		t.Helper()
		h.admin("POST", "/admin/nodes/"+n.id+"/expel", "").refused(409, api.StateConflict)
		e := newest()
		require.Equal(t, "node.recalled", e.Type)
		return e
	}
	unbar := func() answer { return h.admin("POST", "/admin/nodes/unbar", `{"name":"edge-0"}`) }
	replay := func(e sealer.Event, changed bool) {
		t.Helper()
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			did, err := node.Replay(t.Context(), tx, &e)
			require.Equal(t, changed, did)
			return err
		}))
	}
	forget := func(nodes ...newcomer) { // a database from before they joined has only their keys, from the log
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			for _, n := range nodes {
				for _, table := range []string{"node_names", "node_credentials", "nodes"} {
					if _, err := tx.ExecContext(t.Context(), `DELETE FROM `+table+` WHERE node_id = $1`, n.id); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	chain := named(t, authority, "edge-0")
	join := func(n newcomer) answer { return h.joinOver(chain, n.certified(chain)) }
	barred := func(by newcomer) {
		t.Helper()
		pass()
		require.Contains(t, join(newNewcomer(t)).refused(403, api.AuthInvalid), "is barred because an operator asked its node "+by.id+" to leave")
	}

	first, second, third := newNewcomer(t), newNewcomer(t), newNewcomer(t)
	join(first).ok()
	pass()
	join(second).ok()
	events := h.events(api.SystemTenant)
	takeover := events[len(events)-3]
	require.Equal(t, "node.recalled", takeover.Type)

	// A successor that a restored database lacks joins again, whether it has the one before or not.
	forget(second)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE nodes SET leaving_at = NULL WHERE node_id = $1`, first.id)
		return err
	}))
	replay(takeover, true)
	replay(takeover, false)
	pass()
	join(second).ok()
	require.Equal(t, true, get[bool](t, first.start(h).ok(), "last"))
	forget(first, second)
	replay(takeover, true)
	join(second).ok()

	// An operator recalls the node that holds the name.
	pass()
	recalled := recall(second)
	require.Equal(t, store.ByOperator(), recalled.Actor)
	require.JSONEq(t, `{"nodeId":"`+second.id+`","reason":"","name":"edge-0"}`, string(recalled.Data))
	barred(second)
	join(second).ok() // as when its first answer was lost
	forget(second)
	replay(recalled, true)
	replay(recalled, false)
	replay(takeover, false)
	barred(second)
	other := named(t, authority, "edge-1")
	h.joinOver(other, second.certified(other)).ok() // it brings its spool, by whichever certificate
	require.Equal(t, true, get[bool](t, second.start(h).ok(), "last"))
	barred(second)
	h.joinOver(other, newNewcomer(t).certified(other)).ok()

	// The bar is lifted while the expulsion is under way, and stays lifted when that is complete.
	require.Equal(t, map[string]any{"name": "edge-0", "nodeId": second.id}, unbar().ok())
	unbarred := newest()
	replay(recalled, false)
	replay(unbarred, false)
	forget(second)
	replay(recalled, true)
	barred(second)
	replay(unbarred, true)
	replay(unbarred, false)
	join(second).ok() // it is leaving, and does not get the name back
	join(third).ok()
	require.NotContains(t, h.admin("POST", "/admin/nodes/"+second.id+"/expel", `{"force":true}`).ok(), "name")
	pass()
	fourth := newNewcomer(t)
	join(fourth).ok()

	// An operator recalls a node that had left to its successor.
	recalled = recall(third)
	require.Equal(t, store.ByOperator(), recalled.Actor)
	require.Equal(t, recalled, recall(third), "once")
	barred(third)
	join(fourth).ok()
	require.NotContains(t, fourth.start(h).ok(), "last")
	unbar().ok()
	pass()
	join(newNewcomer(t)).ok()
}

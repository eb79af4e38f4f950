package main

import (
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/node"
	"muniment/control/signing"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/certs"
	"muniment/gateway/certs/certstest"
)

// startNode is the command line of a gateway that has yet to join.
func startNode(data, nodes string, more ...string) []string {
	return append([]string{"gateway", "--control", "127.0.0.1:1", "--nodes", nodes, "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, more...)
}

func nodesOf(t *testing.T, keys *signing.Service) []signing.SigningKey {
	t.Helper()
	list, err := keys.SigningKeys(t.Context())
	require.NoError(t, err)
	return slices.DeleteFunc(list.Keys, func(k signing.SigningKey) bool { return !strings.HasPrefix(k.NodeID, "nod_") })
}

// TestGatewayJoinsByCertificate: a process joins without a person, and comes back as the same node.
// Another one of that name is refused while the first may sign, and joins once that was expelled
// and an operator lifted the bar.
func TestGatewayJoinsByCertificate(t *testing.T) {
	t.Parallel()
	authority, transport := certstest.New(t), certstest.New(t)
	nodeCA, err := certs.NewAuthorities(certs.Options{Use: "joining"}, authority.File, transport.File)
	require.NoError(t, err)
	keys, nodes, handler := nodesHandler(t, node.Config{NodeCA: nodeCA.Source()})
	own := transport.Issue(t, certstest.Leaf{})
	cfg, err := certs.Server(certs.Options{Use: "nodes"}, certs.ServerFlags{Cert: own.Cert, Key: own.Key, ClientCA: transport.File, HandlerCA: nodeCA})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(secured(ln, cfg)) }()
	t.Cleanup(func() { server.Close() })

	pair, shown := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}}), transport.Issue(t, certstest.Leaf{})
	start := func(data string) []string {
		return startNode(data, urlOf(ln.Addr(), cfg), "--kafka", "127.0.0.1:1", "--nodes-ca", transport.File, "--nodes-cert", shown.Cert, "--nodes-key", shown.Key,
			"--node-cert", pair.Cert, "--node-key", pair.Key)
	}
	data, lost := t.TempDir(), t.TempDir()
	for range 2 {
		p := launch(t, start(data)...)
		p.awaitReady(t, http.StatusOK)
		p.stop(t)
	}
	joined := nodesOf(t, keys)
	require.Len(t, joined, 1)
	require.Contains(t, fails(t, start(lost)...), "the name edge-0 belongs to the node "+joined[0].NodeID)
	_, err = nodes.Expel(t.Context(), joined[0].NodeID, node.Expulsion{Revocation: signing.Revocation{Force: true}}, store.ByOperator())
	require.NoError(t, err)
	require.Contains(t, fails(t, start(data)...), "was expelled")
	require.Contains(t, fails(t, start(lost)...), "muniment node unbar edge-0")
	_, err = nodes.Unbar(t.Context(), "edge-0", store.ByOperator())
	require.NoError(t, err)
	p := launch(t, start(lost)...)
	p.awaitReady(t, http.StatusOK)
	p.stop(t)
	require.Len(t, nodesOf(t, keys), 2)
}

// TestJoiningFlags says of each way to start that can't work what is wrong with it.
func TestJoiningFlags(t *testing.T) {
	t.Parallel()
	authority := certstest.New(t)
	pair := authority.Issue(t, certstest.Leaf{})
	refused := func(says, nodes string, more ...string) {
		t.Helper()
		require.Contains(t, fails(t, startNode(t.TempDir(), nodes, append(more, "--kafka", "127.0.0.1:1")...)...), says)
	}
	const secured, plain = "https://127.0.0.1:1", "http://127.0.0.1:1"
	refused("--node-cert and --invitation exclude each other", secured, "--node-cert", pair.Cert, "--node-key", pair.Key, "--invitation", "x")
	refused("--node-cert and --node-key need each other", secured, "--node-cert", pair.Cert)
	refused("--node-cert and --node-key need each other", secured, "--node-key", pair.Key)
	refused("--nodes must begin with https:// for a node that joins by a certificate", plain, "--node-cert", pair.Cert, "--node-key", pair.Key)
	refused("neither an invitation nor a certificate", plain)

	control := []string{"control", "--database", "postgres://127.0.0.1:1/none", "--kafka", "127.0.0.1:1", "--clickhouse", "clickhouse://127.0.0.1:1/none", "--data", t.TempDir(),
		"--listen", "127.0.0.1:0", "--nodes", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--node-ca", authority.File}
	require.Contains(t, fails(t, control...), "TLS for nodes: to require client certificates, the listener needs a certificate of its own")
	secure := append(control, "--nodes-tls-cert", pair.Cert, "--nodes-tls-key", pair.Key)
	require.Contains(t, fails(t, append(secure, "--nodes-tls-client-ca", authority.File)...), "hold the same authority")
	require.Contains(t, fails(t, append(secure, "--node-ca", filepath.Join(t.TempDir(), "none"))...), "cannot read certificate files")
}

// TestJoinByCertificateOnTheStack: control and gateways are processes. The name is the node's until
// control expels it and an operator lifts the bar.
func TestJoinByCertificateOnTheStack(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	authority, transport := certstest.New(t), certstest.New(t)
	own := transport.Issue(t, certstest.Leaf{})
	c := s.start(t, "--nodes-tls-cert", own.Cert, "--nodes-tls-key", own.Key, "--node-ca", authority.File)
	gateway := func(name string) []string {
		pair := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + name}})
		return startNode(t.TempDir(), c.nodes, "--kafka", s.kafka, "--topic", s.topic, "--nodes-ca", transport.File, "--node-cert", pair.Cert, "--node-key", pair.Key)
	}
	first, second := launch(t, gateway("edge-0")...), launch(t, gateway("edge-1")...)
	first.awaitReady(t, http.StatusOK)
	second.awaitReady(t, http.StatusOK)
	said := fails(t, gateway("edge-0")...)
	require.Contains(t, said, "the name edge-0 belongs to the node nod_")
	_, rest, _ := strings.Cut(said, "belongs to the node ")
	nodeID, _, _ := strings.Cut(rest, ",")
	admin := []string{"--data", s.data, "--admin", hostPort(c.admin)}
	require.Contains(t, muniment(t, append([]string{"node", "expel", nodeID, "--force"}, admin...)...), "no node can join as edge-0 until you run muniment node unbar edge-0")
	require.Contains(t, fails(t, gateway("edge-0")...), "the name edge-0 is barred")
	require.Contains(t, muniment(t, append([]string{"node", "unbar", "edge-0"}, admin...)...), "another node may join as edge-0")
	third := launch(t, gateway("edge-0")...)
	third.awaitReady(t, http.StatusOK)
	third.stop(t)
	second.stop(t)
	first.kill()
	c.stop(t)
}

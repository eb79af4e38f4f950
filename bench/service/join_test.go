package service

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
)

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
	at := serveNodes(t, handler, transport, nodeCA)
	pair, shown := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}}), transport.Issue(t, certstest.Leaf{})
	start := func(data string) []string {
		return systemtest.StartNode(data, at, "--kafka", "127.0.0.1:1", "--nodes-ca", transport.File, "--nodes-cert", shown.Cert, "--nodes-key", shown.Key,
			"--node-cert", pair.Cert, "--node-key", pair.Key)
	}
	data, lost := t.TempDir(), t.TempDir()
	for range 2 {
		p := systemtest.Launch(t, start(data)...)
		p.AwaitReady(t, http.StatusOK)
		p.Stop(t)
	}
	joined := nodesOf(t, keys)
	require.Len(t, joined, 1)
	p := systemtest.Launch(t, start(lost)...)
	require.Equal(t, http.StatusServiceUnavailable, p.AwaitNote(t, "the name edge-0 belongs to the node "+joined[0].NodeID))
	_, err = nodes.Expel(t.Context(), joined[0].NodeID, node.Expulsion{Revocation: signing.Revocation{Force: true}}, store.ByOperator())
	require.NoError(t, err)
	require.Contains(t, systemtest.Fails(t, start(data)...), "was expelled")
	require.Equal(t, http.StatusServiceUnavailable, p.AwaitNote(t, "muniment node unbar edge-0"))
	_, err = nodes.Unbar(t.Context(), "edge-0", store.ByOperator())
	require.NoError(t, err)
	p.AwaitReady(t, http.StatusOK)
	p.Stop(t)
	require.Len(t, nodesOf(t, keys), 2)
}

// serveNodes serves control's part for nodes behind TLS, and returns its URL.
func serveNodes(t *testing.T, handler http.Handler, transport *certstest.Authority, nodeCA *certs.Authorities) (url string) {
	t.Helper()
	own := transport.Issue(t, certstest.Leaf{})
	cfg, err := certs.Server(certs.Options{Use: "nodes"}, certs.ServerFlags{Cert: own.Cert, Key: own.Key, ClientCA: transport.File, HandlerCA: nodeCA})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(tls.NewListener(ln, cfg)) }()
	t.Cleanup(func() { server.Close() })
	return "https://" + ln.Addr().String()
}

var typedCommands = regexp.MustCompile("(?m)^<!-- a test runs these commands -->\n```sh\n((?s:.*?))^```$")

// TestLostNodeIsReplaced types the commands of the procedure for a lost node: the process that replaces it,
// with a certificate of the same name, waits for them and needs no other start.
func TestLostNodeIsReplaced(t *testing.T) {
	t.Parallel()
	authority, transport := certstest.New(t), certstest.New(t)
	nodeCA, err := certs.NewAuthorities(certs.Options{Use: "joining"}, authority.File, transport.File)
	require.NoError(t, err)
	keys, _, c := controlOf(t, node.Config{NodeCA: nodeCA.Source(), LeaseBound: time.Second})
	at := serveNodes(t, c.Nodes(), transport, nodeCA)
	operators := httptest.NewServer(c.Admin())
	t.Cleanup(operators.Close)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "muniment-data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "muniment-data", "admin.json"), []byte(`{"url":"`+operators.URL+`","token":"token"}`), 0o600))
	pair, shown := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}}), transport.Issue(t, certstest.Leaf{})
	start := func() *systemtest.Launched {
		return systemtest.Launch(t, systemtest.StartNode(t.TempDir(), at, "--kafka", "127.0.0.1:1", "--bound", "1s",
			"--nodes-ca", transport.File, "--nodes-cert", shown.Cert, "--nodes-key", shown.Key, "--node-cert", pair.Cert, "--node-key", pair.Key)...)
	}
	lost := start()
	lost.AwaitReady(t, http.StatusOK)
	lost.Kill()
	nodeID := nodesOf(t, keys)[0].NodeID

	_, section, _ := strings.Cut(string(systemtest.ReadFile(t, "deploy/procedures.md")), "\n## A lost node\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := typedCommands.FindStringSubmatch(section)[1]
	var replacement *systemtest.Launched
	for line := range strings.Lines(commands) {
		shell := exec.CommandContext(t.Context(), "sh", "-e", "-c", line)
		shell.Dir, shell.Env = dir, append(os.Environ(), "NODE="+nodeID, "NAME=edge-0")
		out, err := shell.CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
		if strings.Contains(line, "expel") {
			require.Contains(t, string(out), "node "+nodeID+" was expelled")
			replacement = start()
			require.Equal(t, http.StatusServiceUnavailable, replacement.AwaitNote(t, "muniment node unbar edge-0"))
		}
	}
	replacement.AwaitReady(t, http.StatusOK)
	replacement.Stop(t)
	joined := nodesOf(t, keys)
	require.Len(t, joined, 2)
	require.Equal(t, []string{"REVOKED", "ACTIVE"}, []string{joined[0].State, joined[1].State})
}

// TestJoiningFlags says of each way to start that can't work what is wrong with it.
func TestJoiningFlags(t *testing.T) {
	t.Parallel()
	authority := certstest.New(t)
	pair := authority.Issue(t, certstest.Leaf{})
	refused := func(says, nodes string, more ...string) {
		t.Helper()
		require.Contains(t, systemtest.Fails(t, systemtest.StartNode(t.TempDir(), nodes, append(more, "--kafka", "127.0.0.1:1")...)...), says)
	}
	const secured, plain = "https://127.0.0.1:1", "http://127.0.0.1:1"
	refused("--node-cert and --invitation exclude each other", secured, "--node-cert", pair.Cert, "--node-key", pair.Key, "--invitation", "x")
	refused("--node-cert needs --node-key", secured, "--node-cert", pair.Cert)
	refused("--node-key needs --node-cert", secured, "--node-key", pair.Key)
	refused("--nodes must begin with https:// for a node that joins by a certificate", plain, "--node-cert", pair.Cert, "--node-key", pair.Key)
	refused("neither an invitation nor a certificate", plain)

	control := []string{"control", "--database", "postgres://127.0.0.1:1/none", "--kafka", "127.0.0.1:1", "--clickhouse", "clickhouse://127.0.0.1:1/none", "--data", t.TempDir(),
		"--listen", "127.0.0.1:0", "--nodes", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--node-ca", authority.File}
	require.Contains(t, systemtest.Fails(t, control...), "TLS for nodes: to require client certificates, the listener needs a certificate of its own")
	secure := append(control, "--nodes-tls-cert", pair.Cert, "--nodes-tls-key", pair.Key)
	require.Contains(t, systemtest.Fails(t, append(secure, "--nodes-tls-client-ca", authority.File)...), "hold the same authority")
	require.Contains(t, systemtest.Fails(t, append(secure, "--node-ca", filepath.Join(t.TempDir(), "none"))...), "--node-ca: ")
}

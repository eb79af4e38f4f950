package stack

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs/certstest"
)

// TestJoinByCertificateOnTheStack: control and gateways are processes. The name is the node's until
// control expels it and an operator lifts the bar.
func TestJoinByCertificateOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Migrate(t)
	authority, transport := certstest.New(t), certstest.New(t)
	own := transport.Issue(t, certstest.Leaf{})
	c := s.Start(t, "--nodes-tls-cert", own.Cert, "--nodes-tls-key", own.Key, "--node-ca", authority.File)
	gateway := func(name string) []string {
		pair := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + name}})
		return systemtest.StartNode(t.TempDir(), c.Nodes, "--kafka", s.Kafka, "--topic", s.Topic, "--nodes-ca", transport.File, "--node-cert", pair.Cert, "--node-key", pair.Key)
	}
	first, second := systemtest.Launch(t, gateway("edge-0")...), systemtest.Launch(t, gateway("edge-1")...)
	first.AwaitReady(t, http.StatusOK)
	second.AwaitReady(t, http.StatusOK)
	third := systemtest.Launch(t, gateway("edge-0")...)
	third.AwaitNote(t, "the name edge-0 belongs to the node nod_")
	_, said := third.Ready()
	_, rest, _ := strings.Cut(said, "belongs to the node ")
	nodeID, _, _ := strings.Cut(rest, ",")
	admin := []string{"--data", s.Data, "--admin", systemtest.HostPort(c.Admin)}
	require.Contains(t, systemtest.Command(t, append([]string{"node", "expel", nodeID, "--force"}, admin...)...), "no node can join as edge-0 until you run muniment node unbar edge-0")
	third.AwaitNote(t, "the name edge-0 is barred")
	require.Contains(t, systemtest.Command(t, append([]string{"node", "unbar", "edge-0"}, admin...)...), "another node may join as edge-0")
	third.AwaitReady(t, http.StatusOK)
	third.Stop(t)
	second.Stop(t)
	first.Kill()
	c.Stop(t)
}

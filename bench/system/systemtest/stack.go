package systemtest

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/system"
	"muniment.example/bench/waittest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline/kafka"
)

// ClickHouse is where the stack's is, once it answers: it may have ended with a loader that a test
// before killed, and be starting again.
func ClickHouse(t *testing.T) (url string) {
	t.Helper()
	url = stacktest.ClickHouse(t)
	if os.Getenv("MUNIMENT_TEST_CLICKHOUSE_HTTP") != "" {
		waittest.Until(t, func() bool { return Query("SELECT 1") == nil }, "ClickHouse answers")
	}
	return url
}

// Engines are those of the stack.
func Engines(t *testing.T) system.Engines {
	t.Helper()
	return system.Engines{Kafka: stacktest.Kafka(t), ClickHouse: ClickHouse(t), Database: stacktest.Postgres(t)}
}

// RegisterOn makes a tenant with rights.
func RegisterOn(t *testing.T, c *system.Cluster) (client system.Client, rights map[string]string) {
	t.Helper()
	client = system.Client{API: c.APIs()[0], Key: CreateTenant(t, c.Operator().Data).APIKey}
	return client, IssueRights(t, client)
}

// AnyAddress is one that no other request comes from. Of IPv6 addresses the limits count the
// first half.
func AnyAddress() string {
	return fmt.Sprintf("2001:db8:%x:%x::1", rand.N(1<<16), rand.N(1<<16))
}

// Scaled is what control processes share: a database, a topic, a warehouse, which is
// away unless a test has one, and a data folder.
type Scaled struct {
	Data, Database, Kafka, Topic, Clickhouse string
}

// Migrate runs the command and returns what it printed.
func (s *Scaled) Migrate(t *testing.T, more ...string) string {
	t.Helper()
	args := append([]string{"migrate", "--kafka", s.Kafka, "--topic", s.Topic, "--partitions", "4", "--replication", "1", "--database", s.Database}, more...)
	return Command(t, args...)
}

// Start starts a control process, and returns once it is ready.
func (s *Scaled) Start(t *testing.T, more ...string) *Launched {
	t.Helper()
	p := s.Launch(t, more...)
	p.AwaitReady(t, http.StatusOK)
	return p
}

// Launch returns once the process has named its addresses.
func (s *Scaled) Launch(t *testing.T, more ...string) *Launched {
	t.Helper()
	return Launch(t, append([]string{
		"control", "--database", s.Database, "--kafka", s.Kafka, "--topic", s.Topic, "--clickhouse", s.Clickhouse, "--data", s.Data,
		"--listen", "127.0.0.1:0", "--nodes", "127.0.0.1:0", "--admin", "127.0.0.1:0",
	}, more...)...)
}

// Follow has a node join at a process and follow its feed.
func (p *Launched) Follow(t *testing.T, s *Scaled) (nodeID string, view *snapshot.View) {
	t.Helper()
	nodeID, credential := p.Join(t, s)
	return nodeID, p.View(t, nodeID, credential)
}

// Invite makes an invitation for a node.
func (p *Launched) Invite(t *testing.T, s *Scaled) (token string) {
	t.Helper()
	return Parse[struct{ Token string }](t, Command(t, "node", "invite", "--data", s.Data, "--admin", HostPort(p.Admin), "--json")).Token
}

// Join has a node join at a process.
func (p *Launched) Join(t *testing.T, s *Scaled) (nodeID, credential string) {
	t.Helper()
	nodeID = api.NewID(api.PrefixNode, time.Now())
	credential, hash := api.NewBearer(nodeID)
	require.NoError(t, system.Client{API: p.Nodes}.Do(t.Context(), "POST", api.PathJoin, joinRequest(t, nodeID, hash, p.Invite(t, s)), nil))
	return nodeID, credential
}

// Bound is that of nodes here, which it takes to see a lease end.
const Bound = 2 * time.Second

// View keeps a node following the feed of a process, and returns once it may sign.
func (p *Launched) View(t *testing.T, nodeID, credential string) *snapshot.View {
	t.Helper()
	source, err := snapshot.NewRemote([]string{p.Nodes}, credential, nil)
	require.NoError(t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: nodeID, LeaseBound: Bound})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- view.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; view.Close() })
	waittest.Until(t, func() bool { return view.Fresh() == nil })
	return view
}

// joinRequest is a node's, with a key that it made itself.
func joinRequest(t *testing.T, nodeID, credentialHash, invitation string) api.JoinRequest {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key := base64.RawURLEncoding.EncodeToString(public)
	return api.JoinRequest{
		Invitation: invitation, NodeID: nodeID, PublicKey: key, CredentialHash: credentialHash,
		Signature: base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, api.JoinText(nodeID, key, credentialHash, invitation, ""))),
	}
}

// StartLoader starts a loader.
func StartLoader(t *testing.T, args ...string) *Launched {
	t.Helper()
	return Launch(t, append([]string{"pipeline", "--admin", "127.0.0.1:0"}, args...)...)
}

// EventTopic makes a topic of eight partitions, on a real cluster if there is one.
func EventTopic(t *testing.T) kafka.Config {
	t.Helper()
	cfg := kafka.Config{Topic: fmt.Sprintf("muniment.test.%d", time.Now().UnixNano())}
	if brokers := os.Getenv("MUNIMENT_TEST_KAFKA"); brokers != "" {
		cfg.Brokers = strings.Split(brokers, ",")
	} else {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		require.NoError(t, err)
		t.Cleanup(cluster.Close)
		cfg.Brokers = cluster.ListenAddrs()
	}
	_, err := kafka.Topic{Partitions: 8, Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	return cfg
}

// Query runs a statement on the stack's ClickHouse.
func Query(statement string) error {
	_, err := Selected(statement)
	return err
}

// Selected is query for what the statement returns, a line a row.
func Selected(statement string) (text string, err error) {
	resp, err := http.Post(os.Getenv("MUNIMENT_TEST_CLICKHOUSE_HTTP"), "text/plain", strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", statement, resp.Status)
	}
	return string(b), err
}

package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment/bench"
	"muniment/control/node"
	"muniment/control/store/storetest"
	"muniment/gateway/api"
	"muniment/gateway/certs"
	"muniment/gateway/certs/certstest"
	"muniment/gateway/snapshot"
	"muniment/pipeline/kafka"
	"muniment/sealer"
)

// scaled is what control processes share: a database, a topic, a warehouse, which is
// away unless a test has one, and a data folder.
type scaled struct {
	exe, data, database, kafka, topic, clickhouse string
}

func newScaled(t *testing.T) *scaled {
	t.Helper()
	if os.Getenv("MUNIMENT_TEST_POSTGRES") == "" {
		require.Empty(t, os.Getenv("MUNIMENT_TEST_STACK"), "the stack is up, but MUNIMENT_TEST_POSTGRES names no server")
		t.Skip("needs PostgreSQL: make test-stack, or set MUNIMENT_TEST_POSTGRES")
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	s := &scaled{
		exe: muniment(t), data: filepath.Join(t.TempDir(), "data"), kafka: strings.Join(cluster.ListenAddrs(), ","),
		topic: kafka.DefaultTopic, clickhouse: "clickhouse://127.0.0.1:1/muniment",
	}
	_, s.database = storetest.Place(t, s.data)
	return s
}

// migrate runs the command and returns what it printed.
func (s *scaled) migrate(t *testing.T, more ...string) string {
	t.Helper()
	args := append([]string{"migrate", "--kafka", s.kafka, "--topic", s.topic, "--partitions", "4", "--replication", "1", "--database", s.database}, more...)
	out, err := exec.Command(s.exe, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// start starts a control process, and returns once it is ready.
func (s *scaled) start(t *testing.T, more ...string) *launched {
	t.Helper()
	p := s.launch(t, more...)
	p.awaitReady(t, http.StatusOK)
	return p
}

// launch returns once the process has named its addresses.
func (s *scaled) launch(t *testing.T, more ...string) *launched {
	t.Helper()
	return launch(t, exec.Command(s.exe, append([]string{
		"control", "--database", s.database, "--kafka", s.kafka, "--topic", s.topic, "--clickhouse", s.clickhouse, "--data", s.data,
		"--listen", "127.0.0.1:0", "--nodes", "127.0.0.1:0", "--admin", "127.0.0.1:0",
	}, more...)...))
}

// follow has a node join at a process and follow its feed.
func (p *launched) follow(t *testing.T, s *scaled) (nodeID string, view *snapshot.View) {
	t.Helper()
	nodeID, credential := p.join(t, s)
	return nodeID, p.view(t, nodeID, credential)
}

// invite makes an invitation for a node.
func (p *launched) invite(t *testing.T, s *scaled) (token string) {
	t.Helper()
	var access adminAccess
	text, err := os.ReadFile(filepath.Join(s.data, adminFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &access))
	var invited struct{ Token string }
	require.NoError(t, bench.Client{API: p.admin, Key: access.Token}.Do(t.Context(), "POST", "/admin/nodes/invitations", nil, &invited))
	return invited.Token
}

// join has a node join at a process.
func (p *launched) join(t *testing.T, s *scaled) (nodeID, credential string) {
	t.Helper()
	nodeID = api.NewID(api.PrefixNode, time.Now())
	credential, hash := api.NewBearer(nodeID)
	require.NoError(t, bench.Client{API: p.nodes}.Do(t.Context(), "POST", api.PathJoin, joinRequest(t, nodeID, hash, p.invite(t, s)), nil))
	return nodeID, credential
}

// bound is that of nodes here, which it takes to see a lease end.
const bound = 2 * time.Second

// view keeps a node following the feed of a process, and returns once it may sign.
func (p *launched) view(t *testing.T, nodeID, credential string) *snapshot.View {
	t.Helper()
	source, err := snapshot.NewRemote(p.nodes, credential, nil)
	require.NoError(t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: nodeID, Bound: bound})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- view.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; view.Close() })
	require.Eventually(t, func() bool { return view.Fresh() == nil }, time.Minute, time.Millisecond)
	return view
}

// TestControlProcesses has two of them, a node at the second, and a caller who revokes
// at the first.
func TestControlProcesses(t *testing.T) {
	s := newScaled(t)
	planned := s.migrate(t, "--dry-run")
	require.Contains(t, planned, "postgresql: apply 0001_store.sql\n")
	require.Contains(t, planned, "kafka: create topic muniment.events: 4 partitions, 1 replicas")
	require.Contains(t, planned, "nothing was changed\n")
	done := s.migrate(t)
	require.Contains(t, done, "postgresql: apply 0001_store.sql\n")
	require.Equal(t, "everything is up to date\n", s.migrate(t))
	require.Equal(t, "{\"dryRun\":true,\"changes\":[]}\n", s.migrate(t, "--json", "--dry-run"))

	first, second := s.start(t), s.start(t)
	_, notes := first.ready(t)
	require.Contains(t, notes, `{"name":"log","note":"ready"}`)
	require.Contains(t, notes, `ClickHouse database muniment is not ready`)
	client := bench.Client{API: first.api, Key: createTenant(t, s.exe, s.data).APIKey}
	rightID := issueRights(t, client)["DOOH"]
	nodeID, view := second.follow(t, s)
	var revoked, told struct{ Propagation node.Propagation }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/revoke", map[string]any{}, &revoked))
	require.Len(t, revoked.Propagation.Nodes, 1)
	require.Equal(t, nodeID, revoked.Propagation.Nodes[0].NodeID)
	for _, p := range []*launched{first, second} {
		of := bench.Client{API: p.api, Key: client.Key}
		require.Eventually(t, func() bool {
			err := of.Do(t.Context(), "GET", "/v1/rights/"+rightID+"/propagation", nil, &told)
			return err == nil && len(told.Propagation.Nodes) == 1 && told.Propagation.Nodes[0].AppliedRevision >= revoked.Propagation.Revision
		}, time.Minute, 10*time.Millisecond)
		require.True(t, told.Propagation.Applied)
		require.Equal(t, revoked.Propagation.Revision, told.Propagation.Revision)
	}
	require.Eventually(t, func() bool { return view.Fresh() == nil }, time.Minute, time.Millisecond)

	// A process stops, and the other goes on, with the token that both have.
	second.stop(t)
	out, err := exec.Command(s.exe, "tenant", "create", "--data", s.data, "--admin", hostPort(first.admin), "--org", "org_other", "--json").Output()
	require.NoError(t, err, string(out))
	first.stop(t)
}

// TestControlSealsOnTheStack has two processes and a loader on the engines, and seals
// at either process what the other is asked for: the packs are one chain, by keys that
// the root vouches for.
func TestControlSealsOnTheStack(t *testing.T) {
	s := newScaled(t)
	server := os.Getenv("MUNIMENT_TEST_CLICKHOUSE")
	if server == "" {
		require.Empty(t, os.Getenv("MUNIMENT_TEST_STACK"), "the stack is up, but MUNIMENT_TEST_CLICKHOUSE names no server")
		t.Skip("needs ClickHouse: make test-stack, or set MUNIMENT_TEST_CLICKHOUSE")
	}
	s.topic = fmt.Sprintf("muniment.test.%d", time.Now().UnixNano())
	if brokers := os.Getenv("MUNIMENT_TEST_KAFKA"); brokers != "" {
		s.kafka = brokers
	}
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + strings.ReplaceAll(s.topic, ".", "_")
	s.clickhouse = u.String()
	awaitClickHouse(t)
	require.Contains(t, s.migrate(t, "--clickhouse", s.clickhouse, "--dry-run"), "clickhouse: apply 0001_")
	s.migrate(t, "--clickhouse", s.clickhouse)
	require.Equal(t, "everything is up to date\n", s.migrate(t, "--clickhouse", s.clickhouse))

	first, second := s.start(t), s.start(t)
	loader := startLoader(t, s.exe, "--kafka", s.kafka, "--topic", s.topic, "--clickhouse", s.clickhouse, "--from-all")
	one := bench.Client{API: first.api, Key: createTenant(t, s.exe, s.data).APIKey}
	two := bench.Client{API: second.api, Key: one.Key}
	rightID := issueRights(t, one)["DOOH"]
	verifyPacks(t, s.exe, s.data, sealAndExport(t, two))

	var keys node.SigningKeys
	text, err := exec.Command(s.exe, "signing-key", "list", "--data", s.data, "--json").Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &keys))
	i := slices.IndexFunc(keys.Keys, func(k node.SigningKey) bool { return k.Purpose == sealer.PurposePack })
	// The one that started last rotates, the other seals on.
	out, err := exec.Command(s.exe, "signing-key", "rotate", keys.Keys[i].KeyID, "--data", s.data).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, two.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	packs := sealAndExport(t, one)
	require.Len(t, packs, 2)
	verifyPacks(t, s.exe, s.data, packs)
	for n, file := range packs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		header, _, _ := bytes.Cut(text, []byte("\n"))
		require.Equal(t, n == 0, bytes.Contains(header, []byte(`"signingKeyId":"`+keys.Keys[i].KeyID+`"`)))
	}
	_, notes := first.ready(t)
	require.Contains(t, notes, `{"name":"clickhouse","note":"ready"}`)
	loader.stop(t)
	second.stop(t)
	first.stop(t)
}

// TestDatabaseAway cuts the connections to the database, and lets them through again.
func TestDatabaseAway(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	wire := storetest.NewWire(t, s.database)
	s.database = wire.URL
	p := s.start(t)
	client := bench.Client{API: p.api, Key: createTenant(t, s.exe, s.data).APIKey}
	rightID := issueRights(t, client)["DOOH"]

	wire.Cut()
	for _, try := range []func() (*http.Response, error){
		func() (*http.Response, error) { return ask(t, client, "GET", "/v1/rights/"+rightID) },
		func() (*http.Response, error) { return ask(t, client, "POST", "/v1/rights/"+rightID+"/suspend") },
	} {
		resp, err := try()
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, string(text))
		require.Contains(t, string(text), `"reason":"DATABASE_UNAVAILABLE"`)
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
	}
	p.awaitReady(t, http.StatusServiceUnavailable)
	_, told := p.ready(t)
	require.Contains(t, told, `"notReady":[{"name":"database"`)
	late := s.launch(t) // one that starts meanwhile waits
	resp, err := http.Get(late.api + "/v1/rights")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)

	wire.Restore()
	p.awaitReady(t, http.StatusOK)
	late.awaitReady(t, http.StatusOK)
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	require.Eventually(t, func() bool { return strings.Contains(p.log(), "the database is back") }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 1, strings.Count(p.log(), "the database is away"), "once, however often it was tried")
	late.stop(t)
	p.stop(t)
}

// TestDatabaseRestored puts a backup in the place of the database, under processes that
// run and a node. Nothing is signed by it, nobody starts on it, until that is accepted;
// then what was revoked after the backup is revoked.
func TestDatabaseRestored(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	wire := storetest.NewWire(t, s.database)
	s.database = wire.URL
	first, second := s.start(t), s.start(t)
	key := createTenant(t, s.exe, s.data)
	client := bench.Client{API: first.api, Key: key.APIKey}
	rights := issueRights(t, client)
	before, after := rights["DOOH"], rights["CTV"]
	revoke := func(rightID string) {
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/revoke", map[string]any{}, nil))
	}
	stateOf := func(client bench.Client, rightID string) string {
		var told struct{ Right struct{ State string } }
		require.NoError(t, client.Do(t.Context(), "GET", "/v1/rights/"+rightID, nil, &told))
		return told.Right.State
	}
	nodeID, credential := second.join(t, s)
	revoke(before)

	wire.Cut()
	backup := t.TempDir()
	storetest.Copy(t, s.data, backup)
	wire.Restore()
	first.awaitReady(t, http.StatusOK)
	second.awaitReady(t, http.StatusOK)
	view := second.view(t, nodeID, credential)
	_, err := view.Right(t.Context(), key.TenantID, after)
	require.NoError(t, err)
	revoke(after)
	relayed := func() bool {
		resp, err := http.Get(first.admin + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return strings.Contains(string(text), "\nmuniment_store_outbox_events 0\n")
	}
	require.Eventually(t, relayed, time.Minute, 10*time.Millisecond)

	wire.Cut()
	storetest.Replace(t, backup, s.data)
	wire.Restore()
	for _, p := range []*launched{first, second} {
		require.Eventually(t, func() bool { _, told := p.ready(t); return strings.Contains(told, "gone back to an older state") }, time.Minute, 10*time.Millisecond)
		resp, err := ask(t, bench.Client{API: p.api, Key: key.APIKey}, "GET", "/v1/rights/"+after)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	}
	require.Eventually(t, func() bool { return view.Fresh() != nil }, 10*bound, 10*time.Millisecond, "its lease ends, and there is no other")
	refused := s.launch(t)
	require.Error(t, <-refused.exited)
	require.Contains(t, refused.log(), "--accept-rollback")
	first.stop(t)
	second.stop(t)
	require.Error(t, view.Fresh())

	accepting := s.start(t, "--accept-rollback")
	other := s.start(t)
	for _, p := range []*launched{accepting, other} {
		client := bench.Client{API: p.api, Key: key.APIKey}
		require.Equal(t, "REVOKED", stateOf(client, before))
		require.Equal(t, "REVOKED", stateOf(client, after), "revoked in between")
		require.Equal(t, "ACTIVE", stateOf(client, rights["AUDIO"]))
		again := p.view(t, nodeID, credential)
		_, err := again.Right(t.Context(), key.TenantID, after)
		require.Equal(t, api.StateConflict, api.From(err).Code)
	}
	other.stop(t)
	accepting.stop(t)
}

// TestTopicMadeAnew: records of another topic are not those that the database knows.
func TestTopicMadeAnew(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	p := s.start(t)
	createTenant(t, s.exe, s.data)
	p.stop(t) // the marks are written once more
	topic := kafka.Config{Brokers: strings.Split(s.kafka, ","), Topic: s.topic}
	_, err := kafka.Topic{Partitions: 4, Replication: 1, Renew: true}.Migrate(t.Context(), topic, false)
	require.NoError(t, err)
	refused := s.launch(t)
	require.Error(t, <-refused.exited)
	require.Contains(t, refused.log(), "is not the one that the database knows")
	s.start(t, "--accept-rollback").stop(t)
	s.start(t).stop(t)
}

// TestControlTLS serves each listener with a certificate of its own.
func TestControlTLS(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	authority := certstest.New(t)
	nodes, admin := authority.Issue(t, certstest.Leaf{}), authority.Issue(t, certstest.Leaf{})
	refused := exec.Command(s.exe, "control", "--database", s.database, "--kafka", s.kafka, "--clickhouse", s.clickhouse, "--data", s.data,
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nodes-tls-cert", nodes.Cert, "--nodes-tls-key", admin.Key)
	out, err := refused.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "TLS for nodes: the key in "+admin.Key+" is not that of the certificate")

	p := s.launch(t, "--nodes-tls-cert", nodes.Cert, "--nodes-tls-key", nodes.Key, "--admin-tls-cert", admin.Cert, "--admin-tls-key", admin.Key)
	require.True(t, strings.HasPrefix(p.api, "http://"), p.api)
	require.True(t, strings.HasPrefix(p.nodes, "https://"), p.nodes)
	client, err := certs.NewClient(certs.Options{Use: "control"}, certs.ClientFlags{CA: authority.File})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		resp, err := client.HTTP().Get(p.admin + "/readyz")
		if err != nil {
			return false
		}
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	createTenant(t, s.exe, s.data) // it knows the certificate by the data folder
	source, err := snapshot.NewRemote(p.nodes, "nod_x.y", client.HTTP())
	require.NoError(t, err)
	_, err = source.Feed(t.Context(), api.FeedRequest{})
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	_, err = http.Get(p.nodes)
	require.ErrorContains(t, err, "certificate")
	p.stop(t)
}

func ask(t *testing.T, client bench.Client, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, client.API+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+client.Key)
	return http.DefaultClient.Do(req)
}

// joinRequest is a node's, with a key that it made itself.
func joinRequest(t *testing.T, nodeID, credentialHash, invitation string) api.JoinRequest {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key := base64.RawURLEncoding.EncodeToString(public)
	return api.JoinRequest{
		Invitation: invitation, NodeID: nodeID, PublicKey: key, CredentialHash: credentialHash,
		Signature: base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, api.JoinText(nodeID, key, credentialHash, invitation))),
	}
}

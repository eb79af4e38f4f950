package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment/bench/system"
	"muniment/control/store/storetest"
	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/pipeline"
	"muniment/pipeline/clickhouse"
	"muniment/pipeline/kafka"
	"muniment/sealer"
)

// The fixture of the tests that need the engines of make stack. Each of them has OnTheStack
// behind its name, but for the faults of newTrial: make test-stack finds them by that.

// onTheStack is where an engine of the stack is. Without the stack the test is skipped; with
// it, none is.
func onTheStack(t *testing.T, engine string) (address string) {
	t.Helper()
	if address = os.Getenv("MUNIMENT_TEST_" + engine); address == "" {
		require.Empty(t, os.Getenv("MUNIMENT_TEST_STACK"), "the stack is up, but MUNIMENT_TEST_%s is not set", engine)
		t.Skip("needs the engines: make test-stack")
	}
	if engine == "CLICKHOUSE" && os.Getenv("MUNIMENT_TEST_CLICKHOUSE_HTTP") != "" {
		// It may have ended with a loader that a test before killed, and be starting again.
		until(t, func() bool { return query("SELECT 1") == nil }, "ClickHouse answers")
	}
	return address
}

// engines are those of the stack.
func engines(t *testing.T) system.Engines {
	t.Helper()
	return system.Engines{Kafka: onTheStack(t, "KAFKA"), ClickHouse: onTheStack(t, "CLICKHOUSE"), Database: onTheStack(t, "POSTGRES")}
}

// warehouseAt is a database of its own on the stack's ClickHouse.
func warehouseAt(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(onTheStack(t, "CLICKHOUSE"))
	require.NoError(t, err)
	u.Path = "/" + strings.ReplaceAll(name, ".", "_")
	return u.String()
}

// cluster raises one, and ends it with the test.
func cluster(t *testing.T, size system.Size) *system.Cluster {
	t.Helper()
	c := &system.Cluster{Exe: "muniment", Dir: t.TempDir(), Engines: engines(t)}
	t.Cleanup(c.End)
	require.NoError(t, c.Raise(t.Context(), size))
	return c
}

// registerOn makes a tenant with rights.
func registerOn(t *testing.T, c *system.Cluster) (client system.Client, rights map[string]string) {
	t.Helper()
	client = system.Client{API: c.APIs()[0], Key: createTenant(t, c.Operator().Data).APIKey}
	return client, issueRights(t, client)
}

// scaledOut is two gateways, two control processes and a loader. A request goes to any of
// the gateways, and on to any of control's processes, whichever had the one before.
func scaledOut(t *testing.T) (*service, *system.Cluster) {
	limits(t)
	c := cluster(t, system.Size{Gateways: 2, Loaders: 1, Controls: 2, Partitions: 4})
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(c.APIs()[rand.N(len(c.Gateways))])
		require.NoError(t, err)
		r.SetURL(to)
		r.Out.Host = r.In.Host // links lead to the front
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	warehouse, err := clickhouse.Open(t.Context(), clickhouse.Config{URL: c.ClickHouse})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	events := func(tenantID string, after *sealer.Position) (list []logged) {
		rows, err := warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenantID, After: after, Limit: 500})
		require.NoError(t, err)
		for _, row := range rows {
			list = append(list, readLogged(t, row.Position, row.Record.Event))
		}
		return list
	}
	s := notStarted(t, c.Operator().Data)
	s.server, s.client.API, s.events = &system.Server{API: front.URL, Admin: c.Operator().Admin, Data: s.data}, front.URL, events
	return s, c
}

// limits has processes that are started from here on take contractFlags.
func limits(t *testing.T) {
	t.Setenv("MUNIMENT_TRUSTED_PROXIES", "1")
	t.Setenv("MUNIMENT_SANDBOX_BURST", "200")
}

// anyAddress is one that no other request comes from. Of IPv6 addresses the limits count the
// first half.
func anyAddress() string {
	return fmt.Sprintf("2001:db8:%x:%x::1", rand.N(1<<16), rand.N(1<<16))
}

// scaled is what control processes share: a database, a topic, a warehouse, which is
// away unless a test has one, and a data folder.
type scaled struct {
	data, database, kafka, topic, clickhouse string
}

func newScaled(t *testing.T) *scaled {
	t.Helper()
	onTheStack(t, "POSTGRES")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	s := &scaled{
		data: filepath.Join(t.TempDir(), "data"), kafka: strings.Join(cluster.ListenAddrs(), ","),
		topic: kafka.DefaultTopic, clickhouse: "clickhouse://127.0.0.1:1/muniment",
	}
	_, s.database = storetest.Place(t, s.data)
	return s
}

// migrate runs the command and returns what it printed.
func (s *scaled) migrate(t *testing.T, more ...string) string {
	t.Helper()
	args := append([]string{"migrate", "--kafka", s.kafka, "--topic", s.topic, "--partitions", "4", "--replication", "1", "--database", s.database}, more...)
	return muniment(t, args...)
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
	return launch(t, append([]string{
		"control", "--database", s.database, "--kafka", s.kafka, "--topic", s.topic, "--clickhouse", s.clickhouse, "--data", s.data,
		"--listen", "127.0.0.1:0", "--nodes", "127.0.0.1:0", "--admin", "127.0.0.1:0",
	}, more...)...)
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
	return parse[struct{ Token string }](t, muniment(t, "node", "invite", "--data", s.data, "--admin", hostPort(p.admin), "--json")).Token
}

// join has a node join at a process.
func (p *launched) join(t *testing.T, s *scaled) (nodeID, credential string) {
	t.Helper()
	nodeID = api.NewID(api.PrefixNode, time.Now())
	credential, hash := api.NewBearer(nodeID)
	require.NoError(t, system.Client{API: p.nodes}.Do(t.Context(), "POST", api.PathJoin, joinRequest(t, nodeID, hash, p.invite(t, s)), nil))
	return nodeID, credential
}

// bound is that of nodes here, which it takes to see a lease end.
const bound = 2 * time.Second

// view keeps a node following the feed of a process, and returns once it may sign.
func (p *launched) view(t *testing.T, nodeID, credential string) *snapshot.View {
	t.Helper()
	source, err := snapshot.NewRemote(p.nodes, credential, nil)
	require.NoError(t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: nodeID, LeaseBound: bound})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- view.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; view.Close() })
	until(t, func() bool { return view.Fresh() == nil })
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

// startLoader starts a loader.
func startLoader(t *testing.T, args ...string) *launched {
	t.Helper()
	return launch(t, append([]string{"pipeline", "--admin", "127.0.0.1:0"}, args...)...)
}

// eventTopic makes a topic of eight partitions, on a real cluster if there is one.
func eventTopic(t *testing.T) kafka.Config {
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

// query runs a statement on the stack's ClickHouse.
func query(statement string) error {
	_, err := selected(statement)
	return err
}

// selected is query for what the statement returns, a line a row.
func selected(statement string) (text string, err error) {
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

// TestStackIsInTheName holds the names of the tests here against what they use: who gets to
// onTheStack, through whatever functions, has OnTheStack behind its name, or is a trial of a
// fault, and no other test has.
func TestStackIsInTheName(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	calls := map[string]map[string]bool{} // by function: those that it calls
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				named := map[string]bool{}
				ast.Inspect(f, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						if id, ok := call.Fun.(*ast.Ident); ok {
							named[id.Name] = true
						}
					}
					return true
				})
				calls[f.Name.Name] = named
			}
		}
	}
	var reaches func(name string, seen map[string]bool) bool
	reaches = func(name string, seen map[string]bool) bool {
		if name == "onTheStack" || seen[name] {
			return name == "onTheStack"
		}
		seen[name] = true
		for next := range calls[name] {
			if calls[next] != nil && reaches(next, seen) {
				return true
			}
		}
		return false
	}
	for name := range calls {
		if strings.HasPrefix(name, "Test") && name != t.Name() && !strings.HasPrefix(name, "TestFault") {
			require.Equal(t, strings.HasSuffix(name, "OnTheStack"), reaches(name, map[string]bool{}), name)
		}
	}
}

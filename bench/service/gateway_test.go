package service

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
)

// TestGatewayWaitsForControl: meanwhile its port refuses, so that a balancer goes to
// another node, and /readyz shows operators what it waits for.
func TestGatewayWaitsForControl(t *testing.T) {
	t.Parallel()
	gateway := func(listen string) []string {
		return []string{"gateway", "--kafka", "127.0.0.1:1", "--control", "127.0.0.1:1", "--nodes", "http://127.0.0.1:1",
			"--invitation", "x", "--data", t.TempDir(), "--listen", listen, "--admin", "127.0.0.1:0"}
	}
	p := systemtest.Launch(t, gateway("127.0.0.1:0")...)
	require.Equal(t, http.StatusServiceUnavailable, p.AwaitNote(t, "waiting for control"))
	_, err := net.Dial("tcp", systemtest.HostPort(p.Api))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	p.Stop(t)

	require.Contains(t, systemtest.Fails(t, gateway("127.0.0.1:-1")...), "must be HOST:PORT", "what can't be listened on ends it at once")
}

// TestGatewayThatMayNotSign does not listen: each delivery that came would be one that
// fails, and one that another node could have answered.
func TestGatewayThatMayNotSign(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var away atomic.Int64 // how long the node was silent, in control's eyes
	began := time.Now()
	keys, members, at := nodesControl(t, func() time.Duration { return time.Since(began) + time.Duration(away.Load()) })
	invited, err := members.Invite(t.Context(), store.ByOperator())
	require.NoError(t, err)
	start := func() *systemtest.Launched {
		return systemtest.Launch(t, "gateway", "--kafka", "127.0.0.1:1", "--control", "127.0.0.1:1", "--nodes", at,
			"--invitation", invited.Token, "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	}
	p := start()
	p.AwaitReady(t, http.StatusOK)
	c, err := net.Dial("tcp", systemtest.HostPort(p.Api))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	p.Stop(t)
	away.Store(int64(time.Hour))

	list, err := keys.SigningKeys(t.Context())
	require.NoError(t, err)
	nodeID := list.Keys[slices.IndexFunc(list.Keys, func(k signing.SigningKey) bool { return strings.HasPrefix(k.NodeID, "nod_") })].NodeID
	_, err = members.Expel(t.Context(), nodeID, node.Expulsion{}, store.ByOperator())
	require.ErrorContains(t, err, "its spool may hold receipts") // and it is ordered to leave when it is back
	p = start()
	p.AwaitNote(t, "was asked to leave")
	_, err = net.Dial("tcp", systemtest.HostPort(p.Api))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = members.Expel(t.Context(), nodeID, node.Expulsion{}, store.ByOperator())
	require.NoError(t, err, "it leaves all the same")
	p.Stop(t)
}

// TestGatewayOnACopiedFolder runs two processes on copies of one data folder: the one that started earlier is
// ready until its lease ends, and /readyz then says why it is not. The other one stays ready. A process that
// was killed and is started again on its folder is ready, too.
func TestGatewayOnACopiedFolder(t *testing.T) {
	t.Parallel()
	data, copied := t.TempDir(), filepath.Join(t.TempDir(), "copied")
	_, members, at := nodesControl(t, nil)
	invited, err := members.Invite(t.Context(), store.ByOperator())
	require.NoError(t, err)
	start := func(data string) *systemtest.Launched {
		p := systemtest.Launch(t, systemtest.StartNode(data, at, "--kafka", "127.0.0.1:1", "--invitation", invited.Token, "--bound", "1s")...)
		p.AwaitReady(t, http.StatusOK)
		return p
	}
	start(data).Kill()
	require.NoError(t, os.CopyFS(copied, os.DirFS(data)))
	require.NoError(t, filepath.WalkDir(copied, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	}))
	first, second := start(data), start(copied)
	require.Equal(t, http.StatusServiceUnavailable, first.AwaitNote(t, "another process runs as this node"))
	second.AwaitReady(t, http.StatusOK)
	first.Stop(t)
	second.Kill()
	second = start(copied)
	second.Stop(t)
}

// TestGatewayKilledAsItJoins kills the process at one request after the other of its first
// start, before control receives the request or before the response arrives, and starts it again
// with another invitation each time. It ends as one node with one key.
func TestGatewayKilledAsItJoins(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	keys, members, at := nodesControl(t, nil)
	to, err := url.Parse(at)
	require.NoError(t, err)
	type moment struct {
		path    string
		arrived bool // by control
	}
	kills := []moment{{api.PathStart, false}, {api.PathJoin, false}, {api.PathJoin, true}, {api.PathStart, false}, {api.PathStart, true}}
	var next atomic.Pointer[moment]
	hangs := make(chan struct{})
	forward := httputil.NewSingleHostReverseProxy(to)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		m := next.Load()
		if m == nil || m.path != q.URL.Path {
			forward.ServeHTTP(w, q)
			return
		}
		if m.arrived {
			forward.ServeHTTP(httptest.NewRecorder(), q)
		}
		_, _ = io.Copy(io.Discard, q.Body) // or the server does not notice that the process is gone
		select {
		case hangs <- struct{}{}:
			<-q.Context().Done()
		case <-q.Context().Done(): // it sends the request again
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(door.Close)
	start := func() *systemtest.Launched {
		invited, err := members.Invite(t.Context(), store.ByOperator())
		require.NoError(t, err)
		return systemtest.Launch(t, "gateway", "--kafka", "127.0.0.1:1", "--control", "127.0.0.1:1", "--nodes", door.URL,
			"--invitation", invited.Token, "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	}
	for _, m := range kills {
		next.Store(&m)
		p := start()
		<-hangs
		p.Kill()
	}
	next.Store(nil)
	p := start()
	p.AwaitReady(t, http.StatusOK)
	list, err := keys.SigningKeys(t.Context())
	require.NoError(t, err)
	joined := slices.DeleteFunc(list.Keys, func(k signing.SigningKey) bool { return !strings.HasPrefix(k.NodeID, "nod_") })
	require.Len(t, joined, 1)
	_, err = members.Expel(t.Context(), joined[0].NodeID, node.Expulsion{}, store.ByOperator())
	require.NoError(t, err)
	p.Stop(t)
}

// nodesControl is the part of control that nodes speak to, in this process.
func nodesControl(t *testing.T, clock func() time.Duration) (keys *signing.Service, members *node.Service, url string) {
	t.Helper()
	keys, members, nodes := nodesHandler(t, node.Config{Clock: clock})
	server := httptest.NewServer(nodes)
	t.Cleanup(server.Close)
	return keys, members, server.URL
}

func nodesHandler(t *testing.T, cfg node.Config) (keys *signing.Service, members *node.Service, nodes http.Handler) {
	t.Helper()
	keys, members, c := controlOf(t, cfg)
	return keys, members, c.Nodes()
}

// controlOf is control without what delivers and proves.
func controlOf(t *testing.T, cfg node.Config) (keys *signing.Service, members *node.Service, c *control.Control) {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "control.db")}) // on PostgreSQL the clock would be that
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	keys, err = signing.New(t.Context(), signing.Config{DB: db, Dir: filepath.Join(dir, "keys"), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	cfg.DB, cfg.Keys, cfg.Logger = db, keys, slog.New(slog.DiscardHandler)
	members, err = node.New(t.Context(), cfg)
	require.NoError(t, err)
	none := func(context.Context, string) (int64, error) { return 0, nil }
	tenants, err := tenant.New(tenant.Config{DB: db, Nodes: members, Counters: tenant.Counters{Bases: none, Rights: none, Events: none}})
	require.NoError(t, err)
	c, err = control.New(control.Config{
		DB: db, Keys: keys, Nodes: members, Tenants: tenants, Services: []control.Service{keys, tenants}, Log: new(conform.MemoryLog), AdminToken: "token",
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return keys, members, c
}

package identity

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// controlFixture is control with its real routes over HTTP, with faults that a test injects.
type controlFixture struct {
	t      *testing.T
	keys   *signing.Service
	nodes  *node.Service
	cfg    node.Config // of nodes
	db     *store.DB
	source *control.Source // for nodes in control's process
	routes http.Handler    // of nodes

	metrics *prometheus.Registry
	server  *httptest.Server
	ahead   atomic.Int64 // by which control's clocks are ahead: see pass

	mu sync.Mutex
	// injector returns the fault of each request. Nil: no faults.
	injector func(path string) fault
}

// fault is what happens to a request.
type fault int

const (
	noFault     fault = iota
	unreachable       // control does not receive the request
	answerLost        // control serves the request, and its response is lost
)

func newControl(t *testing.T, changes ...func(*node.Config)) *controlFixture {
	t.Helper()
	h := &controlFixture{t: t, metrics: prometheus.NewRegistry()}
	dir := t.TempDir()
	var err error
	path, url := storetest.Place(t, dir)
	h.db, err = store.Open(t.Context(), store.Config{Path: path, URL: url, Now: func() time.Time { return time.Now().Add(h.passed()) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.db.Close()) })
	h.keys, err = signing.New(t.Context(), signing.Config{DB: h.db, Dir: filepath.Join(dir, "keys")})
	require.NoError(t, err)
	started := time.Now()
	cfg := node.Config{DB: h.db, Keys: h.keys, DrainFor: time.Hour, Registerer: h.metrics, Clock: func() time.Duration { return time.Since(started) + h.passed() }}
	for _, change := range changes {
		change(&cfg)
	}
	h.cfg = cfg
	h.nodes, err = node.New(t.Context(), cfg)
	require.NoError(t, err)
	zero := func(context.Context, string) (int64, error) { return 0, nil }
	tenants, err := tenant.New(tenant.Config{DB: h.db, Nodes: h.nodes, Counters: tenant.Counters{Bases: zero, Rights: zero, Events: zero}})
	require.NoError(t, err)
	c, err := control.New(control.Config{
		DB: h.db, Keys: h.keys, Nodes: h.nodes, Tenants: tenants, Services: []control.Service{h.keys, tenants}, Log: noLog{}, AdminToken: "token",
	})
	require.NoError(t, err)
	h.source, h.routes = c.Source(), c.Nodes()
	h.serve()
	return h
}

// behind is the same control behind a server of its own, with faults of its own.
func (h *controlFixture) behind(t *testing.T) *controlFixture {
	t.Helper()
	other := &controlFixture{t: t, keys: h.keys, nodes: h.nodes, db: h.db, routes: h.routes}
	other.serve()
	return other
}

func (h *controlFixture) serve() {
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.PathJoin && r.Header.Get("Authorization") != "" {
			h.t.Error("a request to join has a credential")
		}
		h.mu.Lock()
		injected := noFault
		if h.injector != nil {
			injected = h.injector(r.URL.Path)
		}
		h.mu.Unlock()
		switch injected {
		case noFault:
			h.routes.ServeHTTP(w, r)
			return
		case answerLost:
			h.routes.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		}
		panic(http.ErrAbortHandler)
	}))
	h.server.Config.ErrorLog = nil
	h.t.Cleanup(h.server.Close)
}

type noLog struct{}

func (noLog) AppendInOrder(_ context.Context, rs []*sealer.Record) (int, error) {
	return len(rs), nil
}

// pass lets time pass for control, and not for nodes.
func (h *controlFixture) pass(d time.Duration) { h.ahead.Add(int64(d)) }

func (h *controlFixture) passed() time.Duration { return time.Duration(h.ahead.Load()) }

func (h *controlFixture) inject(injector func(path string) fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.injector = injector
}

func (h *controlFixture) invite() string {
	h.t.Helper()
	v, err := h.nodes.Invite(h.t.Context(), store.ByOperator())
	require.NoError(h.t, err)
	return v.Token
}

func (h *controlFixture) config(dir string) Config {
	return Config{Dir: dir, Control: []string{h.server.URL}, Client: h.server.Client()}
}

// spooling returns the config of a node that can join, and has records in its spool while spooled
// is true. checked receives when the node checks its spool.
func (h *controlFixture) spooling() (cfg Config, spooled *atomic.Bool, checked <-chan struct{}) {
	h.t.Helper()
	spooled = new(atomic.Bool)
	spooled.Store(true)
	checks := make(chan struct{}, 1)
	cfg = h.config(h.t.TempDir())
	cfg.Invitation = h.invite()
	cfg.Drained = func() bool {
		select {
		case checks <- struct{}{}:
		default:
		}
		return !spooled.Load()
	}
	return cfg, spooled, checks
}

// sealing returns a revocation that sets sealed when it seals, and fails the test if there are
// records in the spool by then.
func sealing(t *testing.T, spooled *atomic.Bool) (q signing.Revocation, sealed *atomic.Bool) {
	sealed = new(atomic.Bool)
	return signing.Revocation{Seal: func(context.Context, string, string) ([]signing.Unsealed, error) {
		sealed.Store(true)
		if spooled.Load() {
			t.Error("sealed before the spool was drained")
		}
		return nil, nil
	}}, sealed
}

// open opens a node with an invitation.
func (h *controlFixture) open(dir string) *Node {
	h.t.Helper()
	cfg := h.config(dir)
	cfg.Invitation = h.invite()
	n, err := Open(h.t.Context(), cfg)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = n.Close() })
	return n
}

// follow runs a node, and a view that applies the feed to it, until end is called.
func (h *controlFixture) follow(n *Node) (end func()) {
	h.t.Helper()
	source, err := snapshot.NewRemote([]string{h.server.URL}, n.Credential(), h.server.Client())
	require.NoError(h.t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: n.ID(), Epoch: n.Epoch(), Signer: n})
	require.NoError(h.t, err)
	end = h.background(view, n)
	waittest.Until(h.t, func() bool { return view.Fresh() == nil })
	return end
}

// background runs a node and its view until end is called.
func (h *controlFixture) background(view *snapshot.View, n *Node) (end func()) {
	ctx, stop := context.WithCancel(h.t.Context())
	var both sync.WaitGroup
	both.Go(func() { _ = view.Run(ctx) })
	both.Go(func() { _ = n.Run(ctx) })
	end = sync.OnceFunc(func() {
		stop()
		both.Wait()
		view.Close()
	})
	h.t.Cleanup(end)
	return end
}

// signed is a signature for a time.
type signed struct {
	at        time.Time
	keyID     string
	signature []byte
}

var text = []byte("a receipt")

// sign signs for a time as a delivery does.
func (n *Node) sign(at time.Time) (signed, error) {
	s, release, err := n.Signer(context.Background(), at)
	if err != nil {
		return signed{}, err
	}
	defer release()
	signature, err := s.Key.Sign(nil, text, crypto.Hash(0))
	return signed{at.UTC().Truncate(time.Millisecond), s.KeyID, signature}, err
}

// requireValid verifies signatures by the published directory, as an auditor does.
func (h *controlFixture) requireValid(all ...signed) {
	h.t.Helper()
	published, err := h.keys.Directory(h.t.Context())
	require.NoError(h.t, err)
	d, err := keydir.Verify(published, h.keys.RootVkey())
	require.NoError(h.t, err)
	for _, s := range all {
		pub, code := d.Find(s.keyID, keydir.PurposeReceipt, s.at)
		require.Empty(h.t, code, "key %s at %s", s.keyID, s.at)
		require.True(h.t, ed25519.Verify(pub, text, s.signature))
	}
}

// keysOf returns the node's keys at control, oldest first.
func (h *controlFixture) keysOf(nodeID string) (keys []signing.SigningKey) {
	h.t.Helper()
	list, err := h.keys.SigningKeys(h.t.Context())
	require.NoError(h.t, err)
	for _, k := range list.Keys {
		if k.NodeID == nodeID {
			keys = append(keys, k)
		}
	}
	return keys
}

func keyFiles(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.key"))
	require.NoError(t, err)
	return files
}

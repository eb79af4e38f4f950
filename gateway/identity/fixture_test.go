package identity

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control"
	"muniment/control/node"
	"muniment/control/signing"
	"muniment/control/store"
	"muniment/control/store/storetest"
	"muniment/control/tenant"
	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

// controlFixture is control with its real routes over HTTP, which a test can make fail.
type controlFixture struct {
	t      *testing.T
	signs  *signing.Service
	nodes  *node.Service
	db     *store.DB
	server *httptest.Server

	mu sync.Mutex
	// fault decides over a request: it may say that control is away, or that the answer
	// is lost. Nil: neither.
	fault func(path string) trouble
}

// trouble is what befalls a request.
type trouble int

const (
	none trouble = iota
	away         // control does not get it
	lost         // control has done it, and its answer gets lost
)

func newControl(t *testing.T, changes ...func(*node.Config)) *controlFixture {
	t.Helper()
	h := &controlFixture{t: t}
	dir := t.TempDir()
	var err error
	path, url := storetest.Place(t, dir)
	h.db, err = store.Open(t.Context(), store.Config{Path: path, URL: url})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.db.Close()) })
	h.signs, err = signing.New(t.Context(), signing.Config{DB: h.db, Dir: filepath.Join(dir, "keys")})
	require.NoError(t, err)
	cfg := node.Config{DB: h.db, Keys: h.signs}
	for _, change := range changes {
		change(&cfg)
	}
	h.nodes, err = node.New(t.Context(), cfg)
	require.NoError(t, err)
	no := func(context.Context, string) (int64, error) { return 0, nil }
	tenants, err := tenant.New(tenant.Config{DB: h.db, Nodes: h.nodes, Counters: tenant.Counters{Bases: no, Rights: no, Events: no}})
	require.NoError(t, err)
	c, err := control.New(control.Config{
		DB: h.db, Keys: h.signs, Nodes: h.nodes, Tenants: tenants, Services: []control.Service{h.signs, tenants}, Log: nowhere{}, AdminToken: "token",
	})
	require.NoError(t, err)
	nodes := c.Nodes()
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.PathJoin && r.Header.Get("Authorization") != "" {
			t.Error("a request to join holds a secret")
		}
		h.mu.Lock()
		befalls := none
		if h.fault != nil {
			befalls = h.fault(r.URL.Path)
		}
		h.mu.Unlock()
		switch befalls {
		case none:
			nodes.ServeHTTP(w, r)
			return
		case lost:
			nodes.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		}
		panic(http.ErrAbortHandler)
	}))
	h.server.Config.ErrorLog = nil
	t.Cleanup(h.server.Close)
	return h
}

type nowhere struct{}

func (nowhere) Append(context.Context, *sealer.Record) (sealer.Position, error) {
	return sealer.Position{}, errors.New("there is no relay here")
}

func (h *controlFixture) setFault(fault func(path string) trouble) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = fault
}

func (h *controlFixture) invite() string {
	h.t.Helper()
	v, err := h.nodes.Invite(h.t.Context(), store.ByOperator())
	require.NoError(h.t, err)
	return v.Token
}

func (h *controlFixture) config(dir string) Config {
	return Config{Dir: dir, Control: h.server.URL, Client: h.server.Client()}
}

// spooling is the config of a node that may join, and has something in its spool while
// spooled says so. asked holds a token once it was asked.
func (h *controlFixture) spooling() (cfg Config, spooled *atomic.Bool, asked <-chan struct{}) {
	h.t.Helper()
	spooled = new(atomic.Bool)
	spooled.Store(true)
	tokens := make(chan struct{}, 1)
	cfg = h.config(h.t.TempDir())
	cfg.Invitation = h.invite()
	cfg.Drained = func() bool {
		select {
		case tokens <- struct{}{}:
		default:
		}
		return !spooled.Load()
	}
	return cfg, spooled, tokens
}

// sealing is a revocation that notes that it has sealed, which it may not while there is
// something in the spool.
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

// open opens a node that may join.
func (h *controlFixture) open(dir string) *Node {
	h.t.Helper()
	cfg := h.config(dir)
	cfg.Invitation = h.invite()
	n, err := Open(h.t.Context(), cfg)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = n.Close() })
	return n
}

// follow runs a node and a view that applies the feed to it, until end is called.
func (h *controlFixture) follow(n *Node) (end func()) {
	h.t.Helper()
	source, err := snapshot.NewRemote(h.server.URL, n.Credential(), h.server.Client())
	require.NoError(h.t, err)
	view, err := snapshot.New(snapshot.Config{Source: source, NodeID: n.ID(), Signer: n})
	require.NoError(h.t, err)
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
	require.Eventually(h.t, func() bool { return view.Fresh() == nil }, time.Minute, time.Millisecond)
	return end
}

// signed is a signature of a moment.
type signed struct {
	at        time.Time
	keyID     string
	signature []byte
}

var text = []byte("a receipt")

// sign signs for a moment as a delivery does.
func (n *Node) sign(at time.Time) (signed, error) {
	s, done, err := n.Signer(context.Background(), at)
	if err != nil {
		return signed{}, err
	}
	defer done()
	signature, err := s.Key.Sign(nil, text, crypto.Hash(0))
	return signed{at.UTC().Truncate(time.Millisecond), s.KeyID, signature}, err
}

// requireValid holds signatures against the directory as an auditor has it.
func (h *controlFixture) requireValid(all ...signed) {
	h.t.Helper()
	published, err := h.signs.Directory(h.t.Context())
	require.NoError(h.t, err)
	d, err := sealer.VerifyDirectory(published, h.signs.RootVkey())
	require.NoError(h.t, err)
	for _, s := range all {
		pub, code := d.Find(s.keyID, sealer.PurposeReceipt, s.at)
		require.Empty(h.t, code, "key %s at %s", s.keyID, s.at)
		require.True(h.t, ed25519.Verify(pub, text, s.signature))
	}
}

// keys are the node's keys at control, oldest first.
func (h *controlFixture) keys(nodeID string) (keys []signing.SigningKey) {
	h.t.Helper()
	list, err := h.signs.SigningKeys(h.t.Context())
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

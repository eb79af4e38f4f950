package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
)

// certified starts control behind TLS, where nodes join by certificates of authority. config returns
// the config of a node with a certificate.
func certified(t *testing.T) (h *controlFixture, config func(dir string, pair certstest.Pair) Config, authority *certstest.Authority) {
	t.Helper()
	authority, transport := certstest.New(t), certstest.New(t)
	nodeCA, err := certs.NewAuthorities(certs.Options{Use: "joining"}, authority.File, transport.File)
	require.NoError(t, err)
	h = newControl(t, func(c *node.Config) { c.NodeCA = nodeCA.Source() })
	own := transport.Issue(t, certstest.Leaf{})
	secure := httptest.NewUnstartedServer(h.server.Config.Handler)
	secure.TLS, err = certs.Server(certs.Options{Use: "nodes"}, certs.ServerFlags{Cert: own.Cert, Key: own.Key, HandlerCA: nodeCA})
	require.NoError(t, err)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	client, err := certs.NewClient(certs.Options{Use: "nodes"}, certs.ClientFlags{CA: transport.File})
	require.NoError(t, err)
	return h, func(dir string, pair certstest.Pair) Config {
		return Config{Dir: dir, Control: []string{secure.URL}, Client: client.HTTP(), Certificate: func() (*http.Client, string, error) {
			client, leaf, err := certs.NewFixed(certs.Options{Use: "joining"}, certs.ClientFlags{CA: transport.File, Cert: pair.Cert, Key: pair.Key})
			if err != nil {
				return nil, "", err
			}
			hash := sha256.Sum256(leaf.Raw)
			return client.HTTP(), hex.EncodeToString(hash[:]), nil
		}}
	}, authority
}

// TestFirstStartByCertificate: the node needs no invitation, and no certificate once it has joined,
// even if the first response is lost.
func TestFirstStartByCertificate(t *testing.T) {
	h, config, authority := certified(t)
	pair := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}})
	dir := t.TempDir()
	var requests atomic.Int64
	h.inject(func(path string) fault {
		if path == api.PathJoin && requests.Add(1) == 1 {
			return answerLost
		}
		return noFault
	})
	n, err := Open(t.Context(), config(dir, pair))
	require.NoError(t, err)
	require.Equal(t, int64(2), requests.Load())
	require.Len(t, h.keysOf(n.ID()), 1)
	require.NoError(t, n.Close())

	require.NoError(t, os.Remove(pair.Cert))
	again, err := Open(t.Context(), config(dir, pair))
	require.NoError(t, err)
	require.Equal(t, n.ID(), again.ID())
	require.Equal(t, uint64(2), again.Epoch())
	require.NoError(t, again.Close())
	require.Equal(t, int64(2), requests.Load())
	require.Equal(t, 1, h.count()["node.joined"])
}

func TestCertificateErrorsSayWhatToDo(t *testing.T) {
	h, config, authority := certified(t)
	pair := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}})
	cfg := config(t.TempDir(), pair)
	cfg.Invitation = "inv_x.y"
	_, err := Open(t.Context(), cfg)
	require.ErrorContains(t, err, "not by both")
	_, err = Open(t.Context(), h.config(t.TempDir()))
	require.ErrorContains(t, err, "neither an invitation nor a certificate")
	_, err = Open(t.Context(), config(t.TempDir(), certstest.Pair{Cert: "none", Key: "none"}))
	require.ErrorContains(t, err, "cannot join by a certificate: ")
	refused := func(dir string, pair certstest.Pair, message string) {
		t.Helper()
		_, err := Open(t.Context(), config(dir, pair))
		require.ErrorContains(t, err, message)
		require.NotContains(t, err.Error(), "invitation is used")
	}
	refused(t.TempDir(), authority.Issue(t, certstest.Leaf{}), "it has 0 URIs")
	refused(t.TempDir(), certstest.New(t).Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}}), "it was not issued by an authority in control's --node-ca")

	dir := t.TempDir()
	n, err := Open(t.Context(), config(dir, pair))
	require.NoError(t, err)
	require.NoError(t, n.Close())
	requireWaits(t, config(t.TempDir(), pair), "the name edge-0 belongs to the node "+n.ID())
	_, err = h.nodes.Expel(t.Context(), n.ID(), node.Expulsion{AbandonSpool: true}, store.ByOperator())
	require.NoError(t, err)
	refused(dir, pair, "move "+dir+" away (only this folder, not the spool beside it), and start the node again")
	// It joins once an operator has lifted the bar, and needs no other start.
	waiting := config(t.TempDir(), pair)
	unbar := sync.OnceFunc(func() {
		_, err := h.nodes.Unbar(t.Context(), "edge-0", store.ByOperator())
		require.NoError(t, err)
	})
	waiting.Waiting = func(err error) {
		require.ErrorContains(t, err, "muniment node unbar edge-0")
		unbar()
	}
	n, err = Open(t.Context(), waiting)
	require.NoError(t, err)
	require.NoError(t, n.Close())
}

// requireWaits requires that a node that starts waits because of its name.
func requireWaits(t *testing.T, cfg Config, why ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cfg.Waiting = func(err error) {
		stop()
		for _, text := range why {
			require.ErrorContains(t, err, text)
		}
	}
	_, err := Open(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
}

// TestExpulsionUnderWayBarsTheName: once an operator has asked a stolen node to leave, its
// certificate lets no other node join, even while the expulsion has not completed.
func TestExpulsionUnderWayBarsTheName(t *testing.T) {
	stacktest.WithoutPostgres(t) // the database's clock
	h, config, authority := certified(t)
	pair := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}})
	stolen, err := Open(t.Context(), config(t.TempDir(), pair))
	require.NoError(t, err)
	require.NoError(t, stolen.Close())
	h.pass(time.Minute)
	_, err = h.nodes.Expel(t.Context(), stolen.ID(), node.Expulsion{}, store.ByOperator())
	require.ErrorContains(t, err, "or force it")
	h.pass(time.Minute)
	barred := func(because string) {
		t.Helper()
		requireWaits(t, config(t.TempDir(), pair), "the name edge-0 is barred because "+because, "muniment node unbar edge-0")
	}
	barred("an operator asked its node " + stolen.ID() + " to leave")
	_, err = h.nodes.Expel(t.Context(), stolen.ID(), node.Expulsion{Revocation: signing.Revocation{Force: true}}, store.ByOperator())
	require.NoError(t, err)
	barred("its node " + stolen.ID() + " was expelled")
	_, err = h.nodes.Unbar(t.Context(), "edge-0", store.ByOperator())
	require.NoError(t, err)
	n, err := Open(t.Context(), config(t.TempDir(), pair))
	require.NoError(t, err)
	require.NoError(t, n.Close())
}

// TestRestoredControlAcceptsCertificateAgain: control was restored without the node, which joins
// again by itself.
func TestRestoredControlAcceptsCertificateAgain(t *testing.T) {
	h, config, authority := certified(t)
	pair := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}})
	dir := t.TempDir()
	n, err := Open(t.Context(), config(dir, pair))
	require.NoError(t, err)
	require.NoError(t, n.Close())
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		for _, table := range []string{"node_names", "node_credentials", "nodes"} {
			if _, err := tx.ExecContext(t.Context(), `DELETE FROM `+table); err != nil {
				return err
			}
		}
		return nil
	}))
	again, err := Open(t.Context(), config(dir, pair))
	require.NoError(t, err)
	require.Equal(t, n.ID(), again.ID())
	require.Len(t, h.keysOf(n.ID()), 1)
	require.NoError(t, again.Close())
}

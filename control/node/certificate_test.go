package node

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/rollback"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs/certstest"
	"muniment.example/pipeline/segment"
)

// joinRequest is the request of a new node to join by a certificate.
func joinRequest(t *testing.T, chain []*x509.Certificate, now time.Time) api.JoinRequest {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	certificate := sha256.Sum256(chain[0].Raw)
	q := api.JoinRequest{
		NodeID: api.NewID(api.PrefixNode, now), PublicKey: base64.RawURLEncoding.EncodeToString(public),
		CertificateHash: hex.EncodeToString(certificate[:]), At: now,
	}
	_, q.CredentialHash = api.NewBearer(q.NodeID)
	text := api.JoinText(q.NodeID, q.PublicKey, q.CredentialHash, "", q.CertificateHash)
	q.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, text))
	return q
}

// TestHolderPollsDuringAJoin: a node's lease has ended, and another is about to join under its
// name. If the node polls before that change, at this or another process, it has a lease again and
// keeps the name.
func TestHolderPollsDuringAJoin(t *testing.T) {
	stacktest.Both(t)
	stacktest.WithoutPostgres(t) // the database's clock
	for name, start := range map[string]func(*testing.T, *fixture) (a, b *Service){
		"one process": func(t *testing.T, f *fixture) (a, b *Service) {
			a, _ = f.mustStart(t)
			return a, a
		},
		"two processes": func(t *testing.T, f *fixture) (a, b *Service) { return f.two(t) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.now = time.Now() // certificates are valid now
			joining, polled := start(t, f)
			chain := trusted(t, joining)
			pass := func() { f.now, f.elapsed = f.now.Add(time.Minute), f.elapsed+time.Minute }

			holder := joinRequest(t, chain, f.now)
			_, err := joining.Join(t.Context(), holder, chain)
			require.NoError(t, err)
			pass()
			next := joinRequest(t, chain, f.now)
			p, err := joining.readPermit(next, chain)
			require.NoError(t, err)
			check := func() error { // as Join does in its change
				return joining.db.Change(t.Context(), func(tx *store.Tx) error {
					_, _, err := p.check(t.Context(), tx, tx.Now(), next.NodeID)
					return err
				})
			}
			require.NoError(t, check(), "the holder is silent")
			polled.mustPoll(t, holder.NodeID, 0)
			require.ErrorContains(t, check(), "the name edge-0 belongs to the node "+holder.NodeID)
			pass()
			_, err = joining.Join(t.Context(), next, chain)
			require.NoError(t, err)
		})
	}
}

// trusted is the certificate of a node, edge-0, by an authority that a service trusts.
func trusted(t *testing.T, s *Service) []*x509.Certificate {
	t.Helper()
	authority := certstest.New(t)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate())
	s.cfg.NodeCA = func() *x509.CertPool { return pool }
	pair := authority.Issue(t, certstest.Leaf{URIs: []string{api.NodeURI + "edge-0"}})
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	return []*x509.Certificate{loaded.Leaf}
}

// TestJoinIsInTheLog: a node that joins signs only once the log has its key, which a standby that is
// promoted may lack.
func TestJoinIsInTheLog(t *testing.T) {
	stacktest.Postgres(t)
	f := newFixture(t)
	f.now = time.Now() // certificates are valid now
	joining, _ := f.two(t)
	log, err := segment.Open(segment.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10})
	require.NoError(t, err)
	defer log.Close()
	_, err = rollback.History{Log: log}.Reconcile(t.Context(), joining.db)
	require.NoError(t, err)
	chain := trusted(t, joining)
	q := joinRequest(t, chain, f.now)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := joining.Join(ctx, q, chain)
		ended <- err
	}()
	waittest.Until(t, func() bool {
		joined, err := find(t.Context(), joining.db.Read(), q.NodeID)
		require.NoError(t, err)
		return joined != nil
	})
	cancel() // nobody relays
	require.ErrorIs(t, <-ended, store.ErrUnconfirmed)
	relaying, stop := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() { relayed <- joining.db.Outbox.Relay(relaying, log) }()
	_, err = joining.Join(t.Context(), q, chain)
	require.NoError(t, err)
	stop()
	require.NoError(t, <-relayed)
}

// TestExpelWithoutTheLog: while the log does not answer, a node that was stolen is expelled nevertheless,
// and directories are signed. The call says that the log lacks it, until it has it.
func TestExpelWithoutTheLog(t *testing.T) {
	stacktest.Postgres(t)
	f := newFixture(t)
	r, _ := f.two(t)
	log, err := segment.Open(segment.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10})
	require.NoError(t, err)
	defer log.Close()
	_, err = r.keys.Directory(t.Context()) // the log has the directory key
	require.NoError(t, err)
	_, err = rollback.History{Log: log}.Reconcile(t.Context(), r.db)
	require.NoError(t, err)
	r.mustStartNode(t, "nod_a")
	expel := func(ctx context.Context) error {
		_, err := r.Expel(ctx, "nod_a", Expulsion{Revocation: signing.Revocation{Reason: "drill", Force: true}}, store.ByOperator())
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- expel(ctx) }()
	waittest.Until(t, func() bool {
		m, err := find(t.Context(), r.db.Read(), "nod_a")
		require.NoError(t, err)
		return !m.expelledAt.IsZero()
	})
	_, err = r.keys.Directory(t.Context())
	require.NoError(t, err)
	require.Empty(t, ended, "nobody relays")
	cancel()
	require.ErrorIs(t, <-ended, store.ErrUnconfirmed)
	relaying, stop := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() { relayed <- r.db.Outbox.Relay(relaying, log) }()
	require.NoError(t, expel(t.Context()))
	stop()
	require.NoError(t, <-relayed)
}

package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
	"muniment/sealer"
)

// mustSandboxKeys are the ids of SandboxKeys, each of which every verifier finds in the
// directory as it is.
func (r *Room) mustSandboxKeys(t *testing.T) (keyIDs []string) {
	t.Helper()
	keys, issuedAt, err := r.SandboxKeys(t.Context())
	require.NoError(t, err)
	d := r.verified(t)
	for _, k := range keys {
		require.Equal(t, sealer.PurposeSandbox, k.Purpose)
		require.Contains(t, d.Keys, k)
		require.False(t, k.NotBefore.After(issuedAt))
		keyIDs = append(keyIDs, k.KeyID)
	}
	return keyIDs
}

// TestSandboxKeys rotates both keys of the sandbox: that of packs is listed first,
// whatever else is newer.
func TestSandboxKeys(t *testing.T) {
	p := newPlace(t)
	p.sealTime = time.Hour
	r, stop := p.mustStart(t)
	packs := r.mustSigner(t, sealer.PurposeSandbox).KeyID
	require.Equal(t, []string{packs}, r.mustSandboxKeys(t))

	p.now = p.now.Add(time.Second)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	receipts := r.borrowSandbox(t, "nod_a").KeyID
	require.Equal(t, []string{packs, receipts}, r.mustSandboxKeys(t))
	_, err = r.Rotate(t.Context(), packs, store.ByOperator())
	require.NoError(t, err)
	p.now = p.now.Add(time.Second)
	next := r.mustSigner(t, sealer.PurposeSandbox).KeyID
	require.NotEqual(t, packs, next)
	require.Equal(t, []string{next, receipts, packs}, r.mustSandboxKeys(t))
	v, err := r.Revoke(t.Context(), receipts, Revocation{}, store.ByOperator())
	require.NoError(t, err)
	require.Equal(t, "nod_a", v.Successor.NodeID)
	p.now = p.now.Add(time.Second)
	require.Equal(t, []string{next, v.Successor.KeyID, receipts, packs}, r.mustSandboxKeys(t))
	require.Equal(t, v.Successor.KeyID, r.borrowSandbox(t, "nod_a").KeyID)
	before := r.mustSandboxKeys(t)
	stop()

	r, _ = p.mustStart(t)
	_, err = r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.Equal(t, before, r.mustSandboxKeys(t), "another start makes no other keys")
	require.Equal(t, next, r.mustSigner(t, sealer.PurposeSandbox).KeyID)
}

// borrowSandbox is the key that a node signs with for the sandbox now.
func (r *Room) borrowSandbox(t *testing.T, nodeID string) *sealer.Signer {
	t.Helper()
	lend, err := r.ReceiptSigner(nodeID, sealer.PurposeSandbox)
	require.NoError(t, err)
	signer, done, err := lend(t.Context(), r.db.Now())
	require.NoError(t, err)
	done()
	return signer
}

// TestSandboxRotationUnderLoad: deliveries of the sandbox go on while the node's key for
// them is rotated, each by the one key of its moment.
func TestSandboxRotationUnderLoad(t *testing.T) {
	p := newPlace(t)
	p.clock = time.Now
	r, _ := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	f := startFleetFor(t, r, sealer.PurposeSandbox, time.Now)
	used := map[string]bool{}
	for range 3 {
		f.await(100)
		current := r.borrowSandbox(t, "nod_a").KeyID
		s, err := r.Rotate(t.Context(), current, store.ByOperator())
		require.NoError(t, err)
		require.Equal(t, s.Replaced.NotAfter, s.Key.NotBefore, "no gap, no overlap")
		require.NoFileExists(t, role{sealer.PurposeSandbox, "nod_a"}.path(p.keys(), current))
	}
	f.await(100)
	d := r.verified(t)
	for _, e := range f.end() {
		_, code := d.Find(e.KeyID, sealer.PurposeSandbox, e.Receipt.IssuedAt)
		require.Empty(t, code, "at %v", e.Receipt.IssuedAt)
		used[e.KeyID] = true
	}
	require.Len(t, used, 4)
}

package proof

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/proof/prooftest"
	"muniment.example/control/rollback"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TestReleasesInSeveralPartitions releases what holds one tenant: a forged delivery of
// its own, and noise in its partition, whose release is an event of the system's tenant.
func TestReleasesInSeveralPartitions(t *testing.T) {
	h := buildOver(t, prooftest.Topic(t))
	a, b := h.TwoPartitions()
	h.Tenant = a
	h.Deliver(deliveries(2)...)
	h.seal()
	noise := h.Event(delivery{DwellMs: 5})
	noise.TenantID = "\xff"
	for h.Partition(noise.TenantID) != h.Partition(a) {
		noise.TenantID += "\xff"
	}
	h.Append(noise)
	h.Deliver(delivery{DwellMs: 5, Signer: prooftest.NewSigner(t)})
	h.Deliver(deliveries(1)...)
	h.Deliver(delivery{Tenant: b, DwellMs: 1})
	h.Tenant = b
	h.seal()
	h.Tenant = a
	require.Equal(t, api.Quarantined, h.sealErr().Reason) // for the noise
	list := h.heldRecords()
	require.Len(t, list, 1)
	require.Equal(t, api.SystemTenant, h.release(list[0]).TenantID)
	_, end, err := h.Log.Bounds(t.Context(), h.Partition(a))
	require.NoError(t, err)
	require.Equal(t, api.Quarantined, h.sealErr().Reason) // for what is forged
	resume, _, err := h.Warehouse.Resume(t.Context(), h.Partition(a))
	require.NoError(t, err)
	require.Equal(t, end, resume, "quarantining leaves the loader where it is")
	_, loaded, err := h.Warehouse.Resume(t.Context(), 0)
	require.NoError(t, err)
	require.False(t, loaded, "nothing is in the first partition")
	list = h.heldRecords()
	require.Len(t, list, 1)
	require.Equal(t, a, h.release(list[0]).TenantID)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 3)
	h.reopen(Config{})
	h.Deliver(deliveries(1)...)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 4)
}

// TestOlderDatabaseBesideATopic restores the database from before some packs were
// sealed. The event of each is in its tenant's partition.
func TestOlderDatabaseBesideATopic(t *testing.T) {
	h := buildOver(t, prooftest.Topic(t))
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO signing_keys (key_id, purpose, node_id, public_key, not_before, delegation, revision)
			VALUES ($1, 'receipt_signing', 'nod_test', '', 0, '', 1)`, h.Keys.Receipt.KeyID)
		return err
	}))
	a, b := h.TwoPartitions()
	sealBoth := func() {
		for _, id := range []string{a, b} {
			h.Tenant = id
			h.Deliver(deliveries(2)...)
			h.seal()
		}
	}
	// follow brings the marks to the log's end, as Follow does before it ends, and
	// returns them.
	reconcile := func(db *store.DB, history rollback.History) error {
		_, err := history.Reconcile(t.Context(), db)
		return err
	}
	follow := func(db *store.DB) (marks []string) {
		ended, end := context.WithCancel(t.Context())
		end()
		require.NoError(t, rollback.Follow(ended, db, h.Log))
		for p := range int32(5) {
			mark, known, err := rollback.HighWater(t.Context(), db, p)
			require.NoError(t, err)
			require.True(t, known)
			_, end, err := h.Log.Bounds(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, end, mark)
			marks = append(marks, mark.String())
		}
		return marks
	}
	sealBoth()
	marked := follow(h.DB)
	require.NoError(t, reconcile(h.DB, rollback.History{Log: h.Log, Keys: signing.KeyIDs, Loaded: h.Warehouse}))
	h.Close()
	older, err := os.MkdirTemp("", "muniment-proof-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(older)) })
	storetest.Copy(t, h.Dir, older)
	h.open(Config{})
	sealBoth()
	require.NoError(t, reconcile(h.DB, rollback.History{Log: h.Log, Keys: signing.KeyIDs, Loaded: h.Warehouse}))

	path, url := storetest.Place(t, older)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: h.Now, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer db.Close()
	err = reconcile(db, rollback.History{Log: h.Log, Keys: signing.KeyIDs, Loaded: h.Warehouse})
	require.ErrorIs(t, err, rollback.ErrOlder)
	require.ErrorContains(t, err, "2 events of control that it never wrote")
	replayed := map[string][]string{}
	require.NoError(t, reconcile(db, rollback.History{Log: h.Log, Keys: signing.KeyIDs, Loaded: h.Warehouse, Accept: true, Replays: []rollback.Replay{
		{Kinds: []string{"pack"}, Apply: func(_ context.Context, _ *store.Tx, e *sealer.Event) (bool, error) {
			replayed[e.TenantID] = append(replayed[e.TenantID], e.Type)
			return false, nil
		}},
	}}))
	require.Equal(t, map[string][]string{a: {typeSealed}, b: {typeSealed}}, replayed)
	for _, p := range []int32{h.Partition(a), h.Partition(b)} {
		mark, _, err := rollback.HighWater(t.Context(), db, p)
		require.NoError(t, err)
		require.NotEqual(t, marked[p], mark.String())
	}
	follow(db)
	require.NoError(t, reconcile(db, rollback.History{Log: h.Log, Keys: signing.KeyIDs, Loaded: h.Warehouse}), "one history again")
}

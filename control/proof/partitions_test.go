package proof

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment/control/node"
	"muniment/control/store"
	"muniment/control/store/storetest"
	"muniment/gateway/api"
	"muniment/pipeline/kafka"
	"muniment/sealer"
)

// buildOnKafka makes a house over a topic of five partitions on brokers in process.
func buildOnKafka(t tb, cfg ...Config) *house {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	topic := kafka.Config{Brokers: cluster.ListenAddrs()}
	_, err = kafka.Topic{Partitions: 5, Replication: 1}.Migrate(t.Context(), topic, false)
	require.NoError(t, err)
	return buildOver(t, topic, cfg...)
}

// partition is where a tenant is.
func (h *house) partition(tenantID string) int32 {
	p, err := h.log.PartitionOf(h.t.Context(), tenantID)
	require.NoError(h.t, err)
	return p
}

// apart returns two tenants that share no partition, neither with each other nor with
// the system. The first partition stays empty.
func (h *house) apart() (a, b string) {
	taken := map[int32]bool{0: true, h.partition(api.SystemTenant): true}
	require.Len(h.t, taken, 2)
	next := func() string {
		for {
			id := api.NewID(api.PrefixTenant, h.Now())
			if p := h.partition(id); !taken[p] {
				taken[p] = true
				return id
			}
		}
	}
	return next(), next()
}

// TestTenantsOfSeveralPartitions seals, lists and exports two tenants, each for itself
// while the other's partition is not loaded.
func TestTenantsOfSeveralPartitions(t *testing.T) {
	h := buildOnKafka(t, Config{})
	a, b := h.apart()
	server := h.serve()
	listed := func(tenantID, query string) (asOf string, events int) {
		t.Helper()
		got := ask(server, tenantID, "GET /v1/events?limit=100"+query)
		require.Equal(t, http.StatusOK, got.Code, got.Body)
		var page api.Body[EventList]
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &page))
		return *page.Data.AsOf, len(page.Data.Events)
	}
	first := map[string]string{} // the position behind each tenant's first pack
	for i, id := range []string{a, b} {
		h.tenant = id
		h.deliver(deliveries(3 + i)...)
		header := h.seal()[0]
		require.Equal(t, 3+i, header.Count)
		p := h.packs()[0]
		require.Equal(t, h.partition(id), p.First.Partition)
		require.Equal(t, h.partition(id), p.Last.Partition)
		first[id] = p.Last.Next().String()
		h.check()
	}

	// b's loader stands still: a is told all that there is, b that it has to wait.
	h.pause(h.partition(b))
	receipts := map[string]string{}
	for _, id := range []string{a, b} {
		record := h.event(delivery{tenant: id, dwellMs: 1})
		h.append(record)
		receipts[id] = "GET /v1/receipts/rcp_" + record.EventID[4:]
	}
	require.Equal(t, http.StatusOK, ask(server, a, receipts[a]).Code)
	patience := h.room.cfg.WaitFor
	h.room.cfg.WaitFor = 100 * time.Millisecond // nothing comes
	require.Equal(t, http.StatusServiceUnavailable, ask(server, b, receipts[b]).Code)
	h.tenant = b
	require.Equal(t, api.WarehouseBehind, h.behind().Reason)
	h.room.cfg.WaitFor = patience
	h.tenant = a
	require.Equal(t, 2, h.seal()[0].Count, "the delivery and the event of the first pack")
	require.Equal(t, http.StatusOK, ask(server, a, "GET /v1/events/export?upTo="+h.packs()[1].Last.String()).Code)
	h.loaders[h.partition(b)].Resume()
	h.tenant = b
	require.Equal(t, 2, h.seal()[0].Count)
	require.Equal(t, http.StatusOK, ask(server, b, receipts[b]).Code)

	for i, id := range []string{a, b} {
		h.tenant = id
		require.Len(t, deliveriesOf(h.check()), 4+i)
		asOf, events := listed(id, "&asOf="+first[id])
		require.Equal(t, first[id], asOf)
		require.Equal(t, 3+i, events)
		asOf, _ = listed(id, "")
		at, err := sealer.ParsePosition(asOf)
		require.NoError(t, err)
		require.Equal(t, h.partition(id), at.Partition)
	}
	for _, query := range []string{"events?asOf=", "events?after=", "events?before=", "events/export?after=", "events/export?upTo="} {
		require.Equal(t, http.StatusUnprocessableEntity, ask(server, a, "GET /v1/"+query+first[b]).Code, query)
	}
}

// TestReleasesInSeveralPartitions releases what holds one tenant: a forged delivery of
// its own, and noise in its partition, of which an event in the system's tells.
func TestReleasesInSeveralPartitions(t *testing.T) {
	h := buildOnKafka(t)
	a, b := h.apart()
	h.tenant = a
	h.deliver(deliveries(2)...)
	h.seal()
	noise := h.event(delivery{dwellMs: 5})
	noise.TenantID = "\xff"
	for h.partition(noise.TenantID) != h.partition(a) {
		noise.TenantID += "\xff"
	}
	h.append(noise)
	h.deliver(delivery{dwellMs: 5, signer: newSigner(t)})
	h.deliver(deliveries(1)...)
	h.deliver(delivery{tenant: b, dwellMs: 1})
	h.tenant = b
	h.seal()
	h.tenant = a
	require.Equal(t, api.SetAside, h.sealErr().Reason) // for the noise
	list := h.heldRecords()
	require.Len(t, list, 1)
	require.Equal(t, api.SystemTenant, h.release(list[0]).TenantID)
	_, end, err := h.log.Bounds(t.Context(), h.partition(a))
	require.NoError(t, err)
	require.Equal(t, api.SetAside, h.sealErr().Reason) // for what is forged
	resume, _, err := h.warehouse.Resume(t.Context(), h.partition(a))
	require.NoError(t, err)
	require.Equal(t, end, resume, "setting aside leaves the loader where it is")
	_, loaded, err := h.warehouse.Resume(t.Context(), 0)
	require.NoError(t, err)
	require.False(t, loaded, "nothing is in the first partition")
	list = h.heldRecords()
	require.Len(t, list, 1)
	require.Equal(t, a, h.release(list[0]).TenantID)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 3)
	h.reopen(Config{})
	h.deliver(deliveries(1)...)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 4)
}

// TestOlderDatabaseBesideATopic restores the database from before some packs were
// sealed. The event of each is in its tenant's partition.
func TestOlderDatabaseBesideATopic(t *testing.T) {
	h := buildOnKafka(t)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO signing_keys (key_id, purpose, node_id, public_key, not_before, delegation, revision)
			VALUES ($1, 'receipt_signing', 'nod_test', '', 0, '', 1)`, h.keys.receipt.KeyID)
		return err
	}))
	a, b := h.apart()
	sealBoth := func() {
		for _, id := range []string{a, b} {
			h.tenant = id
			h.deliver(deliveries(2)...)
			h.seal()
		}
	}
	// follow brings the marks to the log's end, as Follow does before it ends, and
	// returns them.
	follow := func(db *store.DB) (marks []string) {
		ended, end := context.WithCancel(t.Context())
		end()
		require.NoError(t, db.Follow(ended, h.log))
		for p := range int32(5) {
			mark, known, err := db.HighWater(t.Context(), p)
			require.NoError(t, err)
			require.True(t, known)
			_, end, err := h.log.Bounds(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, end, mark)
			marks = append(marks, mark.String())
		}
		return marks
	}
	sealBoth()
	marked := follow(h.db)
	require.NoError(t, h.db.Reconcile(t.Context(), store.History{Log: h.log, Keys: node.KeyIDs, Loaded: h.warehouse}))
	h.close()
	older, err := os.MkdirTemp("", "muniment-proof-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(older)) })
	storetest.Copy(t, h.dir, older)
	h.open(Config{})
	sealBoth()
	require.NoError(t, h.db.Reconcile(t.Context(), store.History{Log: h.log, Keys: node.KeyIDs, Loaded: h.warehouse}))

	path, url := storetest.Place(t, older)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: h.Now, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer db.Close()
	err = db.Reconcile(t.Context(), store.History{Log: h.log, Keys: node.KeyIDs, Loaded: h.warehouse})
	require.ErrorIs(t, err, store.ErrOlder)
	require.ErrorContains(t, err, "2 events of control that it never wrote")
	replayed := map[string][]string{}
	require.NoError(t, db.Reconcile(t.Context(), store.History{Log: h.log, Keys: node.KeyIDs, Loaded: h.warehouse, Accept: true, Replays: []store.Replay{
		{Kinds: []string{"pack"}, Apply: func(_ context.Context, _ *store.Tx, e *sealer.Event) (bool, error) {
			replayed[e.TenantID] = append(replayed[e.TenantID], e.Type)
			return false, nil
		}},
	}}))
	require.Equal(t, map[string][]string{a: {typeSealed}, b: {typeSealed}}, replayed)
	for _, p := range []int32{h.partition(a), h.partition(b)} {
		mark, _, err := db.HighWater(t.Context(), p)
		require.NoError(t, err)
		require.NotEqual(t, marked[p], mark.String())
	}
	follow(db)
	require.NoError(t, db.Reconcile(t.Context(), store.History{Log: h.log, Keys: node.KeyIDs, Loaded: h.warehouse}), "one history again")
}

package rollback

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// partedLog is a log of several partitions.
type partedLog []*memoryLog

func newPartedLog(n int) (log partedLog) {
	for p := range int32(n) {
		log = append(log, &memoryLog{end: sealer.Position{Generation: 1, Partition: p}})
	}
	return log
}

// homes are where the tenants of these tests are.
var homes = map[string]int32{"tnt_a": 0, "tnt_b": 1, api.SystemTenant: 2}

func (l partedLog) Partitions(context.Context) (int, error) { return len(l), nil }

func (l partedLog) PartitionOf(_ context.Context, tenantID string) (int32, error) {
	return homes[tenantID], nil
}

func (l partedLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	return l[homes[r.TenantID]].Append(ctx, r)
}

func (l partedLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

func (l partedLog) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	return l[partition].Bounds(ctx, partition)
}

func (l partedLog) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	return l[from.Partition].Scan(ctx, from, to, fn)
}

// slowLog answers once all of its partitions were called.
type slowLog struct {
	partedLog
	called *sync.WaitGroup
}

func (l slowLog) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	l.called.Done()
	all := make(chan struct{})
	go func() { l.called.Wait(); close(all) }()
	select {
	case <-all:
		return l.partedLog.Bounds(ctx, partition)
	case <-ctx.Done():
		return first, end, ctx.Err()
	}
}

// loadedTo is how far a warehouse is.
type loadedTo map[int32]sealer.Position

func (w loadedTo) Resume(_ context.Context, partition int32) (next sealer.Position, ok bool, err error) {
	next, ok = w[partition]
	return next, ok, nil
}

// marks are those of the first n partitions, "" where there is none.
func (db *database) marks(t *testing.T, n int) (all []string) {
	t.Helper()
	for p := range int32(n) {
		mark, ok, err := HighWater(t.Context(), db.DB, p)
		require.NoError(t, err)
		all = append(all, "")
		if ok {
			all[p] = mark.String()
		}
	}
	return all
}

// emit emits an event of a tenant.
func (db *database) emit(t *testing.T, tenantID, eventType, subject string) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		return tx.Emit(t.Context(), &store.Kind{Type: eventType}, sealer.Event{
			TenantID: tenantID, Actor: store.ByOperator(), Subject: sealer.Ref{Kind: "right", ID: subject}, Data: []byte("{}"),
		})
	}))
}

func TestMarksOfPartitions(t *testing.T) {
	dir := t.TempDir()
	db, log := mustOpen(t, dir), newPartedLog(12)
	require.Equal(t, []string{"", "", ""}, db.marks(t, 3))
	log[1].deliver(t, 3)
	log[11].deliver(t, 7)
	require.NoError(t, follow(t.Context(), db.DB, log))
	require.Equal(t, []string{"1.0.0", "1.1.3", "1.2.0"}, db.marks(t, 3))
	require.Equal(t, "1.11.7", db.marks(t, 12)[11])

	// One that fails does not block the others.
	log[0].deliver(t, 1)
	log[1].deliver(t, 1)
	log[2].deliver(t, 1)
	log[1].fail(errLog)
	require.ErrorIs(t, follow(t.Context(), db.DB, log), errLog)
	require.Equal(t, []string{"1.0.1", "1.1.3", "1.2.1"}, db.marks(t, 3))
	log[1].fail(nil)
	require.NoError(t, follow(t.Context(), db.DB, log))
	require.Equal(t, []string{"1.0.1", "1.1.4", "1.2.1"}, db.marks(t, 3))

	// None waits for another.
	slow := slowLog{log, new(sync.WaitGroup)}
	slow.called.Add(len(log))
	require.NoError(t, follow(t.Context(), db.DB, slow))

	// Each rises by itself.
	require.NoError(t, SetHighWater(t.Context(), db.DB, sealer.Position{Generation: 1, Partition: 1, Offset: 2}, sealer.Position{Generation: 2}))
	require.Equal(t, []string{"2.0.0", "1.1.4", "1.2.1"}, db.marks(t, 3))
	require.NoError(t, db.Close())
	require.Equal(t, []string{"2.0.0", "1.1.4", "1.2.1"}, mustOpen(t, dir).marks(t, 3))
}

func TestOlderDatabaseBesideSeveralPartitions(t *testing.T) {
	dir, log := t.TempDir(), newPartedLog(3)
	db := mustOpen(t, dir)
	for tenantID := range homes {
		db.emit(t, tenantID, "right.issued", "rgh_"+tenantID)
	}
	log[1].deliver(t, 10)
	db.relay(t, log)
	require.NoError(t, follow(t.Context(), db.DB, log))
	marked := db.marks(t, 3)
	require.Equal(t, []string{"1.0.1", "1.1.11", "1.2.1"}, marked)
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
	require.NoError(t, db.Close())
	older := copyDB(t, dir)

	db = mustOpen(t, dir)
	log[0].deliver(t, 5)
	db.emit(t, "tnt_b", "right.suspended", "rgh_tnt_b")
	db.emit(t, api.SystemTenant, "signing_key.revoked", "key_a")
	db.emit(t, "tnt_b", "right.revoked", "rgh_tnt_b")
	db.relay(t, log)
	require.NoError(t, db.Close())

	db = mustOpen(t, older)
	for _, part := range log {
		part.scanned = 0
	}
	err := db.Reconcile(t.Context(), History{Log: log})
	require.ErrorIs(t, err, ErrOlder)
	require.ErrorContains(t, err, "3 events of control that it never wrote, from position 1.1.11, 1.2.1 on")
	require.Equal(t, []int{5, 2, 1}, []int{log[0].scanned, log[1].scanned, log[2].scanned}, "each from its mark on")
	require.Equal(t, marked, db.marks(t, 3))

	var replayed []string
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Accept: true, Replays: []Replay{
		{Kinds: []string{"right"}, Apply: func(_ context.Context, _ *store.Tx, e *sealer.Event) (bool, error) {
			replayed = append(replayed, e.Type)
			return true, nil
		}},
	}}))
	require.Equal(t, []string{"right.suspended", "right.revoked", "signing_key.revoked"}, replayed)
	require.Equal(t, []string{"1.0.6", "1.1.13", "1.2.2"}, db.marks(t, 3))
	data := db.systemEvents(t)["database.rollback_accepted"]
	require.Equal(t, []any{"1.0.6", "1.1.13", "1.2.2"}, data["logEnd"])
	require.Equal(t, []any{"1.1.11", "1.2.1"}, data["missedFrom"])
	require.EqualValues(t, 3, data["missed"])
	require.EqualValues(t, 3, data["reapplied"])

	db.relay(t, log)
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}), "one history again")
}

// TestPartitionThatLostItsEnd has one of three partitions hold less than was seen of it.
func TestPartitionThatLostItsEnd(t *testing.T) {
	db, log := mustOpen(t, t.TempDir()), newPartedLog(3)
	for _, part := range log {
		part.deliver(t, 5)
	}
	require.NoError(t, follow(t.Context(), db.DB, log))
	ahead := loadedTo{2: {Generation: 1, Partition: 2, Offset: 9}}
	for _, accept := range []bool{false, true} {
		err := db.Reconcile(t.Context(), History{Log: log, Loaded: ahead, Accept: accept})
		require.ErrorContains(t, err, "partition 2 of the log ends at 1.2.5 and has reached 1.2.9 before")
	}
	log[1].cut(3, 1)
	for _, accept := range []bool{false, true} {
		err := db.Reconcile(t.Context(), History{Log: log, Accept: accept})
		require.ErrorContains(t, err, "partition 1 of the log ends at 1.1.3 and has reached 1.1.5 before")
	}
	require.Equal(t, []string{"1.0.5", "1.1.5", "1.2.5"}, db.marks(t, 3))

	// In a later generation it goes on, and the others as they are.
	log[1].cut(3, 2)
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
	require.Equal(t, map[string]map[string]any{"log.rollback_accepted": {"endedAt": "1.1.5", "continuedAt": "2.1.3"}}, db.systemEvents(t))
	require.Equal(t, []string{"1.0.5", "2.1.3", "1.2.5"}, db.marks(t, 3))
}

func TestGapOfOnePartition(t *testing.T) {
	db, log := mustOpen(t, t.TempDir()), newPartedLog(3)
	for _, part := range log {
		part.deliver(t, 5)
	}
	require.NoError(t, follow(t.Context(), db.DB, log))
	log[2].deliver(t, 5)
	log[2].entries = slices.Delete(log[2].entries, 0, 7)
	err := db.Reconcile(t.Context(), History{Log: log})
	require.ErrorIs(t, err, ErrOlder)
	require.ErrorContains(t, err, "between 1.2.5 and 1.2.7")
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Accept: true}))
	require.Equal(t, []any{map[string]any{"from": "1.2.5", "to": "1.2.7"}}, db.systemEvents(t)["database.rollback_accepted"]["gaps"])
}

package rollback

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// promotions are the data of the log's events of promotions.
func (l *memoryLog) promotions(t *testing.T) (all []map[string]any) {
	t.Helper()
	for _, entry := range l.entries {
		e, err := sealer.ParseEvent(entry.Event)
		if err != nil || e.Type != promotion.Type {
			continue
		}
		require.Equal(t, store.BySystem(), e.Actor)
		all = append(all, map[string]any{})
		require.NoError(t, json.Unmarshal(e.Data, &all[len(all)-1]))
	}
	return all
}

// TestPromotionWithoutLoss: a start on a server that was promoted and lacks nothing of the log begins
// an epoch of the same incarnation, once, and the log has that before anything rests on it. Neither the
// old primary nor a process that still uses it goes on.
func TestPromotionWithoutLoss(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
	require.Empty(t, log.entries, "it is the first server")
	revoked := db.mustPublish(t, "rgh_a", api.RightRevoked)
	db.emitRight(t, "right.issued", "rgh_b")
	db.relayAll(t, log)
	feed, err := db.Feed.Changes(t.Context(), api.FeedRequest{After: revoked + 1})
	require.NoError(t, err)
	require.Equal(t, api.Feed{Incarnation: db.Incarnation(), Newest: revoked + 1, UpTo: revoked + 1, Changes: []api.Change{}}, feed)
	left := copyDB(t, dir)
	if db.Shared() { // its connections were closed for the copy
		waittest.Until(t, func() bool { return db.Change(t.Context(), func(*store.Tx) error { return nil }) == nil })
	}

	promote(t, dir)
	for range 2 { // the second finds the server that the database knows
		promoted := mustOpen(t, dir)
		require.NoError(t, promoted.Reconcile(t.Context(), History{Log: log, Append: log}))
		require.Equal(t, feed.Incarnation, promoted.Incarnation())
		of := promoted.mustPublish(t, "rgh_c", api.RightActive)
		f, err := promoted.Feed.Changes(t.Context(), api.FeedRequest{After: of})
		require.NoError(t, err)
		require.Equal(t, api.Feed{Incarnation: feed.Incarnation, Promotions: 1, PromotedAt: revoked + 1, Newest: of, UpTo: of, Changes: []api.Change{}}, f)
		s, err := promoted.Feed.Snapshot(t.Context(), api.Rights.Name, "rgh_a")
		require.NoError(t, err)
		require.Equal(t, int64(1), s.Promotions)
		some, err := promoted.Feed.Snapshots(t.Context(), api.Rights.Name, []string{"rgh_a"})
		require.NoError(t, err)
		require.Equal(t, int64(1), some.Promotions)
		said := log.promotions(t)
		require.Len(t, said, 1)
		require.Equal(t, feed.Incarnation, said[0]["incarnation"])
		require.Equal(t, 0.0, said[0]["missed"])
	}
	_, err = db.Feed.Changes(t.Context(), api.FeedRequest{})
	require.ErrorIs(t, err, store.ErrWentBack, "another process has gone on")
	require.ErrorIs(t, mustOpen(t, left).Reconcile(t.Context(), History{Log: log}), ErrOlder, "the old primary is back")
}

// TestPromotionReadsFromTheMark: before it serves, a promoted standby reads what came since the log's
// high-water mark, and within its change next to nothing. What came since the last start it searches
// afterwards.
func TestPromotionReadsFromTheMark(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
	db.emitRight(t, "right.suspended", "rgh_a")
	log.deliver(t, 1000)
	db.relayAll(t, log)
	log.deliver(t, 10)
	log.entries = log.entries[1:] // the log is kept for less time than the last start is ago
	require.NoError(t, db.Close())

	promote(t, dir)
	db = mustOpen(t, dir)
	growing := &growingLog{memoryLog: log, t: t}
	log.scanned = 0
	older := func(context.Context, func([]byte) error) error { t.Error("it reads all packs"); return nil }
	require.NoError(t, db.Reconcile(t.Context(), History{Log: growing, Append: log, Older: older, Replays: []Replay{replayNothing()}}))
	require.Equal(t, 2*10+searchReads+1, log.scanned, "what the database lacks, the stops, and what came meanwhile")
	require.Zero(t, growing.inChange)

	require.NotNil(t, db.search)
	log.scanned = 0
	require.NoError(t, db.search.Run(t.Context()))
	require.GreaterOrEqual(t, log.scanned, 1000)
	require.NoError(t, SetHighWater(t.Context(), db.DB, log.end))
	log.scanned = 0
	require.Empty(t, db.replayed(t, log, nil))
	require.Zero(t, log.scanned, "it was searched")
}

// growingLog is a log in which nodes deliver while the stops are read.
type growingLog struct {
	*memoryLog
	t        *testing.T
	scans    int
	inChange int // the records that were read within a change
}

func (l *growingLog) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	before := l.scanned
	err := l.memoryLog.Scan(ctx, from, to, fn)
	if bytes.Contains(debug.Stack(), []byte(").Change(")) {
		l.inChange += l.scanned - before
	}
	if l.scans++; l.scans == 2 { // the first compares the database with the log
		l.deliver(l.t, searchReads+1)
	}
	return err
}

// TestPromotionIsAnnouncedByTheNextStart, if the process that began the epoch ended before.
func TestPromotionIsAnnouncedByTheNextStart(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	require.NoError(t, mustOpen(t, dir).Reconcile(t.Context(), History{Log: log}))
	promote(t, dir)
	require.NoError(t, mustOpen(t, dir).Reconcile(t.Context(), History{Log: log}))
	require.Empty(t, log.promotions(t))
	require.NoError(t, mustOpen(t, dir).Reconcile(t.Context(), History{Log: log, Append: log}))
	require.Len(t, log.promotions(t), 1)
}

// TestPromotionWithLoss: what the log has and the promoted server lacks is applied again, in a new
// incarnation, without anybody's consent.
func TestPromotionWithLoss(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	db.emitRight(t, "right.issued", "rgh_a")
	db.relayAll(t, log)
	require.NoError(t, db.Close())
	standby := copyDB(t, dir)
	db = mustOpen(t, dir)
	db.emitRight(t, "right.revoked", "rgh_a")
	db.relayAll(t, log)

	replay := []Replay{ofRights(func(ctx context.Context, tx *store.Tx, e *sealer.Event) (bool, error) {
		revision, err := tx.Revision(ctx)
		require.NoError(t, err)
		return true, store.Publish(ctx, tx, api.Rights, &api.Right{ID: "rgh_a", State: api.RightRevoked, Revision: revision})
	})}
	before := db.Incarnation()
	require.ErrorIs(t, mustOpen(t, standby).Reconcile(t.Context(), History{Log: log, Replays: replay}), ErrOlder, "an older copy")
	promote(t, standby)
	promoted := mustOpen(t, standby)
	require.NoError(t, promoted.Reconcile(t.Context(), History{Log: log, Append: log, Replays: replay}))
	require.NotEqual(t, before, promoted.Incarnation())
	feed, err := promoted.Feed.Changes(t.Context(), api.FeedRequest{})
	require.NoError(t, err)
	require.Equal(t, promoted.Incarnation(), feed.Incarnation)
	require.Zero(t, feed.Promotions)
	require.Len(t, feed.Changes, 1, "the revocation is in force again")
	said := log.promotions(t)
	require.Len(t, said, 1)
	require.Equal(t, map[string]any{"missed": 1.0, "reapplied": 1.0, "previous": before, "incarnation": promoted.Incarnation()},
		map[string]any{"missed": said[0]["missed"], "reapplied": said[0]["reapplied"], "previous": said[0]["previous"], "incarnation": said[0]["incarnation"]})
}

// TestPromotionThatLostMuch is no failover: an operator has to accept it, as any older copy.
func TestPromotionThatLostMuch(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, log *memoryLog, e *sealer.Event){
		"more than an hour": func(t *testing.T, log *memoryLog, e *sealer.Event) { e.At = e.At.Add(mostLag + time.Second) },
		"what the log no longer holds": func(t *testing.T, log *memoryLog, e *sealer.Event) {
			log.deliver(t, 5)
			log.entries = log.entries[len(log.entries)-2:]
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), newMemoryLog()
			db := mustOpen(t, dir)
			db.emitRight(t, "right.issued", "rgh_a")
			db.relayAll(t, log)
			for seq := range uint64(2) {
				e := rightEvent()
				e.At, e.Type = store.At(now).Time, "right.revoked"
				if seq == 1 {
					lose(t, log, &e)
				}
				e.EventID = api.NewID(api.PrefixEvent, e.At)
				text, err := sealer.AppendEvent(nil, &e)
				require.NoError(t, err)
				_, err = log.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", EventID: e.EventID, Node: store.Node, Epoch: 1, Seq: 2 + seq, Event: text})
				require.NoError(t, err)
			}
			history := History{Log: log, Replays: []Replay{replayNothing()}}
			promote(t, dir)
			promoted := mustOpen(t, dir)
			require.ErrorIs(t, promoted.Reconcile(t.Context(), history), ErrOlder)
			history.Accept = true
			require.NoError(t, promoted.Reconcile(t.Context(), history))
			require.NoError(t, mustOpen(t, dir).Reconcile(t.Context(), History{Log: log}), "it is the server that the database knows now")
		})
	}
}

// TestHowFarAServerIsBehind: from the records at its marks on, which may be deliveries.
func TestHowFarAServerIsBehind(t *testing.T) {
	delivery, keyID := signedDelivery(t)
	delivered, err := sealer.ParseEvent(delivery.Event)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		known []string
		after time.Duration // of the event that the server lacks; 0: none
		err   error
	}{
		"an hour":            {known: []string{keyID}, after: mostLag},
		"more":               {known: []string{keyID}, after: mostLag + time.Second, err: ErrOlder},
		"an unknown time":    {err: ErrOlder},
		"the key's event is": {after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), newMemoryLog()
			db := mustOpen(t, dir)
			db.emitRight(t, "right.issued", "rgh_a")
			db.relayAll(t, log)
			_, err := log.Append(t.Context(), delivery)
			require.NoError(t, err)
			if c.after > 0 {
				e := rightEvent()
				e.At, e.Type = delivered.At.Add(c.after), "right.revoked"
				e.EventID = api.NewID(api.PrefixEvent, e.At)
				text, err := sealer.AppendEvent(nil, &e)
				require.NoError(t, err)
				_, err = log.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", EventID: e.EventID, Node: store.Node, Epoch: 1, Seq: 2, Event: text})
				require.NoError(t, err)
			}
			promote(t, dir)
			err = mustOpen(t, dir).Reconcile(t.Context(), History{
				Log: log, Replays: []Replay{replayNothing()}, Keys: func(context.Context, store.Querier) ([]string, error) { return c.known, nil },
			})
			require.ErrorIs(t, err, c.err)
		})
	}
}

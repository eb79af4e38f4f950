package store

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// mustOpenOn opens the database of a folder as that of a server.
func mustOpenOn(t *testing.T, dir, server string) *DB {
	t.Helper()
	stacktest.Both(t)
	path, url := storetest.Place(t, dir)
	return mustOpenAt(t, Config{Path: path, URL: url, serverName: server})
}

// promotions are the data of the log's events of promotions.
func (l *memoryLog) promotions(t *testing.T) (all []map[string]any) {
	t.Helper()
	for _, entry := range l.entries {
		e, err := sealer.ParseEvent(entry.Event)
		if err != nil || e.Type != promotion.Type {
			continue
		}
		require.Equal(t, BySystem(), e.Actor)
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
	db := mustOpenOn(t, dir, "system/1")
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
	require.Empty(t, log.entries, "it is the first server")
	revoked := db.mustPublish(t, "rgh_a", api.RightRevoked)
	db.emitRight(t, "right.issued", "rgh_b")
	db.relayAll(t, log)
	feed, err := db.Feed(t.Context(), api.FeedRequest{After: revoked + 1})
	require.NoError(t, err)
	require.Equal(t, api.Feed{Incarnation: db.Incarnation(), Newest: revoked + 1, UpTo: revoked + 1, Changes: []api.Change{}}, feed)
	left := copyDB(t, dir)
	if db.pg != nil { // its connections were closed for the copy
		waittest.Until(t, func() bool { return db.Change(t.Context(), func(*Tx) error { return nil }) == nil })
	}

	for range 2 { // the second finds the server that the database knows
		promoted := mustOpenOn(t, dir, "system/2")
		require.NoError(t, promoted.Reconcile(t.Context(), History{Log: log, Append: log}))
		require.Equal(t, feed.Incarnation, promoted.Incarnation())
		of := promoted.mustPublish(t, "rgh_c", api.RightActive)
		f, err := promoted.Feed(t.Context(), api.FeedRequest{After: of})
		require.NoError(t, err)
		require.Equal(t, api.Feed{Incarnation: feed.Incarnation, Promotions: 1, PromotedAt: revoked + 1, Newest: of, UpTo: of, Changes: []api.Change{}}, f)
		s, err := promoted.Snapshot(t.Context(), api.Rights.Name, "rgh_a")
		require.NoError(t, err)
		require.Equal(t, int64(1), s.Promotions)
		some, err := promoted.Snapshots(t.Context(), api.Rights.Name, []string{"rgh_a"})
		require.NoError(t, err)
		require.Equal(t, int64(1), some.Promotions)
		said := log.promotions(t)
		require.Len(t, said, 1)
		require.Equal(t, feed.Incarnation, said[0]["incarnation"])
		require.Equal(t, 0.0, said[0]["missed"])
	}
	_, err = db.Feed(t.Context(), api.FeedRequest{})
	require.ErrorIs(t, err, ErrWentBack, "another process has gone on")
	require.ErrorIs(t, mustOpenOn(t, left, "system/1").Reconcile(t.Context(), History{Log: log}), ErrOlder, "the old primary is back")
}

// TestPromotionReadsFromTheMark: before it serves, a promoted standby reads what came since the log's
// high-water mark, and within its change next to nothing. What came since the last start it searches
// afterwards.
func TestPromotionReadsFromTheMark(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpenOn(t, dir, "system/1")
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
	db.emitRight(t, "right.suspended", "rgh_a")
	log.deliver(t, 1000)
	db.relayAll(t, log)
	log.deliver(t, 10)
	db.resign(t.Context())
	log.entries = log.entries[1:] // the log is kept for less time than the last start is ago
	require.NoError(t, db.Close())

	db = mustOpenOn(t, dir, "system/2")
	growing := &growingLog{memoryLog: log, db: db, t: t}
	log.scanned = 0
	older := func(context.Context, func([]byte) error) error { t.Error("it reads all packs"); return nil }
	require.NoError(t, db.Reconcile(t.Context(), History{Log: growing, Append: log, Older: older, Replays: []Replay{replayNothing()}}))
	require.Equal(t, 2*10+searchReads+1, log.scanned, "what the database lacks, the stops, and what came meanwhile")
	require.Zero(t, growing.inChange)

	require.NotNil(t, db.unsearched)
	log.scanned = 0
	require.NoError(t, db.SearchStops(t.Context()))
	require.GreaterOrEqual(t, log.scanned, 1000)
	require.Nil(t, db.unsearched)
	require.NoError(t, db.SetHighWater(t.Context(), log.end))
	log.scanned = 0
	require.Empty(t, db.replayed(t, log, nil))
	require.Zero(t, log.scanned, "it was searched")
}

// growingLog is a log in which nodes deliver while the stops are read.
type growingLog struct {
	*memoryLog
	db       *DB
	t        *testing.T
	scans    int
	inChange int // the records that were read within a change
}

func (l *growingLog) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	before := l.scanned
	err := l.memoryLog.Scan(ctx, from, to, fn)
	if l.db.write.Stats().InUse > 0 {
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
	require.NoError(t, mustOpenOn(t, dir, "system/1").Reconcile(t.Context(), History{Log: log}))
	require.NoError(t, mustOpenOn(t, dir, "system/2").Reconcile(t.Context(), History{Log: log}))
	require.Empty(t, log.promotions(t))
	require.NoError(t, mustOpenOn(t, dir, "system/2").Reconcile(t.Context(), History{Log: log, Append: log}))
	require.Len(t, log.promotions(t), 1)
}

// TestPromotionWithLoss: what the log has and the promoted server lacks is applied again, in a new
// incarnation, without anybody's consent.
func TestPromotionWithLoss(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpenOn(t, dir, "system/1")
	db.emitRight(t, "right.issued", "rgh_a")
	db.relayAll(t, log)
	require.NoError(t, db.Close())
	standby := copyDB(t, dir)
	db = mustOpenOn(t, dir, "system/1")
	db.emitRight(t, "right.revoked", "rgh_a")
	db.relayAll(t, log)

	replay := []Replay{ofRights(func(ctx context.Context, tx *Tx, e *sealer.Event) (bool, error) {
		revision, err := tx.Revision(ctx)
		require.NoError(t, err)
		return true, Publish(ctx, tx, api.Rights, &api.Right{ID: "rgh_a", State: api.RightRevoked, Revision: revision})
	})}
	before := db.Incarnation()
	require.ErrorIs(t, mustOpenOn(t, standby, "system/1").Reconcile(t.Context(), History{Log: log, Replays: replay}), ErrOlder, "an older copy")
	promoted := mustOpenOn(t, standby, "system/2")
	require.NoError(t, promoted.Reconcile(t.Context(), History{Log: log, Append: log, Replays: replay}))
	require.NotEqual(t, before, promoted.Incarnation())
	feed, err := promoted.Feed(t.Context(), api.FeedRequest{})
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
			db := mustOpenOn(t, dir, "system/1")
			db.emitRight(t, "right.issued", "rgh_a")
			db.relayAll(t, log)
			for seq := range uint64(2) {
				e := event("tnt_a", "rgh_a")
				e.At, e.Type = At(now).Time, "right.revoked"
				if seq == 1 {
					lose(t, log, &e)
				}
				e.EventID = api.NewID(api.PrefixEvent, e.At)
				text, err := sealer.AppendEvent(nil, &e)
				require.NoError(t, err)
				_, err = log.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", EventID: e.EventID, Node: Node, Epoch: 1, Seq: 2 + seq, Event: text})
				require.NoError(t, err)
			}
			history := History{Log: log, Replays: []Replay{replayNothing()}}
			promoted := mustOpenOn(t, dir, "system/2")
			require.ErrorIs(t, promoted.Reconcile(t.Context(), history), ErrOlder)
			history.Accept = true
			require.NoError(t, promoted.Reconcile(t.Context(), history))
			require.NoError(t, mustOpenOn(t, dir, "system/2").Reconcile(t.Context(), History{Log: log}), "it is the server that the database knows now")
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
			db := mustOpenOn(t, dir, "system/1")
			db.emitRight(t, "right.issued", "rgh_a")
			db.relayAll(t, log)
			_, err := log.Append(t.Context(), delivery)
			require.NoError(t, err)
			if c.after > 0 {
				e := event("tnt_a", "rgh_a")
				e.At, e.Type = delivered.At.Add(c.after), "right.revoked"
				e.EventID = api.NewID(api.PrefixEvent, e.At)
				text, err := sealer.AppendEvent(nil, &e)
				require.NoError(t, err)
				_, err = log.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", EventID: e.EventID, Node: Node, Epoch: 1, Seq: 2, Event: text})
				require.NoError(t, err)
			}
			err = mustOpenOn(t, dir, "system/2").Reconcile(t.Context(), History{
				Log: log, Replays: []Replay{replayNothing()}, Keys: func(context.Context, Querier) ([]string, error) { return c.known, nil },
			})
			require.ErrorIs(t, err, c.err)
		})
	}
}

// TestNoConnectionToAnotherServer: a process that meets another server changes nothing there and reads
// nothing, also after it has found the first one again, and ends.
func TestNoConnectionToAnotherServer(t *testing.T) {
	onPostgres(t)
	said, ended := new(said), make(chan error, 2)
	_, at := storetest.Place(t, t.TempDir())
	db := mustOpenAt(t, Config{URL: at, Logger: slog.New(slog.NewTextHandler(said, nil)), OnFailure: func(err error) { ended <- err }})
	db.mustPublish(t, "rgh_a", api.RightActive)
	real := db.cfg.server.current()
	require.Regexp(t, `^\d+/0000000[1-9]$`, real)
	rename := func(name string) {
		db.cfg.server.mu.Lock()
		defer db.cfg.server.mu.Unlock()
		db.cfg.server.name = name
	}
	rename("system/1") // as if all connections from now on led to another server
	db.read.SetMaxIdleConns(0)
	_, err := List(t.Context(), db.read, "rows", Text, `SELECT id FROM incarnations`)
	require.ErrorIs(t, err, ErrWentBack)
	_, err = db.cfg.connect(t.Context(), db.pg.config)
	require.ErrorIs(t, err, ErrWentBack)
	rename(real)
	_, err = db.Feed(t.Context(), api.FeedRequest{})
	require.ErrorIs(t, err, ErrWentBack)
	require.ErrorIs(t, db.Change(t.Context(), func(*Tx) error { return nil }), ErrWentBack)
	require.ErrorIs(t, <-ended, ErrWentBack)
	require.Empty(t, ended, "once")
	require.Equal(t, 1, said.count("level=ERROR"), said)
}

// TestIdleConnectionsMeetAnotherServer: a process does not go on with connections to a server that its
// address no longer leads to.
func TestIdleConnectionsMeetAnotherServer(t *testing.T) {
	onPostgres(t)
	_, at := storetest.Place(t, t.TempDir())
	db := mustOpenAt(t, Config{URL: at, maxLifetime: time.Millisecond, OnFailure: func(error) {}})
	read := func() error {
		_, err := List(t.Context(), db.read, "rows", Text, `SELECT id FROM incarnations`)
		return err
	}
	require.NoError(t, read())
	db.cfg.server.mu.Lock()
	db.cfg.server.name = "system/1" // as if all connections from now on led to another server
	db.cfg.server.mu.Unlock()
	waittest.Until(t, func() bool { return errors.Is(read(), ErrWentBack) })
}

// TestStopIsInTheLogBeforeItIsAcknowledged: a server that is lost may take with it what it has
// committed, but not the log.
func TestStopIsInTheLogBeforeItIsAcknowledged(t *testing.T) {
	onPostgres(t)
	dir := t.TempDir()
	_, at := storetest.Place(t, dir)
	db, other := mustOpenAt(t, Config{URL: at, confirmWithin: 50 * time.Millisecond}), mustOpen(t, dir)
	stop := func() error {
		return db.Stop(t.Context(), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, event("tnt_a", "rgh_a")) })
	}
	require.NoError(t, stop(), "before there is a log")
	log := newMemoryLog()
	db.relayAll(t, log)
	db.resign(t.Context())
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))

	err := stop()
	require.Equal(t, api.LogUnavailable, api.From(err).Reason, "nobody relays")
	pending, err := db.pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 1, "it takes effect nevertheless")
	again := func() error { return db.Stop(t.Context(), func(*Tx) error { return nil }) }
	require.Equal(t, api.LogUnavailable, api.From(again()).Reason, "which the log still lacks")
	require.Equal(t, api.LogUnavailable, api.From(db.Confirm(t.Context())).Reason)
	conflict := func() error {
		return db.Stop(t.Context(), func(*Tx) error { return api.Conflict("the right is SUSPENDED") })
	}
	require.Equal(t, api.LogUnavailable, api.From(conflict()).Reason, "that it is suspended already would acknowledge it")
	require.Contains(t, api.From(conflict()).Message, "conflicts with an earlier change")
	require.ErrorIs(t, conflict(), ErrUnconfirmed)
	keyed := KeyedRequest{TenantID: "tnt_a", KeyHash: "k", RequestHash: "r"}
	attempt, _, err := db.Attempt(t.Context(), keyed)
	require.NoError(t, err)
	require.Error(t, db.Stop(WithAttempt(t.Context(), attempt), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, event("tnt_a", "rgh_b")) }))
	require.NoError(t, db.Release(t.Context(), attempt))
	_, _, err = db.Attempt(t.Context(), keyed)
	require.Equal(t, api.LogUnavailable, api.From(err).Reason)

	faulty := &faultyLog{plan: map[int]fault{1: failed, 2: failed}}
	defer other.mustRelay(t, faulty)()
	waittest.Until(t, func() bool { return again() == nil })
	require.Equal(t, 2, faulty.count())
	require.Equal(t, api.StateConflict, api.From(conflict()).Code)
	_, _, err = db.Attempt(t.Context(), keyed)
	require.ErrorIs(t, err, errAnswerLost)
	db.cfg.confirmWithin = time.Minute
	for n := range 10 {
		require.NoError(t, stop(), "another process relays")
		require.Equal(t, 3+n, faulty.count())
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, errors.Is(db.Confirm(cancelled), context.Canceled))
}

func (l *faultyLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
}

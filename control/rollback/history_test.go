package rollback

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

func TestOneHistoryNeedsNoConsent(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}), "before anything was")
	for range 3 {
		db.emitRight(t, "right.issued", "rgh_a")
		log.deliver(t, 10)
		db.relayAll(t, log)
	}
	log.deliver(t, 5)
	db.emitRight(t, "right.suspended", "rgh_a") // not relayed yet
	before := db.Incarnation()
	for _, accept := range []bool{false, true} {
		require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Accept: accept}))
	}
	log.scanned = 0
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
	require.Equal(t, 5, log.scanned, "the log is read from the mark on, and for stops from where the last start ended")
	require.Equal(t, before, db.Incarnation())
	require.Empty(t, db.systemEvents(t))
}

func TestOlderDatabaseIsRefusedUntilAllowed(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	db.emitRight(t, "right.issued", "rgh_a")
	log.deliver(t, 10)
	db.relayAll(t, log)
	marked := log.end
	require.NoError(t, db.Close())
	older := copyDB(t, dir)

	db = mustOpen(t, dir)
	log.deliver(t, 10)
	db.emitRight(t, "right.suspended", "rgh_a")
	newest := db.emitRight(t, "right.revoked", "rgh_a")
	db.relayAll(t, log)
	log.deliver(t, 10)

	db = mustOpen(t, older)
	before := db.Incarnation()
	log.scanned = 0
	err := db.Reconcile(t.Context(), History{Log: log, Replays: []Replay{replayNothing()}})
	require.ErrorIs(t, err, ErrOlder)
	require.ErrorContains(t, err, "2 events of control")
	require.ErrorContains(t, err, "1.0.21")
	require.Equal(t, 22, log.scanned)
	require.Equal(t, before, db.Incarnation())
	require.Empty(t, db.systemEvents(t))

	// A replay that fails leaves everything as it was.
	broken := errors.New("no")
	err = db.Reconcile(t.Context(), History{Log: log, Accept: true, Replays: []Replay{
		ofRights(func(context.Context, *store.Tx, *sealer.Event) (bool, error) { return false, broken }),
	}})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "right.revoked of rgh_a")
	require.Equal(t, before, db.Incarnation())
	require.Empty(t, db.systemEvents(t))

	var replayed []string
	accept := History{Log: log, Accept: true, Replays: []Replay{
		ofRights(func(ctx context.Context, tx *store.Tx, e *sealer.Event) (bool, error) {
			replayed = append(replayed, e.Type)
			revision, err := tx.Revision(ctx)
			require.NoError(t, err)
			require.Greater(t, revision, newest, "no revision names two states")
			return true, store.Publish(ctx, tx, api.Rights, &api.Right{ID: "rgh_a", State: api.RightRevoked, Revision: revision})
		}),
		replayNothing(),
	}}
	require.NoError(t, db.Reconcile(t.Context(), accept))
	require.Equal(t, []string{"right.revoked"}, replayed, "only the newest counts")
	require.NotEqual(t, before, db.Incarnation())
	feed, err := db.Feed.Changes(t.Context(), api.FeedRequest{})
	require.NoError(t, err)
	require.Equal(t, db.Incarnation(), feed.Incarnation)
	require.Len(t, feed.Changes, 1, "nodes get it with their first copy")
	require.Equal(t, map[string]map[string]any{"database.rollback_accepted": {
		"incarnation": db.Incarnation(), "previous": before, "missed": 2.0, "reapplied": 1.0,
		"missedFrom": []any{"1.0.21"}, "logEnd": []any{log.end.String()}, "gaps": []any{},
	}}, db.systemEvents(t))
	mark, _, err := HighWater(t.Context(), db.DB, 0)
	require.NoError(t, err)
	require.Greater(t, mark.Compare(marked), 0)

	// From here on there is one history again, also over the next start.
	db.relayAll(t, log)
	require.Equal(t, uint64(2), log.entries[len(log.entries)-1].Epoch)
	require.Equal(t, uint64(1), log.entries[len(log.entries)-1].Seq)
	incarnation := db.Incarnation()
	require.NoError(t, db.Close())
	db = mustOpen(t, older)
	require.Equal(t, incarnation, db.Incarnation())
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log}))
}

// TestIncarnationsAreNotMixedUp restores the same old copy twice: the second incarnation must not
// take the numbers of the first for its own.
func TestIncarnationsAreNotMixedUp(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	db.emitRight(t, "right.issued", "rgh_a")
	db.relayAll(t, log)
	require.NoError(t, db.Close())
	older := copyDB(t, dir)

	for want := uint64(2); want <= 4; want++ {
		db := mustOpen(t, copyDB(t, older))
		for range want * 3 { // so that numbers alone would look known
			log.deliver(t, 1)
		}
		if want == 2 {
			stranger := mustOpen(t, dir)
			stranger.emitRight(t, "right.suspended", "rgh_a")
			stranger.relayAll(t, log)
		} else {
			require.ErrorIs(t, db.Reconcile(t.Context(), History{Log: log}), ErrOlder)
		}
		require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Accept: true}))
		db.relayAll(t, log)
		require.Equal(t, want, log.entries[len(log.entries)-1].Epoch)
		require.NoError(t, db.Close())
	}
}

// TestMissingDatabaseAndMissingLog has one of the two start from nothing.
func TestMissingDatabaseAndMissingLog(t *testing.T) {
	log := newMemoryLog()
	db := mustOpen(t, t.TempDir())
	db.emitRight(t, "right.issued", "rgh_a")
	db.relayAll(t, log)

	fresh := mustOpen(t, t.TempDir())
	require.ErrorIs(t, fresh.Reconcile(t.Context(), History{Log: log}), ErrOlder)

	// The log is lost, accepted, and begins anew in the next generation.
	log.cut(0, 2)
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Accept: true}))
	require.Equal(t, map[string]map[string]any{"log.rollback_accepted": {"endedAt": "1.0.1", "continuedAt": "2.0.0"}}, db.systemEvents(t))
	mark, _, err := HighWater(t.Context(), db.DB, 0)
	require.NoError(t, err)
	require.Equal(t, sealer.Position{Generation: 2}, mark)
}

func TestShorterLogIsRecordedOnce(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	for range 3 {
		db.emitRight(t, "right.issued", "rgh_a")
		log.deliver(t, 3)
		db.relayAll(t, log)
	}
	require.NoError(t, db.Close())
	older := copyDB(t, dir)

	log.cut(7, 2)
	db = mustOpen(t, dir)
	for range 2 {
		// No flag is needed: the log is in its new generation already, and the process may have
		// died before it recorded that.
		require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Loaded: loadedTo{0: {Generation: 1, Offset: 40}}}))
	}
	require.Equal(t, map[string]map[string]any{"log.rollback_accepted": {"endedAt": "1.0.40", "continuedAt": "2.0.7"}}, db.systemEvents(t))
	db.relayAll(t, log)

	// The event itself is what a copy from before does not know.
	require.ErrorIs(t, mustOpen(t, older).Reconcile(t.Context(), History{Log: log}), ErrOlder)
}

// TestGapIsNamed has the log remove what the older database would have to read.
func TestGapIsNamed(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	db.emitRight(t, "right.issued", "rgh_a")
	log.deliver(t, 9)
	db.relayAll(t, log)
	require.NoError(t, db.Close())

	log.deliver(t, 20)
	for name, left := range map[string][]sealer.Entry{"some": log.entries[15:], "all": nil} {
		t.Run(name, func(t *testing.T) {
			first := "1.0.30"
			if left != nil {
				first = "1.0.15"
			}
			log := &memoryLog{entries: left, end: log.end}
			db := mustOpen(t, copyDB(t, dir))
			err := db.Reconcile(t.Context(), History{Log: log})
			require.ErrorIs(t, err, ErrOlder)
			require.ErrorContains(t, err, "between 1.0.10 and "+first)
			require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Accept: true}))
			data := db.systemEvents(t)["database.rollback_accepted"]
			require.Equal(t, []any{map[string]any{"from": "1.0.10", "to": first}}, data["gaps"])
		})
	}
	t.Run("no gap", func(t *testing.T) {
		log := &memoryLog{entries: log.entries[10:], end: log.end}
		require.NoError(t, mustOpen(t, copyDB(t, dir)).Reconcile(t.Context(), History{Log: log}))
	})
}

func TestUnreadableLogIsNotTakenForAnOlderOne(t *testing.T) {
	db, log := mustOpen(t, t.TempDir()), newMemoryLog()
	log.fault = errLog
	err := db.Reconcile(t.Context(), History{Log: log, Accept: true})
	require.ErrorIs(t, err, errLog)
	require.NotErrorIs(t, err, ErrOlder)
	log.fault = nil
	_, err = log.Append(t.Context(), &sealer.Record{Node: store.Node, Epoch: 7, Seq: 1, Event: []byte("no event")})
	require.NoError(t, err)
	err = db.Reconcile(t.Context(), History{Log: log, Accept: true})
	require.ErrorContains(t, err, "record at 1.0.0")
}

// TestKeyThatTheDatabaseDoesNotKnow: a key signs from its commit on, and the event of it may come
// into the log behind what it signed, or never.
func TestKeyThatTheDatabaseDoesNotKnow(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	first, known := signedDelivery(t)
	keys := []string{known}
	history := History{Log: log, Keys: func(context.Context, store.Querier) ([]string, error) { return keys, nil }}
	db.emitRight(t, "key.enrolled", known)
	db.relayAll(t, log)
	_, err := log.Append(t.Context(), first)
	require.NoError(t, err)
	require.NoError(t, db.Reconcile(t.Context(), history))
	require.NoError(t, db.Close())
	older := copyDB(t, dir)

	second, unknown := signedDelivery(t)
	at, err := log.Append(t.Context(), second)
	require.NoError(t, err)
	for range 2 {
		_, err = log.Append(t.Context(), second)
		require.NoError(t, err)
	}
	db = mustOpen(t, older)
	meets, err := history.Meets(t.Context(), db.Read(), 0)
	require.NoError(t, err)
	require.Equal(t, at, meets, "a backup of it ends before that")
	err = db.Reconcile(t.Context(), history)
	require.ErrorIs(t, err, ErrOlder)
	require.ErrorContains(t, err, "deliveries signed by the key "+unknown+", which it does not know, from position "+at.String()+" on")
	s := start{History: history, db: db.DB}
	require.NoError(t, s.compare(t.Context()))
	require.ErrorContains(t, s.provable(t.Context()), "nothing could prove them")

	// The event of the key is there after all.
	other := mustOpen(t, t.TempDir())
	for range 3 {
		other.emitRight(t, "key.rotated", unknown)
	}
	other.relay(t, log)
	accept := history
	accept.Accept, accept.Replays = true, []Replay{ofRights(func(_ context.Context, _ *store.Tx, e *sealer.Event) (bool, error) {
		if e.Subject.ID == unknown {
			keys = []string{known, unknown}
		}
		return e.Subject.ID == unknown, nil
	})}
	require.NoError(t, db.Reconcile(t.Context(), accept))
	require.NoError(t, s.provable(t.Context()))
	require.NoError(t, db.Reconcile(t.Context(), history))
}

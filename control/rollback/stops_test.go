package rollback

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// replayed reconciles, and returns the events of rights that were replayed, as if each held
// something new.
func (db *database) replayed(t *testing.T, log Reader, older func(take func([]byte) error) error) (replayed []string) {
	t.Helper()
	h := History{Log: log, Replays: []Replay{ofRights(func(_ context.Context, _ *store.Tx, e *sealer.Event) (bool, error) {
		replayed = append(replayed, e.Type+" "+e.Subject.ID)
		return false, nil
	})}}
	if older != nil {
		h.Older = func(_ context.Context, take func([]byte) error) error { return older(take) }
	}
	require.NoError(t, db.Reconcile(t.Context(), h))
	return replayed
}

// TestStartReadsWhatCameSince: the first start reads everything, each further one what came
// since the one before.
func TestStartReadsWhatCameSince(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	calls := 0
	older := func(func([]byte) error) error { calls++; return nil }
	start := func() []string {
		calls, log.scanned = 0, 0
		return db.replayed(t, log, older)
	}
	for _, right := range []string{"rgh_a", "rgh_b"} {
		db.emitRight(t, "right.issued", right)
		db.emitRight(t, "right.suspended", right)
		log.deliver(t, 3)
	}
	db.relayAll(t, log)
	require.Equal(t, []string{"right.suspended rgh_a", "right.suspended rgh_b"}, start())
	require.Equal(t, 1, calls)
	require.Empty(t, start())
	require.Zero(t, calls+log.scanned)

	db.emitRight(t, "right.resumed", "rgh_a")
	log.deliver(t, 3)
	db.relayAll(t, log)
	require.NoError(t, db.Close())
	db = mustOpen(t, dir)
	require.Equal(t, []string{"right.resumed rgh_a"}, start())
	require.Equal(t, 4, log.scanned)
	require.Empty(t, start())

	// A start that can't know where the last one ended reads everything.
	all := []string{"right.resumed rgh_a", "right.suspended rgh_b"}
	for _, statement := range []string{
		`DELETE FROM high_water WHERE name = 'stops'`,
		`UPDATE high_water SET position = '1.0.99999' WHERE name = 'stops'`,
		`UPDATE high_water SET position = '9.0.0' WHERE name = 'stops'`,
	} {
		db.exec(t, statement)
		require.Equal(t, all, start(), statement)
		require.Equal(t, 1, calls, statement)
		db.exec(t, `DELETE FROM high_water WHERE name = 'stops'`)
		require.Equal(t, all, start())
	}
	log.cut(log.end.Offset, 2)
	require.Equal(t, all, start(), "a log of another generation")
	require.Empty(t, start())
}

// TestStartReadsNoMoreThanItsBound: after a long run, too, a service is ready in seconds. What
// it has not read is searched afterwards, however often that was broken off.
func TestStartReadsNoMoreThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := mustOpenFile(t, t.TempDir(), nil), newMemoryLog()
		defer db.Close() // its goroutines are the test's
		require.Empty(t, db.replayed(t, log, nil))
		for _, right := range []string{"rgh_a", "rgh_lifted", "rgh_b"} {
			db.emitRight(t, "right.suspended", right)
			db.relayAll(t, log)
			log.end.Offset += startReads - 1
		}
		log.end = log.entries[2].Next()
		undone := map[string]string{}
		h := History{Log: log, Replays: []Replay{ofRights(func(_ context.Context, _ *store.Tx, e *sealer.Event) (bool, error) {
			was := undone[e.Subject.ID]
			undone[e.Subject.ID] = e.Type
			return was != e.Type, nil
		})}}
		for range 2 { // a start that doesn't get to the end of its search
			clear(undone)
			require.NoError(t, db.Reconcile(t.Context(), h))
			require.Equal(t, map[string]string{"rgh_b": "right.suspended"}, undone)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, db.search.Run(ctx))
		}
		db.emitRight(t, "right.resumed", "rgh_lifted")
		db.relayAll(t, log)
		log.fail(errors.New("away"))
		searched := make(chan error)
		go func() { searched <- db.search.Run(t.Context()) }()
		synctest.Wait()
		log.fail(nil)
		require.NoError(t, <-searched)
		require.Equal(t, map[string]string{"rgh_a": "right.suspended", "rgh_b": "right.suspended", "rgh_lifted": "right.resumed"}, undone)

		db.relayAll(t, log) // database.stops_reapplied
		log.scanned = 0
		require.NoError(t, db.Reconcile(t.Context(), h))
		require.Less(t, log.scanned, 4, "what was searched is not read again")
		require.Nil(t, db.search)
	})
}

// TestNewestEventCounts wherever it is when the database is checked for stops.
func TestNewestEventCounts(t *testing.T) {
	db, log := mustOpen(t, t.TempDir()), newMemoryLog()
	db.emitRight(t, "right.suspended", "rgh_a")
	db.relayAll(t, log)
	db.emitRight(t, "right.resumed", "rgh_a")
	require.Equal(t, []string{"right.resumed rgh_a"}, db.replayed(t, log, nil), "in the outbox")

	db, log = mustOpen(t, t.TempDir()), newMemoryLog()
	db.emitRight(t, "right.suspended", "rgh_a")
	db.relayAll(t, log)
	var last string
	require.NoError(t, db.Reconcile(t.Context(), History{
		Log: log,
		Replays: []Replay{ofRights(func(_ context.Context, _ *store.Tx, e *sealer.Event) (bool, error) {
			last = e.Type
			return e.Type == "right.suspended", nil // which the database does not show
		})},
		Older: func(context.Context, func([]byte) error) error {
			db.emitRight(t, "right.resumed", "rgh_a")
			db.relay(t, log)
			return nil
		},
	}))
	require.Equal(t, "right.resumed", last, "on its way meanwhile")

	db, log = mustOpen(t, t.TempDir()), newMemoryLog()
	db.emitRight(t, "right.suspended", "rgh_a")
	db.emitRight(t, "right.resumed", "rgh_b")
	db.relayAll(t, log)
	packed := log.entries
	db.emitRight(t, "right.suspended", "rgh_b")
	db.relayAll(t, log)
	log.entries = log.entries[2:]
	require.Equal(t, []string{"right.suspended rgh_a", "right.suspended rgh_b"}, db.replayed(t, log, func(take func([]byte) error) error {
		for range 2 {
			for _, e := range packed {
				require.NoError(t, take(e.Event))
			}
		}
		db := mustOpen(t, t.TempDir()) // of an attacker who wants to lift the suspensions
		db.exec(t, `UPDATE counters SET value = $1 WHERE name = 'revision'`, maxRevision)
		db.emitRight(t, "right.resumed", "rgh_a")
		forged, err := sealer.AppendEvent(nil, &db.pending(t)[0])
		require.NoError(t, err)
		require.NoError(t, take(forged))
		return take([]byte("no event"))
	}), "behind what a pack holds")
}

// TestReappliedStopsAreTold: by an event, and by a line of the log each. Revisions go on
// behind those that were given, whatever the database says.
func TestReappliedStopsAreTold(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpenFile(t, dir, nil)
	var suspended int64
	for range 5 {
		suspended = db.emitRight(t, "right.suspended", "rgh_a")
	}
	db.relayAll(t, log)
	db.exec(t, `UPDATE counters SET value = 1 WHERE name = 'revision'`)
	require.NoError(t, db.Close())
	var said bytes.Buffer
	db = mustOpenFile(t, dir, slog.New(slog.NewTextHandler(&said, nil)))
	require.NoError(t, db.Reconcile(t.Context(), History{Log: log, Replays: []Replay{ofRights(func(ctx context.Context, tx *store.Tx, e *sealer.Event) (bool, error) {
		revision, err := tx.Revision(ctx)
		require.Greater(t, revision, suspended)
		return true, err
	})}}))
	require.Contains(t, said.String(), `stop="right.suspended: rgh_a of tnt_a"`)
	require.Len(t, db.pending(t), 1)
	e := db.pending(t)[0]
	require.Equal(t, "database.stops_reapplied", e.Type)
	require.Equal(t, store.BySystem(), e.Actor)
	require.JSONEq(t, `{"reapplied":1}`, string(e.Data))
}

// TestFinalEventCounts: who makes a revoked right live again, and then suspends and resumes
// it, has emitted newer states of it.
func TestFinalEventCounts(t *testing.T) {
	db, log := mustOpen(t, t.TempDir()), newMemoryLog()
	for _, kind := range []string{"right.revoked", "right.suspended", "right.resumed"} {
		db.emitRight(t, kind, "rgh_a")
	}
	db.relayAll(t, log)
	events := log.entries
	for name, order := range map[string][]int{"in order": {0, 1, 2}, "newest first": {2, 1, 0}} {
		s := newStops([]Replay{{Kinds: []string{"right"}, Newest: true, Final: func(record []byte) bool {
			return store.RevisionOf(&sealer.Event{Data: record}) == revisionOfEntry(t, events[0])
		}}}, 0)
		for _, i := range order {
			require.NoError(t, s.take(events[i].Event))
		}
		require.Len(t, s.events, 1, name)
		require.Equal(t, "right.revoked", s.events[0].Type, name)
	}
}

// TestMissedEventsCount: of records of which there may be millions, a start holds only the events that
// an older database missed.
func TestMissedEventsCount(t *testing.T) {
	db, log := mustOpen(t, t.TempDir()), newMemoryLog()
	for _, right := range []string{"rgh_a", "rgh_b", "rgh_c"} {
		db.emitRight(t, "right.suspended", right)
	}
	db.relayAll(t, log)
	missed := ofRights(func(context.Context, *store.Tx, *sealer.Event) (bool, error) { return false, nil })
	missed.Missed = true
	for first := range log.entries {
		s := newStops([]Replay{missed}, revisionOfEntry(t, log.entries[first]))
		for _, e := range log.entries {
			require.NoError(t, s.take(e.Event))
		}
		require.Len(t, s.events, len(log.entries)-1-first)
	}
}

func revisionOfEntry(t *testing.T, e sealer.Entry) int64 {
	t.Helper()
	event, err := sealer.ParseEvent(e.Event)
	require.NoError(t, err)
	return store.RevisionOf(&event)
}

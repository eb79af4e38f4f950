package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store/storetest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// memoryLog is a log whose history tests rewrite.
type memoryLog struct {
	mu      sync.Mutex // for TestFollow, where the log is used while it changes
	entries []sealer.Entry
	end     sealer.Position
	fault   error
	scanned int
}

func newMemoryLog() *memoryLog { return &memoryLog{end: sealer.Position{Generation: 1}} }

func (l *memoryLog) Append(_ context.Context, r *sealer.Record) (sealer.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.end
	l.entries = append(l.entries, sealer.Entry{Position: at, Record: *r})
	l.end = at.Next()
	return at, nil
}

func (l *memoryLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

func (l *memoryLog) Partitions(context.Context) (int, error) { return 1, nil }

func (l *memoryLog) Bounds(context.Context, int32) (first, end sealer.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return l.end, l.end, l.fault
	}
	return l.entries[0].Position, l.end, l.fault
}

func (l *memoryLog) Scan(_ context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	if from != l.end && (len(l.entries) == 0 || from.Compare(l.entries[0].Position) < 0 || from.Compare(l.end) > 0) {
		return fmt.Errorf("%s is no longer in the log", from)
	}
	for _, e := range l.entries {
		if e.Compare(from) < 0 || e.Compare(to) >= 0 {
			continue
		}
		l.scanned++
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// fail makes Bounds fail, or work again.
func (l *memoryLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = err
}

// cut forgets all from an offset on, and goes on there in another generation.
func (l *memoryLog) cut(offset int64, generation uint32) {
	l.entries = l.entries[:offset]
	l.end = sealer.Position{Generation: generation, Partition: l.end.Partition, Offset: offset}
}

// deliver appends what other nodes write.
func (l *memoryLog) deliver(t *testing.T, n int) {
	for range n {
		_, err := l.Append(t.Context(), &sealer.Record{Node: "nod_a", Epoch: 9, Seq: 999, Event: []byte("of no interest")})
		require.NoError(t, err)
	}
}

// relayAll brings the outbox into the log, and the mark behind it.
func (db *DB) relayAll(t *testing.T, log *memoryLog) {
	t.Helper()
	_, err := db.relay(t.Context(), log)
	require.NoError(t, err)
	require.NoError(t, db.SetHighWater(t.Context(), log.end))
}

// emitRight emits an event about a right whose record has a revision.
func (db *DB) emitRight(t *testing.T, eventType, right string) int64 {
	t.Helper()
	var revision int64
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) (err error) {
		if revision, err = tx.Revision(t.Context()); err != nil {
			return err
		}
		data, err := sealer.Canonical(map[string]any{"id": right, "revision": revision})
		if err != nil {
			return err
		}
		return tx.Emit(t.Context(), &Kind{Type: eventType}, sealer.Event{
			TenantID: "tnt_a", Actor: ByKey("key_a"), Subject: sealer.Ref{Kind: "right", ID: right}, Data: data,
		})
	}))
	return revision
}

// copyDB is an older copy of a database, as an operator makes it of a stopped one.
func copyDB(t *testing.T, dir string) string {
	t.Helper()
	older := t.TempDir()
	storetest.Copy(t, dir, older)
	return older
}

// systemEvents are the outbox's events of the system, by type.
func (db *DB) systemEvents(t *testing.T) map[string]map[string]any {
	t.Helper()
	pending, err := db.pending(t.Context())
	require.NoError(t, err)
	found := map[string]map[string]any{}
	for _, r := range pending {
		if r.TenantID != api.SystemTenant {
			continue
		}
		e, err := sealer.ParseEvent(r.Event)
		require.NoError(t, err)
		require.Equal(t, ByOperator(), e.Actor)
		var data map[string]any
		require.NoError(t, json.Unmarshal(e.Data, &data))
		require.NotContains(t, found, e.Type)
		found[e.Type] = data
	}
	return found
}

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
		ofRights(func(context.Context, *Tx, *sealer.Event) (bool, error) { return false, broken }),
	}})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "right.revoked of rgh_a")
	require.Equal(t, before, db.Incarnation())
	require.Empty(t, db.systemEvents(t))

	var replayed []string
	accept := History{Log: log, Accept: true, Replays: []Replay{
		ofRights(func(ctx context.Context, tx *Tx, e *sealer.Event) (bool, error) {
			replayed = append(replayed, e.Type)
			revision, err := tx.Revision(ctx)
			require.NoError(t, err)
			require.Greater(t, revision, newest, "no revision names two states")
			return true, Publish(ctx, tx, api.Rights, &api.Right{ID: "rgh_a", State: api.RightRevoked, Revision: revision})
		}),
		replayNothing(),
	}}
	require.NoError(t, db.Reconcile(t.Context(), accept))
	require.Equal(t, []string{"right.revoked"}, replayed, "only the newest counts")
	require.NotEqual(t, before, db.Incarnation())
	feed, err := db.Feed(t.Context(), api.FeedRequest{})
	require.NoError(t, err)
	require.Equal(t, db.Incarnation(), feed.Incarnation)
	require.Len(t, feed.Changes, 1, "nodes get it with their first copy")
	require.Equal(t, map[string]map[string]any{"database.rollback_accepted": {
		"incarnation": db.Incarnation(), "previous": before, "missed": 2.0, "reapplied": 1.0,
		"missedFrom": []any{"1.0.21"}, "logEnd": []any{log.end.String()}, "gaps": []any{},
	}}, db.systemEvents(t))
	mark, _, err := db.HighWater(t.Context(), 0)
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

// ofRights is a Replay of the newest events of rights.
func ofRights(apply func(context.Context, *Tx, *sealer.Event) (bool, error)) Replay {
	return Replay{Kinds: []string{"right"}, Newest: true, Apply: apply}
}

func replayNothing() Replay {
	return ofRights(func(context.Context, *Tx, *sealer.Event) (bool, error) { return false, nil })
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
	mark, _, err := db.HighWater(t.Context(), 0)
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
	_, err = log.Append(t.Context(), &sealer.Record{Node: Node, Epoch: 7, Seq: 1, Event: []byte("no event")})
	require.NoError(t, err)
	err = db.Reconcile(t.Context(), History{Log: log, Accept: true})
	require.ErrorContains(t, err, "record at 1.0.0")
}

// TestFollow follows a log that grows, over an outage that is logged once.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		dir := t.TempDir()
		db, err := Open(t.Context(), Config{Path: filepath.Join(dir, "control.db"), Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.NoError(t, err)
		defer db.Close()
		log := newMemoryLog()
		mark := func() int64 {
			p, _, err := db.HighWater(t.Context(), 0)
			require.NoError(t, err)
			return p.Offset
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- db.Follow(ctx, log) }()
		// The log is changed between two ticks.
		time.Sleep(followEvery / 2)
		log.deliver(t, 5)
		time.Sleep(followEvery)
		require.Equal(t, int64(5), mark())
		log.fail(errLog)
		log.deliver(t, 5)
		time.Sleep(5 * followEvery)
		require.Equal(t, int64(5), mark())
		log.fail(nil)
		time.Sleep(followEvery)
		require.Equal(t, int64(10), mark())
		log.deliver(t, 1)
		stop()
		require.NoError(t, <-done)
		require.Equal(t, int64(11), mark(), "what a clean end leaves is known in full")
		require.Equal(t, 1, bytes.Count(said.Bytes(), []byte("cannot record how far")))
	})
}

// signedDelivery is a record of a node's, signed by another key each time.
func signedDelivery(t *testing.T) (r *sealer.Record, keyID string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := sealer.Signer{KeyID: sealer.KeyID(pub), Node: "nod_a", Key: key}
	event, err := s.SealDelivery(nil, &sealer.Delivery{
		TenantID: "tnt_a", Actor: ByKey("key_a"), RightID: "rgh_a", RightRevision: 1, BasisID: "bas_a", Substrate: gate.DOOH,
		Metering: gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisGross, QuantityMs: 1, AttentionMs: -1},
	}, &sealer.Receipt{
		ReceiptID: api.NewID(api.PrefixReceipt, at), SpatialAnchorID: "a", IssuedAt: at, RenderedAt: at, DwellMs: 1,
		Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
	})
	require.NoError(t, err)
	return &sealer.Record{Node: "nod_a", Epoch: 1, Seq: 1, Event: event}, s.KeyID
}

// TestKeyThatTheDatabaseDoesNotKnow: a key signs from its commit on, and the event of it may come
// into the log behind what it signed, or never.
func TestKeyThatTheDatabaseDoesNotKnow(t *testing.T) {
	dir, log := t.TempDir(), newMemoryLog()
	db := mustOpen(t, dir)
	first, known := signedDelivery(t)
	keys := []string{known}
	history := History{Log: log, Keys: func(context.Context, Querier) ([]string, error) { return keys, nil }}
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
	m, err := db.missed(t.Context(), history)
	require.NoError(t, err)
	require.ErrorContains(t, db.provable(t.Context(), history, m), "nothing could prove them")

	// The event of the key is there after all.
	other := mustOpen(t, t.TempDir())
	for range 3 {
		other.emitRight(t, "key.rotated", unknown)
	}
	_, err = other.relay(t.Context(), log)
	require.NoError(t, err)
	m, err = db.missed(t.Context(), history)
	require.NoError(t, err)
	accept := history
	accept.Accept, accept.Replays = true, []Replay{ofRights(func(_ context.Context, _ *Tx, e *sealer.Event) (bool, error) {
		if e.Subject.ID == unknown {
			keys = []string{known, unknown}
		}
		return e.Subject.ID == unknown, nil
	})}
	require.NoError(t, db.Reconcile(t.Context(), accept))
	require.NoError(t, db.provable(t.Context(), history, m))
	require.NoError(t, db.Reconcile(t.Context(), history))
}

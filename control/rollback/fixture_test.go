package rollback

import (
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
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

var now = time.Date(2026, 11, 21, 4, 0, 0, 123456789, time.UTC)

var errLog = errors.New("the log is away")

// database is one as a process has it open.
type database struct {
	*store.DB
	search *Search // that the last start left
}

// mustOpen opens the database of a folder; two calls are two processes.
func mustOpen(t *testing.T, dir string) *database {
	t.Helper()
	stacktest.Both(t)
	path, url := storetest.Place(t, dir)
	return mustOpenAt(t, store.Config{Path: path, URL: url})
}

// mustOpenFile opens SQLite, whatever the other tests run on.
func mustOpenFile(t *testing.T, dir string, logger *slog.Logger) *database {
	t.Helper()
	return mustOpenAt(t, store.Config{Path: filepath.Join(dir, "control.db"), Logger: logger})
}

func mustOpenAt(t *testing.T, cfg store.Config) *database {
	t.Helper()
	cfg.Now = func() time.Time { return now }
	db, err := store.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return &database{DB: db}
}

// promote makes the server that a database is on another one than it was when the newest epoch began.
func promote(t *testing.T, dir string) {
	t.Helper()
	db := mustOpen(t, dir)
	db.exec(t, `UPDATE incarnations SET server = 'another/00000001' WHERE epoch = (SELECT max(epoch) FROM incarnations)`)
	require.NoError(t, db.Close())
}

func (db *database) Reconcile(ctx context.Context, h History) (err error) {
	db.search, err = h.Reconcile(ctx, db.DB)
	return err
}

func (db *database) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	}))
}

// relay brings the outbox into the log.
func (db *database) relay(t *testing.T, log store.Appender) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- db.Outbox.Relay(ctx, log) }()
	require.NoError(t, db.Outbox.Drain(t.Context(), ""))
	stop()
	require.NoError(t, <-ended)
}

// pending are the events of the outbox.
func (db *database) pending(t *testing.T) (events []sealer.Event) {
	t.Helper()
	var texts []string
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) (err error) {
		texts, err = tx.Outbox(t.Context())
		return err
	}))
	for _, text := range texts {
		e, err := sealer.ParseEvent([]byte(text))
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

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
func (db *database) relayAll(t *testing.T, log *memoryLog) {
	t.Helper()
	db.relay(t, log)
	require.NoError(t, SetHighWater(t.Context(), db.DB, log.end))
}

// emitRight emits an event about a right whose record has a revision.
func (db *database) emitRight(t *testing.T, eventType, right string) int64 {
	t.Helper()
	var revision int64
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) (err error) {
		if revision, err = tx.Revision(t.Context()); err != nil {
			return err
		}
		data, err := canonical.JSON(map[string]any{"id": right, "revision": revision})
		if err != nil {
			return err
		}
		return tx.Emit(t.Context(), &store.Kind{Type: eventType}, sealer.Event{
			TenantID: "tnt_a", Actor: store.ByKey("key_a"), Subject: sealer.Ref{Kind: "right", ID: right}, Data: data,
		})
	}))
	return revision
}

// mustPublish gives a right a new state in a change of its own.
func (db *database) mustPublish(t *testing.T, id string, state api.RightState) (revision int64) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) (err error) {
		if revision, err = tx.Revision(t.Context()); err != nil {
			return err
		}
		return store.Publish(t.Context(), tx, api.Rights, &api.Right{ID: id, State: state, Revision: revision})
	}))
	return revision
}

// rightEvent is an event about a right.
func rightEvent() sealer.Event {
	return sealer.Event{TenantID: "tnt_a", Actor: store.ByKey("key_a"), Subject: sealer.Ref{Kind: "right", ID: "rgh_a"}, Data: []byte(`{}`)}
}

// copyDB is an older copy of a database, as an operator makes it of a stopped one.
func copyDB(t *testing.T, dir string) string {
	t.Helper()
	older := t.TempDir()
	storetest.Copy(t, dir, older)
	return older
}

// systemEvents are the outbox's events of the system, by type.
func (db *database) systemEvents(t *testing.T) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, e := range db.pending(t) {
		if e.TenantID != api.SystemTenant {
			continue
		}
		require.Equal(t, store.ByOperator(), e.Actor)
		var data map[string]any
		require.NoError(t, json.Unmarshal(e.Data, &data))
		require.NotContains(t, found, e.Type)
		found[e.Type] = data
	}
	return found
}

// ofRights is a Replay of the newest events of rights.
func ofRights(apply func(context.Context, *store.Tx, *sealer.Event) (bool, error)) Replay {
	return Replay{Kinds: []string{"right"}, Newest: true, Apply: apply}
}

func replayNothing() Replay {
	return ofRights(func(context.Context, *store.Tx, *sealer.Event) (bool, error) { return false, nil })
}

// signedDelivery is a record of a node's, signed by another key each time.
func signedDelivery(t *testing.T) (r *sealer.Record, keyID string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := sealer.Signer{KeyID: keydir.KeyID(pub), Node: "nod_a", Key: key}
	event, err := s.SealDelivery(nil, &sealer.Delivery{
		TenantID: "tnt_a", Actor: store.ByKey("key_a"), RightID: "rgh_a", RightRevision: 1, BasisID: "bas_a", Substrate: gate.DOOH,
		Metering: gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisGross, QuantityMs: 1, AttentionMs: -1},
	}, &sealer.Receipt{
		ReceiptID: api.NewID(api.PrefixReceipt, at), SpatialAnchorID: "a", IssuedAt: at, RenderedAt: at, DwellMs: 1,
		Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
	})
	require.NoError(t, err)
	return &sealer.Record{Node: "nod_a", Epoch: 1, Seq: 1, Event: event}, s.KeyID
}

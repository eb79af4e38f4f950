package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

var now = time.Date(2026, 11, 21, 4, 0, 0, 123456789, time.UTC)

// mustOpen opens the database of a folder; two calls are two processes.
func mustOpen(t *testing.T, dir string) *DB {
	t.Helper()
	stacktest.Both(t)
	path, url := storetest.Place(t, dir)
	return mustOpenAt(t, Config{Path: path, URL: url})
}

// mustOpenFile opens SQLite, whatever the other tests run on.
func mustOpenFile(t *testing.T, path string) *DB {
	t.Helper()
	return mustOpenAt(t, Config{Path: path})
}

func mustOpenAt(t *testing.T, cfg Config) *DB {
	t.Helper()
	cfg.Now = func() time.Time { return now }
	db, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// suspended is the kind of the events that event returns.
var suspended = &Kind{Type: "right.suspended"}

func event(tenantID, subject string) sealer.Event {
	return sealer.Event{
		TenantID: tenantID, Actor: ByKey("key_a"),
		Subject: sealer.Ref{Kind: "right", ID: subject}, Data: []byte(`{}`),
	}
}

// mustEmit emits one event in a change of its own.
func (db *DB) mustEmit(t *testing.T, tenantID, subject string) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, event(tenantID, subject)) }))
}

// mustPublish gives a right a new state in a change of its own.
func (db *DB) mustPublish(t *testing.T, id string, state api.RightState) int64 {
	t.Helper()
	var revision int64
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) (err error) {
		if revision, err = tx.Revision(t.Context()); err != nil {
			return err
		}
		return Publish(t.Context(), tx, api.Rights, &api.Right{ID: id, State: state, Revision: revision})
	}))
	return revision
}

func TestChangeIsAllOrNothing(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	broken := errors.New("no")
	changed := db.Changed()
	write := func(tx *Tx) error {
		revision, err := tx.Revision(t.Context())
		if err != nil {
			return err
		}
		again, err := tx.Revision(t.Context())
		if err != nil || again != revision {
			return fmt.Errorf("a change has one revision: %d, %d, %w", revision, again, err)
		}
		if err := Publish(t.Context(), tx, api.Rights, &api.Right{ID: "rgh_a", State: api.RightRevoked, Revision: revision}); err != nil {
			return err
		}
		return tx.Emit(t.Context(), suspended, event("tnt_a", "rgh_a"))
	}
	require.ErrorIs(t, db.Change(t.Context(), func(tx *Tx) error { return errors.Join(write(tx), broken) }), broken)
	require.Panics(t, func() { _ = db.Change(t.Context(), func(tx *Tx) error { _ = write(tx); panic("no") }) })

	f, err := db.Feed.Changes(t.Context(), api.FeedRequest{})
	require.NoError(t, err)
	require.Equal(t, api.Feed{Incarnation: db.Incarnation(), Changes: []api.Change{}}, f)
	pending, err := db.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending)
	select {
	case <-changed:
		require.NotNil(t, db.pg, "a change that failed must wake no one, unless others may have changed something")
	default:
	}

	require.NoError(t, db.Change(t.Context(), write))
	<-changed
	f, err = db.Feed.Changes(t.Context(), api.FeedRequest{})
	require.NoError(t, err)
	require.Equal(t, int64(1), f.Newest, "numbers of failed changes are used again")
	require.Len(t, f.Changes, 1)
	pending, err = db.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 1)
}

func TestEmitRefusesWhatIsNoEvent(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	bad := event("tnt_a", "rgh_a")
	bad.Data = []byte(`{ }`)
	err := db.Change(t.Context(), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, bad) })
	require.ErrorIs(t, err, canonical.ErrNotCanonical)
}

func TestPublishRefusesAnotherRevision(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	for _, revision := range []int64{0, 1} {
		require.ErrorContains(t, db.Change(t.Context(), func(tx *Tx) error {
			return Publish(t.Context(), tx, api.Rights, &api.Right{ID: "rgh_a", Revision: revision})
		}), "in the change of revision 0")
	}
}

func TestReopenedDatabaseIsTheSameLife(t *testing.T) {
	dir := t.TempDir()
	first := mustOpen(t, dir)
	first.mustPublish(t, "rgh_a", api.RightActive)
	require.NoError(t, first.Close())

	second := mustOpen(t, dir)
	require.Equal(t, first.Incarnation(), second.Incarnation())
	require.Equal(t, int64(2), second.mustPublish(t, "rgh_a", api.RightActive))
}

func TestPathMayHoldAnything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c=d#e%20f")
	require.NoError(t, os.Mkdir(dir, 0o700))
	db := mustOpenFile(t, filepath.Join(dir, "control.db"))
	db.mustPublish(t, "rgh_a", api.RightActive)
	require.FileExists(t, filepath.Join(dir, "control.db-wal"), "the database is where the Config says, in WAL mode")
	info, err := os.Stat(filepath.Join(dir, "control.db"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestReadersCannotWrite(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	_, err := db.Read().Exec(`DELETE FROM counters`)
	require.Regexp(t, "readonly|read-only", err)
}

func TestPragmas(t *testing.T) {
	db := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db"))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		require.NoError(t, db.write.QueryRow(`PRAGMA `+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
}

// TestCommitOrderIsRevisionOrder has many writers, and readers that follow the
// feed: a reader that has seen a revision has seen all before it.
func TestCommitOrderIsRevisionOrder(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	db.cfg.feedLimit = 7
	const writers, each = 8, 25
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				db.mustPublish(t, fmt.Sprintf("rgh_%d_%d", w, i), api.RightActive)
			}
		})
	}
	first := db.mustPublish(t, "rgh_first", api.RightActive)
	const total = writers*each + 1
	for range 3 {
		reading.Go(func() {
			seen := map[int64]bool{}
			for after := first; after < total; {
				changed := db.Changed()
				f, err := db.Feed.Changes(t.Context(), api.FeedRequest{After: after})
				require.NoError(t, err)
				for _, c := range f.Changes {
					require.Greater(t, c.Revision, after)
					require.LessOrEqual(t, c.Revision, f.UpTo)
					seen[c.Revision] = true
				}
				for r := after + 1; r <= f.UpTo; r++ {
					require.True(t, seen[r], "revision %d was skipped on the way to %d", r, f.UpTo)
				}
				if after = f.UpTo; after == f.Newest && after < total {
					<-changed
				}
			}
		})
	}
	writing.Wait()
	reading.Wait()
}

func TestFirstCopyHoldsWhatWasEverStopped(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	db.mustPublish(t, "rgh_active", api.RightActive)
	db.mustPublish(t, "rgh_suspended", api.RightSuspended)
	db.mustPublish(t, "rgh_resumed", api.RightSuspended)
	db.mustPublish(t, "rgh_resumed", api.RightActive)
	db.mustPublish(t, "rgh_revoked", api.RightRevoked)
	for id, revokedAt := range map[string]time.Time{"key_good": {}, "key_revoked": now} {
		require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
			revision, err := tx.Revision(t.Context())
			require.NoError(t, err)
			return Publish(t.Context(), tx, api.Keys, &api.Key{ID: id, RevokedAt: revokedAt, Revision: revision})
		}))
	}
	ids := func(f api.Feed) (ids []string) {
		for _, c := range f.Changes {
			var state struct{ State string }
			require.NoError(t, json.Unmarshal(c.Snapshot, &state))
			ids = append(ids, strings.TrimSpace(c.Kind+" "+c.ID+" "+state.State))
		}
		return ids
	}
	db.cfg.feedLimit = 1
	f, err := db.Feed.Changes(t.Context(), api.FeedRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"right rgh_suspended SUSPENDED", "right rgh_resumed ACTIVE", "right rgh_revoked REVOKED", "key key_revoked"}, ids(f), "whole, whatever the limit")
	require.Equal(t, f.Newest, f.UpTo)

	db.cfg.feedLimit = 2
	f, err = db.Feed.Changes(t.Context(), api.FeedRequest{After: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"right rgh_suspended SUSPENDED", "right rgh_resumed ACTIVE"}, ids(f))
	require.Equal(t, int64(4), f.UpTo)
	require.Equal(t, int64(7), f.Newest)
}

// mustMap publishes the mapping of a vendor id.
func (db *DB) mustMap(t *testing.T, id, right string) (m *api.Mapping) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		revision, err := tx.Revision(t.Context())
		require.NoError(t, err)
		m = &api.Mapping{ID: id, Revision: revision, Windows: []api.MappingWindow{{RightID: right, From: now}}}
		return Publish(t.Context(), tx, api.Mappings, m)
	}))
	return m
}

// TestMappingsAreInNobodysFirstCopy, however many there are: they stop nothing.
func TestMappingsAreInNobodysFirstCopy(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	db.mustPublish(t, "rgh_a", api.RightRevoked)
	db.mustMap(t, "vid_1", "rgh_a")
	want := db.mustMap(t, "vid_1", "rgh_b")
	first, err := db.Feed.Changes(t.Context(), api.FeedRequest{})
	require.NoError(t, err)
	require.Len(t, first.Changes, 1)
	require.Equal(t, "rgh_a", first.Changes[0].ID)
	f, err := db.Feed.Changes(t.Context(), api.FeedRequest{After: 1})
	require.NoError(t, err)
	require.Len(t, f.Changes, 1, "what was superseded is left out")
	got, err := api.Mappings.Read(&f.Changes[0])
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = Newest(t.Context(), db, api.Mappings, "vid_1")
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = Newest(t.Context(), db, api.Mappings, "rgh_a")
	require.NoError(t, err)
	require.Nil(t, got, "ids are of their kind")
}

// TestSnapshots reads very many records at once, of those that there are.
func TestSnapshots(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	const some = 3*snapshotsAtOnce + 7
	want, ids := map[string]int64{}, []string{"vid_none", "rgh_a"}
	db.mustPublish(t, "rgh_a", api.RightRevoked)
	for i := range some {
		id := fmt.Sprintf("vid_%d", i)
		ids = append(ids, id)
		if i%2 == 0 {
			want[id] = db.mustMap(t, id, "rgh_a").Revision
		}
	}
	s, err := db.Feed.Snapshots(t.Context(), api.Mappings.Name, ids)
	require.NoError(t, err)
	got := map[string]int64{}
	for i := range s.Changes {
		m, err := api.Mappings.Read(&s.Changes[i])
		require.NoError(t, err)
		got[m.ID] = m.Revision
	}
	require.Len(t, s.Changes, len(want), "each once")
	require.Equal(t, want, got)
	require.Equal(t, int64(some/2+2), s.AsOf)
	none, err := db.Feed.Snapshots(t.Context(), api.Mappings.Name, nil)
	require.NoError(t, err)
	require.Equal(t, api.Snapshots{Changes: []api.Change{}, AsOf: s.AsOf}, none)
}

func TestFeedNeverEndsInsideARevision(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	db.mustPublish(t, "rgh_0", api.RightActive)
	db.mustPublish(t, "rgh_1", api.RightActive)
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		revision, err := tx.Revision(t.Context())
		require.NoError(t, err)
		for i := range 5 {
			if err := Publish(t.Context(), tx, api.Rights, &api.Right{ID: fmt.Sprintf("rgh_many_%d", i), State: api.RightActive, Revision: revision}); err != nil {
				return err
			}
		}
		return nil
	}))
	db.mustPublish(t, "rgh_last", api.RightActive)
	for _, c := range []struct{ after, limit, upTo, changes int64 }{
		{1, 1, 2, 1}, {1, 2, 2, 1}, {1, 5, 2, 1}, {1, 6, 3, 6}, {1, 7, 4, 7}, {1, 100, 4, 7},
		{2, 1, 3, 5}, {2, 4, 3, 5}, {2, 5, 3, 5}, {2, 6, 4, 6}, {3, 1, 4, 1}, {4, 1, 4, 0}, {9, 1, 4, 0},
	} {
		db.cfg.feedLimit = int(c.limit)
		f, err := db.Feed.Changes(t.Context(), api.FeedRequest{After: c.after})
		require.NoError(t, err)
		require.Len(t, f.Changes, int(c.changes), "%+v", c)
		require.Equal(t, c.upTo, f.UpTo, "%+v", c)
	}
}

func TestInstant(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	var got, none Instant
	require.NoError(t, db.Read().QueryRow(`SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT)`, At(now), Instant{}).Scan(&got, &none))
	require.Equal(t, At(now), got)
	require.True(t, none.IsZero())
	text, err := canonical.JSON(map[string]Instant{"at": At(now.In(time.FixedZone("x", 3600))), "never": none})
	require.NoError(t, err)
	require.Equal(t, `{"at":"2026-11-21T04:00:00.123Z","never":null}`, string(text))
	require.Error(t, new(Instant).Scan("now"))
	require.Error(t, new(Instant).UnmarshalJSON([]byte(`"now"`)))
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "control.db"), Registerer: registry})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	waiting := func() float64 {
		n, err := testutil.GatherAndCount(registry, "muniment_store_outbox_events")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		return db.Outbox.length()
	}
	db.mustEmit(t, "tnt_a", "rgh_a")
	require.Equal(t, 1., waiting())
	stop := db.mustRelay(t, &faultyLog{})
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a"))
	stop()
	require.Equal(t, 0., waiting())
	require.Equal(t, 1., testutil.ToFloat64(db.Outbox.metrics.relayed))
}

// mustRelay runs the relay until stop is called.
func (db *DB) mustRelay(t *testing.T, log Appender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- db.Outbox.Relay(ctx, log) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// TestSearchesTakeNoReaders: neither searches nor reads, however many and slow, take the connections of the nodes' feed,
// nor searches those of reads.
func TestSearchesTakeNoReaders(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a read that waits for a connection fails
	defer cancel()
	var begun, ended sync.WaitGroup
	end := make(chan struct{})
	hold := func(n int, view func(context.Context, func(Querier) error) error) {
		for range n {
			begun.Add(1)
			ended.Go(func() {
				if err := view(ctx, func(Querier) error { begun.Done(); <-end; return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		begun.Wait()
	}
	hold(searchers, db.Search)
	require.NoError(t, db.View(ctx, func(Querier) error { return nil }))
	hold(readers, db.View)
	_, err := db.Feed.Changes(ctx, api.FeedRequest{})
	require.NoError(t, err)
	require.NoError(t, db.Ready(ctx))
	require.NoError(t, db.Vital().QueryRowContext(ctx, `SELECT COUNT(*) FROM outbox`).Scan(new(int)))
	close(end)
	ended.Wait()
}

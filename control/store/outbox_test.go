package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// faultyLog is a log whose n-th Append fails by a plan, in the two ways in which
// a log can fail: failed, and failed but persisted.
type faultyLog struct {
	mu      sync.Mutex
	records []sealer.Record
	calls   int
	plan    map[int]fault
}

type fault int

const (
	failed fault = iota + 1
	failedButPersisted
	crash // persisted, and the process dies before it knows
)

var errLog = errors.New("the log is away")

func (l *faultyLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	f := l.plan[l.calls]
	if f == failed {
		return sealer.Position{}, errLog
	}
	l.records = append(l.records, *r)
	if f != 0 {
		return sealer.Position{}, errLog
	}
	return sealer.Position{Offset: int64(len(l.records) - 1)}, nil
}

// AppendInOrder takes some of the records, as a log does that has no room for all of them.
func (l *faultyLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs[:1+rand.IntN(len(rs))], l.Append)
}

// subjects are the subjects of the log in order, each at its first place. A copy
// must have the same event id and the same bytes as its first.
func (l *faultyLog) subjects(t *testing.T) (subjects []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	first := map[string]string{}
	for _, r := range l.records {
		e, err := sealer.ParseEvent(r.Event)
		require.NoError(t, err)
		if text, copied := first[r.EventID]; copied {
			require.Equal(t, text, string(r.Event))
			continue
		}
		first[r.EventID] = string(r.Event)
		require.Equal(t, Node, r.Node)
		require.Equal(t, uint64(1), r.Epoch)
		require.Equal(t, uint64(len(first)), r.Seq, "numbers are without gaps")
		subjects = append(subjects, e.Subject.ID)
	}
	return subjects
}

// TestRelayNeitherLosesNorReorders has writers beside a relay whose log fails at
// random.
func TestRelayNeitherLosesNorReorders(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	log := &faultyLog{plan: map[int]fault{}}
	for range 12 {
		log.plan[1+rand.IntN(60)] = failed + fault(rand.IntN(2))
	}
	stop := db.mustRelay(t, log)
	var order []string // filled under the one write transaction
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 15 {
				subject := fmt.Sprintf("rgh_%d_%d", w, i)
				require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
					order = append(order, subject)
					return tx.Emit(t.Context(), suspended, event("tnt_a", subject))
				}))
			}
		})
	}
	writers.Wait()
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a"))
	require.Equal(t, order, log.subjects(t))
	stop()
	pending, err := db.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending)
}

// TestCrashAtEveryStep stops the process at the n-th append, before or after the
// log had the record, and starts another on the same file: the log then holds
// everything, in order, and at most copies of what it had.
func TestCrashAtEveryStep(t *testing.T) {
	const events = 4
	for at := 1; at <= events; at++ {
		for _, persisted := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, persisted %t", at, persisted), func(t *testing.T) {
				dir := t.TempDir()
				var want []string
				before := mustOpen(t, dir)
				for i := range events {
					want = append(want, fmt.Sprintf("rgh_%d", i))
					before.mustEmit(t, "tnt_a", want[i])
				}
				kind := failed
				if persisted {
					kind = crash
				}
				log := &faultyLog{plan: map[int]fault{at: kind}}
				// The process is killed here: it does not get to clear the outbox.
				pending, err := before.Outbox.pending(t.Context())
				require.NoError(t, err)
				for i := range pending {
					if _, err := log.Append(t.Context(), &pending[i]); err != nil {
						break
					}
				}
				require.NoError(t, before.Close())

				after := mustOpen(t, dir)
				stop := after.mustRelay(t, log)
				require.NoError(t, after.Outbox.Drain(t.Context(), "tnt_a"))
				stop()
				require.Equal(t, want, log.subjects(t))
				had := at - 1
				if persisted {
					had = at
				}
				require.Len(t, log.records, events+had, "copies of exactly what the log had")
			})
		}
	}
}

// TestRelayKeepsWhatItCouldClear fails in the middle of a batch: what came before
// is not sent again.
func TestRelayKeepsWhatItCouldClear(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	for i := range 3 {
		db.mustEmit(t, "tnt_a", fmt.Sprint("rgh_", i))
	}
	log := &faultyLog{plan: map[int]fault{3: failed}}
	n, err := db.Outbox.relay(t.Context(), log)
	require.ErrorIs(t, err, errLog)
	require.Equal(t, 2, n)
	n, err = db.Outbox.relay(t.Context(), log)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"rgh_0", "rgh_1", "rgh_2"}, log.subjects(t))
	require.Len(t, log.records, 3, "no copies")
}

// cancelling is a log that makes its caller give up right after the record is durable.
type cancelling struct {
	faultyLog
	cancel context.CancelFunc
}

func (l *cancelling) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	defer l.cancel()
	return l.faultyLog.Append(ctx, r)
}

func (l *cancelling) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

func TestStopBetweenAppendAndDeleteSparesTheCopy(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	db.mustEmit(t, "tnt_a", "rgh_0")
	ctx, cancel := context.WithCancel(t.Context())
	log := &cancelling{cancel: cancel}
	require.NoError(t, db.Outbox.Relay(ctx, log))
	pending, err := db.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending)
	require.Len(t, log.records, 1)
}

func TestSecondRelayIsRefused(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	db.mustEmit(t, "tnt_a", "rgh_0")
	stop := db.mustRelay(t, &faultyLog{})
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a")) // it runs
	require.ErrorContains(t, db.Outbox.Relay(t.Context(), &faultyLog{}), "a relay already")
	stop()
	db.mustRelay(t, &faultyLog{})()
}

func TestDrainWaitsForOneTenantAsOfNow(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a"), "nothing to wait for")
	db.mustEmit(t, "tnt_b", "rgh_b")
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a"), "another tenant's events")
	db.mustEmit(t, "tnt_a", "rgh_a")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, db.Outbox.Drain(gone, "tnt_a"), context.Canceled)

	// A log that takes no more than what was there at the call.
	log := &faultyLog{plan: map[int]fault{}}
	for call := 3; call < 1000; call++ {
		log.plan[call] = failed
	}
	drained := make(chan error, 1)
	go func() { drained <- db.Outbox.Drain(t.Context(), "tnt_a") }()
	stop := db.mustRelay(t, log)
	require.NoError(t, <-drained)
	db.mustEmit(t, "tnt_a", "rgh_later")
	stop()
	require.Equal(t, []string{"rgh_b", "rgh_a"}, log.subjects(t))
}

func TestOutboxSurvivesAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	killed := mustOpen(t, dir)
	killed.mustEmit(t, "tnt_a", "rgh_a") // and never closed: the file is as a kill leaves it
	other := mustOpen(t, dir)
	pending, err := other.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 1)
}

// TestPrivatePartGoesBesideItsEvent: what erasure deletes is no part of what is hashed.
func TestPrivatePartGoesBesideItsEvent(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	log := &faultyLog{}
	stop := db.mustRelay(t, log)
	for range 2 {
		require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
			return tx.EmitPrivate(t.Context(), suspended, event("tnt_a", "rgh_a"), sealer.Private{DataSubjects: sealer.About("ann"), AttentionMs: -1, Notes: []sealer.Note{{Name: "reason", Text: `"moved"`}}})
		}))
	}
	db.mustEmit(t, "tnt_a", "rgh_b")
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_a"))
	stop()
	require.Len(t, log.records, 3)
	for _, r := range log.records[:2] {
		e, _, err := sealer.CheckRecord(&r)
		require.NoError(t, err, "the loader takes it")
		require.NotEmpty(t, e.PrivateCommitment)
		require.NotContains(t, string(r.Event), "ann")
		p, err := sealer.ParsePrivate(r.Private)
		require.NoError(t, err)
		require.Equal(t, "ann", p.DataSubjects[0].Reference)
		require.Equal(t, `"moved"`, p.Notes[0].Text)
	}
	require.NotEqual(t, log.records[0].Private, log.records[1].Private, "each has a salt of its own")
	require.Empty(t, log.records[2].Private)
}

// heldLog holds up its first append until the test lets it go, and counts all of them.
type heldLog struct {
	faultyLog
	begun, release chan struct{}
	appends        int
}

func (l *heldLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	if l.appends++; l.appends == 1 {
		close(l.begun)
		<-l.release
	}
	return conform.InOrder(ctx, rs, l.Append)
}

// TestStopWaitsForTwoAppends: a stop behind a full batch waits for the append that runs and for its own,
// and overtakes nothing. With one append for each event a slow log would hold it up for seconds.
func TestStopWaitsForTwoAppends(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	log := &heldLog{begun: make(chan struct{}), release: make(chan struct{})}
	emit := func(change func(context.Context, func(*Tx) error) error, tenant string, n int) {
		require.NoError(t, change(t.Context(), func(tx *Tx) error {
			for i := range n {
				if err := tx.Emit(t.Context(), suspended, event(tenant, fmt.Sprintf("rgh_%s_%d", tenant, i))); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	emit(db.Change, "tnt_first", 1)
	stop := db.mustRelay(t, log)
	<-log.begun
	emit(db.Change, "tnt_others", relayBatch-1)
	emit(db.Stop, "tnt_last", 1)
	close(log.release)
	require.NoError(t, db.Outbox.Drain(t.Context(), "tnt_last"))
	stop()
	require.Equal(t, 2, log.appends)
	subjects := log.subjects(t)
	require.Len(t, subjects, 1+relayBatch)
	require.Equal(t, "rgh_tnt_last_0", subjects[relayBatch])
}

func TestGroupsAreBounded(t *testing.T) {
	rows := make([]sealer.Record, 4)
	rows[0].Event = make([]byte, groupBytes+1) // alone, larger than a group
	rows[2].Private = make([]byte, groupBytes)
	rows[3].Event = make([]byte, 1)
	require.Len(t, firstGroup(rows), 1)
	require.Len(t, firstGroup(rows[1:]), 2)
	require.Len(t, firstGroup(rows[2:]), 1)
	require.Len(t, firstGroup(rows[3:]), 1)
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/bench/waittest"
	"muniment.example/control/rapidtest"
	"muniment.example/control/reserve"
	"muniment.example/gateway/api"
)

// queue is two processes on one database, with one clock.
type queue struct {
	tb   require.TestingT
	ctx  context.Context
	now  time.Time
	dbs  []*DB
	kind string
}

func newQueue(t *testing.T) *queue {
	dir := t.TempDir()
	q := &queue{tb: t, ctx: t.Context(), now: now.Truncate(time.Millisecond), kind: "test.job"}
	for range 2 {
		db := mustOpen(t, dir)
		db.cfg.Now = func() time.Time { return q.now }
		q.dbs = append(q.dbs, db)
	}
	return q
}

func (q *queue) enqueue(n NewJob) string {
	n.Kind = q.kind
	if n.TenantID == "" {
		n.TenantID = "tnt_a"
	}
	id, err := q.dbs[0].Jobs.Enqueue(q.ctx, n)
	require.NoError(q.tb, err)
	return id
}

func (q *queue) claim() *Job {
	job, err := q.dbs[0].Jobs.Claim(q.ctx, q.kind, time.Minute)
	require.NoError(q.tb, err)
	return job
}

func (q *queue) list() []JobRecord {
	list, err := ListJobs(q.ctx, q.dbs[1].Read(), q.kind, "tnt_a")
	require.NoError(q.tb, err)
	return list
}

// TestJobsModel holds claims of two processes, and every write of a job, against a model.
func TestJobsModel(t *testing.T) {
	q, cases := newQueue(t), 0
	rapidtest.Check(t, 30, 500, func(rt *rapid.T) {
		cases++
		q.tb, q.kind = rt, fmt.Sprint("test.", cases)
		m := &jobModel{queue: q, jobs: map[string]*modelJob{}}
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": m.enqueue, "claim": m.claim, "write": m.write, "wait": m.wait, "": m.check,
		})
	})
}

type modelJob struct {
	lane, key, state string
	due              time.Time
	attempts         int
	again            bool
	holder           *Job // who may write
}

type jobModel struct {
	*queue
	jobs map[string]*modelJob
	held []*Job // all that were ever leased
}

func (m *jobModel) enqueue(rt *rapid.T) {
	n := NewJob{
		Lane: rapid.SampledFrom([]string{"", "b", "c"}).Draw(rt, "lane"),
		Key:  rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(rt, "key"),
		At:   m.now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, 0, 10 * time.Second}).Draw(rt, "at")),
	}
	id := m.queue.enqueue(n)
	for known, j := range m.jobs {
		if n.Key != "" && j.key == n.Key && j.state != JobFailed {
			require.Equal(rt, known, id)
			j.again = j.state == JobLeased
			if due := slices.MaxFunc([]time.Time{n.At, m.now}, time.Time.Compare); j.state == JobWaiting && due.Before(j.due) {
				j.due = due
			}
			return
		}
	}
	require.NotContains(rt, m.jobs, id)
	j := &modelJob{lane: n.Lane, key: n.Key, state: JobReady, due: m.now}
	if n.At.After(m.now) {
		j.state, j.due = JobWaiting, n.At
	}
	m.jobs[id] = j
}

func (m *jobModel) claim(rt *rapid.T) {
	leased := map[string]bool{}
	for _, j := range m.jobs {
		if (j.state == JobWaiting || j.state == JobLeased) && !j.due.After(m.now) {
			j.state, j.holder = JobReady, nil
		}
		leased[j.lane] = leased[j.lane] || j.state == JobLeased
	}
	var ready []string
	for id, j := range m.jobs {
		if j.state == JobReady && !leased[j.lane] {
			ready = append(ready, id)
		}
	}
	got, err := rapid.SampledFrom(m.dbs).Draw(rt, "process").Jobs.Claim(m.ctx, m.kind, time.Minute)
	require.NoError(rt, err)
	if got == nil {
		require.Empty(rt, ready)
		return
	}
	require.Contains(rt, ready, got.ID)
	j := m.jobs[got.ID]
	j.attempts++
	require.Equal(rt, j.attempts, got.Attempts)
	j.state, j.due, j.holder = JobLeased, m.now.Add(time.Minute), got
	m.held = append(m.held, got)
}

// write has some holder, who may have lost the lease long ago, write something.
func (m *jobModel) write(rt *rapid.T) {
	if len(m.held) == 0 {
		rt.Skip("no job is leased")
	}
	h := rapid.SampledFrom(m.held).Draw(rt, "holder")
	j := m.jobs[h.ID]
	how := rapid.SampledFrom([]string{"keep", "report", "hold", "done", "retry", "fail", "fail, and say so", "give back"}).Draw(rt, "how")
	said := false
	var err error
	switch how {
	case "keep":
		err = h.Keep(m.ctx)
	case "report":
		err = h.Report(m.ctx, map[string]int{"rows": 1})
	case "hold":
		err = h.db.Change(m.ctx, func(tx *Tx) error { return h.Hold(m.ctx, tx) })
	case "done":
		err = h.Done(m.ctx)
	case "retry":
		err = h.Retry(m.ctx, "TRY", 5*time.Second)
	case "fail":
		err = h.Fail(m.ctx, "BAD", nil)
	case "fail, and say so":
		err = h.Fail(m.ctx, "BAD", func(context.Context, *Tx) error { said = true; return nil })
	case "give back":
		err = h.Release(m.ctx)
	}
	if j == nil || j.holder != h {
		require.ErrorIs(rt, err, ErrStale)
		require.False(rt, said)
		return
	}
	require.NoError(rt, err)
	ends := how == "done" || strings.HasPrefix(how, "fail")
	switch {
	case how == "hold":
	case how == "keep" || how == "report":
		j.due = m.now.Add(time.Minute)
	case ends && j.again:
		require.False(rt, said)
		*j = modelJob{lane: j.lane, key: j.key, state: JobReady, due: m.now}
	case how == "done":
		delete(m.jobs, h.ID)
	case ends:
		require.Equal(rt, how != "fail", said)
		j.state, j.due, j.holder = JobFailed, m.now, nil
	case how == "retry":
		j.state, j.due, j.holder = JobWaiting, m.now.Add(5*time.Second), nil
	case how == "give back":
		j.state, j.due, j.holder = JobReady, m.now, nil
		j.attempts--
	}
}

func (m *jobModel) wait(rt *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second)
}

func (m *jobModel) check(rt *rapid.T) {
	list := m.list()
	require.Len(rt, list, len(m.jobs))
	for _, r := range list {
		j := m.jobs[r.ID]
		require.NotNil(rt, j)
		require.Equal(rt, []any{j.state, j.attempts, At(j.due)}, []any{r.State, r.Attempts, r.DueAt})
	}
}

// TestJobsAreDoneOnce: 64 workers of two processes do 500 jobs, each once, and those of a
// lane one at a time.
func TestJobsAreDoneOnce(t *testing.T) {
	q := newQueue(t)
	const lanes, each = 50, 10
	require.NoError(t, q.dbs[0].Change(t.Context(), func(tx *Tx) error {
		for i := range lanes * each {
			lane := i % lanes
			if _, err := tx.Enqueue(t.Context(), NewJob{Kind: q.kind, TenantID: fmt.Sprint("tnt_", lane), Payload: lane}); err != nil {
				return err
			}
		}
		return nil
	}))
	var busy, done [lanes]atomic.Int64
	var left atomic.Int64
	left.Store(lanes * each)
	processes := q.dbs
	if !q.dbs[0].Shared() {
		processes = q.dbs[:1] // two would wait for each other at the file, for longer than they may
	}
	var workers sync.WaitGroup
	for i := range 64 {
		workers.Go(func() {
			for left.Load() > 0 && t.Context().Err() == nil {
				job, err := processes[i%len(processes)].Jobs.Claim(t.Context(), q.kind, time.Minute)
				if !nothingFailed(t, err) || job == nil {
					continue
				}
				var lane int
				nothingFailed(t, job.Read(&lane))
				if busy[lane].Add(1) != 1 {
					t.Errorf("two jobs of lane %d at a time", lane)
				}
				done[lane].Add(1)
				busy[lane].Add(-1)
				if nothingFailed(t, job.Done(t.Context())) {
					left.Add(-1)
				}
			}
		})
	}
	workers.Wait()
	for lane := range done {
		require.EqualValues(t, each, done[lane].Load())
	}
	require.Nil(t, q.claim())
}

func nothingFailed(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// TestLanesAreServedInRotation: a few jobs do not wait for all jobs of another lane.
func TestLanesAreServedInRotation(t *testing.T) {
	q := newQueue(t)
	var order []string
	do := func(n int) {
		for range n {
			job := q.claim()
			var name string
			require.NoError(t, job.Read(&name))
			order = append(order, name)
			require.NoError(t, job.Done(t.Context()))
		}
	}
	fill := func(lane string, n int) {
		for range n {
			q.enqueue(NewJob{Lane: lane, Payload: lane})
		}
	}
	fill("many", 20)
	do(10)
	fill("few", 8)
	do(6)
	fill("late", 1)
	do(13)
	require.Equal(t, "many many many many many many many many many many", strings.Join(order[:10], " "))
	require.ElementsMatch(t, []string{"few", "few", "few", "many", "many", "many"}, order[10:16])
	require.Contains(t, order[16:19], "late")
	require.Nil(t, q.claim())
}

// TestRetriesGoBehindOtherLanes: jobs that keep failing delay no other lane.
func TestRetriesGoBehindOtherLanes(t *testing.T) {
	q := newQueue(t)
	for range 20 {
		q.enqueue(NewJob{Lane: "failing", Payload: "failing"})
	}
	for i := range 20 {
		job := q.claim()
		if i == 19 {
			q.enqueue(NewJob{Lane: "few", Payload: "few"})
		}
		require.NoError(t, job.Retry(t.Context(), "NO", time.Second))
	}
	q.now = q.now.Add(time.Minute)
	var name string
	require.NoError(t, q.claim().Read(&name))
	require.Equal(t, "few", name)
}

// TestJobIsQueuedByItsChange, and other processes are notified.
func TestJobIsQueuedByItsChange(t *testing.T) {
	q := newQueue(t)
	failed := errors.New("no")
	err := q.dbs[0].Change(t.Context(), func(tx *Tx) error {
		_, err := tx.Enqueue(t.Context(), NewJob{Kind: q.kind, TenantID: "tnt_a"})
		require.NoError(t, err)
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.Empty(t, q.list())
	require.Nil(t, q.claim())

	queued := []<-chan struct{}{q.dbs[0].Jobs.Queued()}
	if q.dbs[1].Shared() {
		queued = append(queued, q.dbs[1].Jobs.Queued())
	}
	require.NoError(t, q.dbs[0].Change(t.Context(), func(tx *Tx) error {
		_, err := tx.Enqueue(t.Context(), NewJob{Kind: q.kind, TenantID: "tnt_a"})
		return err
	}))
	for _, one := range queued {
		<-one // each process is notified
	}
	require.NotNil(t, q.claim())
}

// TestStaleHolderChangesNothing: its change is undone, whatever else it holds.
func TestStaleHolderChangesNothing(t *testing.T) {
	q := newQueue(t)
	q.enqueue(NewJob{})
	stale := q.claim()
	q.now = q.now.Add(time.Minute)
	job := q.claim()
	require.Equal(t, 2, job.Attempts)
	effect := func(j *Job) error {
		return q.dbs[1].Change(t.Context(), func(tx *Tx) error {
			if err := j.Hold(t.Context(), tx); err != nil {
				return err
			}
			return tx.Emit(t.Context(), suspended, event("tnt_a", "rgh_a"))
		})
	}
	require.ErrorIs(t, effect(stale), ErrStale)
	require.ErrorIs(t, stale.db.Transact(t.Context(), func(tx *sql.Tx) error { return stale.Hold(t.Context(), tx) }), ErrStale)
	require.Zero(t, q.dbs[0].Outbox.length())
	require.NoError(t, effect(job))
	require.Equal(t, 1., q.dbs[0].Outbox.length())
	require.NoError(t, job.Done(t.Context()))
	require.ErrorIs(t, effect(job), ErrStale)
	require.Empty(t, q.list())
}

// TestJobTellsHowFarItIs to its owner, and to who takes over.
func TestJobTellsHowFarItIs(t *testing.T) {
	q := newQueue(t)
	id := q.enqueue(NewJob{Payload: map[string]string{"dsarId": "dsar:a"}})
	job := q.claim()
	require.JSONEq(t, `{}`, string(job.Progress))
	require.NoError(t, job.Report(t.Context(), map[string]int{"rows": 7}))
	require.ErrorContains(t, job.Report(t.Context(), strings.Repeat("x", maxPayload)), "a job holds ids")
	r := q.list()[0]
	require.Equal(t, id, r.ID)
	require.Equal(t, JobLeased, r.State)
	require.JSONEq(t, `{"rows":7}`, string(r.Progress))
	q.now = q.now.Add(time.Minute)
	job = q.claim()
	require.JSONEq(t, `{"rows":7}`, string(job.Progress))
	require.JSONEq(t, `{"dsarId":"dsar:a"}`, string(job.Payload))
	require.NoError(t, job.Fail(t.Context(), "NO", nil))
	require.Equal(t, "NO", q.list()[0].Code)

	require.NoError(t, q.dbs[0].Jobs.Forget(t.Context()))
	require.Len(t, q.list(), 1)
	q.now = q.now.Add(keepFailed)
	require.NoError(t, q.dbs[0].Jobs.Forget(t.Context()))
	require.Empty(t, q.list())
}

// TestJobsWaitForNoChange: on PostgreSQL they are claimed and written while a change goes on.
func TestJobsWaitForNoChange(t *testing.T) {
	onPostgres(t)
	q := newQueue(t)
	require.NoError(t, q.dbs[0].Change(t.Context(), func(*Tx) error {
		q.enqueue(NewJob{})
		job := q.claim()
		require.NoError(t, job.Keep(t.Context()))
		require.NoError(t, job.Report(t.Context(), 1))
		require.NoError(t, job.Retry(t.Context(), "TRY", 0))
		return q.claim().Done(t.Context())
	}))
}

// TestNoJobBeginsOnAFullDisk: the space that is left is for stops. A job that was begun ends.
func TestNoJobBeginsOnAFullDisk(t *testing.T) {
	q := newQueue(t)
	for _, lane := range []string{"a", "b"} {
		q.enqueue(NewJob{Lane: lane})
	}
	begun := q.claim()
	q.dbs[0].reserve.Spend()
	_, err := q.dbs[0].Jobs.Enqueue(t.Context(), NewJob{Kind: q.kind, TenantID: "tnt_a"})
	require.Equal(t, api.StorageFull, api.From(err).Reason)
	err = q.dbs[0].Change(t.Context(), func(tx *Tx) error {
		_, err := tx.Enqueue(t.Context(), NewJob{Kind: q.kind, TenantID: "tnt_a"})
		return err
	})
	require.Equal(t, api.StorageFull, api.From(err).Reason)
	_, err = q.dbs[0].Jobs.Claim(t.Context(), q.kind, time.Minute)
	require.Equal(t, api.StorageFull, api.From(err).Reason)
	require.NoError(t, begun.Done(t.Context()))
	require.Len(t, q.list(), 1)
	q.dbs[0].reserve = reserve.File{}
	require.NotNil(t, q.claim())
}

func TestBadJobs(t *testing.T) {
	q := newQueue(t)
	for _, n := range []NewJob{
		{TenantID: "tnt_a"}, {Kind: q.kind}, {Kind: q.kind, TenantID: "tnt_a", Payload: func() {}},
		{Kind: q.kind, TenantID: "tnt_a", Payload: slices.Repeat([]string{"telemetry"}, 100)},
	} {
		_, err := q.dbs[0].Jobs.Enqueue(t.Context(), n)
		require.Error(t, err)
	}
	require.Empty(t, q.list())
}

func TestJobMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	at := now
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "control.db"), Registerer: registry, Now: func() time.Time { return at }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, kind := range []string{"one", "one", "two"} {
		_, err := db.Jobs.Enqueue(t.Context(), NewJob{Kind: kind, TenantID: api.SystemTenant, Lane: api.NewID(prefixJob, at)})
		require.NoError(t, err)
	}
	at = at.Add(time.Minute)
	for _, kind := range []string{"one", "two"} {
		job, err := db.Jobs.Claim(t.Context(), kind, time.Hour)
		require.NoError(t, err)
		if kind == "two" {
			require.NoError(t, job.Fail(t.Context(), "NO", nil))
		}
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP muniment_store_job_wait_seconds How long the longest due job has waited, by kind, including jobs whose worker was lost; 0 if none is due.
# TYPE muniment_store_job_wait_seconds gauge
muniment_store_job_wait_seconds{kind="one"} 60
muniment_store_job_wait_seconds{kind="two"} 0
# HELP muniment_store_jobs Jobs that are not done, by kind and state.
# TYPE muniment_store_jobs gauge
muniment_store_jobs{kind="one",state="LEASED"} 1
muniment_store_jobs{kind="one",state="READY"} 1
muniment_store_jobs{kind="two",state="FAILED"} 1
`), "muniment_store_jobs", "muniment_store_job_wait_seconds"))
}

// TestLeaseIsKeptBehindALongChange: where a file belongs to one process, a renewal that waits longer than the lease
// counts from its end, so nobody gets the job.
func TestLeaseIsKeptBehindALongChange(t *testing.T) {
	q := &queue{tb: t, ctx: t.Context(), now: now.Truncate(time.Millisecond), kind: "test.job"}
	db := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db"))
	var clock atomic.Int64
	db.cfg.Now = func() time.Time { return q.now.Add(time.Duration(clock.Load())) }
	q.dbs = []*DB{db, db}
	q.enqueue(NewJob{})
	job := q.claim()
	require.False(t, job.Shared())
	kept := make(chan error, 1)
	require.NoError(t, db.Change(t.Context(), func(*Tx) error {
		go func() { kept <- job.Keep(t.Context()) }()
		waittest.Until(t, func() bool { return db.WaitingChanges() == 1 })
		clock.Store(int64(time.Hour))
		return nil
	}))
	require.NoError(t, <-kept)
	require.Nil(t, q.claim())
}

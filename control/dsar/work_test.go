package dsar

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/verify"
)

// TestProgress: the progress of a running job is visible.
func TestProgress(t *testing.T) {
	var seen []Job
	look := &looked{}
	h := newFixture(t, func(cfg *Config) { look.Warehouse, cfg.Warehouse = cfg.Warehouse, look })
	h.deliver(slices.Repeat([]delivery{{right: "rgh_a", substrate: gate.CTV}}, 3_500)...)
	look.before = func() {
		list, _, err := jobs.Page(t.Context(), h.db.Read(), tenantID, store.Where{}, store.Slice{Limit: 1})
		require.NoError(t, err)
		seen = append(seen, list...)
		h.clock.advance(heartbeat)
	}
	requested := full()
	requested.Scope.Kind = TenantFull
	last := h.export(requested)
	rows := map[int64]bool{}
	for i, j := range seen {
		require.Equal(t, Collecting, j.State)
		require.LessOrEqual(t, j.Progress.RowsCollected, j.Progress.RowsExpected)
		if i > 0 {
			require.GreaterOrEqual(t, j.Progress.RowsCollected, seen[i-1].Progress.RowsCollected)
			require.GreaterOrEqual(t, j.Progress.BytesPackaged, seen[i-1].Progress.BytesPackaged)
		}
		if j.Progress.RowsCollected > 0 {
			require.GreaterOrEqual(t, j.Progress.RowsExpected, int64(3_500), "what the warehouse has is counted beforehand")
			rows[j.Progress.RowsCollected] = true
		}
	}
	require.GreaterOrEqual(t, len(rows), 3, "%+v", seen)
	require.True(t, seen[len(seen)-1].Progress.LastHeartbeatAt.After(seen[0].Progress.LastHeartbeatAt.Time))
	require.Less(t, seen[len(seen)-1].Progress.RowsCollected, last.Progress.RowsCollected)
}

// TestProgressWithoutRows: a worker that waits for the warehouse, and one that reads rows of which it
// takes none, reports that it is alive.
func TestProgressWithoutRows(t *testing.T) {
	look := &looked{}
	h := newFixture(t, func(cfg *Config) { look.Warehouse, cfg.Warehouse = cfg.Warehouse, look })
	h.deliver(slices.Repeat([]delivery{{right: "rgh_a", substrate: gate.CTV}}, 3_500)...)
	beats := map[string]map[time.Time]bool{"waiting": {}, "reading": {}}
	note := func(in string) {
		list, _, err := jobs.Page(t.Context(), h.db.Read(), tenantID, store.Where{}, store.Slice{Limit: 1})
		require.NoError(t, err)
		beats[in][list[0].Progress.LastHeartbeatAt.Time] = true
		h.clock.advance(heartbeat)
	}
	look.before = func() { note("reading") }
	look.behind = 5
	look.waiting = func() { note("waiting") }
	requested := full()
	requested.Scope.Kind, requested.Scope.Substrates = TenantSlice, texts{"DOOH"}
	requested.Scope.WindowStart, requested.Scope.WindowEnd = store.At(time.Now().Add(-time.Hour)), store.At(time.Now().Add(time.Hour))
	h.export(requested)
	require.GreaterOrEqual(t, len(beats["waiting"]), 5)
	require.GreaterOrEqual(t, len(beats["reading"]), 4)
}

// TestUnwritten: an export that can't be written, or would take the disk space that is kept for
// stops, fails as that, although it was still reading.
func TestUnwritten(t *testing.T) {
	h := newFixture(t, nil)
	h.deliver(slices.Repeat([]delivery{{right: "rgh_a", substrate: gate.CTV}}, 3_500)...)
	fullJob, full, free := full(), errors.New("the disk is full"), 2
	h.reserved = func() error {
		if free--; free < 0 {
			return full
		}
		return nil
	}
	v := h.mustCreate(t, fullJob)
	_, err := h.run(t.Context(), tenantID, v.ID, byKey)
	require.NoError(t, err)
	job, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
	require.NoError(t, err)
	err = h.Export(t.Context(), job)
	require.ErrorIs(t, err, full)
	require.ErrorContains(t, err, PackagingFailed)
	require.Equal(t, -1, free, "nothing more is written")
	_, v, err = find(t.Context(), h.db.Read(), tenantID, v.ID)
	require.NoError(t, err)
	require.Equal(t, Collecting, v.State)
	left, err := filepath.Glob(filepath.Join(h.dir, "bundles", tenantID, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestMostBytes: a tenant whose bundles have all bytes that they may have gets no further job until one has expired, and an
// export that would exceed them fails at once.
func TestMostBytes(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t, nil)
	v := h.export(full())
	h.cfg.MaxBytes = v.Delivery.BundleSizeBytes + 100
	second := h.mustCreate(t, full())
	_, err := h.run(t.Context(), tenantID, second.ID, byKey)
	require.NoError(t, err)
	job, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
	require.NoError(t, err)
	require.NoError(t, h.Export(t.Context(), job))
	_, second, err = find(t.Context(), h.db.Read(), tenantID, second.ID)
	require.NoError(t, err)
	require.Equal(t, FailedJob, second.State)
	require.Equal(t, PackagingFailed, second.Failure.Code)
	left, err := filepath.Glob(filepath.Join(h.dir, "bundles", tenantID, "*"))
	require.NoError(t, err)
	require.Len(t, left, 1)

	h.cfg.MaxBytes -= 100
	_, err = h.create(t.Context(), full(), byKey)
	require.Equal(t, api.RateLimited, api.From(err).Code)
	require.Equal(t, fmt.Sprintf("the bundles of this tenant have %d bytes, and may have %[1]d: wait until one has expired", h.cfg.MaxBytes), api.From(err).Message)
	require.Positive(t, api.From(err).RetryAfter)
	h.clock.advance(h.cfg.Keep + time.Second)
	require.NoError(t, h.Expire(t.Context()))
	h.mustCreate(t, full())
}

// TestLeastFree: while the disk has less free space than exports leave, none is requested.
func TestLeastFree(t *testing.T) {
	h := newFixture(t, func(c *Config) { c.MinFree = 1 << 60 })
	_, err := h.create(t.Context(), full(), byKey)
	require.Equal(t, api.StorageFull, api.From(err).Reason)
	require.Contains(t, api.From(err).Message, "exports leave at least 1152921504606846976")
}

// TestStaleFinish: an erasure that finds no file, since the bundle is on its way to a bucket, relies
// on the worker: it removes what it finished in vain.
func TestStaleFinish(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t, nil)
	v := h.mustCreate(t, full())
	_, err := h.run(t.Context(), tenantID, v.ID, byKey)
	require.NoError(t, err)
	job, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
	require.NoError(t, err)
	finished := false
	h.reserved = func() error { // before the last bytes
		if _, v, _ := find(t.Context(), h.db.Read(), tenantID, v.ID); v.State == Packaging && !finished {
			finished = true
			return h.db.Change(t.Context(), func(tx *store.Tx) error {
				_, err := tx.ExecContext(t.Context(), `UPDATE dsar_jobs SET collection = collection + 1`)
				return err
			})
		}
		return nil
	}
	require.ErrorIs(t, h.Export(t.Context(), job), store.ErrStale)
	require.True(t, finished)
	left, err := filepath.Glob(filepath.Join(h.dir, "bundles", tenantID, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// looked calls before ahead of each page.
type looked struct {
	pipeline.Warehouse
	before, waiting func()
	behind          int // how often it is not loaded yet
}

func (l *looked) Resume(ctx context.Context, partition int32) (sealer.Position, bool, error) {
	if l.behind--; l.behind >= 0 {
		l.waiting()
		return sealer.Position{}, false, nil
	}
	return l.Warehouse.Resume(ctx, partition)
}

func (l *looked) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	l.before()
	return l.Warehouse.Events(ctx, q)
}

// TestKills: wherever a worker is killed, another restarts the job, which ends READY with complete
// data, or FAILED with a code; no files of killed workers remain.
func TestKills(t *testing.T) {
	stacktest.Both(t)
	kills := 6
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		kills = 50
	}
	f := &frail{}
	h := newFixture(t, func(cfg *Config) {
		f.Warehouse, f.keys = cfg.Warehouse, cfg.Keys
		cfg.Warehouse, cfg.Keys = f, f
	})
	var all []delivery
	for range 2_000 {
		all = append(all, delivery{right: "rgh_a", substrate: gate.CTV, subject: "ann"})
	}
	h.deliver(all...)
	killed := 0
	for at := 1; at <= kills; at++ {
		v := h.mustCreate(t, of("ann"))
		_, err := h.run(t.Context(), tenantID, v.ID, byKey)
		require.NoError(t, err)
		// What a worker leaves that was killed between the bundle and READY.
		left := (&Job{ID: v.ID, TenantID: tenantID}).folder()
		require.NoError(t, h.cfg.Bundles.Write(t.Context(), left+"0.zip", func(w io.Writer) error {
			_, err := w.Write([]byte("ann"))
			return err
		}))
		for tries, dies := 1, at%9+1; ; tries++ {
			job, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
			require.NoError(t, err)
			require.NotNil(t, job)
			ctx, kill := context.WithCancel(t.Context())
			f.after(dies, kill)
			err = h.Export(ctx, job)
			f.after(0, nil)
			kill()
			if err == nil {
				require.NoError(t, job.Done(t.Context()))
				break
			}
			killed++
			require.Less(t, tries, 3)
			dies = 0
			if at%2 == 0 { // the second dies as well
				dies = at%5 + 1
			}
			if tries == 2 {
				dies = 0
			}
			h.clock.advance(2 * time.Minute) // its lease is over
			next, err := h.db.Jobs.Claim(t.Context(), ExportJob, 0)
			require.NoError(t, err)
			require.NotNil(t, next)
			require.ErrorIs(t, h.db.Transact(t.Context(), func(tx *sql.Tx) error { return job.Hold(t.Context(), tx) }), store.ErrStale, "who has lost its lease writes nothing")
		}
		_, v, err = find(t.Context(), h.db.Read(), tenantID, v.ID)
		require.NoError(t, err)
		require.Equal(t, Ready, v.State)
		require.Len(t, rowsOf(t, sections(t, h.bundle(v))["deliveries"]), len(all))
		status, report := h.verified(h.bundle(v))
		require.Equal(t, verify.ExitSound, status, report)
		for i, e := range v.Timeline[1:] {
			require.Equal(t, v.Timeline[i].ToState, *e.FromState)
		}
		files, err := filepath.Glob(filepath.Join(h.dir, "bundles", tenantID, "*"))
		require.NoError(t, err)
		require.Len(t, files, at, "one file a job")
	}
	require.Positive(t, killed)
	t.Logf("%d jobs, %d workers killed", kills, killed)
}

// TestLateWorker: a worker that was stalled while another finished its job deletes nothing when it
// continues.
func TestLateWorker(t *testing.T) {
	h := newFixture(t, nil)
	v := h.mustCreate(t, full())
	_, err := h.run(t.Context(), tenantID, v.ID, byKey)
	require.NoError(t, err)
	job, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
	require.NoError(t, err)
	j, err := h.beginCollecting(t.Context(), job, v.ID)
	require.NoError(t, err)
	h.clock.advance(2 * time.Minute)
	next, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
	require.NoError(t, err)
	require.NoError(t, h.Export(t.Context(), next))
	require.NoError(t, next.Done(t.Context()))

	require.ErrorIs(t, (&work{Service: h.Service, job: job, of: j}).run(t.Context()), store.ErrStale)
	_, v, err = find(t.Context(), h.db.Read(), tenantID, v.ID)
	require.NoError(t, err)
	require.NotEmpty(t, h.bundle(v))
}

// frail kills its worker at the n-th step.
type frail struct {
	pipeline.Warehouse
	keys Keys
	left int
	kill func()
}

func (f *frail) after(n int, kill func()) { f.left, f.kill = n, kill }

func (f *frail) step() {
	if f.left--; f.left == 0 && f.kill != nil {
		f.kill()
	}
}

func (f *frail) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	f.step()
	return f.Warehouse.Events(ctx, q)
}

func (f *frail) Signer(ctx context.Context, purpose string) (*sealer.Signer, error) {
	f.step()
	return f.keys.Signer(ctx, purpose)
}

func (f *frail) Directory(ctx context.Context) ([]byte, error) {
	f.step()
	return f.keys.Directory(ctx)
}

// TestGivenUp: a job whose attempts are over is FAILED with a code, whatever state it was in.
func TestGivenUp(t *testing.T) {
	h := newFixture(t, func(cfg *Config) {
		cfg.Failed = func(code string, err error) error { return errors.New(code) }
	})
	h.cfg.Warehouse = broken{h.warehouse}
	for code, want := range map[string]string{SourceReadFailed: SourceReadFailed, WorkerLost: WorkerLost, store.JobError: SourceReadFailed} {
		v := h.mustCreate(t, full())
		_, err := h.run(t.Context(), tenantID, v.ID, byKey)
		require.NoError(t, err)
		job, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
		require.NoError(t, err)
		require.EqualError(t, h.Export(t.Context(), job), SourceReadFailed)
		require.NoError(t, job.Fail(t.Context(), code, func(ctx context.Context, tx *store.Tx) error { return h.GiveUp(ctx, tx, job, code) }))
		_, v, err = find(t.Context(), h.db.Read(), tenantID, v.ID)
		require.NoError(t, err)
		require.Equal(t, FailedJob, v.State)
		require.Equal(t, want, v.Failure.Code)
		require.Equal(t, h.workerID, *v.Failure.WorkerID)
	}
}

// broken is a warehouse that can't be read.
type broken struct{ pipeline.Warehouse }

func (broken) Events(context.Context, pipeline.EventQuery) ([]pipeline.Row, error) {
	return nil, errors.New("it is broken")
}

// TestVoidAndExpire: an erasure makes earlier bundles void, also those that are being collected,
// and a bundle is deleted when its time is over.
func TestVoidAndExpire(t *testing.T) {
	h := newFixture(t, nil)
	h.deliver(delivery{right: "rgh_a", substrate: gate.CTV, subject: "ann"})
	whole, ann, bob := h.export(full()), h.export(of("ann")), h.export(of("bob"))
	isAnn := func(s string) bool { return s == "ann" }
	n, err := h.Count(t.Context(), h.db.Read(), tenantID, isAnn, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	for range 2 {
		require.NoError(t, h.Void(t.Context(), tenantID, isAnn, nil))
	}
	for _, v := range []View{whole, ann} {
		require.NoFileExists(t, filepath.Join(h.dir, "bundles", filepath.FromSlash(*v.Delivery.BundleStoreKey)))
		_, now, err := find(t.Context(), h.db.Read(), tenantID, v.ID)
		require.NoError(t, err)
		require.Nil(t, now.Delivery.BundleStoreKey)
		require.Equal(t, Ready, now.State)
		require.Equal(t, new(Erased), now.Delivery.DeletedBecause)
		require.False(t, now.Delivery.ExpiresAt.After(h.clock.Now()), "it says when it ended")
	}
	h.bundle(bob)

	v := h.mustCreate(t, of("ann"))
	_, err = h.run(t.Context(), tenantID, v.ID, byKey)
	require.NoError(t, err)
	claim := func() *store.Job {
		job, err := h.db.Jobs.Claim(t.Context(), ExportJob, time.Minute)
		require.NoError(t, err)
		require.NotNil(t, job)
		require.Equal(t, 1, job.Attempts, "that it was made void while it was packaged is no attempt")
		return job
	}
	const often = Attempts + 1
	h.cfg.Keys = &voiding{h.cfg.Keys, h, "ann", often}
	for range often {
		require.ErrorIs(t, h.Export(t.Context(), claim()), store.ErrStale, "the job was given back")
	}
	job := claim()
	require.NoError(t, h.Export(t.Context(), job), "and is collected anew")
	h.cfg.Keys = h.keys
	require.NoError(t, job.Done(t.Context()))
	_, v, err = find(t.Context(), h.db.Read(), tenantID, v.ID)
	require.NoError(t, err)
	require.Equal(t, Ready, v.State)
	require.NotEmpty(t, h.bundle(v))

	folder := strings.TrimSuffix(*bob.Delivery.BundleStoreKey, "1.zip")
	left, others := []string{folder + "0.zip", folder + "1.zip.18bc.tmp", folder + "2.zip"}, []string{"muniment.db", "tnt_a/keys", "tnt_b" + folder[5:] + "1.zip", folder + "1.zip.txt"}
	for _, key := range slices.Concat(left, others) {
		file := filepath.Join(h.dir, "bundles", filepath.FromSlash(key))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	}
	require.NoError(t, h.Sweep(t.Context()))
	for _, key := range left {
		require.NoFileExists(t, filepath.Join(h.dir, "bundles", filepath.FromSlash(key)))
	}
	for _, key := range others {
		require.FileExists(t, filepath.Join(h.dir, "bundles", filepath.FromSlash(key)), "another's")
	}
	h.bundle(bob)

	ended := bob.Delivery.ExpiresAt
	h.clock.advance(8*24*time.Hour + time.Minute)
	require.NoError(t, h.Expire(t.Context()))
	_, over, err := find(t.Context(), h.db.Read(), tenantID, bob.ID)
	require.NoError(t, err)
	require.Equal(t, []any{new(Expired), ended}, []any{over.Delivery.DeletedBecause, over.Delivery.ExpiresAt})
	require.NoError(t, h.Sweep(t.Context()))
	require.NoFileExists(t, filepath.Join(h.dir, "bundles", filepath.FromSlash(others[2])), "no bundle is kept for so long")
	left, err = filepath.Glob(filepath.Join(h.dir, "bundles", tenantID, "*-[0-9].zip"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// voiding makes bundles void as they are about to be signed, some times.
type voiding struct {
	Keys
	h       *fixture
	subject string
	times   int
}

func (v *voiding) Directory(ctx context.Context) ([]byte, error) {
	if v.times--; v.times < 0 {
		return v.Keys.Directory(ctx)
	}
	err := v.h.Void(ctx, tenantID, func(s string) bool { return s == v.subject }, nil)
	text, other := v.Keys.Directory(ctx)
	return text, errors.Join(err, other)
}

package dsar

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muniment.example/control/objects"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/dsar"
)

// Attempts bounds how often an export is begun.
const Attempts = 5

// heartbeat is how often a worker reports its progress.
const heartbeat = time.Second

// Export runs a job of the kind ExportJob. If a lost process has begun the job, Export collects
// everything again, since a bundle is of one moment.
func (s *Service) Export(ctx context.Context, job *store.Job) error {
	var p payload
	if err := job.Read(&p); err != nil {
		return err
	}
	j, err := s.beginCollecting(ctx, job, p.JobID)
	if err != nil || j == nil {
		return err
	}
	w := &work{Service: s, job: job, of: j}
	err = w.run(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStale): // not a failed attempt; other jobs come first
		return cmp.Or(job.Release(ctx), store.ErrStale)
	case errors.Is(w.unwritten, errTooLong): // and would be again
		s.cfg.Logger.WarnContext(ctx, "an export was given up: the tenant's bundles would have more bytes than they may", "tenantId", job.TenantID, "jobId", p.JobID, "most", s.cfg.MaxBytes)
		return s.db.Change(ctx, func(tx *store.Tx) error {
			if err := job.Hold(ctx, tx); err != nil {
				return err
			}
			return s.GiveUp(ctx, tx, job, PackagingFailed)
		})
	case w.collecting && w.unwritten == nil:
		return s.cfg.Failed(SourceReadFailed, err)
	}
	return s.cfg.Failed(PackagingFailed, err)
}

// GiveUp marks a job of the kind ExportJob as failed.
func (s *Service) GiveUp(ctx context.Context, tx *store.Tx, job *store.Job, code string) error {
	var p payload
	if err := job.Read(&p); err != nil {
		return err
	}
	j, err := jobs.Find(ctx, tx, job.TenantID, p.JobID)
	if store.IsNone(err) || err == nil && (j.State == Ready || j.State == FailedJob) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, known := messages[code]; !known { // an unexpected error has no code
		code = SourceReadFailed
		if j.State == Packaging {
			code = PackagingFailed
		}
	}
	_, err = move(ctx, tx, job.TenantID, p.JobID, Fail, store.BySystem(), code, func(next *Job) error {
		next.FailureCode = &code
		return nil
	})
	return err
}

// beginCollecting moves a job to COLLECTING from any state in which an earlier worker left it. It
// returns nil if the job has ended.
func (s *Service) beginCollecting(ctx context.Context, job *store.Job, jobID string) (j *Job, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		if err := job.Hold(ctx, tx); err != nil {
			return err
		}
		was, err := jobs.Find(ctx, tx, job.TenantID, jobID)
		if store.IsNone(err) || err == nil && (was.State == Ready || was.State == FailedJob) {
			return nil
		}
		if err != nil {
			return err
		}
		action, notes := Collect, ""
		if was.State != Requested {
			notes = "restarted"
		}
		if was.State == Collecting {
			action = Recover
		}
		next, err := move(ctx, tx, job.TenantID, jobID, action, store.BySystem(), notes, func(next *Job) error {
			next.Collection++
			next.Progress = Progress{LastHeartbeatAt: next.UpdatedAt, WorkerID: &s.workerID}
			return nil
		})
		j = &next
		return err
	})
	return j, err
}

// work is the work of one worker on one job.
type work struct {
	*Service
	job        *store.Job
	of         *Job
	collecting bool  // errors are failures to read the source, unless the bundle can't be written
	unwritten  error // why the bundle can't be written
	progress   Progress
	beat       time.Time
}

// errStale means that the job was changed meanwhile, for example by an erasure, so it must restart.
var errStale = errors.New("the collected data is outdated")

func (w *work) run(ctx context.Context) error {
	for n := range w.of.Collection { // delete what lost workers left; a later collection may be finished
		if err := w.cfg.Bundles.Remove(ctx, w.of.key(n)); err != nil {
			return err
		}
	}
	key := w.of.key(w.of.Collection)
	kept, err := keptBytes(ctx, w.db.Read(), w.of.TenantID)
	if err != nil {
		return err
	}
	var size int64
	var digest string
	err = w.cfg.Bundles.Write(ctx, key, func(to io.Writer) (err error) {
		size, digest, err = w.fill(ctx, &bundleWriter{to, w, w.cfg.MaxBytes - kept})
		return err
	})
	if err != nil {
		if now, missing := jobs.Find(ctx, w.db.Read(), w.of.TenantID, w.of.ID); missing == nil && now.Collection != w.of.Collection && !errors.Is(err, store.ErrStale) {
			return errStale // the erasure has deleted the file too
		}
		return err
	}
	err = w.move(ctx, Finish, func(next *Job) error {
		next.Progress = w.progress
		next.Progress.RowsExpected, next.Progress.BytesPackaged = next.Progress.RowsCollected, size
		next.Bundle = Bundle{StoreKey: &key, Bytes: size, SHA256: &digest, ExpiresAt: store.At(next.UpdatedAt.Add(w.cfg.Keep)), Secret: newSecret()}
		return nil
	})
	if errors.Is(err, errStale) { // an erasure that did not find the finished file relies on this
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeFor)
		defer cancel()
		err = cmp.Or(w.cfg.Bundles.Remove(ctx, key), err)
	}
	return err
}

// removeFor bounds how long a worker tries to remove its own file.
const removeFor = 30 * time.Second

// errTooLong means that a bundle would take more than is left of Config.MaxBytes.
var errTooLong = errors.New("the tenant's bundles would have too many bytes")

// bundleWriter writes a worker's bundle. It stops when the disk space that is left is for others, or the tenant has
// used what its bundles may have, and remembers why it could not write.
type bundleWriter struct {
	to   io.Writer
	w    *work
	left int64 // bytes
}

func (b *bundleWriter) Write(p []byte) (n int, err error) {
	if err = b.w.reserved(); err == nil && int64(len(p)) > b.left {
		err = errTooLong
	}
	if err == nil {
		n, err = b.to.Write(p)
		b.left -= int64(n)
	}
	if err != nil {
		b.w.unwritten = err
	}
	return n, err
}

// folder is the prefix of the keys of all bundles of a job.
func (j *Job) folder() string {
	return j.TenantID + "/" + strings.TrimPrefix(j.ID, string(prefix)) + "-"
}

// key returns the key of a collection's bundle.
func (j *Job) key(collection int64) string { return fmt.Sprintf("%s%d.zip", j.folder(), collection) }

// move moves the job. It fails if this worker no longer has the lease, and with errStale if the
// collected data is outdated.
func (w *work) move(ctx context.Context, a Action, edit func(*Job) error) error {
	return w.db.Change(ctx, func(tx *store.Tx) error {
		if err := w.job.Hold(ctx, tx); err != nil {
			return err
		}
		_, err := move(ctx, tx, w.of.TenantID, w.of.ID, a, store.BySystem(), "", func(next *Job) error {
			if next.Collection != w.of.Collection {
				return errStale
			}
			return edit(next)
		})
		return err
	})
}

// fill writes the bundle.
func (w *work) fill(ctx context.Context, to io.Writer) (size int64, digest string, err error) {
	w.collecting = true
	manifest := dsar.Manifest{Format: string(w.of.Format), JobID: w.of.ID, Kind: string(w.of.Scope.Kind), TenantID: w.of.TenantID}
	bundle := dsar.NewWriter(to)
	if err := w.collect(ctx, bundle, &manifest); err != nil {
		return 0, "", err
	}
	w.collecting = false
	if err := w.move(ctx, Package, func(next *Job) error {
		next.Progress = w.progress
		return nil
	}); err != nil {
		return 0, "", err
	}
	purpose, err := tenant.PackPurpose(ctx, w.db.Read(), w.of.TenantID)
	if err != nil {
		return 0, "", err
	}
	signer, err := w.cfg.Keys.Signer(ctx, purpose)
	if err != nil {
		return 0, "", err
	}
	if manifest.Directory, err = w.cfg.Keys.Directory(ctx); err != nil { // read after Signer, so it has the key
		return 0, "", err
	}
	manifest.CreatedAt = canonical.FormatTime(store.At(w.db.Now()).Time)
	return bundle.Close(manifest, signer)
}

// collect writes all sections.
func (w *work) collect(ctx context.Context, bundle *dsar.Writer, manifest *dsar.Manifest) error {
	w.progress = w.of.Progress
	var err error
	if manifest.Pending, err = w.spools(ctx, w.report); err != nil {
		return err
	}
	asOf, err := w.catchUp(ctx, w.of.TenantID, w.report)
	if err != nil {
		return err
	}
	manifest.AsOf = asOf.String()
	if w.of.Scope.Kind == TenantFull {
		if w.progress.RowsExpected, err = w.cfg.Warehouse.CountEvents(ctx, w.of.TenantID); err != nil {
			return err
		}
	}
	about := readme{job: w.of, asOf: manifest.AsOf}
	var section *sectionWriter
	end := func() (err error) {
		if section != nil {
			err = section.close()
		}
		return err
	}
	c := collection{Service: w.Service, job: w.of, asOf: asOf, alive: w.report, leave: about.leave, begin: func(name string, like any) error {
		if err := end(); err != nil {
			return err
		}
		file, err := bundle.File(name+w.of.Format.extension(), w.of.Format == Parquet)
		if err == nil {
			about.begin(name)
			section = w.of.Format.section(file, like, w.of.BOM)
		}
		return err
	}, take: func(row any) error {
		bundle.Rows(1)
		about.row()
		w.progress.RowsCollected++
		w.progress.RowsExpected = max(w.progress.RowsExpected, w.progress.RowsCollected)
		w.progress.BytesPackaged = bundle.Bytes()
		if err := section.row(row); err != nil {
			return err
		}
		if w.progress.RowsCollected%256 != 0 {
			return nil
		}
		return w.report(ctx)
	}}
	err = w.db.Search(ctx, func(q store.Querier) error {
		c.q = q
		return c.records(ctx)
	})
	for _, step := range []func(context.Context) error{c.deliveries, c.events, c.quarantined} { // which may take long
		if err == nil {
			err = step(ctx)
		}
	}
	if err == nil {
		err = end()
	}
	if err != nil {
		return err
	}
	file, err := bundle.File(dsar.ReadmeName, false)
	if err == nil {
		_, err = io.WriteString(file, about.text())
	}
	return err
}

// report reports the worker's progress, at most once a heartbeat.
func (w *work) report(ctx context.Context) error {
	p, now := &w.progress, w.db.Now()
	if now.Sub(w.beat) < heartbeat {
		return nil
	}
	w.beat, p.LastHeartbeatAt = now, store.At(now)
	return w.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := w.job.Hold(ctx, tx); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, `UPDATE dsar_jobs SET rows_collected = $3, rows_expected = $4, bytes_packaged = $5, last_heartbeat_at = $6 WHERE job_id = $1 AND collection = $2`,
			w.of.ID, w.of.Collection, p.RowsCollected, p.RowsExpected, p.BytesPackaged, p.LastHeartbeatAt)
		if err != nil {
			return fmt.Errorf("cannot report the progress of the DSAR job %s: %w", w.of.ID, err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errStale)
		}
		return nil
	})
}

// Expire deletes the expired bundles.
func (s *Service) Expire(ctx context.Context) error {
	now := store.At(s.db.Now())
	due, err := store.List(ctx, s.db.Read(), "the bundles that end", jobs.Scan, jobs.Select()+` WHERE bundle_store_key IS NOT NULL AND bundle_expires_at <= $1 ORDER BY bundle_expires_at LIMIT 200`, now)
	for i := range due {
		if err == nil {
			err = s.expire(ctx, &due[i])
		}
	}
	return err
}

// expire deletes a job's bundle, and then records it.
func (s *Service) expire(ctx context.Context, j *Job) error {
	if err := s.cfg.Bundles.Remove(ctx, *j.Bundle.StoreKey); err != nil {
		return err
	}
	return s.db.Change(ctx, func(tx *store.Tx) error {
		was, err := jobs.Find(ctx, tx, j.TenantID, j.ID)
		if store.IsNone(err) || err == nil && was.Bundle.StoreKey == nil {
			return nil
		}
		if err == nil {
			_, err = move(ctx, tx, j.TenantID, j.ID, Expire, store.BySystem(), "", func(next *Job) error {
				if next.Bundle.StoreKey, next.Bundle.Secret = nil, nil; next.Bundle.Ended == nil {
					next.Bundle.Ended = new(Expired)
				}
				return nil
			})
		}
		return err
	})
}

// Sweep deletes bundles that belong to no job: those of killed workers and failed attempts.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx, "") }

// bundleKey matches the keys of bundles, and the names of unfinished ones: the tenant, the job and the
// number of the collection. Objects with other names are not ours.
var bundleKey = regexp.MustCompile(`^(tnt_[^/]+)/([0-9A-Z]+)-([0-9]+)\.zip(\.[0-9a-f]+\.tmp)?$`)

// sweep deletes such bundles in a tenant's folder, or in all for "". The database may lack the job of
// a bundle because it was restored, or because the bundle belongs to another service that shares the
// bucket. In a tenant's folder such bundles are deleted at once, otherwise once they are older than
// any bundle is kept.
func (s *Service) sweep(ctx context.Context, folder string) error {
	keep := func(o objects.Object) (bool, error) {
		parts := bundleKey.FindStringSubmatch(o.Key)
		if parts == nil {
			return true, nil
		}
		j, err := jobs.Find(ctx, s.db.Read(), parts[1], string(prefix)+parts[2])
		switch {
		case store.IsNone(err):
			return folder == "" && s.db.Now().Sub(o.Modified) < s.cfg.Keep+24*time.Hour, nil
		case err != nil:
			return false, err
		}
		return j.has(o.Key, parts[3]), nil
	}
	// Unfinished bundles come first, or one could be finished between the two steps.
	if err := s.cfg.Bundles.Discard(ctx, folder, keep); err != nil {
		return err
	}
	return s.cfg.Bundles.List(ctx, folder, func(o objects.Object) error {
		if kept, err := keep(o); err != nil || kept {
			return err
		}
		return s.cfg.Bundles.Remove(ctx, o.Key)
	})
}

// has reports whether the object with a key is the job's bundle, finished or not.
func (j *Job) has(key, collection string) bool {
	if j.State == Collecting || j.State == Packaging {
		return collection == strconv.FormatInt(j.Collection, 10)
	}
	return j.Bundle.StoreKey != nil && *j.Bundle.StoreKey == key
}

// prefixWorker is the prefix of workers' ids.
const prefixWorker api.Prefix = "wrk_"

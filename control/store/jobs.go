package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muniment.example/gateway/api"
)

// # Jobs
//
// A job is work that may run late or in another process. It is queued in the change that makes it
// necessary, and survives kill -9: a process leases it, and if that process stops renewing the
// lease another one takes over. So a job may run more than once, and its work has to be safe to
// repeat. Every write of a job carries the number of its lease and fails with ErrStale once the
// lease is over; so does a change that begins with Hold. These writes don't wait for changes,
// except a Fail with something else to write. Control runs the jobs (control.Worker).
//
// Jobs of a lane run one at a time. Lanes are served in rotation, however many jobs wait in each.
// By default each tenant is a lane. Work on very many items is one job that goes through them and
// reports its progress, not one job per item.

// ErrStale says that the lease of a job is over. Nothing was written: another process may have the
// job.
var ErrStale = errors.New("the lease of the job is over")

// Codes of failed jobs that don't come from a service.
const (
	JobError      = "JOB_FAILED"  // an error without a code
	JobWorkerLost = "WORKER_LOST" // the last process that leased it stopped or stalled
)

// States of a job. A job that is done has no row.
const (
	JobWaiting = "WAITING" // until DueAt
	JobReady   = "READY"
	JobLeased  = "LEASED"
	JobFailed  = "FAILED"
)

// keepFailed is how long a failed job can still be read.
const keepFailed = 30 * 24 * time.Hour

// NewJob is a job to be queued. Kind and TenantID are required.
type NewJob struct {
	Kind string
	// TenantID is the tenant that the job belongs to and is dropped with. api.SystemTenant: no
	// tenant.
	TenantID string
	// Lane is the queue that the job waits in; default the tenant.
	Lane string
	// Key prevents a second job of the kind with the same key. The queued job keeps its own
	// payload. If it waits, also after a failed attempt, it runs at the earlier of the two times.
	// If it is running, it runs once more afterwards, as it may have missed what is new. Default
	// none.
	Key string
	// Payload is what the worker needs to know: ids, as a JSON object. It must hold no secrets and
	// must not name a person: such data belongs in the services' tables, where erasure finds it.
	Payload any
	// At is when it is to run; default now.
	At time.Time
}

// JobRecord is a job as it is stored.
type JobRecord struct {
	ID, Kind, TenantID, State string
	Payload, Progress         json.RawMessage
	Attempts                  int // that have begun
	// Code says why the last attempt failed; empty if none has.
	Code             string
	DueAt, UpdatedAt Instant
}

// Job is a job that this process has leased.
type Job struct {
	JobRecord
	db    *DB
	lease int64 // its number
	term  time.Duration
}

// Enqueue queues a job as part of the change, and returns its id, or that of the queued one
// with its key.
func (tx *Tx) Enqueue(ctx context.Context, n NewJob) (jobID string, err error) {
	tx.jobs = true
	return enqueue(ctx, tx, tx.Now(), n)
}

// Jobs queues and leases jobs.
type Jobs struct{ db *DB }

// Enqueue queues a job in a transaction of its own, which doesn't wait for changes.
func (jobs *Jobs) Enqueue(ctx context.Context, n NewJob) (jobID string, err error) {
	if err := jobs.db.Reserved(); err != nil {
		return "", err
	}
	err = jobs.db.Transact(ctx, func(tx *sql.Tx) error {
		if jobID, err = enqueue(ctx, tx, jobs.db.Now(), n); err != nil {
			return err
		}
		return jobs.db.notify(ctx, tx, channelJobs)
	})
	if err == nil {
		jobs.db.jobQueued.raise()
	}
	return jobID, err
}

// EnqueueIn is Enqueue as part of a transaction of Transact. Workers of this process may see the
// job up to a second later.
func (jobs *Jobs) EnqueueIn(ctx context.Context, tx *sql.Tx, n NewJob) error {
	if _, err := enqueue(ctx, tx, jobs.db.Now(), n); err != nil {
		return err
	}
	return jobs.db.notify(ctx, tx, channelJobs)
}

// maxPayload is the largest payload or progress of a job, in bytes: they hold ids and counts.
const maxPayload = 1024

func compact(what string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err == nil && len(text) > maxPayload {
		err = fmt.Errorf("it takes %d bytes of %d: a job holds ids, not records", len(text), maxPayload)
	}
	if err != nil {
		return "", fmt.Errorf("cannot write the %s of a job: %w", what, err)
	}
	return string(text), nil
}

// lastPlace is the SQL of a new job's place: behind the jobs of its lane, and not before the place
// that other lanes have reached.
func lastPlace(kind, lane string) string {
	return `(SELECT MAX(place) FROM (
		SELECT COALESCE(MAX(place), 0) + 1 AS place FROM jobs WHERE kind = ` + kind + ` AND lane = ` + lane + `
		UNION ALL SELECT COALESCE((SELECT MAX(place) FROM jobs WHERE kind = ` + kind + ` AND state = 'LEASED'), (SELECT MIN(place) FROM jobs WHERE kind = ` + kind + ` AND state = 'READY'))
	) places)`
}

func enqueue(ctx context.Context, q Querier, now time.Time, n NewJob) (jobID string, err error) {
	if n.Kind == "" || n.TenantID == "" {
		return "", errors.New("cannot queue a job without kind or tenant")
	}
	payload, err := compact("payload", n.Payload)
	if err != nil {
		return "", err
	}
	state, due := JobReady, now
	if n.At.After(now) {
		state, due = JobWaiting, n.At
	}
	err = q.QueryRowContext(ctx, `INSERT INTO jobs (job_id, kind, tenant_id, lane, unique_key, payload, state, place, due_at, lease, attempts, again, progress, code, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, `+lastPlace("$2", "$4")+`, $8, 0, 0, 0, '{}', '', $9)
		ON CONFLICT (kind, unique_key) WHERE unique_key <> '' AND state <> 'FAILED'
		DO UPDATE SET again = CASE WHEN jobs.state = 'LEASED' THEN 1 ELSE 0 END,
			due_at = CASE WHEN jobs.state = 'WAITING' AND excluded.due_at < jobs.due_at THEN excluded.due_at ELSE jobs.due_at END RETURNING job_id`,
		api.NewID(prefixJob, now), n.Kind, n.TenantID, cmp.Or(n.Lane, n.TenantID), n.Key, payload, state, Millis(due), Millis(now)).Scan(&jobID)
	if err != nil {
		return "", fmt.Errorf("cannot queue a job of kind %s: %w", n.Kind, err)
	}
	return jobID, nil
}

const prefixJob api.Prefix = "job_"

// Queued returns a channel that is closed when a job is queued in any process, or ends in this
// one, or sooner. Get the channel before Claim, so that no job is missed.
func (jobs *Jobs) Queued() <-chan struct{} { return jobs.db.jobQueued.wait() }

// Claim leases the next job of a kind for a term; nil if none is due. The caller renews the lease
// (Keep), and ends it with Done, Retry, Fail or Release.
func (jobs *Jobs) Claim(ctx context.Context, kind string, term time.Duration) (job *Job, err error) {
	now := jobs.db.Now()
	due, err := One(ctx, jobs.db.read, "whether a job is due", Text, `SELECT job_id FROM jobs WHERE kind = $1 AND state IN ('READY', 'WAITING', 'LEASED') AND due_at <= $2 LIMIT 1`, kind, Millis(now))
	if err != nil || due == nil {
		return nil, err
	}
	if err := jobs.db.Reserved(); err != nil { // the disk space that is left is for stops
		return nil, err
	}
	for {
		err = jobs.db.Transact(ctx, func(tx *sql.Tx) error {
			job, err = jobs.claim(ctx, tx, kind, now, term)
			return err
		})
		if sqlState(err) != uniqueViolation { // another process has leased one of the lane just now
			return job, err
		}
	}
}

func (jobs *Jobs) claim(ctx context.Context, tx *sql.Tx, kind string, now time.Time, term time.Duration) (*Job, error) {
	skip := jobs.db.SkipLocked()
	_, err := tx.ExecContext(ctx, `UPDATE jobs SET state = 'READY' WHERE job_id IN (
		SELECT job_id FROM jobs WHERE kind = $1 AND state IN ('WAITING', 'LEASED') AND due_at <= $2`+skip+`)`, kind, Millis(now))
	if err != nil {
		return nil, fmt.Errorf("cannot wake jobs of kind %s: %w", kind, err)
	}
	return One(ctx, tx, "a job of kind "+kind, func(row Row) (j Job, err error) {
		j.db, j.term = jobs.db, term
		j.JobRecord, err = scanJob(row, &j.lease)
		return j, err
	}, `UPDATE jobs SET state = 'LEASED', lease = lease + 1, attempts = attempts + 1, due_at = $2, updated_at = $3 WHERE job_id = (
		SELECT job_id FROM jobs j WHERE kind = $1 AND state = 'READY' AND NOT EXISTS (SELECT 1 FROM jobs l WHERE l.kind = j.kind AND l.lane = j.lane AND l.state = 'LEASED')
		ORDER BY place, job_id LIMIT 1`+skip+`) RETURNING `+jobColumns+`, lease`, kind, Millis(now.Add(term)), Millis(now))
}

const uniqueViolation = "23505"

// Read reads the payload.
func (j *Job) Read(into any) error {
	if err := json.Unmarshal(j.Payload, into); err != nil {
		return fmt.Errorf("cannot read the payload of the job %s: %w", j.ID, err)
	}
	return nil
}

// Hold makes a change, or a transaction of Transact, fail if the lease is over. It is the first
// statement of what a worker writes.
func (j *Job) Hold(ctx context.Context, tx Execer) error {
	return j.write(ctx, tx, `UPDATE jobs SET updated_at = $3 WHERE `, Millis(j.db.Now()))
}

// write runs a statement on the job's row; ErrStale if the lease is over.
func (j *Job) write(ctx context.Context, q Execer, statement string, args ...any) error {
	result, err := q.ExecContext(ctx, statement+`job_id = $1 AND lease = $2 AND state = 'LEASED'`, append([]any{j.ID, j.lease}, args...)...)
	var n int64
	if err == nil {
		n, err = result.RowsAffected()
	}
	if err == nil && n == 0 {
		err = ErrStale
	}
	if err != nil {
		return fmt.Errorf("cannot write the job %s of kind %s: %w", j.ID, j.Kind, err)
	}
	return nil
}

// Keep renews the lease for its term from when it is written, which waits as long as changes do.
func (j *Job) Keep(ctx context.Context) error {
	return j.db.Transact(ctx, func(tx *sql.Tx) error {
		return j.write(ctx, tx, `UPDATE jobs SET due_at = $3 WHERE `, Millis(j.db.Now().Add(j.term)))
	})
}

// Shared says whether another process may claim the job (DB.Shared). If none may, Keep can wait for as long as it takes: who
// claims the job later waits behind it.
func (j *Job) Shared() bool { return j.db.Shared() }

// Report records the job's progress, a JSON object of counts and ids: callers can read it, and a
// later attempt continues from it. It also renews the lease.
func (j *Job) Report(ctx context.Context, progress any) error {
	text, err := compact("progress", progress)
	if err != nil {
		return err
	}
	now := j.db.Now()
	return j.inTransaction(ctx, `UPDATE jobs SET progress = $5, due_at = $3, updated_at = $4 WHERE `, Millis(now.Add(j.term)), Millis(now), text)
}

// Retry runs the job again after a delay, as this attempt failed with a code. The job goes behind
// the other lanes, so a job that keeps failing delays no other lane.
func (j *Job) Retry(ctx context.Context, code string, delay time.Duration) error {
	defer j.db.jobQueued.raise()
	now := j.db.Now()
	return j.inTransaction(ctx, `UPDATE jobs SET state = 'WAITING', place = `+lastPlace("$6", "(SELECT lane FROM jobs WHERE job_id = $1)")+`, code = $5, due_at = $3, updated_at = $4 WHERE `,
		Millis(now.Add(delay)), Millis(now), code, j.Kind)
}

// Release ends the lease of a job that this process can't finish, so that another one runs it. It
// doesn't count as an attempt, but the job goes behind the other lanes.
func (j *Job) Release(ctx context.Context) error {
	defer j.db.jobQueued.raise()
	return j.inTransaction(ctx, `UPDATE jobs SET state = 'READY', place = `+lastPlace("$4", "(SELECT lane FROM jobs WHERE job_id = $1)")+`, attempts = attempts - 1, due_at = $3 WHERE `,
		Millis(j.db.Now()), j.Kind)
}

// inTransaction is write in a transaction of its own.
func (j *Job) inTransaction(ctx context.Context, statement string, args ...any) error {
	return j.db.Transact(ctx, func(tx *sql.Tx) error { return j.write(ctx, tx, statement, args...) })
}

// Done ends the job.
func (j *Job) Done(ctx context.Context) error {
	defer j.db.jobQueued.raise()
	return j.db.Transact(ctx, func(tx *sql.Tx) error {
		_, err := j.end(ctx, tx, `DELETE FROM jobs WHERE `)
		return err
	})
}

// Fail ends the job as failed, with a code. also, which may be nil, runs in the same change. A job
// that was queued again meanwhile does not fail, but runs again.
func (j *Job) Fail(ctx context.Context, code string, also func(ctx context.Context, tx *Tx) error) error {
	defer j.db.jobQueued.raise()
	fail := func(q Execer) (ended bool, err error) {
		return j.end(ctx, q, `UPDATE jobs SET state = 'FAILED', place = 0, code = $3, due_at = $4, updated_at = $4 WHERE `, code, Millis(j.db.Now()))
	}
	if also == nil {
		return j.db.Transact(ctx, func(tx *sql.Tx) error {
			_, err := fail(tx)
			return err
		})
	}
	return j.db.Change(ctx, func(tx *Tx) error {
		ended, err := fail(tx)
		if err == nil && ended {
			err = also(ctx, tx)
		}
		return err
	})
}

// end runs the statement that ends the job. If the job was queued again meanwhile, it becomes READY
// as if for the first time.
func (j *Job) end(ctx context.Context, q Execer, statement string, args ...any) (ended bool, err error) {
	if err = j.write(ctx, q, statement+`again = 0 AND `, args...); !errors.Is(err, ErrStale) {
		return err == nil, err
	}
	return false, j.write(ctx, q, `UPDATE jobs SET state = 'READY', attempts = 0, again = 0, progress = '{}', code = '', due_at = $3 WHERE again = 1 AND `, Millis(j.db.Now()))
}

const jobColumns = `job_id, kind, tenant_id, state, payload, progress, attempts, code, due_at, updated_at`

func scanJob(row Row, also ...any) (j JobRecord, err error) {
	var payload, progress string
	err = row.Scan(append([]any{&j.ID, &j.Kind, &j.TenantID, &j.State, &payload, &progress, &j.Attempts, &j.Code, &j.DueAt, &j.UpdatedAt}, also...)...)
	j.Payload, j.Progress = json.RawMessage(payload), json.RawMessage(progress)
	return j, err
}

// ListJobs lists a tenant's jobs of a kind that aren't done, the oldest first, 500 at most.
func ListJobs(ctx context.Context, q Querier, kind, tenantID string) ([]JobRecord, error) {
	return List(ctx, q, "jobs of "+tenantID, func(row Row) (JobRecord, error) { return scanJob(row) },
		`SELECT `+jobColumns+` FROM jobs WHERE tenant_id = $1 AND kind = $2 ORDER BY job_id LIMIT 500`, tenantID, kind)
}

// Forget deletes the jobs that failed more than keepFailed ago.
func (jobs *Jobs) Forget(ctx context.Context) error {
	return jobs.db.Transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM jobs WHERE state = 'FAILED' AND due_at <= $1`, Millis(jobs.db.Now().Add(-keepFailed)))
		return err
	})
}

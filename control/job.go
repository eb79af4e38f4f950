package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"muniment/control/store"
)

// Worker does the jobs of one kind, in every process that has it: see store's jobs.go for
// what a job is, and how to add one.
type Worker struct {
	// Kind is that of the jobs.
	Kind string
	// Do does a job. It may have been begun before: job.Progress says how far. Once ctx is done it
	// returns soon: the process stops, or has lost the lease. What it writes in a change, it writes
	// behind job.Hold. An error has it done again later; a JobFailure says more.
	Do func(ctx context.Context, job *store.Job) error
	// Failed records, in the change that fails a job, what this means for the service; nil writes
	// nothing.
	Failed func(ctx context.Context, tx *store.Tx, job *store.Job, code string) error
	// AtOnce is how many jobs this process does at a time. Default 4.
	AtOnce int
	// Attempts is how often a job is begun at most. Default 10.
	Attempts int
}

// JobFailure is an error with a code, which the job keeps.
type JobFailure struct {
	Code string
	// Final gives the job up, however many attempts are left.
	Final bool
	Err   error
}

func (f *JobFailure) Error() string { return f.Code + ": " + f.Err.Error() }
func (f *JobFailure) Unwrap() error { return f.Err }

const (
	// jobLease is how long a process that was killed keeps others from its jobs.
	jobLease = 30 * time.Second
	// lookForJobs is how often a worker polls for jobs.
	lookForJobs = time.Second
	// stopJobs is how long a stop waits for jobs to return, and endJob for the database to
	// take down how one ended.
	stopJobs = 10 * time.Second
	endJob   = 3 * time.Second
)

func (w *Worker) validate() error {
	if w.Kind == "" || w.Do == nil || w.AtOnce < 0 || w.Attempts < 0 {
		return fmt.Errorf("the worker %q has no Kind or no Do, or less than none of something", w.Kind)
	}
	if w.AtOnce == 0 {
		w.AtOnce = 4
	}
	if w.Attempts == 0 {
		w.Attempts = 10
	}
	return nil
}

// retryAfter is the delay after an attempt: from 1 s on twice as long each time, 10 minutes
// at most; and up to a half less, so that what failed together is not tried together.
func retryAfter(attempt int) time.Duration {
	d := min(time.Second<<min(attempt-1, 10), 10*time.Minute)
	return d - rand.N(d/2)
}

// work does the jobs of a kind until ctx is done. Jobs that run for too long then are left to end
// with their leases.
func (c *Control) work(ctx context.Context, w Worker) error {
	tick := time.NewTicker(lookForJobs)
	defer tick.Stop()
	var busy sync.WaitGroup
	defer c.stopJobs(&busy, w.Kind)
	slots := make(chan struct{}, w.AtOnce)
	for failing := false; ; {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		queued := c.cfg.DB.JobQueued()
		job, err := c.cfg.DB.Claim(ctx, w.Kind, jobLease)
		if job != nil {
			busy.Go(func() {
				defer func() { <-slots }()
				c.do(ctx, w, job)
			})
			continue
		}
		<-slots
		if ctx.Err() != nil {
			return nil
		}
		failing = c.logFailing(failing, err, "worker", w.Kind)
		select {
		case <-queued:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (c *Control) stopJobs(busy *sync.WaitGroup, kind string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		busy.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(stopJobs):
		c.cfg.Logger.Error("jobs do not stop; others may begin them once their leases are over", "worker", kind)
	}
}

// do does a job and writes down how it ended. What can't be written down ends with the lease.
func (c *Control) do(ctx context.Context, w Worker, job *store.Job) {
	logger := c.cfg.Logger.With("kind", job.Kind, "jobId", job.ID, "tenantId", job.TenantID, "attempt", job.Attempts)
	var err error
	if job.Attempts > w.Attempts {
		err = &JobFailure{Code: store.JobWorkerLost, Final: true, Err: errors.New("each process that has begun it was lost")}
	} else {
		err = keeping(ctx, w, job)
	}
	stopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endJob)
	defer cancel()
	failure := &JobFailure{Code: store.JobError, Err: err}
	errors.As(err, &failure)
	switch {
	case err == nil:
		err = job.Done(ctx)
	case errors.Is(err, store.ErrStale):
	case stopping:
		err = job.Release(ctx)
	case failure.Final || job.Attempts >= w.Attempts:
		logger.Error("a job failed for good", "code", failure.Code, "err", err)
		var also func(context.Context, *store.Tx) error
		if w.Failed != nil {
			also = func(ctx context.Context, tx *store.Tx) (err error) {
				defer recovered(&err)
				return w.Failed(ctx, tx, job, failure.Code)
			}
		}
		err = job.Fail(ctx, failure.Code, also)
	default:
		if job.Attempts == 1 {
			logger.Warn("a job failed, retrying", "code", failure.Code, "err", err)
		}
		err = job.Retry(ctx, failure.Code, retryAfter(job.Attempts))
	}
	if err != nil {
		logger.Warn("the end of a job could not be recorded: the next holder of its lease repeats it", "err", err)
	}
}

// keeping does a job while the lease is kept. The error is ErrStale if it was lost.
func keeping(ctx context.Context, w Worker, job *store.Job) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keep(ctx, cancel, job)
	}()
	defer func() {
		if errors.Is(context.Cause(ctx), store.ErrStale) {
			err = store.ErrStale
		}
		cancel(nil)
		<-ended
	}()
	defer recovered(&err)
	return w.Do(ctx, job)
}

// recovered is deferred around a service's work: a panic in one job must not end the process, which
// would begin it again.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// keep keeps the lease until ctx is done, or cancels it: when another process has the job,
// and when one may have it, as the database has not answered for so long.
func keep(ctx context.Context, cancel context.CancelCauseFunc, job *store.Job) {
	tick := time.NewTicker(jobLease / 3)
	defer tick.Stop()
	for kept := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		limited, end := context.WithTimeout(ctx, jobLease/3)
		err := job.Keep(limited)
		end()
		switch {
		case err == nil:
			kept = began
		case errors.Is(err, store.ErrStale) || time.Since(kept) >= jobLease:
			cancel(store.ErrStale)
			return
		}
	}
}

// Sweep is periodic work of a service: it does what there is to do by now. Any number of processes
// do it at once, so each of its changes has to look again whether there is something to do. What
// has to be done once, and finished, is a job.
type Sweep struct {
	// Name says in the log what fails.
	Name string
	// Every is the time between two beginnings; more than 0.
	Every time.Duration
	// Do does what there is to do by now, and returns soon once its context is done.
	Do func(context.Context) error
}

// repeat runs a sweep until ctx is done. A failure is logged once and retried.
func (c *Control) repeat(ctx context.Context, s Sweep) error {
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for failing := false; ; {
		err := s.Do(ctx)
		if ctx.Err() != nil {
			return nil
		}
		failing = c.logFailing(failing, err, "sweep", s.Name)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// logFailing logs that something begins to fail, or works again.
func (c *Control) logFailing(failing bool, err error, what, name string) bool {
	switch {
	case err != nil && !failing:
		c.cfg.Logger.Error("a "+what+" failed, retrying", what, name, "err", err)
	case err == nil && failing:
		c.cfg.Logger.Info("a "+what+" works again", what, name)
	}
	return err != nil
}

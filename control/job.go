package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"muniment.example/control/store"
)

// Worker does the jobs of one kind, in every process that has it: store/jobs.go says what a job is,
// and how to add one.
type Worker struct {
	// Kind is the kind of the jobs.
	Kind string
	// Do does a job, of which an earlier attempt may have done a part: see job.Progress. It must
	// return soon after ctx is done, which means that the process stops or has lost the lease. In
	// each change it calls job.Hold before it writes. After an error the job is retried later; a
	// JobFailure says more.
	Do func(ctx context.Context, job *store.Job) error
	// Failed records, in the change that fails a job, what this means for the service; nil writes
	// nothing.
	Failed func(ctx context.Context, tx *store.Tx, job *store.Job, code string) error
	// AtOnce is how many jobs this process does at a time. Default 4.
	AtOnce int
	// Attempts is the most attempts at a job. Default 10.
	Attempts int
}

// JobFailure is an error with a code, which is stored with the job.
type JobFailure struct {
	Code string
	// Final fails the job even if attempts are left.
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
	// stopJobs is how long a stop waits for jobs to return, and endJob how long it may take to
	// record the end of one.
	stopJobs = 10 * time.Second
	endJob   = 3 * time.Second
)

func (w *Worker) validate() error {
	if w.Kind == "" || w.Do == nil || w.AtOnce < 0 || w.Attempts < 0 {
		return fmt.Errorf("the worker %q has no Kind or no Do, or a negative AtOnce or Attempts", w.Kind)
	}
	if w.AtOnce == 0 {
		w.AtOnce = 4
	}
	if w.Attempts == 0 {
		w.Attempts = 10
	}
	return nil
}

// retryAfter is the delay after an attempt: 1 s after the first, doubled after each further one, at
// most 10 minutes, and shortened at random by up to a half, so that jobs that failed together are
// not retried together.
func retryAfter(attempt int) time.Duration {
	d := min(time.Second<<min(attempt-1, 10), 10*time.Minute)
	return d - rand.N(d/2)
}

// work does the jobs of a kind until ctx is done. A job that does not return within stopJobs after
// that is left to others once its lease ends.
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
		queued := c.cfg.DB.Jobs.Queued()
		job, err := c.cfg.DB.Jobs.Claim(ctx, w.Kind, jobLease)
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
		c.cfg.Logger.Error("jobs did not stop in time: other processes may repeat them once their leases end", "worker", kind)
	}
}

// do does a job and records its end. If that can't be recorded, the job is repeated once its lease
// ends.
func (c *Control) do(ctx context.Context, w Worker, job *store.Job) {
	logger := c.cfg.Logger.With("kind", job.Kind, "jobId", job.ID, "tenantId", job.TenantID, "attempt", job.Attempts)
	var err error
	if job.Attempts > w.Attempts {
		err = &JobFailure{Code: store.JobWorkerLost, Final: true, Err: errors.New("the process of every attempt was lost")}
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
		logger.Error("a job failed and is not retried", "code", failure.Code, "err", err)
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
		logger.Warn("cannot record the end of a job: the next holder of its lease repeats it", "err", err)
	}
}

// keeping does a job and renews its lease meanwhile. The error is ErrStale if the lease was lost.
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

// recovered is deferred around a service's work: a panic in a job must not end the process, since
// the job would be repeated and end the next one, too.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// keep renews the lease until ctx is done. It cancels ctx when another process has the job, and when
// another may have it because the database has not answered for jobLease.
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
		limited, end := ctx, func() {}
		if job.Shared() {
			limited, end = context.WithTimeout(ctx, jobLease/3)
		}
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

// Sweep is periodic work of a service: it does everything that is due. Several processes may do it
// at once, so each of its changes has to check again that there is something to do. Work that must
// be done once and finished is a job.
type Sweep struct {
	// Name is the sweep's name in the log.
	Name string
	// Every is the time between two beginnings; more than 0.
	Every time.Duration
	// Do does everything that is due, and returns soon after its context is done.
	Do func(context.Context) error
}

// repeat runs a sweep until ctx is done. Of repeated failures only the first is logged.
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

// logFailing logs the first of repeated failures, and the first success after them. It returns
// whether err is a failure.
func (c *Control) logFailing(failing bool, err error, what, name string) bool {
	switch {
	case err != nil && !failing:
		c.cfg.Logger.Error("a "+what+" failed, retrying", what, name, "err", err)
	case err == nil && failing:
		c.cfg.Logger.Info("a "+what+" works again", what, name)
	}
	return err != nil
}

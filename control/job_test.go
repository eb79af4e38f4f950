package control

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/deploy/stack/stacktest"
)

// jobWorkers is a database with jobs of one kind, in a bubble with a clock of its own.
type jobWorkers struct {
	t   *testing.T
	db  *store.DB
	log bytes.Buffer
	ctl *Control
}

func inWorkshop(t *testing.T, test func(s *jobWorkers)) {
	synctest.Test(t, func(t *testing.T) {
		s := &jobWorkers{t: t}
		logger := slog.New(slog.NewTextHandler(&s.log, nil))
		var err error
		s.db, err = store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "control.db"), Logger: logger})
		require.NoError(t, err)
		defer s.db.Close()
		s.ctl = &Control{cfg: Config{DB: s.db, Logger: logger}}
		test(s)
	})
}

// employ has a worker work until fire is called, which returns once it has stopped.
func (s *jobWorkers) employ(w Worker) (fire func()) {
	w.Kind = "test.job"
	require.NoError(s.t, w.validate())
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error)
	go func() { ended <- s.ctl.work(ctx, w) }()
	return func() {
		stop()
		require.NoError(s.t, <-ended)
	}
}

func (s *jobWorkers) enqueue(lane string) {
	_, err := s.db.Jobs.Enqueue(s.t.Context(), store.NewJob{Kind: "test.job", TenantID: "tnt_a", Lane: lane})
	require.NoError(s.t, err)
}

func (s *jobWorkers) jobs() []store.JobRecord {
	list, err := store.ListJobs(s.t.Context(), s.db.Read(), "test.job", "tnt_a")
	require.NoError(s.t, err)
	return list
}

func (s *jobWorkers) logged(what string) int { return strings.Count(s.log.String(), what) }

// TestJobIsTriedAgain later and later, and logged once.
func TestJobIsTriedAgain(t *testing.T) {
	inWorkshop(t, func(s *jobWorkers) {
		var mu sync.Mutex
		var moments []time.Time
		began := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(moments)
		}
		fire := s.employ(Worker{Do: func(_ context.Context, job *store.Job) error {
			mu.Lock()
			moments = append(moments, time.Now())
			mu.Unlock()
			switch require.Equal(t, len(began()), job.Attempts); job.Attempts {
			case 1:
				panic("a slip")
			case 2:
				return &JobFailure{Code: "NO_TOOL", Err: errors.New("borrowed")}
			case 3, 4:
				return errors.New("dull")
			}
			return nil
		}})
		s.enqueue("")
		synctest.Wait()
		require.Len(t, began(), 1, "at once")
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		require.Len(t, began(), 2)
		require.Equal(t, "NO_TOOL", s.jobs()[0].Code)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, began(), 5)
		for i, d := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
			waited := began()[i+1].Sub(began()[i])
			require.GreaterOrEqual(t, waited, d/2)
			require.LessOrEqual(t, waited, d+lookForJobs)
		}
		require.Empty(t, s.jobs())
		fire()
		require.Equal(t, 1, s.logged("a job failed, retrying"))
		require.Contains(t, s.log.String(), "a slip")
		require.Equal(t, 1, s.logged("level=WARN"))
		require.Zero(t, s.logged("level=ERROR"))
	})
}

// TestGivingUpPanics: the job is retried like one whose process was lost, and the process survives.
func TestGivingUpPanics(t *testing.T) {
	inWorkshop(t, func(s *jobWorkers) {
		var codes []string
		fire := s.employ(Worker{
			Attempts: 1,
			Do:       func(context.Context, *store.Job) error { return errors.New("dull") },
			Failed: func(_ context.Context, _ *store.Tx, _ *store.Job, code string) error {
				if codes = append(codes, code); len(codes) == 1 {
					panic("a slip")
				}
				return nil
			},
		})
		s.enqueue("")
		time.Sleep(time.Minute)
		synctest.Wait()
		fire()
		require.Equal(t, []string{store.JobError, store.JobWorkerLost}, codes)
		require.Equal(t, store.JobFailed, s.jobs()[0].State)
		require.Contains(t, s.log.String(), "panic: a slip")
	})
}

// TestJobIsGivenUp by its last attempt, by a final failure, or since all were lost, and the
// service writes that down in the same change.
func TestJobIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		do       func() error
		lose     int // attempts of processes that are killed
		attempts int
		code     string
	}{
		"last attempt": {func() error { return errors.New("dull") }, 0, 3, store.JobError},
		"code":         {func() error { return &JobFailure{Code: "NO_TOOL", Err: errors.New("borrowed")} }, 0, 3, "NO_TOOL"},
		"final":        {func() error { return &JobFailure{Code: "NO_TOOL", Final: true, Err: errors.New("broken")} }, 0, 1, "NO_TOOL"},
		"some lost":    {func() error { return errors.New("dull") }, 2, 3, store.JobError},
		"lost":         {func() error { t.Error("it kills"); return nil }, 3, 4, store.JobWorkerLost},
	} {
		t.Run(name, func(t *testing.T) {
			inWorkshop(t, func(s *jobWorkers) {
				s.enqueue("")
				for range c.lose {
					_, err := s.db.Jobs.Claim(s.t.Context(), "test.job", time.Minute)
					require.NoError(t, err)
					time.Sleep(time.Minute)
				}
				var codes []string
				fire := s.employ(Worker{
					Attempts: 3,
					Do:       func(context.Context, *store.Job) error { return c.do() },
					Failed: func(_ context.Context, tx *store.Tx, job *store.Job, code string) error {
						require.NotNil(t, tx)
						codes = append(codes, code)
						return nil
					},
				})
				time.Sleep(time.Minute)
				fire()
				require.Equal(t, []string{c.code}, codes)
				job := s.jobs()[0]
				require.Equal(t, store.JobFailed, job.State)
				require.Equal(t, c.code, job.Code)
				require.Equal(t, c.attempts, job.Attempts)
				require.Equal(t, 1, s.logged("a job failed and is not retried"))
			})
		})
	}
}

// TestJobIsTakenOver once the lease of its process has ended, and not from a process that renews it.
func TestJobIsTakenOver(t *testing.T) {
	stacktest.Both(t)
	inWorkshop(t, func(s *jobWorkers) {
		s.enqueue("")
		killed, err := s.db.Jobs.Claim(s.t.Context(), "test.job", 20*time.Second)
		require.NoError(t, err)
		began, begun := time.Now(), 0
		var cause error
		slow := Worker{Do: func(ctx context.Context, job *store.Job) error {
			if begun++; begun > 1 {
				return nil
			}
			require.WithinRange(t, time.Now(), began.Add(20*time.Second), began.Add(20*time.Second+lookForJobs))
			require.ErrorIs(t, killed.Report(ctx, 1), store.ErrStale)
			time.Sleep(time.Hour)
			require.NoError(t, ctx.Err())
			// Another process has it, whatever for.
			require.NoError(t, s.db.Change(ctx, func(tx *store.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE jobs SET lease = lease + 1, due_at = 0`)
				return err
			}))
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}}
		first, second := s.employ(slow), s.employ(slow)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		first()
		second()
		require.Equal(t, 2, begun)
		require.ErrorIs(t, cause, store.ErrStale)
		require.Empty(t, s.jobs())
	})
}

// TestWorkerStops: a stop releases jobs without counting an attempt, and does not wait for a job that
// does not return.
func TestWorkerStops(t *testing.T) {
	inWorkshop(t, func(s *jobWorkers) {
		deaf := make(chan struct{})
		fire := s.employ(Worker{Do: func(ctx context.Context, _ *store.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		s.enqueue("")
		synctest.Wait()
		began := time.Now()
		fire()
		require.Equal(t, began, time.Now())
		job := s.jobs()[0]
		require.Equal(t, store.JobReady, job.State)
		require.Zero(t, job.Attempts)

		fire = s.employ(Worker{Do: func(context.Context, *store.Job) error { <-deaf; return nil }})
		synctest.Wait()
		fire()
		require.Equal(t, stopJobs, time.Since(began))
		require.Equal(t, 1, s.logged("jobs did not stop in time"))
		require.Equal(t, store.JobLeased, s.jobs()[0].State)
		close(deaf)
		synctest.Wait()
	})
}

// TestWorkerIsBounded: a worker does AtOnce jobs at a time, continues with the next as soon as one
// ends, and a job that hangs does not delay the others.
func TestWorkerIsBounded(t *testing.T) {
	inWorkshop(t, func(s *jobWorkers) {
		var mu sync.Mutex
		begun, now, most, done := 0, 0, 0, 0
		began := time.Now()
		stuck := make(chan struct{})
		fire := s.employ(Worker{AtOnce: 3, Do: func(context.Context, *store.Job) error {
			mu.Lock()
			begun++
			first := begun == 1
			now++
			most = max(most, now)
			mu.Unlock()
			if first {
				<-stuck
			} else {
				time.Sleep(time.Minute)
			}
			mu.Lock()
			defer mu.Unlock()
			now--
			done++
			return nil
		}})
		for _, lane := range []string{"dead", "dead", "b", "c", "d", "e"} {
			s.enqueue(lane)
			synctest.Wait()
		}
		time.Sleep(2*time.Minute + time.Millisecond)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, 4, done, "in two rounds of two")
		mu.Unlock()
		close(stuck)
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		fire()
		require.Equal(t, 6, done)
		require.Equal(t, 3, most)
		require.Less(t, time.Since(began), 4*time.Minute)
	})
}

// TestBadWorker keeps control from starting.
func TestBadWorker(t *testing.T) {
	nothing := func(context.Context, *store.Job) error { return nil }
	for _, w := range []Worker{{Do: nothing}, {Kind: "broom"}, {Kind: "broom", Do: nothing, AtOnce: -1}} {
		_, err := New(Config{DB: new(store.DB), Keys: new(signing.Service), Nodes: new(node.Service), Tenants: new(tenant.Service), Log: struct{ store.Appender }{}, Workers: []Worker{w}})
		require.ErrorContains(t, err, "cannot open control: the worker")
	}
}

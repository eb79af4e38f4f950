// Package process is the life of a server process on its machine: signals, the log, metrics and traces of the
// process, its listeners, its data folder, the memory that it may use, and the order in which its parts end. It
// knows no engine and no resource; main gives it what to serve.
//
// A process ends with SIGINT or SIGTERM, or when one of its parts fails, and closes what it opened, the last first.
// While it waits for something that is away, /livez answers 200 and /readyz says what it waits for.
package process

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/gateway/certs"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer/keyfile"
)

// Process is the runtime of a server command: its log, its metrics, its listeners, its
// background parts, and what it must close. It ends with SIGINT or SIGTERM, or when a part
// fails. One goroutine starts it; Logger, Registry, Tracer and Fail may be used by any.
type Process struct {
	Build    Build
	Logger   *slog.Logger
	LogLevel *slog.LevelVar
	Registry *prometheus.Registry
	Tracer   *trace.Tracer // nil: nothing is traced

	// Ctx is done when the process is to end, also while it starts, which may take long.
	Ctx context.Context
	// Fail ends the process with an error. Only the first one counts.
	Fail context.CancelCauseFunc

	name      string          // in the log
	signalled context.Context // done with SIGINT or SIGTERM
	started   bool            // as Started says
	closers   []func() error  // of what is open, in the order of opening
}

// Run calls serve with a process of that name, and once serve has returned the functions that were given to
// Process.AtEnd, the last first. A stop by a signal is no error.
func (f *Flags) Run(build Build, name string, serve func(*Process) error) error {
	signalled, stop := Interrupted()
	defer stop()
	p := &Process{Build: build, Registry: newRegistry(build), name: name, signalled: signalled}
	p.Logger, p.LogLevel = f.logger()
	limitMemory()
	p.Ctx, p.Fail = context.WithCancelCause(signalled)
	defer p.Fail(nil)
	err := f.Traces.open(p)
	if err == nil {
		err = serve(p)
	}
	if closeErr := p.Close(); err == nil {
		err = closeErr
	}
	return p.outcome(err)
}

// Interrupted is a context that ends with SIGINT or SIGTERM.
func Interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// memoryShare is the share of a container's memory that Go may use: the rest is for what is mapped outside of
// its heap, SQLite's pages among it.
const memoryShare = 0.8

// limitMemory has the garbage collector keep within the container's memory, if it has a limit: the kernel
// would kill the process at a peak that a collection avoids. The variable GOMEMLIMIT takes precedence; the metric
// go_gc_gomemlimit_bytes has the limit.
func limitMemory() { _, _ = memlimit.Set(memlimit.WithRatio(memoryShare)) } // the error is that there is no limit to read

// AtEnd registers closer to be called when the process ends, before those registered earlier.
// Its error is the process's if there is no other.
func (p *Process) AtEnd(closer func() error) { p.closers = append(p.closers, closer) }

// Close calls what AtEnd registered, and returns the first error. Run does so; it may be called again.
func (p *Process) Close() (err error) {
	for len(p.closers) > 0 {
		last := len(p.closers) - 1
		closer := p.closers[last]
		p.closers = p.closers[:last]
		if closeErr := closer(); err == nil {
			err = closeErr
		}
	}
	return err
}

// Started says that the command serves: from then on its errors are failures, also after a signal.
func (p *Process) Started() { p.started = true }

// Wait returns when a process that serves is to end.
func (p *Process) Wait() {
	p.Started()
	<-p.Ctx.Done()
}

// outcome is the error of the process whose command has returned err. A signal while it
// started is a success. A failure that came before the signal is the error nevertheless: a
// process that is not ready is often stopped next.
func (p *Process) outcome(err error) error {
	switch failure := p.failure(); {
	case failure == nil:
	case err == nil || errors.Is(err, context.Canceled):
		return failure
	case errors.Is(err, failure):
		return err
	default:
		return errors.Join(failure, err)
	}
	switch {
	case err == nil:
		p.Logger.Info(p.name + " has stopped")
		return nil
	case p.signalled.Err() == nil || p.started && !errors.Is(err, context.Canceled):
		return err
	}
	p.Logger.Info("muniment was stopped while it started", "err", err)
	return nil
}

// failure is the error that ended the process; nil if a signal did, or if it goes on.
func (p *Process) failure() error {
	if cause := context.Cause(p.Ctx); cause != context.Cause(p.signalled) {
		return cause
	}
	return nil
}

// Claim makes a data folder, and keeps other processes from it until this one ends.
func (p *Process) Claim(data string) error {
	if err := MakeDataDir(data); err != nil {
		return err
	}
	claim, err := keyfile.Claim(data)
	if err != nil {
		return err
	}
	p.AtEnd(claim.Close)
	return nil
}

// Certs names a use of certificates, in the log and in metrics.
func (p *Process) Certs(use string) certs.Options {
	return certs.Options{Use: use, Logger: p.Logger, Registerer: p.Registry}
}

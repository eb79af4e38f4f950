package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"muniment.example/gateway"
	"muniment.example/gateway/certs"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer/keyfile"
)

// process is the runtime of a server command: its log, its metrics, its listeners, its
// background parts, and what it must close. It ends with SIGINT or SIGTERM, or when a part
// fails.
type process struct {
	name     string // in the log
	logger   *slog.Logger
	logLevel *slog.LevelVar
	registry *prometheus.Registry
	tracer   *trace.Tracer // nil: nothing is traced

	signalled context.Context // done with SIGINT or SIGTERM
	// ctx is done when the process is to end, also while it starts, which may take long.
	ctx context.Context
	// fail ends the process with an error. Only the first one counts.
	fail context.CancelCauseFunc
	// started says that the command serves: from then on its errors are failures, also after
	// a signal.
	started bool
	closers []func() error // of what is open, in the order of opening
}

// run calls serve with a process, and once serve has returned the functions that were given to
// process.atEnd, the last first.
func (f *serverFlags) run(name string, serve func(*process) error) error {
	signalled, stop := interrupted()
	defer stop()
	p := &process{name: name, registry: newRegistry(), signalled: signalled}
	p.logger, p.logLevel = f.logger()
	limitMemory()
	p.ctx, p.fail = context.WithCancelCause(signalled)
	defer p.fail(nil)
	err := f.Traces.open(p)
	if err == nil {
		err = serve(p)
	}
	for len(p.closers) > 0 {
		last := len(p.closers) - 1
		closer := p.closers[last]
		p.closers = p.closers[:last]
		if closeErr := closer(); err == nil {
			err = closeErr
		}
	}
	return p.outcome(err)
}

// memoryShare is the share of a container's memory that Go may use: the rest is for what is mapped outside of
// its heap, SQLite's pages among it.
const memoryShare = 0.8

// limitMemory has the garbage collector keep within the container's memory, if it has a limit: the kernel
// would kill the process at a peak that a collection avoids. The variable GOMEMLIMIT takes precedence; the metric
// go_gc_gomemlimit_bytes has the limit.
func limitMemory() { _, _ = memlimit.Set(memlimit.WithRatio(memoryShare)) } // the error is that there is no limit to read

// newRegistry has the metrics of every server.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "muniment_build_info", Help: "The program that runs; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.GoVersion},
	})
	info.Set(1)
	registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// atEnd registers closer to be called when the process ends, before those registered earlier.
// Its error is the process's if there is no other.
func (p *process) atEnd(closer func() error) { p.closers = append(p.closers, closer) }

// wait returns when a process that serves is to end.
func (p *process) wait() {
	p.started = true
	<-p.ctx.Done()
}

// outcome is the error of the process whose command has returned err. A signal while it
// started is a success. A failure that came before the signal is the error nevertheless: a
// process that is not ready is often stopped next.
func (p *process) outcome(err error) error {
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
		p.logger.Info(p.name + " has stopped")
		return nil
	case p.signalled.Err() == nil || p.started && !errors.Is(err, context.Canceled):
		return err
	}
	p.logger.Info("muniment was stopped while it started", "err", err)
	return nil
}

// failure is the error that ended the process; nil if a signal did, or if it goes on.
func (p *process) failure() error {
	if cause := context.Cause(p.ctx); cause != context.Cause(p.signalled) {
		return cause
	}
	return nil
}

// claim makes a data folder, and keeps other processes from it until this one ends.
func (p *process) claim(data string) error {
	if err := makeDataDir(data); err != nil {
		return err
	}
	claim, err := keyfile.Claim(data)
	if err != nil {
		return err
	}
	p.atEnd(claim.Close)
	return nil
}

// certs names a use of certificates, in the log and in metrics.
func (p *process) certs(use string) certs.Options {
	return certs.Options{Use: use, Logger: p.logger, Registerer: p.registry}
}

// port is an address that the process listens on.
type port struct {
	net.Listener // without TLS
	name         string
	tls          *tls.Config // nil: none
}

// listen takes a port, from now on: callers queue until it is served. flag names the
// address in errors.
func (p *process) listen(name, flag, address string, flags certs.ServerFlags) (*port, error) {
	cfg, err := certs.Server(p.certs(name), flags)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, cannotListen(flag, err)
	}
	p.atEnd(func() error {
		_ = ln.Close() // a server may have closed it already
		return nil
	})
	return &port{ln, name, cfg}, nil
}

// url is where the port can be reached.
func (l *port) url() string { return urlOf(l.Addr(), l.tls) }

// operate serves operators from now on: a probe of /livez must not kill a process that
// starts slowly. ready reports what the process is waiting for. Set replaces the handler once
// the process has started.
func (p *process) operate(admin *port, token string, ready func(context.Context) error) *switchable {
	operators := newSwitch(gateway.Admin{Gatherer: p.registry, Token: token, LogLevel: p.logLevel, Checks: []gateway.Check{{Name: "start", Ready: ready}}}.Handler())
	p.parts().serve(admin, gateway.LoopbackOnly(admin.Addr(), operators))
	return operators
}

// parts are background tasks of a process, and end after its listeners.
type parts struct {
	ctx  context.Context
	halt context.CancelFunc
	all  sync.WaitGroup
	fail context.CancelCauseFunc
}

// parts makes parts that go on after a signal, until the process closes what it opened
// after them. One that ends with an error before that ends the process.
func (p *process) parts() *parts {
	made := newParts(p.ctx, p.fail)
	p.atEnd(made.stop)
	return made
}

func newParts(ctx context.Context, fail context.CancelCauseFunc) *parts {
	p := &parts{fail: fail}
	p.ctx, p.halt = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

func (p *parts) run(name string, work func(context.Context) error) {
	p.all.Go(func() {
		if err := work(p.ctx); err != nil && p.ctx.Err() == nil {
			p.fail(fmt.Errorf("%s stopped: %w", name, err))
		}
	})
}

// serve answers on a port.
func (p *parts) serve(on *port, handler http.Handler) {
	p.run("the listener for "+on.name, func(ctx context.Context) error { return serve(ctx, secured(on.Listener, on.tls), handler) })
}

// stop returns once all have ended. It may be called again.
func (p *parts) stop() error {
	p.halt()
	p.all.Wait()
	return nil
}

// errForeign says that a folder has files that are not muniment's.
var errForeign = errors.New("is not a data folder of muniment, and not empty")

// ours are files of which every data folder has at least one, from its first moment on.
var ours = []string{"LOCK", "control.db", "keys/root.vkey", "admin.json"}

// makeDataDir is keyfile.MakeDir for a data folder. A folder that exists has to be empty or a
// data folder, else the error is errForeign: a mistyped path must not scatter keys and databases
// over a home folder. What a new volume holds (lost+found) and hidden files don't count.
func makeDataDir(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range ours {
		if _, err := os.Lstat(filepath.Join(path, filepath.FromSlash(name))); err == nil {
			return keyfile.MakeDir(path)
		}
	}
	foreign := ""
	for _, e := range entries {
		if e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), ".") {
			foreign = e.Name()
		}
	}
	if foreign != "" {
		return fmt.Errorf("%s %w (it holds %s): name another folder by --data", path, errForeign, foreign)
	}
	return keyfile.MakeDir(path)
}

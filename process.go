package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"muniment/gateway/certs"
)

// logFlags are those of every command that serves.
type logFlags struct {
	Log      string     `default:"text" enum:"text,json" help:"Form of the log: ${enum}."`
	LogLevel slog.Level `default:"info" help:"Least level that is logged: debug, info, warn or error."`
}

// logger writes to standard error; a server's first line names its addresses.
func (f *logFlags) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.Log == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// keysFlags are those of every process that answers deliveries.
type keysFlags struct {
	IdempotencyEntries int           `default:"5000000" help:"How many idempotency keys and rows of batches are remembered, the newest of 24h, in 50 to 80 bytes of memory each and 24 on the disk: ${default} last for 24h at 58 deliveries a second with a key, for 83 minutes at 1,000." placeholder:"N"`
	RowAge             time.Duration `default:"720h" help:"How long ago the play of a row of a batch may be."`
}

// Validate refuses what would only fail once the process runs.
func (f *keysFlags) Validate() error {
	if f.IdempotencyEntries < 1 {
		return errors.New("--idempotency-entries must be at least 1")
	}
	if f.RowAge <= 0 {
		return errors.New("--row-age must be more than 0")
	}
	return nil
}

// checkpointFolder is where a data folder keeps checkpoints of its idempotency keys.
const checkpointFolder = "idempotency"

// profilingFlags are those of a process that makes no admin token of its own.
type profilingFlags struct {
	AdminTokenFile certs.PasswordFile `help:"File of a token that opens /debug/pprof on the address for operators, as Authorization: Bearer TOKEN. Default: nothing opens it." placeholder:"FILE" type:"path"`
}

// token reads the file; it is empty where there is none.
func (f *profilingFlags) token() (string, error) {
	read := f.AdminTokenFile.Password()
	if read == nil {
		return "", nil
	}
	token, err := read()
	if err != nil {
		return "", fmt.Errorf("--admin-token-file: %w", err)
	}
	return token, nil
}

// newRegistry holds what every server tells of its process.
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

// stopped makes a success of a server's error if it was told to stop while it
// started. If a part of it had failed before that, which ended serving, that is the
// error: a process that drains, unready, is soon told to stop, too.
func stopped(told, serving context.Context, logger *slog.Logger, started bool, err error) error {
	switch why := whyEnded(told, serving); {
	case why == nil:
	case err == nil || errors.Is(err, context.Canceled):
		return why
	case errors.Is(err, why):
		return err
	default:
		return errors.Join(why, err)
	}
	if err == nil || told.Err() == nil || started && !errors.Is(err, context.Canceled) {
		return err
	}
	logger.Info("muniment was stopped while it started", "err", err)
	return nil
}

// parts run beside what a process serves, and end after it.
type parts struct {
	ctx  context.Context
	halt context.CancelFunc
	all  sync.WaitGroup
	fail context.CancelCauseFunc
}

// newParts makes parts that go on when ctx ends, until stop. A part that ends with an
// error before that is told to fail.
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

// stop returns once all have ended.
func (p *parts) stop() {
	p.halt()
	p.all.Wait()
}

// whyEnded is the failure that ended serving, which told ends too; nil if told did, or if
// it goes on. What came first counts.
func whyEnded(told, serving context.Context) error {
	if cause := context.Cause(serving); cause != context.Cause(told) {
		return cause
	}
	return nil
}

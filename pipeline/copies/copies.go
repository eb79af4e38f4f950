// Package copies is the log of a node in a process of its own: Kafka or the node's spool
// makes records durable, and local files keep copies of the newest ones, from which
// responses to idempotent retries are rendered.
//
// Append makes the record durable first; that alone decides whether it fails. Then it
// writes the copy, whose position the caller gets. The copies are kept for
// segment.LeastKeep, as far as Config.MaxBytes reaches, and are not synced: a crash of the
// process loses none, a crash of the machine may lose any of them.
//
// A copy that fails never fails a delivery. If it can't be written the position is the zero
// position: the receipt is good, and its Idempotency-Key is not known. If it can't be read
// back the error is fs.ErrNotExist, and Scan skips it. Then a retry gets a receipt of its
// own, which is metered zero as a duplicate. Failures are logged and counted by
// muniment_edge_copies_failed_total:
//   - The copies reach MaxBytes, or the disk is full: the oldest are removed.
//   - A write fails permanently: there are no more copies until the next start.
//   - They are found damaged when the node starts: they are removed, with a warning.
//   - The folder can't be opened: the node serves without copies. Open fails only if
//     another process has the folder open, and for a wrong Config.
//
// Non-goals: reading what other nodes wrote, and what is older than the copies. The topic
// has both.
package copies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// Promise makes records durable.
type Promise interface {
	pipeline.Appender
	// Writable is nil if Append would take a record now, else the error that it would return.
	Writable(ctx context.Context) error
}

// Config of a Log. Promise and Dir are required.
type Config struct {
	// Promise makes records durable: kafka.Spooled. The caller closes it.
	Promise Promise
	// Dir is the folder of the copies; it is created if it doesn't exist.
	Dir string
	// MaxBytes bounds the copies; default 4 GiB, least two segments.
	MaxBytes int64
	// SegmentBytes is the size of one of their files; default 64 MiB.
	SegmentBytes int64
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger; default none.
	Logger *slog.Logger
	// Registerer takes the metrics until Close; those of the files bear the label
	// log="copies". Default none.
	Registerer prometheus.Registerer
	// FS is the file system, for fault tests; nil is the operating system's.
	FS segment.FS
}

const (
	defaultMaxBytes     = 4 << 30
	defaultSegmentBytes = 64 << 20
)

func (c *Config) complete() error {
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultMaxBytes
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Promise == nil:
		return errors.New("copies: Promise is missing")
	case c.Dir == "":
		return errors.New("copies: Dir is empty")
	case c.SegmentBytes < 0, c.MaxBytes < 2*c.SegmentBytes:
		return fmt.Errorf("copies: MaxBytes %d does not hold two segments of SegmentBytes %d", c.MaxBytes, c.SegmentBytes)
	}
	return nil
}

// Log implements pipeline.Log over the copies, except that an error of theirs is none
// of Append's. Safe for concurrent use.
type Log struct {
	cfg    Config
	copies *segment.Log // nil when the folder can't be opened
	failed prometheus.Counter

	removing sync.Mutex   // held while the oldest copies are removed
	removals atomic.Int64 // how often that was
	failing  atomic.Bool  // copies fail, and that was logged
}

var _ pipeline.Log = (*Log)(nil)

// Open opens the copies. It reads and checks all of them if the machine was restarted since
// they were written. It fails if another process has the folder open (segment.ErrLocked),
// and for a wrong Config.
func Open(cfg Config) (*Log, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, failed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muniment_edge_copies_failed_total",
		Help: "Records that are durable, but could not be copied or read back for answers to idempotent retries.",
	})}
	if err := pipeline.Register(cfg.Registerer, l.failed); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the copies: %w", err)
	}
	local := segment.Config{
		Dir: cfg.Dir, SegmentBytes: cfg.SegmentBytes, MaxBytes: cfg.MaxBytes, Lazy: true, Indexed: true, Now: cfg.Now, Log: cfg.Logger, FS: cfg.FS,
	}
	if cfg.Registerer != nil {
		local.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"log": "copies"}, cfg.Registerer)
	}
	var err error
	l.copies, err = segment.Open(local)
	switch {
	case errors.Is(err, segment.ErrLocked):
		pipeline.Unregister(cfg.Registerer, l.failed)
		return nil, err
	case err != nil:
		l.copies = nil
		cfg.Logger.Error("serving without answers to idempotent retries until the next start", "err", err)
	}
	return l, nil
}

// Close closes the copies; the Promise stays open.
func (l *Log) Close() error {
	pipeline.Unregister(l.cfg.Registerer, l.failed)
	if l.copies == nil {
		return nil
	}
	return l.copies.Close()
}

// Run removes copies that are older than segment.LeastKeep until ctx is done.
func (l *Log) Run(ctx context.Context) error {
	if l.copies == nil {
		<-ctx.Done()
		return nil
	}
	return segment.Retention{
		Log: l.copies, Keep: segment.LeastKeep, Now: l.cfg.Now, Logger: l.cfg.Logger,
		Loaded: func(ctx context.Context) (sealer.Position, bool, error) {
			_, end, err := l.copies.Bounds(ctx, 0)
			return end, true, err
		},
	}.Run(ctx)
}

// Append implements pipeline.Appender by Config.Promise. The position is that of the copy,
// the zero position if there is none.
func (l *Log) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if _, err := l.cfg.Promise.Append(ctx, r); err != nil {
		return sealer.Position{}, err
	}
	if l.copies == nil {
		l.failed.Inc()
		return sealer.Position{}, nil
	}
	return l.copied(l.copy(ctx, r)), nil
}

// Writable is the Promise's: copies fail no delivery.
func (l *Log) Writable(ctx context.Context) error { return l.cfg.Promise.Writable(ctx) }

// AppendAll implements pipeline.Appender, as Append does.
func (l *Log) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	_, errs = l.cfg.Promise.AppendAll(ctx, rs)
	at = make([]sealer.Position, len(rs))
	var durable []*sealer.Record
	var of []int // the index in rs of each of them
	for i, err := range errs {
		if err == nil {
			durable, of = append(durable, rs[i]), append(of, i)
		}
	}
	if l.copies == nil {
		l.failed.Add(float64(len(durable)))
		return at, errs
	}
	copied, copyErrs := l.copies.AppendAll(ctx, durable)
	for n, err := range copyErrs {
		if errors.Is(err, pipeline.ErrFull) {
			copied[n], err = l.copy(ctx, durable[n])
		}
		at[of[n]] = l.copied(copied[n], err)
	}
	return at, errs
}

// copied returns the position of a copy, and counts and logs an error.
func (l *Log) copied(at sealer.Position, err error) sealer.Position {
	l.logChange(err)
	if err != nil {
		l.failed.Inc()
		return sealer.Position{}
	}
	return at
}

// copy writes a copy; if there is no space for it, it removes the oldest ones.
func (l *Log) copy(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	for {
		removals := l.removals.Load()
		at, err := l.copies.Append(ctx, r)
		if !errors.Is(err, pipeline.ErrFull) {
			return at, err
		}
		if removeErr := l.removeOldest(removals); removeErr != nil {
			return at, errors.Join(err, removeErr)
		}
	}
}

var errNoneLeft = errors.New("no older copy is left to remove")

// removeOldest removes the oldest copies, unless another call did since removals was read.
func (l *Log) removeOldest(removals int64) error {
	l.removing.Lock()
	defer l.removing.Unlock()
	if l.removals.Load() != removals {
		return nil
	}
	removed, err := l.copies.RemoveOldest()
	if err == nil && !removed {
		err = errNoneLeft
	}
	if err == nil {
		l.removals.Add(1)
	}
	return err
}

// logChange logs when copies begin to fail and when they succeed again.
func (l *Log) logChange(err error) {
	fails := err != nil
	if l.failing.Load() == fails || !l.failing.CompareAndSwap(!fails, fails) {
		return
	}
	if fails {
		l.cfg.Logger.Error("cannot keep copies for idempotent retries", "err", err)
	} else {
		l.cfg.Logger.Info("can keep copies for idempotent retries again")
	}
}

// Read implements pipeline.Reader for the copies. The error is also fs.ErrNotExist if
// the copy is not there any more or can't be read.
func (l *Log) Read(ctx context.Context, at sealer.Position) (sealer.Entry, error) {
	if l.copies == nil {
		return sealer.Entry{}, fmt.Errorf("there are no copies: %w", fs.ErrNotExist)
	}
	e, err := l.copies.Read(ctx, at)
	switch {
	case err == nil || errors.Is(err, pipeline.ErrClosed) || ctx.Err() != nil:
		return e, err
	case !errors.Is(err, pipeline.ErrGone):
		l.failed.Inc()
		l.cfg.Logger.Error("cannot read a copy for an idempotent retry", "err", err)
	}
	return e, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}

// Scan implements pipeline.Reader for the copies, except that it skips and logs those that
// can't be read: a node that reads all copies when it starts needs the others.
func (l *Log) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	if l.copies == nil {
		return nil
	}
	for step := int64(1); ; step *= 2 { // few attempts for a damaged range, which at most doubles what is skipped
		next := from
		var stopped error
		err := l.copies.Scan(ctx, from, to, func(e sealer.Entry) error {
			next, step = e.Position.Next(), 1
			stopped = fn(e)
			return stopped
		})
		final := slices.ContainsFunc([]error{pipeline.ErrClosed, pipeline.ErrGone, pipeline.ErrBeyondEnd},
			func(sentinel error) bool { return errors.Is(err, sentinel) })
		if err == nil || final || stopped != nil || ctx.Err() != nil {
			return err
		}
		_, end, boundsErr := l.copies.Bounds(ctx, 0)
		if boundsErr != nil {
			return boundsErr
		}
		l.failed.Inc()
		l.cfg.Logger.Error("cannot read copies for idempotent retries", "from", next.String(), "records", step, "err", err)
		if from = next; from.Offset+step >= min(to.Offset, end.Offset) {
			return nil
		}
		from.Offset += step
	}
}

// Bounds implements pipeline.Reader for the copies.
func (l *Log) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	if l.copies == nil {
		return first, end, nil
	}
	return l.copies.Bounds(ctx, partition)
}

// Wait implements pipeline.Reader for the copies.
func (l *Log) Wait(ctx context.Context, at sealer.Position) error {
	if l.copies == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.copies.Wait(ctx, at)
}

// Partitions implements pipeline.Log for the copies, which have one.
func (*Log) Partitions(context.Context) (int, error) { return 1, nil }

// PartitionOf implements pipeline.Log for the copies.
func (*Log) PartitionOf(context.Context, string) (int32, error) { return 0, nil }

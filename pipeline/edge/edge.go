// Package edge is the log of a gateway in a process of its own: the promise, made by
// Kafka or the node's spool, and in front of it a copy of the newest records in local
// files, from which answers to idempotent retries are rendered.
//
// Append makes the promise first; that alone decides whether it fails. The copy
// follows, and its position is what the caller gets. The copies are kept for
// segment.LeastKeep, as far as Config.MaxBytes reaches, and are not synced: a crash of the
// process loses none, a crash of the machine may lose any of them.
//
// The copies never stand in the way of a delivery. When one can't be written the
// position is the zero one: the receipt is good, and nothing remembers its
// Idempotency-Key. When one can't be read back the error is fs.ErrNotExist, and Scan
// passes over it. Then a retry gets a receipt of its own, which is metered zero as a duplicate. What goes
// wrong is told by the log and muniment_edge_copies_failed_total:
//   - The copies reach MaxBytes, or the disk is full: the oldest make room.
//   - A write fails for good: there are no more copies until the next start.
//   - They are found damaged when the node starts: they are removed, with a warning.
//   - The folder can't be opened: the node serves without copies. Only a folder that
//     another process has is refused, and a wrong Config.
//
// Non-goals: reading what other nodes wrote, and what is older than the copies: both
// are the topic's.
package edge

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

	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// Config of a Log. Promise and Dir are required.
type Config struct {
	// Promise makes records durable: kafka.Spooled. It stays the caller's.
	Promise pipeline.Appender
	// Dir is the folder of the copies; it is made when it is missing.
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
		return errors.New("edge: Promise is missing")
	case c.Dir == "":
		return errors.New("edge: Dir is empty")
	case c.SegmentBytes < 0, c.MaxBytes < 2*c.SegmentBytes:
		return fmt.Errorf("edge: MaxBytes %d does not hold two segments of SegmentBytes %d", c.MaxBytes, c.SegmentBytes)
	}
	return nil
}

// Log implements pipeline.Log over the copies, except that an error of theirs is none
// of Append's. Safe for concurrent use.
type Log struct {
	cfg    Config
	copies *segment.Log // nil when the folder can't be opened
	failed prometheus.Counter

	room   sync.Mutex   // held while room is made
	shed   atomic.Int64 // how often that was
	silent atomic.Bool  // copies fail, and the log was told
}

var _ pipeline.Log = (*Log)(nil)

// Open opens the copies, and reads and checks all of them if the machine has not run on
// since they were written. It fails if another
// process has the folder (segment.ErrLocked), and for a wrong Config.
func Open(cfg Config) (*Log, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, failed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muniment_edge_copies_failed_total",
		Help: "Records that are durable, but could not be copied or read back for answers to idempotent retries.",
	})}
	if err := pipeline.Register(cfg.Registerer, l.failed); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the edge log: %w", err)
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

// Append implements pipeline.Appender: the promise is Config.Promise's. The position
// is that of the copy, the zero one if there is none.
func (l *Log) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if _, err := l.cfg.Promise.Append(ctx, r); err != nil {
		return sealer.Position{}, err
	}
	if l.copies == nil {
		l.failed.Inc()
		return sealer.Position{}, nil
	}
	return l.noted(l.copy(ctx, r)), nil
}

// AppendAll implements pipeline.Appender, as Append does.
func (l *Log) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	_, errs = l.cfg.Promise.AppendAll(ctx, rs)
	at = make([]sealer.Position, len(rs))
	var durable []*sealer.Record
	var of []int // whose each of them is
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
		at[of[n]] = l.noted(copied[n], err)
	}
	return at, errs
}

// noted is the position of a copy, the zero one if there is none.
func (l *Log) noted(at sealer.Position, err error) sealer.Position {
	l.tell(err)
	if err != nil {
		l.failed.Inc()
		return sealer.Position{}
	}
	return at
}

// copy writes a copy; where there is no room for it the oldest make some.
func (l *Log) copy(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	for {
		shed := l.shed.Load()
		at, err := l.copies.Append(ctx, r)
		if !errors.Is(err, pipeline.ErrFull) {
			return at, err
		}
		if roomErr := l.makeRoom(shed); roomErr != nil {
			return at, errors.Join(err, roomErr)
		}
	}
}

var errNoRoom = errors.New("no older copy is left to make room")

// makeRoom removes the oldest copies, unless somebody else did so since shed was read.
func (l *Log) makeRoom(shed int64) error {
	l.room.Lock()
	defer l.room.Unlock()
	if l.shed.Load() != shed {
		return nil
	}
	removed, err := l.copies.Shed()
	if err == nil && !removed {
		err = errNoRoom
	}
	if err == nil {
		l.shed.Add(1)
	}
	return err
}

// tell logs when copies begin to fail and when they succeed again.
func (l *Log) tell(err error) {
	fails := err != nil
	if l.silent.Load() == fails || !l.silent.CompareAndSwap(!fails, fails) {
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

// Scan implements pipeline.Reader for the copies, except that it passes over those that
// can't be read, and tells of them: what reads all copies, as a node does when it starts,
// is to have the others.
func (l *Log) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	if l.copies == nil {
		return nil
	}
	for step := int64(1); ; step *= 2 { // a bad stretch costs few attempts, and at most as much again behind it
		next := from
		var stopped error
		err := l.copies.Scan(ctx, from, to, func(e sealer.Entry) error {
			next, step = e.Position.Next(), 1
			stopped = fn(e)
			return stopped
		})
		told := slices.ContainsFunc([]error{pipeline.ErrClosed, pipeline.ErrGone, pipeline.ErrBeyondEnd},
			func(sentinel error) bool { return errors.Is(err, sentinel) })
		if err == nil || told || stopped != nil || ctx.Err() != nil {
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

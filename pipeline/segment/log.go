// Package segment keeps the event log of one node in append-only files: the
// embedded log, and a gateway's spool.
//
// A record whose Append returned nil is on disk and stays there: a crash of the process or
// of the machine at any moment loses none, no damaged record is ever served, and Open
// notices a log that became shorter. format.go describes the files.
//
// Callers encode into a shared buffer under a short lock and wait. One committer
// goroutine writes the gathered records as one group, syncs once, and wakes the callers;
// records that queue meanwhile are the next group. It never waits for more records;
// without a sync (Config.Lazy) it lets other goroutines run first.
//
// What it refuses, and what happens when something is wrong:
//   - Too much is pending: Append blocks until the committer has taken some, or
//     its ctx is done.
//   - The disk, or MaxBytes, is full: the group fails with pipeline.ErrFull and its bytes
//     are removed, durably, before anything else is acknowledged. The log works on as soon
//     as there is space; Writable says whether there is without a record.
//   - A sync or a write fails: every Append, waiting or later, fails with
//     pipeline.ErrFailed and OnFailure is called once. Nothing is retried: after a failed
//     sync the kernel may mark pages clean that never reached the disk.
//   - The last group is not whole, and nothing readable follows: it was never
//     acknowledged; Open cuts it off and logs that. Damage to the very last group after a
//     crash looks the same; only a recorded end, Config.AtLeast, reveals it. After a clean
//     shutdown, or a Writable, there is no doubt, as an empty group follows the last record.
//   - Anything else that does not match its checksum or its neighbour: Open, Check and
//     the reader that meets it fail with pipeline.ErrDamaged, naming file and byte.
//
// Decisions: files are never reused, so old bytes can't be taken for new ones. The disk
// must write a sector wholly or not at all, and keep what it has synced. The chain of
// hashes finds accidents; the tenants' Merkle logs, not this package, prove that the
// history was not rewritten. Non-goals: replication, compaction, more than one partition,
// and files that several processes write.
package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Log is a log that is open for appending and reading.
type Log struct {
	Reader

	cfg     Config
	lock    io.Closer
	metrics *metrics
	stopped chan struct{} // closed when the committer has ended
	// closeOnce is close, once.
	closeOnce func() error
	// retaining is held by Retain, which may run beside everything else.
	retaining sync.Mutex

	mu      sync.Mutex
	work    sync.Cond // the pending group got its first record or a probe, or closing
	pending *group
	probe   *group // what a Writable waits for; nil if none does
	spare   []byte // buffer for the group after the pending one
	ending  bool   // the last segment has to end, even if nothing is pending
	refuse  error  // why Append accepts nothing any more
	closing bool

	// All below belongs to the committer.

	tail     *segment // the last segment
	before   *segment // the one before, if this process began the last
	forgot   int64    // up to where before is removed from the page cache
	chain    digest   // hash of the last group
	clean    bool     // the last group marks a clean shutdown
	noAlloc  bool     // the file system can't preallocate
	full     bool     // there was no space for the last group
	closeErr error    // of the last write; for Close, after stopped
}

var _ pipeline.OrderedLog = (*Log)(nil)

// Open opens the log of a folder, or creates one there. It reads the whole log and checks
// every byte of it before it returns, or with Config.Indexed the last segment; Check reads
// the others.
//
// It fails with ErrLocked while the folder is open elsewhere, with pipeline.ErrDamaged if a
// record that was acknowledged can't be read, and with ErrRollback if the log ends before
// Config.AtLeast. Only a torn tail is mended, and a Lazy log that is damaged is removed.
func Open(cfg Config) (*Log, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if err := cfg.FS.MkdirAll(cfg.Dir); err != nil {
		return nil, fmt.Errorf("cannot make log folder: %w", err)
	}
	lock, err := cfg.FS.Lock(filepath.Join(cfg.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("cannot lock log %s: %w", cfg.Dir, err)
	}
	l, err := open(cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open log %s: %w", cfg.Dir, err), lock.Close())
	}
	l.lock = lock
	go l.run()
	return l, nil
}

func open(cfg Config) (_ *Log, err error) {
	found, err := load(&cfg, false)
	if cfg.Lazy && errors.Is(err, pipeline.ErrDamaged) {
		cfg.Log.Warn("log of copies is damaged, starting a new one", "dir", cfg.Dir, "err", err)
		found, err = new(recovered), removeAll(cfg.FS, cfg.Dir)
	}
	if err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, metrics: newMetrics(cfg.MaxBytes), stopped: make(chan struct{}), chain: found.chain, clean: found.clean}
	l.work.L = &l.mu
	l.closeOnce = sync.OnceValue(l.close)
	l.pending = newGroup(nil)
	l.start(found.segs)
	defer func() {
		if err != nil {
			l.Reader.Close()
		}
	}()
	if err := found.checkEnd(cfg); err != nil {
		return nil, err
	}
	if err := found.settle(cfg); err != nil {
		return nil, err
	}
	if n := len(l.segs); n > 0 {
		l.tail = l.segs[n-1]
	}
	if l.tail == nil || l.tail.generation < cfg.Generation {
		if err := l.roll(cfg.Generation); err != nil {
			return nil, err
		}
	}
	l.index()
	if err := pipeline.Register(cfg.Registerer, l.metrics.all...); err != nil {
		return nil, fmt.Errorf("cannot register the log's metrics: %w", err)
	}
	l.metrics.end.Set(float64(l.end.Offset))
	l.metrics.first.Set(float64(l.segs[0].first))
	l.metrics.bytes.Set(float64(l.size()))
	return l, nil
}

// Append implements pipeline.Appender. A record of more than 16 MiB is refused.
func (l *Log) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	started := time.Now()
	l.mu.Lock()
	g, i, err := l.add(ctx, r)
	l.mu.Unlock()
	if err != nil {
		return sealer.Position{}, fmt.Errorf("cannot append: %w", err)
	}
	at, err := g.await(ctx, i)
	if err == nil {
		l.metrics.append.Observe(time.Since(started).Seconds())
	}
	return at, err
}

// AppendAll implements pipeline.Appender. The records are one group, as far as
// Config.PendingBytes allows.
func (l *Log) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	started := time.Now()
	type added struct {
		*group
		i int
	}
	in := make([]added, len(rs))
	at, errs = make([]sealer.Position, len(rs)), make([]error, len(rs))
	l.mu.Lock() // while all of them are added, so that no sync takes the first alone
	for n, r := range rs {
		in[n].group, in[n].i, errs[n] = l.add(ctx, r)
	}
	l.mu.Unlock()
	for n := range rs {
		if errs[n] == nil {
			at[n], errs[n] = in[n].await(ctx, in[n].i)
		} else {
			errs[n] = fmt.Errorf("cannot append: %w", errs[n])
		}
	}
	if slices.Contains(errs, nil) {
		l.metrics.append.Observe(time.Since(started).Seconds())
	}
	return at, errs
}

// AppendInOrder implements pipeline.OrderedLog. The records are of one group, so either all of them are in
// the log or none: those for which it has no room are left.
func (l *Log) AppendInOrder(ctx context.Context, rs []*sealer.Record) (n int, err error) {
	started := time.Now()
	var g *group
	var last int
	l.mu.Lock()
	for _, r := range rs {
		if n > 0 && len(l.pending.buf)+recordSize(r) > l.cfg.PendingBytes {
			break // add would wait for the next group
		}
		var in *group
		if in, last, err = l.add(ctx, r); err != nil {
			break
		}
		g = in
		n++
	}
	l.mu.Unlock()
	if n > 0 {
		if _, failed := g.await(ctx, last); failed != nil {
			return 0, failed
		}
		l.metrics.append.Observe(time.Since(started).Seconds())
	}
	if err != nil {
		err = fmt.Errorf("cannot append: %w", err)
	}
	return n, err
}

// await returns where the i-th record of a group stands, once that is durable.
func (g *group) await(ctx context.Context, i int) (sealer.Position, error) {
	select {
	case <-g.done:
	case <-ctx.Done():
		return sealer.Position{}, fmt.Errorf("gave up on append: %w", ctx.Err())
	}
	if g.err != nil {
		return sealer.Position{}, fmt.Errorf("cannot append: %w", g.err)
	}
	at := g.first
	at.Offset += int64(i)
	return at, nil
}

// recordSize is the size of a record but for recordOverhead.
func recordSize(r *sealer.Record) int {
	return len(r.TenantID) + len(r.EventID) + len(r.Node) + len(r.Event) + len(r.Private)
}

// add encodes the record into the pending group, as its i-th, as soon as Config.PendingBytes
// allows. The caller holds l.mu.
func (l *Log) add(ctx context.Context, r *sealer.Record) (g *group, i int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	size := recordSize(r)
	if size > maxRecord-recordOverhead {
		return nil, 0, fmt.Errorf("record of %d bytes is too large", size)
	}
	for l.refuse == nil && l.pending.count > 0 && len(l.pending.buf)+size > l.cfg.PendingBytes {
		if err := l.awaitTaken(ctx); err != nil {
			return nil, 0, err
		}
	}
	if l.refuse != nil {
		return nil, 0, l.refuse
	}
	g, i = l.pending, l.pending.count
	g.add(r)
	if i == 0 {
		l.work.Signal()
	}
	return g, i, nil
}

// Writable is nil if Append would take records now, else the error that Append would return. It
// waits as an Append does, for a sync of its own, and wants space for the largest delivery. Records that
// are appended meanwhile may still find less space enough.
func (l *Log) Writable(ctx context.Context) error {
	l.mu.Lock()
	if why := l.refuse; why != nil {
		l.mu.Unlock()
		return fmt.Errorf("cannot append: %w", why)
	}
	if l.probe == nil {
		l.probe = newGroup(nil)
		l.probe.probe = true
		l.work.Signal()
	}
	g := l.probe
	l.mu.Unlock()
	_, err := g.await(ctx, 0)
	return err
}

// awaitTaken blocks until the committer has taken the pending group. The caller holds l.mu.
func (l *Log) awaitTaken(ctx context.Context) error {
	taken := l.pending.taken
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Err is why Append accepts nothing any more, pipeline.ErrFailed or pipeline.ErrClosed; nil
// while it does. A full log is no error: it takes records again as soon as there is space.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuse
}

// Close makes durable what is pending, marks a clean shutdown, and releases the
// folder. Calls that run or come later fail with pipeline.ErrClosed. A second
// Close waits for the first and returns what it returned.
func (l *Log) Close() error { return l.closeOnce() }

func (l *Log) close() error {
	l.mu.Lock()
	l.closing = true
	if l.refuse == nil {
		l.refuse = pipeline.ErrClosed
	}
	l.work.Signal()
	l.mu.Unlock()

	<-l.stopped
	pipeline.Unregister(l.cfg.Registerer, l.metrics.all...)
	if err := errors.Join(l.closeErr, l.Reader.Close(), l.lock.Close()); err != nil {
		return fmt.Errorf("cannot close log %s: %w", l.cfg.Dir, err)
	}
	return nil
}

package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/sealer"
)

var (
	// ErrGap: records that were never loaded are no longer in the log, or the log
	// skipped a position. The loader has stopped; an operator has to look.
	ErrGap = errors.New("gap in the log")
	// ErrLogBehind: the warehouse has loaded positions that the log doesn't hold
	// yet, so the log is not the one that was loaded. The loader has stopped.
	ErrLogBehind = errors.New("log ends before what was loaded from it")
)

// maxBatchBytes ends a batch early, so that large records don't add up to
// gigabytes: one batch holds this much, or a single record.
const maxBatchBytes = 16 << 20

// unheard is how long a warehouse that was not heard of is taken for the one that it was.
// After that, and after each failure, it is asked where it stands before it gets a batch: it
// may be an older copy, or an empty one, that would take the batch for the first of all.
const unheard = time.Second

// LoaderConfig is what a Loader works with.
type LoaderConfig struct {
	// Log is read, Warehouse is written. Required.
	Log       Reader
	Warehouse Sink
	// Partition of the log. A partition may have several loaders for a while, as
	// after a rebalance: they waste work and harm nothing.
	Partition int32
	// BatchSize is the most records of one Load. Default 5,000.
	BatchSize int
	// MinBackoff and MaxBackoff bound the pause after a failed call to the
	// warehouse or the log; it doubles from the first to the second. Defaults
	// 100 ms and 10 s.
	MinBackoff, MaxBackoff time.Duration
	// RetentionUsed tells how much of the log's retention the record at a position has
	// used up, 1 being all of it; kafka.Log has it. It is asked every 30 s for
	// the oldest record that isn't loaded, whatever the warehouse does. nil: the log keeps
	// what isn't loaded, as the embedded one does.
	RetentionUsed func(ctx context.Context, at sealer.Position) (float64, error)
	// Committed is where the warehouse stood some time ago, as somebody other than the
	// warehouse remembers; kafka.Group has it. The alarms go by it as long as the
	// warehouse doesn't say, nothing is loaded by it. ok is false, as for nil, when
	// nobody knows: there are no alarms then, and NaN in their place.
	Committed func(partition int32) (next sealer.Position, ok bool)
	// Logger hears of set-aside records and of failures. Default: nobody.
	Logger *slog.Logger
	// Registerer gets the loader's metrics, labelled with the partition, until Close;
	// nil keeps them unregistered.
	Registerer prometheus.Registerer
}

func (c LoaderConfig) validate() error {
	switch {
	case c.Log == nil:
		return errors.New("loader: Log is nil")
	case c.Warehouse == nil:
		return errors.New("loader: Warehouse is nil")
	case c.Partition < 0:
		return errors.New("loader: Partition is negative")
	case c.BatchSize < 0:
		return errors.New("loader: BatchSize is negative")
	case c.MinBackoff < 0 || c.MaxBackoff < 0:
		return errors.New("loader: a backoff is negative")
	}
	return nil
}

// Loader brings one partition of the log into the warehouse.
type Loader struct {
	cfg     LoaderConfig
	log     *slog.Logger
	metrics *metrics
	backlog backlog

	next atomic.Pointer[sealer.Position] // to be loaded; nil until Run has found it

	// heard is when the warehouse last said where it stands, or stored a batch; zero after
	// a failure. Run's goroutine owns it.
	heard time.Time

	mu sync.Mutex
	// resumed is closed while the loader may work, open while it is paused.
	// Guarded by mu.
	resumed chan struct{}
}

// NewLoader wires a loader; Run works.
func NewLoader(cfg LoaderConfig) (*Loader, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.BatchSize = cmp.Or(cfg.BatchSize, 5000)
	cfg.MinBackoff = cmp.Or(cfg.MinBackoff, 100*time.Millisecond)
	cfg.MaxBackoff = max(cmp.Or(cfg.MaxBackoff, 10*time.Second), cfg.MinBackoff)
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(cfg.Registerer, cfg.Partition, cfg.RetentionUsed != nil)
	if err != nil {
		return nil, fmt.Errorf("cannot register loader metrics: %w", err)
	}
	l := &Loader{
		cfg:     cfg,
		log:     log.With("partition", cfg.Partition),
		metrics: m,
		backlog: backlog{shown: m.lag},
		resumed: make(chan struct{}),
	}
	close(l.resumed)
	return l, nil
}

// Pause lets the batch at hand finish and starts no other until Resume.
func (l *Loader) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.resumed:
		l.resumed = make(chan struct{})
	default:
	}
}

// Resume ends a Pause; without one it does nothing.
func (l *Loader) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.resumed:
	default:
		close(l.resumed)
	}
}

// Run loads what the log holds and what comes, until ctx is done; then it
// returns nil. It returns an error only when going on would lose or invent
// records: ErrGap, ErrLogBehind, ErrDamaged, or the log's ErrFailed and
// ErrClosed. Every other failure, of the warehouse or of the log, is logged,
// counted and tried again. A warehouse that holds less than was loaded into it, as an older
// copy of it does, gets what it lacks, as long as the log has it.
func (l *Loader) Run(ctx context.Context) error {
	if l.cfg.RetentionUsed != nil {
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { l.watchRetention(watching) })
		defer watch.Wait()
		defer stop()
	}
	err := l.run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	l.metrics.stopped.Set(1)
	return fmt.Errorf("loader of partition %d stopped: %w", l.cfg.Partition, err)
}

// Close takes the metrics back, so that the partition may get another loader. Run must
// have returned.
func (l *Loader) Close() error {
	Unregister(l.metrics.registerer, l.metrics.all...)
	return nil
}

func (l *Loader) run(ctx context.Context) error {
	for {
		next, err := l.begin(ctx)
		for err == nil {
			next, err = l.step(ctx, next)
		}
		if !errors.Is(err, ErrAhead) || ctx.Err() != nil {
			return err
		}
		l.metrics.rewinds.Inc()
		l.log.WarnContext(ctx, "warehouse holds less than was loaded into it, going on from where it stands", "err", err)
		if err := wait(ctx, l.cfg.MinBackoff); err != nil {
			return err
		}
	}
}

// begin finds where to load from.
func (l *Loader) begin(ctx context.Context) (next sealer.Position, err error) {
	var end sealer.Position
	err = l.retry(ctx, "cannot find the position to load from", func() (err error) {
		next, end, err = l.start(ctx)
		return err
	})
	if err != nil {
		return next, err
	}
	l.heard = time.Now()
	l.backlog.ends(end)
	l.backlog.begins(next)
	l.metrics.position.Set(float64(next.Offset))
	return next, nil
}

// step waits for records at next and loads a batch of them. It returns where that ends.
func (l *Loader) step(ctx context.Context, next sealer.Position) (sealer.Position, error) {
	l.next.Store(&next)
	err := l.retry(ctx, "cannot wait for the log", func() error {
		return l.cfg.Log.Wait(ctx, next)
	})
	if err != nil {
		return next, err
	}
	if err := l.awaitResume(ctx); err != nil {
		return next, err
	}
	var entries []sealer.Entry
	err = l.retry(ctx, "cannot read the log", func() (err error) {
		entries, err = l.read(ctx, next)
		return err
	})
	if err != nil {
		return next, err
	}
	return l.load(ctx, next, entries)
}

// Loaded is the position up to which all records are loaded; ok is false until Run has found
// it.
func (l *Loader) Loaded() (next sealer.Position, ok bool) {
	if at := l.next.Load(); at != nil {
		return *at, true
	}
	return next, false
}

// Lag is how many durable records the warehouse does not hold yet. It asks the log
// alone, so it is known also while the warehouse is away.
func (l *Loader) Lag(ctx context.Context) (records int64, err error) {
	next := l.next.Load()
	if next == nil {
		return 0, errors.New("it has not found the position to load from yet")
	}
	_, end, err := l.cfg.Log.Bounds(ctx, l.cfg.Partition)
	if err != nil {
		return 0, err
	}
	return end.Offset - next.Offset, nil
}

// retentionAlarm is the share of the log's retention from which on the loader warns:
// the rest is the time that is left to mend what keeps records from being loaded.
const retentionAlarm = 0.5

// watchRetention shows how near the oldest record that isn't loaded is to the end of
// its retention.
func (l *Loader) watchRetention(ctx context.Context) {
	alarmed := false
	for {
		if next, ok := l.standing(); ok {
			used, err := l.cfg.RetentionUsed(ctx, next)
			var end sealer.Position
			if err == nil {
				_, end, err = l.cfg.Log.Bounds(ctx, l.cfg.Partition)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				l.metrics.failures.Inc()
				l.log.WarnContext(ctx, "cannot tell what is left of the log's retention", "err", err)
			default:
				l.metrics.retention.Set(used)
				l.backlog.ends(end)
				l.backlog.remembered(next)
				if alarm := used >= retentionAlarm; alarm != alarmed {
					alarmed = alarm
					if alarm {
						l.log.ErrorContext(ctx, "records near the end of their retention and are not loaded", "position", next.String(), "used", used)
					}
				}
			}
		}
		if wait(ctx, 30*time.Second) != nil {
			return
		}
	}
}

// standing is what is to be loaded next, as far as anybody knows.
func (l *Loader) standing() (next sealer.Position, ok bool) {
	if next := l.next.Load(); next != nil {
		return *next, true
	}
	if l.cfg.Committed == nil {
		return sealer.Position{}, false
	}
	return l.cfg.Committed(l.cfg.Partition)
}

// read returns the records from next on, at least one and at most a batch.
func (l *Loader) read(ctx context.Context, next sealer.Position) ([]sealer.Entry, error) {
	log := l.cfg.Log
	_, end, err := log.Bounds(ctx, l.cfg.Partition)
	if err != nil {
		return nil, err
	}
	if next.Compare(end) >= 0 {
		return nil, fmt.Errorf("%w: a record was there at %s, the log ends at %s", ErrLogBehind, next, end)
	}
	l.backlog.ends(end)

	to := end
	to.Offset = min(end.Offset, next.Offset+int64(l.cfg.BatchSize))
	entries := make([]sealer.Entry, 0, to.Offset-next.Offset)
	var bytes int
	var kept arena
	enough := errors.New("batch is full")
	expected := next
	err = log.Scan(ctx, next, to, func(e sealer.Entry) error {
		if e.Offset != expected.Offset || e.Generation < expected.Generation {
			return gap(expected, e.Position)
		}
		size := len(e.Event) + len(e.Private)
		if len(entries) == l.cfg.BatchSize || len(entries) > 0 && bytes+size > maxBatchBytes {
			return enough
		}
		// The entry's bytes are the log's once this call returns.
		e.Event, e.Private = kept.copy(e.Event), kept.copy(e.Private)
		entries = append(entries, e)
		bytes += size
		expected = e.Position.Next()
		return nil
	})
	switch {
	case errors.Is(err, enough):
		return entries, nil
	case errors.Is(err, ErrGone):
		first, _, boundsErr := log.Bounds(ctx, l.cfg.Partition)
		if boundsErr != nil {
			return nil, boundsErr
		}
		return nil, errors.Join(gap(expected, first), err)
	case err != nil:
		return nil, err
	case expected.Offset < to.Offset:
		return nil, gap(expected, to)
	}
	return entries, nil
}

// arena keeps copies one behind the other: a batch in some pieces of memory costs the
// collector less than with two pieces for each of its records.
type arena []byte

const arenaBytes = 128 << 10

func (a *arena) copy(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	if cap(*a)-len(*a) < len(b) {
		*a = make([]byte, 0, max(arenaBytes, len(b)))
	}
	from := len(*a)
	*a = append(*a, b...)
	return (*a)[from:len(*a):len(*a)]
}

// load brings the entries, which begin at next, into the warehouse and returns the
// position behind them. It tries until they are there.
func (l *Loader) load(ctx context.Context, next sealer.Position, entries []sealer.Entry) (sealer.Position, error) {
	begun := time.Now()
	var b Batch
	err := l.retry(ctx, "cannot tell where records belong", func() error {
		homes, err := l.homes(ctx, entries)
		if err == nil {
			b = newBatch(entries, homes)
			b.From = next
			b.Chain, err = l.chain(ctx, b.Next)
		}
		return err
	})
	if err != nil {
		return next, err
	}
	for _, s := range b.SetAside {
		l.log.ErrorContext(ctx, "record set aside, sealing is held",
			"position", s.Position.String(), "tenant", s.TenantID, "err", s.Reason)
	}
	err = l.retry(ctx, "cannot load into the warehouse", func() error {
		if time.Since(l.heard) > unheard {
			if err := l.standsAt(ctx, b.From); err != nil {
				return err
			}
		}
		err := l.cfg.Warehouse.Load(ctx, b)
		l.heard = time.Now()
		if err != nil {
			l.heard = time.Time{}
			// The alarm on a warehouse that is away is its lag.
			if _, end, boundsErr := l.cfg.Log.Bounds(ctx, l.cfg.Partition); boundsErr == nil {
				l.backlog.ends(end)
			}
		}
		return err
	})
	if err != nil {
		return next, err
	}
	l.metrics.loaded(b, time.Since(begun))
	l.backlog.begins(b.Next)
	return b.Next, nil
}

// homes are the partitions of the tenants that the entries name.
func (l *Loader) homes(ctx context.Context, entries []sealer.Entry) (map[string]int32, error) {
	homes := map[string]int32{}
	for i := range entries {
		id := entries[i].TenantID
		if _, known := homes[id]; known {
			continue
		}
		partition, err := l.cfg.Log.PartitionOf(ctx, id)
		if err != nil {
			return nil, err
		}
		homes[id] = partition
	}
	return homes, nil
}

// newBatch checks a contiguous, non-empty run of entries on all cores. One outside of
// its tenant's partition fails, however sound it is: positions of two partitions have no
// order, and as a copy it could move an event to before what is sealed.
func newBatch(entries []sealer.Entry, homes map[string]int32) Batch {
	rows := make([]Row, len(entries))
	faults := make([]error, len(entries))
	share := max(64, (len(entries)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var checkers sync.WaitGroup
	for from := 0; from < len(entries); from += share {
		checkers.Go(func() {
			for i := from; i < min(from+share, len(entries)); i++ {
				e := &entries[i]
				rows[i], faults[i] = NewRow(*e)
				if home := homes[e.TenantID]; faults[i] == nil && home != e.Partition {
					faults[i] = fmt.Errorf("record at %s: %s is in partition %d", e.Position, e.TenantID, home)
				}
			}
		})
	}
	checkers.Wait()

	last := entries[len(entries)-1].Position
	b := Batch{Partition: last.Partition, Rows: rows[:0], Next: last.Next()}
	for i, fault := range faults {
		if fault != nil {
			b.SetAside = append(b.SetAside, newSetAside(entries[i], fault))
			continue
		}
		b.Rows = append(b.Rows, rows[i])
	}
	return b
}

// retry calls try until it succeeds, ctx is done or the failure is one that
// trying again can't mend; then it returns try's last error.
func (l *Loader) retry(ctx context.Context, message string, try func() error) error {
	for pause := l.cfg.MinBackoff; ; pause = min(2*pause, l.cfg.MaxBackoff) {
		err := try()
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
		l.metrics.failures.Inc()
		l.log.WarnContext(ctx, message, "err", err, "retry_in", pause)
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// final says that trying the same again is no use: what is missing or damaged in the log
// is so the next time too, and so is what a batch begins behind.
func final(err error) bool {
	return slices.ContainsFunc([]error{ErrAhead, ErrGap, ErrLogBehind, ErrGone, ErrDamaged, ErrFailed, ErrClosed},
		func(sentinel error) bool { return errors.Is(err, sentinel) })
}

func (l *Loader) awaitResume(ctx context.Context) error {
	l.mu.Lock()
	resumed := l.resumed
	l.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-resumed:
		return ctx.Err()
	}
}

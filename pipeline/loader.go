package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
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

// recheckAfter is how old the warehouse's last answer may be. After that, and after each
// failure, Resume is called before the next batch: the warehouse may have been replaced by
// an older copy, or by an empty one, which would take the batch for the first of all.
const recheckAfter = time.Second

// LoaderConfig configures a Loader.
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
	// RetentionUsed returns how much of the log's retention the record at a position has
	// used up, 1 being all of it; kafka.Log has it. It is called every 30 s for the oldest
	// record that isn't loaded, whatever the warehouse does. nil: the log keeps what isn't
	// loaded, as the embedded one does.
	RetentionUsed func(ctx context.Context, at sealer.Position) (float64, error)
	// Committed returns an earlier position of the warehouse, as stored elsewhere;
	// kafka.Group has it. It is used for the alarms as long as the warehouse doesn't
	// answer, and never for loading. Without one (ok is false, or Committed nil) there are
	// no alarms, and the metrics are NaN.
	Committed func(partition int32) (next sealer.Position, ok bool)
	// Tracer exports a span of each record that is traced; nil exports none. Traceparents has those that the log
	// does not keep; nil: it keeps all.
	Tracer       *trace.Tracer
	Traceparents *Traceparents
	// Logger logs quarantined records and failures. Default: none.
	Logger *slog.Logger
	// Registerer takes the loader's metrics, labelled with the partition, until Close;
	// nil registers none.
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

	// answered is when the warehouse last returned its position, or stored a batch; zero
	// after a failure. Run's goroutine owns it.
	answered time.Time

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
		backlog: backlog{gauge: m.lag},
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

// Run loads the log and what is appended to it, until ctx is done; then it returns nil. It
// returns an error only when going on would lose or invent records: ErrGap, ErrLogBehind,
// ErrDamaged, or the log's ErrFailed and ErrClosed. Every other failure, of the warehouse or
// of the log, is logged, counted and retried. If the warehouse holds less than was loaded
// into it, as an older copy of it does, Run loads what is missing, as long as the log has it.
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
		if err := Pause(ctx, Jittered(l.cfg.MinBackoff)); err != nil {
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
	l.answered = time.Now()
	l.backlog.setEnd(end)
	l.backlog.setNext(next)
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

// Lag is how many durable records the warehouse does not hold yet. It needs the log alone,
// so it is known also while the warehouse is away.
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

// retentionAlarm is the part of the log's retention after which the loader logs an error:
// the remaining half is the time to mend what keeps records from being loaded.
const retentionAlarm = 0.5

// watchRetention measures how near the oldest record that isn't loaded is to the end of
// its retention.
func (l *Loader) watchRetention(ctx context.Context) {
	alarmed := false
	for {
		if next, ok := l.lastKnown(); ok {
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
				l.log.WarnContext(ctx, "cannot read what is left of the log's retention", "err", err)
			default:
				l.metrics.retention.Set(used)
				l.backlog.setEnd(end)
				l.backlog.setRemembered(next)
				if alarm := used >= retentionAlarm; alarm != alarmed {
					alarmed = alarm
					if alarm {
						l.log.ErrorContext(ctx, "records near the end of their retention and are not loaded", "position", next.String(), "used", used)
					}
				}
			}
		}
		if Pause(ctx, 30*time.Second) != nil {
			return
		}
	}
}

// lastKnown is the last known position of the warehouse.
func (l *Loader) lastKnown() (next sealer.Position, ok bool) {
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
	l.backlog.setEnd(end)

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

// load loads the entries, which begin at next, into the warehouse and returns the position
// behind them. It retries until they are there.
func (l *Loader) load(ctx context.Context, next sealer.Position, entries []sealer.Entry) (sealer.Position, error) {
	begun := time.Now()
	var b Batch
	err := l.retry(ctx, "cannot find the partitions of tenants", func() error {
		partitions, err := l.partitions(ctx, entries)
		if err == nil {
			b = newBatch(entries, partitions)
			b.From = next
			b.Chain, err = l.chain(ctx, b.Next)
		}
		return err
	})
	if err != nil {
		return next, err
	}
	for _, s := range b.Quarantined {
		l.log.ErrorContext(ctx, "record quarantined, sealing is held",
			"position", s.Position.String(), "tenant", s.TenantID, "err", s.Reason)
	}
	err = l.retry(ctx, "cannot load into the warehouse", func() error {
		if time.Since(l.answered) > recheckAfter {
			if err := l.checkReached(ctx, b.From); err != nil {
				return err
			}
		}
		err := l.cfg.Warehouse.Load(ctx, b)
		l.answered = time.Now()
		if err != nil {
			l.answered = time.Time{}
			// The alarm on a warehouse that is away is its lag.
			if _, end, boundsErr := l.cfg.Log.Bounds(ctx, l.cfg.Partition); boundsErr == nil {
				l.backlog.setEnd(end)
			}
		}
		return err
	})
	if err != nil {
		return next, err
	}
	l.trace(&b, begun)
	l.metrics.loaded(b, time.Since(begun))
	l.backlog.setNext(b.Next)
	return b.Next, nil
}

// retry calls try until it succeeds, ctx is done or its error is final; then it returns
// try's last error.
func (l *Loader) retry(ctx context.Context, message string, try func() error) error {
	for pause := l.cfg.MinBackoff; ; pause = min(2*pause, l.cfg.MaxBackoff) {
		err := try()
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
		l.metrics.failures.Inc()
		wait := Jittered(pause)
		l.log.WarnContext(ctx, message, "err", err, "retry_in", wait)
		if err := Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// final reports whether another try would fail the same way: what is missing or damaged in
// the log stays so, and a batch that is ahead of the warehouse stays ahead.
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

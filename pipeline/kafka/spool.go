package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Spool is the node's own durable log, as pipeline/segment keeps it, with a cap on
// its size.
type Spool interface {
	pipeline.Log
	// Retain removes what was written before a position and a moment, as far as it
	// can be removed.
	Retain(before sealer.Position, until time.Time) (removed int, err error)
	// EndBefore makes what was written before a moment removable, soon: Retain removes
	// whole files, and never the one that is written to.
	EndBefore(moment time.Time)
	// Writable is nil if Append would take a record now, else the error that it would return.
	Writable(ctx context.Context) error
}

// SpoolConfig is what a Spooled works with.
type SpoolConfig struct {
	// Log is the topic. It belongs to the Spooled, whose Close closes it. Required.
	Log *Log
	// Spool is written by the Spooled alone; the caller closes it after the Spooled.
	// Required.
	Spool Spool
	// Mark is the file that stores how far the spool was drained. Required. If it is
	// lost, all that the spool holds is drained once more.
	Mark string
	// AckTimeout is how long a record waits for the brokers before it goes to the spool;
	// default 2 s. It is less if the caller's ctx ends soon: the spool needs time too.
	AckTimeout time.Duration
	// CheckEvery is the pause between two checks of a spool that was drained; default
	// 5 s. A record whose caller has given up may still be written to the spool: the next
	// check drains it. What was drained is off the disk after two checks. If callers gave
	// up on failing brokers, the brokers are tried again after this pause, or with the
	// first record that goes to the spool.
	CheckEvery time.Duration
	// Logger logs when records begin to go to the spool and when it is drained; nil
	// discards it.
	Logger *slog.Logger
	// Registerer takes the metrics until Close; nil registers none.
	Registerer prometheus.Registerer
}

// Spooled is a log that works on while the brokers are away: a record that they don't
// acknowledge in time is made durable in the node's spool. The spool is drained in order
// when they are back.
//
// Order is kept: from the first record that goes to the spool until it is empty, every
// record goes there. A record that is appended after another one of its tenant was
// acknowledged stands behind that one in the topic. When the spool is nearly drained, new
// records wait for at most AckTimeout until it is empty, and go to the topic again.
//
// Append fails if the spool is full or fails. A crash between draining and storing the
// mark, and a request whose outcome is unknown, put copies into the topic. If the topic
// refuses a record of the spool, as after max.message.bytes was lowered, draining stops
// until an operator has mended the topic: the record is durable, so it is never left out.
type Spooled struct {
	cfg     SpoolConfig
	metrics spoolMetrics
	ctx     context.Context // done when Close begins
	stop    context.CancelFunc
	drainer sync.WaitGroup
	timeout sharedTimeout          // of records that wait for the topic
	traces  *pipeline.Traceparents // of records in the spool, until this process ends

	mu      sync.Mutex
	route   route
	writing int             // appends to the spool that run
	next    sealer.Position // of the spool: what is drained ends here
	changed chan struct{}   // closed when route changes, and when the drainer may wait for an append to the spool that has ended
}

// route is where new records go.
type route int

const (
	toTopic route = iota
	toSpool
	toWait // until the spool is empty
)

var _ pipeline.Appender = (*Spooled)(nil)

// spoolTime is how much of a caller's time is kept for the spool, but never more than half
// of it.
const spoolTime = time.Second

// OpenSpooled begins to drain what the spool still holds. It fails if the spool ends
// before the mark: then it was lost, or restored from an older copy.
func OpenSpooled(cfg SpoolConfig) (*Spooled, error) {
	cfg.AckTimeout = cmp.Or(cfg.AckTimeout, 2*time.Second)
	cfg.CheckEvery = cmp.Or(cfg.CheckEvery, 5*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.Log == nil || cfg.Spool == nil || cfg.Mark == "":
		return nil, errors.New("kafka: Log, Spool or Mark is missing")
	case cfg.AckTimeout < 0 || cfg.CheckEvery < 0:
		return nil, errors.New("kafka: AckTimeout or CheckEvery is negative")
	}
	s := &Spooled{cfg: cfg, changed: make(chan struct{}), traces: pipeline.NewTraceparents()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	first, end, err := cfg.Spool.Bounds(s.ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open spool: %w", err)
	}
	s.next = first
	if mark, ok := s.readMark(); ok {
		if mark.Compare(end) > 0 {
			return nil, fmt.Errorf("cannot open spool: it ends at %s and was drained up to %s: it was lost or restored from an older copy", end, mark)
		}
		if mark.Compare(first) > 0 {
			s.next = mark
		}
	}
	if s.next != end {
		s.route = toSpool
		cfg.Logger.Warn("spool holds records of an earlier run", "records", end.Offset-s.next.Offset)
	}
	s.metrics = newSpoolMetrics(s)
	if err := pipeline.Register(cfg.Registerer, s.metrics.all...); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the spool: %w", err)
	}
	s.drainer.Go(s.drain)
	return s, nil
}

// Close ends the draining and closes the topic's log. What is in the spool by then
// stays there for the next start. While records go to the spool it doesn't wait for the
// topic: each record that waits there is in the spool too, or its Append has failed.
func (s *Spooled) Close() error {
	s.stop()
	if route, _ := s.currentRoute(); route != toTopic {
		s.cfg.Log.refuse(pipeline.ErrClosed)
	}
	err := s.cfg.Log.Close()
	s.drainer.Wait()
	pipeline.Unregister(s.cfg.Registerer, s.metrics.all...)
	return err
}

// Pending is the number of records in the spool that are not in the topic yet.
func (s *Spooled) Pending() int64 {
	_, end, err := s.cfg.Spool.Bounds(context.Background(), 0)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return end.Offset - s.next.Offset
}

// Append implements pipeline.Appender. The position of a record that went to the
// spool is the zero position: it has none in the topic yet.
func (s *Spooled) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	for {
		route, changed := s.currentRoute()
		var cause error
		switch route {
		case toWait:
			select {
			case <-changed:
			case <-ctx.Done():
				return sealer.Position{}, fmt.Errorf("cannot append: %w", ctx.Err())
			}
			continue
		case toTopic:
			var at sealer.Position
			if at, cause = s.appendToTopic(ctx, r); cause == nil || !s.mayRetry(ctx, cause) {
				if ctx.Err() != nil && errors.Is(cause, errFailing) {
					s.useSpool(cause)
				}
				return at, cause
			}
		}
		if s.enter(cause) {
			return sealer.Position{}, s.appendToSpool(ctx, r)
		}
	}
}

// AppendAll implements pipeline.Appender, each record as Append does. What the topic did not
// acknowledge in time goes to the spool together.
func (s *Spooled) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	at, errs = make([]sealer.Position, len(rs)), make([]error, len(rs))
	left := make([]int, len(rs)) // those without an outcome
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		route, changed := s.currentRoute()
		var cause error
		switch route {
		case toWait:
			select {
			case <-changed:
				continue
			case <-ctx.Done():
			}
			for _, i := range left {
				errs[i] = fmt.Errorf("cannot append: %w", ctx.Err())
			}
			return at, errs
		case toTopic:
			left, cause = s.allToTopic(ctx, rs, left, at, errs)
		}
		if len(left) > 0 && s.enter(cause) {
			s.allToSpool(ctx, rs, left, errs)
			break
		}
	}
	return at, errs
}

// Writable is nil if Append would make a record durable now: the spool takes one, or while records
// go to the topic the brokers describe it. Otherwise the error that Append would return. It waits
// as Append does.
func (s *Spooled) Writable(ctx context.Context) error {
	for {
		route, changed := s.currentRoute()
		if route == toWait {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return fmt.Errorf("cannot append: %w", ctx.Err())
			}
		}
		err := s.cfg.Spool.Writable(ctx)
		if err != nil && route == toTopic {
			err = s.cfg.Log.Ready()
		}
		if err != nil {
			err = fmt.Errorf("cannot append to spool: %w", err)
		}
		return err
	}
}

// allToTopic appends the records that are left. It returns those that have to go to the
// spool, and why; all others have their outcome.
func (s *Spooled) allToTopic(ctx context.Context, rs []*sealer.Record, left []int, at []sealer.Position, errs []error) (forSpool []int, cause error) {
	bounded, cancel := context.WithTimeout(ctx, s.ackTimeout(ctx, time.Now()))
	defer cancel()
	positions, topicErrs := s.cfg.Log.AppendAll(bounded, pick(rs, left))
	for n, i := range left {
		switch err := topicErrs[n]; {
		case err != nil && s.mayRetry(ctx, err):
			forSpool, cause = append(forSpool, i), err
		default:
			at[i], errs[i] = positions[n], err
			if ctx.Err() != nil && errors.Is(err, errFailing) {
				s.useSpool(err)
			}
		}
	}
	return forSpool, cause
}

// allToSpool appends the records that are left, after enter.
func (s *Spooled) allToSpool(ctx context.Context, rs []*sealer.Record, left []int, errs []error) {
	defer s.exit()
	var fit []int
	for _, i := range left {
		if errs[i] = fitsSpool(rs[i]); errs[i] == nil {
			fit = append(fit, i)
		}
	}
	for _, i := range fit {
		s.traces.Keep(rs[i])
	}
	_, spoolErrs := s.cfg.Spool.AppendAll(ctx, pick(rs, fit))
	for n, i := range fit {
		errs[i] = s.spooled(spoolErrs[n])
	}
}

func pick(rs []*sealer.Record, which []int) []*sealer.Record {
	picked := make([]*sealer.Record, len(which))
	for n, i := range which {
		picked[n] = rs[i]
	}
	return picked
}

func (s *Spooled) appendToTopic(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	now := time.Now()
	l, d := s.cfg.Log, s.ackTimeout(ctx, now)
	if d == s.cfg.AckTimeout && l.isKnown() {
		at, err := l.append(ctx, s.timeout.after(now, d), r, now)
		if err != nil {
			return at, fmt.Errorf("cannot append to %s: %w", l.cfg.Topic, err)
		}
		return at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return l.Append(ctx, r)
}

// sharedTimeout is one timer for all records that begin within a sixteenth of their
// timeout: a timer for each would cost as much as all else of an append.
type sharedTimeout struct {
	mu    sync.Mutex
	until time.Time     // until when new records use over
	over  chan struct{} // closed by the timer
}

// after returns a channel that is closed after d, or up to a sixteenth earlier.
func (t *sharedTimeout) after(now time.Time, d time.Duration) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.After(t.until) {
		over := make(chan struct{})
		time.AfterFunc(d, func() { close(over) })
		t.over, t.until = over, now.Add(d/16)
	}
	return t.over
}

// ackTimeout is how long a record waits for the brokers: AckTimeout, or less to leave the
// caller time for the spool.
func (s *Spooled) ackTimeout(ctx context.Context, now time.Time) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return s.cfg.AckTimeout
	}
	left := end.Sub(now)
	return min(s.cfg.AckTimeout, left-min(spoolTime, left/2))
}

// mayRetry reports whether the brokers may take the record later.
func (s *Spooled) mayRetry(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, pipeline.ErrClosed) && !refusedContent(err)
}

// enter counts the caller among those that write the spool; it returns false if the route
// is another one by now. A cause makes the spool the route. exit undoes it.
func (s *Spooled) enter(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause != nil {
		s.divert(cause)
	}
	if s.route != toSpool {
		return false
	}
	s.writing++
	return true
}

// useSpool makes later records go to the spool: the caller of an earlier one has given up
// on brokers that fail.
func (s *Spooled) useSpool(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.divert(cause)
}

// divert changes the route from the topic to the spool. The caller holds s.mu.
func (s *Spooled) divert(cause error) {
	if s.route == toTopic {
		s.cfg.Logger.Warn("records go to the spool", "err", cause)
		s.setRoute(toSpool)
	}
}

func (s *Spooled) appendToSpool(ctx context.Context, r *sealer.Record) error {
	defer s.exit()
	if err := fitsSpool(r); err != nil {
		return err
	}
	s.traces.Keep(r)
	_, err := s.cfg.Spool.Append(ctx, r)
	return s.spooled(err)
}

// exit removes the caller from those that write the spool.
func (s *Spooled) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The drainer waits for the first append that ends; sendRest waits for the last one.
	if s.writing--; s.writing == 0 || s.route == toSpool {
		s.wake()
	}
}

func fitsSpool(r *sealer.Record) error {
	if size := wireSize(r) + batchOverhead; size > defaultRequestBytes {
		// Only the brokers, which are away, know whether the topic takes it.
		return fmt.Errorf("%w: %d bytes, the spool takes %d", ErrTooLarge, size, defaultRequestBytes)
	}
	return nil
}

// spooled counts what became of a record in the spool.
func (s *Spooled) spooled(err error) error {
	if err != nil {
		s.metrics.failures.Inc()
		return fmt.Errorf("cannot append to spool: %w", err)
	}
	s.metrics.spooled.Inc()
	return nil
}

// currentRoute returns the route, and a channel that is closed when it may have changed.
func (s *Spooled) currentRoute() (route, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.route, s.changed
}

// setRoute changes the route. The caller holds s.mu.
func (s *Spooled) setRoute(to route) {
	s.route = to
	s.wake()
}

// wake wakes all that wait for changed. The caller holds s.mu.
func (s *Spooled) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/pipeline"
	"muniment/sealer"
)

// Spool is the node's own durable log, as pipeline/segment keeps it, with a cap on
// its size.
type Spool interface {
	pipeline.Log
	// Retain removes what was written before a position and a moment, as far as it
	// can be removed.
	Retain(before sealer.Position, until time.Time) (removed int, err error)
}

// SpoolConfig is what a Spooled works with.
type SpoolConfig struct {
	// Log is the topic. It belongs to the Spooled, whose Close closes it. Required.
	Log *Log
	// Spool stays the caller's, who closes it behind the Spooled. Nobody else writes
	// it. Required.
	Spool Spool
	// Mark is the file that tells how far the spool was drained, beside the spool.
	// Required. When it is lost, all that the spool holds is drained once more.
	Mark string
	// Patience is how long a record waits for the brokers before it goes to the spool;
	// default 2 s. A caller whose ctx ends soon has less of it: the spool needs time too.
	Patience time.Duration
	// CheckEvery is the pause between two looks into a spool that was drained, default
	// 5 s: a record whose caller had given up may be written after that. A node whose
	// callers gave up on failing brokers tries these again after as long, unless a
	// record for the spool comes before.
	CheckEvery time.Duration
	// Logger hears when the spool is begun and when it is drained; nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics until Close; nil keeps them to ourselves.
	Registerer prometheus.Registerer
}

// Spooled is a log that outlives an absence of the brokers: a record that they don't
// acknowledge in time is made durable in the node's spool, and that is the promise.
// The spool is drained in order when they are back.
//
// Order is kept: from the first record that goes to the spool until it is empty,
// every record goes there. Whoever appends a record after another one was
// acknowledged finds it behind that one in the topic, as long as both have the same
// tenant. When the spool is nearly drained, new records wait for the rest of it, at
// most for Patience, and go to the topic again.
//
// The spool full or failing is the error of Append: nothing was promised. A crash
// between draining and noting it, and a request whose outcome is unknown, put copies
// into the topic. A record in the spool that the topic refuses, as after
// max.message.bytes was lowered, stops the draining until an operator has mended the
// topic: it was promised, so it is never left out.
type Spooled struct {
	cfg     SpoolConfig
	metrics spoolMetrics
	ctx     context.Context // done when Close begins
	stop    context.CancelFunc
	drainer sync.WaitGroup
	limit   limit // of those that wait for the topic

	mu      sync.Mutex
	route   route
	writing int             // appends to the spool that run
	next    sealer.Position // of the spool: what is drained ends here
	changed chan struct{}   // closed when route changes, and when an append to the spool ends that the drainer may wait for
}

// route is where new records go.
type route int

const (
	toTopic route = iota
	toSpool
	toWait // for the rest of the spool to be drained
)

var _ pipeline.Appender = (*Spooled)(nil)

const (
	// spoolTime is what is left of a caller's time, but never more than half of it, for
	// the spool.
	spoolTime = time.Second
	// drainRecords are sent together; with fewer left, new records wait.
	drainRecords = 1000
	// drainPause follows a failure; it doubles up to mostDrainPause.
	drainPause     = 100 * time.Millisecond
	mostDrainPause = 5 * time.Second
)

// OpenSpooled begins to drain what the spool still holds. It fails if the spool ends
// before what was drained from it already: then it is not the one that it was.
func OpenSpooled(cfg SpoolConfig) (*Spooled, error) {
	cfg.Patience = cmp.Or(cfg.Patience, 2*time.Second)
	cfg.CheckEvery = cmp.Or(cfg.CheckEvery, 5*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.Log == nil || cfg.Spool == nil || cfg.Mark == "":
		return nil, errors.New("kafka: Log, Spool or Mark is missing")
	case cfg.Patience < 0 || cfg.CheckEvery < 0:
		return nil, errors.New("kafka: Patience or CheckEvery is negative")
	}
	s := &Spooled{cfg: cfg, changed: make(chan struct{})}
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
		cfg.Logger.Warn("spool holds records of before", "records", end.Offset-s.next.Offset)
	}
	s.metrics = newSpoolMetrics(s)
	if err := pipeline.Register(cfg.Registerer, s.metrics.all...); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the spool: %w", err)
	}
	s.drainer.Go(s.drain)
	return s, nil
}

// Close ends the draining and closes the topic's log. What is in the spool by then
// stays there for the next start. While records go there, what the topic's log still
// has to send is in the spool too, or nobody was promised it: nothing is waited for.
func (s *Spooled) Close() error {
	s.stop()
	if route, _ := s.look(); route != toTopic {
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
		route, changed := s.look()
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
			if at, cause = s.appendToTopic(ctx, r); cause == nil || !s.passes(ctx, cause) {
				if ctx.Err() != nil && errors.Is(cause, errFailing) {
					s.giveUp(cause)
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
		route, changed := s.look()
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

// allToTopic gives the records that are left their outcome, but for those that the spool is
// to have, and says why it is.
func (s *Spooled) allToTopic(ctx context.Context, rs []*sealer.Record, left []int, at []sealer.Position, errs []error) (forSpool []int, cause error) {
	patient, cancel := context.WithTimeout(ctx, s.patience(ctx, time.Now()))
	defer cancel()
	stand, topicErrs := s.cfg.Log.AppendAll(patient, pick(rs, left))
	for n, i := range left {
		switch err := topicErrs[n]; {
		case err != nil && s.passes(ctx, err):
			forSpool, cause = append(forSpool, i), err
		default:
			at[i], errs[i] = stand[n], err
			if ctx.Err() != nil && errors.Is(err, errFailing) {
				s.giveUp(err)
			}
		}
	}
	return forSpool, cause
}

// allToSpool gives the records that are left their outcome. The caller has entered.
func (s *Spooled) allToSpool(ctx context.Context, rs []*sealer.Record, left []int, errs []error) {
	defer s.exit()
	var fit []int
	for _, i := range left {
		if errs[i] = fitsSpool(rs[i]); errs[i] == nil {
			fit = append(fit, i)
		}
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
	l, d := s.cfg.Log, s.patience(ctx, now)
	if d == s.cfg.Patience && l.isKnown() {
		at, err := l.append(ctx, s.limit.begin(now, d), r, now)
		if err != nil {
			return at, fmt.Errorf("cannot append to %s: %w", l.cfg.Topic, err)
		}
		return at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return l.Append(ctx, r)
}

// limit is one timer for all records that begin within a sixteenth of the time that
// they may wait: one for each would cost as much as the rest of an append.
type limit struct {
	mu    sync.Mutex
	until time.Time     // the last moment to share over
	over  chan struct{} // closed by the timer
}

// begin returns what is closed when a record that begins now has waited for d, or for up
// to a sixteenth less.
func (l *limit) begin(now time.Time, d time.Duration) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.After(l.until) {
		over := make(chan struct{})
		time.AfterFunc(d, func() { close(over) })
		l.over, l.until = over, now.Add(d/16)
	}
	return l.over
}

// patience is how long a record waits for the brokers, at most Patience, and so that
// the caller has time left for the spool.
func (s *Spooled) patience(ctx context.Context, now time.Time) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return s.cfg.Patience
	}
	left := end.Sub(now)
	return min(s.cfg.Patience, left-min(spoolTime, left/2))
}

// passes says that the brokers may take the record later.
func (s *Spooled) passes(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, pipeline.ErrClosed) && !refusedContent(err)
}

// enter counts the caller among those who write the spool, unless the route is
// another one by now. A cause turns the route to the spool.
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

// giveUp has those who come next not wait for the topic in vain, as a caller did who has
// gone: they begin the spool.
func (s *Spooled) giveUp(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.divert(cause)
}

// divert turns the route to the spool, if it is still to the topic. The caller holds s.mu.
func (s *Spooled) divert(cause error) {
	if s.route == toTopic {
		s.cfg.Logger.Warn("records go to the spool", "err", cause)
		s.turn(toSpool)
	}
}

func (s *Spooled) appendToSpool(ctx context.Context, r *sealer.Record) error {
	defer s.exit()
	if err := fitsSpool(r); err != nil {
		return err
	}
	_, err := s.cfg.Spool.Append(ctx, r)
	return s.spooled(err)
}

// exit takes the caller from those who write the spool.
func (s *Spooled) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The drainer waits for the first one that ends, and to hand over for the last one.
	if s.writing--; s.writing == 0 || s.route == toSpool {
		s.tell()
	}
}

func fitsSpool(r *sealer.Record) error {
	if size := wireSize(r) + batchOverhead; size > defaultRequestBytes {
		// Whether the topic takes it is only known when the brokers are back.
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

// look tells the route, and what is closed when it is worth another look.
func (s *Spooled) look() (route, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.route, s.changed
}

// turn changes the route. The caller holds s.mu.
func (s *Spooled) turn(to route) {
	s.route = to
	s.tell()
}

// tell wakes all who look. The caller holds s.mu.
func (s *Spooled) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// drain brings the spool into the topic whenever it holds something.
func (s *Spooled) drain() {
	backoff := drainPause
	for s.ctx.Err() == nil {
		route, changed := s.look()
		if route == toTopic {
			if !s.await(changed) && s.Pending() > 0 {
				s.turnFrom(toTopic, toSpool)
			}
			continue
		}
		if s.Pending() == 0 {
			// The brokers fail, as far as anybody knows, and only a record that is sent to
			// them can tell otherwise: until the first one is there, or none comes for
			// long, new ones neither go to the topic nor wait.
			s.await(changed)
		}
		err := s.drainOnce()
		if err == nil {
			backoff = drainPause
			continue
		}
		if s.ctx.Err() == nil {
			s.cfg.Logger.Error("cannot drain spool, trying again", "at", s.next.String(), "retry_in", backoff, "err", err)
		}
		pause(s.ctx, backoff)
		backoff = min(2*backoff, mostDrainPause)
	}
}

// await waits for changed, until CheckEvery has passed: then it is false. It ends with
// Close, too.
func (s *Spooled) await(changed <-chan struct{}) bool {
	late := time.NewTimer(s.cfg.CheckEvery)
	defer late.Stop()
	select {
	case <-late.C:
		return false
	case <-changed:
	case <-s.ctx.Done():
	}
	return true
}

// drainOnce sends a window of the spool. If that went well and little is left, it has
// new records wait, sends the rest, and turns the route back to the topic.
func (s *Spooled) drainOnce() error {
	_, end, err := s.cfg.Spool.Bounds(s.ctx, 0)
	if err != nil {
		return err
	}
	if s.next != end {
		if err := s.send(end); err != nil {
			return err
		}
	}
	if s.Pending() > drainRecords {
		return nil
	}
	s.turnFrom(toSpool, toWait)
	// Who waits goes to the spool after all if this takes too long.
	giveUp := time.AfterFunc(s.cfg.Patience, func() { s.turnFrom(toWait, toSpool) })
	defer giveUp.Stop()
	err = s.sendRest()
	s.turnFrom(toWait, toSpool)
	return err
}

// turnFrom changes the route if it is still the given one.
func (s *Spooled) turnFrom(from, to route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.route == from {
		s.turn(to)
	}
}

// sendRest sends all that the spool holds, while nobody writes it, and turns the
// route to the topic.
func (s *Spooled) sendRest() error {
	for {
		s.mu.Lock()
		route, writing, changed := s.route, s.writing, s.changed
		s.mu.Unlock()
		if route != toWait {
			return nil
		}
		if writing > 0 {
			select {
			case <-changed:
			case <-s.ctx.Done():
				return nil
			}
			continue
		}
		_, end, err := s.cfg.Spool.Bounds(s.ctx, 0)
		if err != nil {
			return err
		}
		if s.next == end {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.route == toWait && s.ctx.Err() == nil { // Close goes by the route that it finds
				s.cfg.Logger.Info("spool is drained", "end", end.String())
				s.turn(toTopic)
			}
			return nil
		}
		if err := s.send(end); err != nil {
			return err
		}
	}
}

// send brings the next records into the topic, up to end and at most a window. It
// waits for their acknowledgement without a limit: to withdraw some of them would
// let later ones overtake.
func (s *Spooled) send(end sealer.Position) error {
	to := end
	if end.Offset-s.next.Offset > drainRecords {
		to = s.next
		to.Offset += drainRecords
		to.Generation = end.Generation
	}
	type sent struct {
		pending
		next sealer.Position
	}
	var window []sent
	row := new(chain)
	scanErr := s.cfg.Spool.Scan(s.ctx, s.next, to, func(e sealer.Entry) error {
		p, err := s.cfg.Log.enqueue(s.ctx, &e.Record, row)
		if err == nil {
			window = append(window, sent{p, e.Position.Next()})
		}
		return err
	})
	next := s.next
	var sendErr error
	for _, w := range window {
		if _, sendErr = w.wait(context.Background()); sendErr != nil {
			break
		}
		next = w.next
		s.metrics.drained.Inc()
	}
	if next != s.next {
		s.mu.Lock()
		s.next = next
		s.mu.Unlock()
		s.writeMark(next)
		if _, err := s.cfg.Spool.Retain(next, time.Now().AddDate(1, 0, 0)); err != nil {
			s.cfg.Logger.Error("cannot free the spool", "err", err)
		}
	}
	if errors.Is(scanErr, pipeline.ErrFull) && len(window) > 0 {
		scanErr = nil // the queue was full, and has room again
	}
	return errors.Join(sendErr, scanErr)
}

// readMark is where the last drain had got to; not ok if that isn't known.
func (s *Spooled) readMark() (sealer.Position, bool) {
	b, err := os.ReadFile(s.cfg.Mark)
	if errors.Is(err, os.ErrNotExist) {
		return sealer.Position{}, false
	}
	at, parseErr := sealer.ParsePosition(strings.TrimSuffix(string(b), "\n"))
	if err := cmp.Or(err, parseErr); err != nil {
		s.cfg.Logger.Warn("cannot tell how far the spool was drained, draining all of it", "err", err)
		return sealer.Position{}, false
	}
	return at, true
}

// writeMark notes how far the spool is drained. It is not synced: an older mark only
// means more copies.
func (s *Spooled) writeMark(at sealer.Position) {
	next := s.cfg.Mark + ".new"
	err := os.WriteFile(next, []byte(at.String()+"\n"), 0o600)
	if err == nil {
		err = os.Rename(next, s.cfg.Mark)
	}
	if err != nil {
		s.cfg.Logger.Error("cannot note how far the spool is drained", "err", err)
	}
}

// spoolMetrics of one Spooled.
type spoolMetrics struct {
	spooled, drained, failures prometheus.Counter

	all []prometheus.Collector
}

func newSpoolMetrics(s *Spooled) spoolMetrics {
	m := spoolMetrics{
		spooled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_spool_records_total",
			Help: "Records that were made durable in the spool, for want of Kafka.",
		}),
		drained: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_spool_drained_total",
			Help: "Records of the spool that Kafka has acknowledged.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_spool_failures_total",
			Help: "Records that the spool could not take either: it was full or has failed.",
		}),
	}
	m.all = []prometheus.Collector{m.spooled, m.drained, m.failures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_spool_pending_records",
			Help: "Records in the spool that are not in Kafka yet.",
		}, func() float64 { return float64(s.Pending()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_spool_active",
			Help: "1 while new records go to the spool, else 0.",
		}, func() float64 {
			if route, _ := s.look(); route == toTopic {
				return 0
			}
			return 1
		}),
	}
	return m
}

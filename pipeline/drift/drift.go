// Package drift holds what the warehouse has loaded against what was logged, sealed and stated, in
// the background. What is apart is drift: muniment_metering_drift has to be 0.
//
// Four things are compared, a piece at a time:
//
//   - rows: a run of the log, as far as it is loaded, with the rows that stand at its
//     positions. An event of the log needs a row there or below, unless its record was
//     quarantined, the event was retracted, or its tenant was dropped; a row needs its event
//     in the log. The newest run comes first, then the others in turns.
//   - duplicates: the decisions that are stored for a run of rows, with those that the rule
//     makes of the rows now (see pipeline.Sink).
//   - packs: what the header of a proof pack counts and sums, with the rows of its entries.
//   - statements: what an issued statement says, with what its rows come to by the rules and
//     disputes that it was made by, and its record with what the log has of it.
//
// A piece that differs is compared once more at the next look. What differs both times,
// although all of it was loaded before the first, is drift: it is logged once, by tenant,
// positions and kind, and counted until a later look finds the piece right. Drifting pieces
// are looked at again among the others.
//
// Nothing is repaired here: the check can't know which side is wrong, and a repair would hide
// that evidence was touched.
//
// Nothing that a person may have erased is in a sum, so an erasure is no drift; nor is what comes
// late, as a statement counts what stood before a position. A warehouse whose old rows an operator
// has deleted has no record of that: packs and statements that counted them are drift.
//
// A look takes at most 8,192 records of the log, 1,024 rows' decisions, one pack, or one statement.
// After a look the check is idle for 99 times as long as it took, so it takes one percent of a
// processor at most, here and in the warehouse together; a large log takes days to go through.
// There is no state but in memory: a process that starts begins anew, and what the log no
// longer holds is compared by packs and statements alone.
//
// What can't be reached is not drift: the look fails, is counted, and its piece comes up in
// the next turn.
package drift

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/pipeline"
	"muniment/sealer"
)

// Kinds of drift.
const (
	KindMissing    = "missing"    // an event of the log has no row
	KindInvented   = "invented"   // a row has no event in the log
	KindDuplicates = "duplicates" // a stored decision is not the rule's
	KindPack       = "pack"       // a pack's header and its rows are apart
	KindStatement  = "statement"  // a statement and its rows are apart
)

// Event names an event at one position.
type Event struct {
	sealer.Position
	TenantID, EventID string
}

// Auditor is what a warehouse can be asked for the check. Each of its answers sees every Load
// that returned before. Safe for concurrent use.
type Auditor interface {
	// Standing lists the rows of one partition at from ≤ position < to. Of an event with copies
	// it may list higher ones too, which the warehouse is yet to collapse.
	Standing(ctx context.Context, from, to sealer.Position) ([]Event, error)
	// Unaccounted returns those of the events, all of one partition, that should have a row and
	// have none: no row of the event stands at its position or a lower one, the record there
	// was not quarantined, the event was not retracted, its tenant was not dropped.
	Unaccounted(ctx context.Context, events []Event) ([]Event, error)
	// Misjudged lists the rows of one partition at from ≤ position < to that are stored as
	// duplicates and are none by the rule (see pipeline.Sink), or the reverse.
	Misjudged(ctx context.Context, from, to sealer.Position) ([]Event, error)
	// Sum counts a tenant's rows at first ≤ position ≤ last, and sums their deliveries as
	// Warehouse.Metering does without buckets, in any order.
	Sum(ctx context.Context, tenantID string, first, last sealer.Position) (rows int64, lines []pipeline.MeterRow, err error)
}

// Pack is what the check needs to know of a sealed proof pack.
type Pack struct {
	ID, TenantID string
	// First and Last are the positions of its first and last entry.
	First, Last sealer.Position
	// Count is how many entries it has, Metering what its header says of them.
	Count    int64
	Metering []sealer.MeterRow
}

// Statement is what the check needs to know of an issued statement.
type Statement struct {
	ID, TenantID, Currency string
	// AsOf is the position before which all stands that it states.
	AsOf sealer.Position
}

// Difference is by how much a statement's rows come to more than it says; amounts are decimals. Lines
// may be apart where sums are not.
type Difference struct {
	Receipts          int64
	Total, HeldAmount string
}

// Config of a Checker. Log, Loaded and Auditor are required.
type Config struct {
	Log pipeline.Reader
	// Loaded is Resume of the warehouse.
	Loaded  func(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
	Auditor Auditor
	// NextPack returns the pack with the lowest id above one, of any tenant, and nil behind the
	// last; ids rise with time. nil: there are no packs here.
	NextPack func(ctx context.Context, after string) (*Pack, error)
	// NextStatement returns the issued statement with the lowest id above one, of any tenant, and
	// nil behind the last; ids rise with time. Restate computes one anew from the warehouse, and
	// returns nil if that is what it says. Both or neither.
	NextStatement func(ctx context.Context, after string) (*Statement, error)
	Restate       func(ctx context.Context, s *Statement) (*Difference, error)
	// Logger gets what is found. Default: it is discarded.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
}

func (c *Config) validate() error {
	switch {
	case c.Log == nil:
		return errors.New("drift: Log is nil")
	case c.Loaded == nil:
		return errors.New("drift: Loaded is nil")
	case c.Auditor == nil:
		return errors.New("drift: Auditor is nil")
	case (c.NextStatement == nil) != (c.Restate == nil):
		return errors.New("drift: one of NextStatement and Restate is nil")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

const (
	// every is the least time between two looks.
	every = 2 * time.Second
	// idle is for how many times as long as a look took there is none.
	idle = 99
	// maxDrifting is how many pieces are remembered as drifting.
	maxDrifting = 1000
)

// Checker looks for drift. One goroutine may use it at a time.
type Checker struct {
	cfg     Config
	metrics *metrics

	walks   walks
	suspect *suspect          // what has differed at the look before; nil: nothing
	known   map[place]drifted // what is drift
	order   []piece           // those of known, the one that was looked at longest ago first
	relook  bool              // the look at hand is at a piece of order
}

// suspect is a piece that has differed once.
type suspect struct {
	piece piece
	found []finding
}

// drifted is how much of a piece is apart, by kind.
type drifted map[string]int

// New wires a checker; Run works.
func New(cfg Config) (*Checker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := newMetrics()
	if err := pipeline.Register(cfg.Registerer, m.drift, m.checked, m.failures, m.seconds); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the drift check: %w", err)
	}
	c := &Checker{cfg: cfg, metrics: m}
	c.forget()
	return c, nil
}

// forget begins anew, as if nothing was compared yet.
func (c *Checker) forget() {
	c.walks, c.suspect, c.known, c.order = walks{}, nil, map[place]drifted{}, nil
	c.show()
}

// Run looks until ctx is done. Then it forgets what it knows: another process may look on.
func (c *Checker) Run(ctx context.Context) {
	defer c.forget()
	failing := false
	for {
		began := time.Now()
		err := c.Look(ctx)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			c.cfg.Logger.WarnContext(ctx, "cannot look for drift, trying again", "err", err)
		case err == nil && failing:
			c.cfg.Logger.InfoContext(ctx, "looking for drift works again")
		}
		failing = err != nil
		pause := time.NewTimer(max(every, idle*took))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// Whole looks at everything once, without a pause: for tests.
func (c *Checker) Whole(ctx context.Context) error {
	c.walks = walks{}
	for {
		if err := c.Look(ctx); err != nil {
			return err
		}
		if c.suspect == nil && c.walks.whole(c.cfg.NextPack != nil, c.cfg.NextStatement != nil) {
			return nil
		}
	}
}

// Look compares one piece.
func (c *Checker) Look(ctx context.Context) (err error) {
	began := time.Now()
	defer func() {
		c.metrics.seconds.Add(time.Since(began).Seconds())
		if err != nil && ctx.Err() == nil {
			c.metrics.failures.Inc()
		}
	}()
	before := c.suspect
	c.suspect = nil
	p, ok, err := c.choose(ctx, before)
	if err != nil || !ok {
		return err
	}
	found, judged, err := c.compare(ctx, p)
	if err != nil || !judged {
		return err
	}
	switch _, drifting := c.known[p.place()]; {
	case before != nil:
		found = both(before.found, found)
	case len(found) > 0 && !drifting:
		c.suspect = &suspect{p, found}
		return nil
	}
	c.note(ctx, p, found)
	return nil
}

// choose names the piece to look at: the suspect, one that drifts, or the next in turn.
func (c *Checker) choose(ctx context.Context, before *suspect) (p piece, ok bool, err error) {
	c.walks.log = nil
	if before != nil {
		return before.piece, true, nil
	}
	if c.relook = !c.relook && len(c.order) > 0; c.relook {
		p = c.order[0]
		c.order = append(c.order[1:], p)
		return p, true, nil
	}
	return c.next(ctx)
}

// note keeps what is known of a piece now.
func (c *Checker) note(ctx context.Context, p piece, found []finding) {
	now := drifted{}
	for _, f := range found {
		now[f.kind]++
	}
	at := p.place()
	before, drifting := c.known[at]
	switch {
	case len(found) == 0 && drifting:
		delete(c.known, at)
		c.order = slices.DeleteFunc(c.order, func(q piece) bool { return q.place() == at })
		c.cfg.Logger.InfoContext(ctx, "drift is gone", "check", p.check, "from", p.from.String(), "to", p.to.String(), "behind", p.after)
	case len(found) > 0 && (drifting || len(c.known) < maxDrifting):
		if !drifting {
			c.order = append(c.order, p)
		}
		c.known[at] = now
		if !maps.Equal(before, now) {
			c.report(ctx, found)
		}
	}
	c.show()
}

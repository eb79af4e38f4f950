// Package drift compares the warehouse with the log, the proof packs and the statements, in the
// background. A difference is drift: muniment_metering_drift has to be 0.
//
// There are four checks, each of one piece at a time:
//
//   - rows: a range of the log, as far as it is loaded, against the rows at its positions. An event
//     of the log needs a row there or at a lower position, unless its record was quarantined, the
//     event was retracted, or its tenant was dropped; a row needs its event in the log. The newest
//     range comes first, then the others in rounds.
//   - duplicates: the decisions that are stored for a range of rows, against the decisions that the
//     rule makes now (see pipeline.Sink).
//   - packs: the counts and sums in the header of a proof pack, and those that are stored of it by hour
//     and day, against the rows of its entries.
//   - statements: an issued statement against its recomputation by its own rules and disputes, and
//     its record against the log.
//
// A piece that differs is checked again next. A difference that both checks find, although all of the
// piece was loaded before the first, is drift: it is logged once, by tenant, positions and kind, and
// counted until a later check finds no difference. Drifting pieces are checked again between the
// others.
//
// No evidence is repaired: the check can't know which side is wrong, and a repair would hide that
// it was tampered with. What is stored of a pack by hour and day is none: it is derived from the pack, and once it was
// reported that this drifts, it is counted again from the pack (Config.Recount), at each check until it does not.
//
// Sums contain nothing that a person can have erased, so an erasure causes no drift. Neither do late
// receipts, as a statement counts rows before a position. If an operator deletes old rows from a
// warehouse, the packs and statements that counted them drift, since the warehouse does not record
// the deletion.
//
// A check reads at most 8,192 records of the log, 1,024 rows' decisions, one pack, or one statement.
// Then the checker is idle for 99 times as long as the check took. So it uses at most one percent of a
// processor, here and in the warehouse together; a round through a large log takes days. All state is
// in memory: a new process starts from the beginning. What the log no longer has is checked by packs
// and statements only.
//
// An unavailable log or warehouse is not drift: the check fails, is counted, and its piece is checked
// in the next round.
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

	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// Kinds of drift.
const (
	KindMissing    = "missing"    // an event of the log has no row
	KindInvented   = "invented"   // a row has no event in the log
	KindDuplicates = "duplicates" // a stored decision is not the rule's
	KindPack       = "pack"       // a pack's header or stored sums and its rows differ
	KindStatement  = "statement"  // a statement and its recomputation differ
)

// Event names an event at one position.
type Event struct {
	sealer.Position
	TenantID, EventID string
}

// Auditor has the warehouse's queries for the checks. Each result includes every Load that returned
// before. Safe for concurrent use.
type Auditor interface {
	// Standing lists the rows of one partition at from ≤ position < to. It may list several copies of
	// an event that the warehouse has not collapsed yet.
	Standing(ctx context.Context, from, to sealer.Position) ([]Event, error)
	// Unaccounted returns those of the events, all of one partition, that lack a row they should
	// have: the event has no row at its position or a lower one, the record there was not
	// quarantined, the event was not retracted, and its tenant was not dropped.
	Unaccounted(ctx context.Context, events []Event) ([]Event, error)
	// Misjudged lists the rows of one partition at from ≤ position < to that are stored as duplicates
	// but are none by the rule (see pipeline.Sink), or the reverse.
	Misjudged(ctx context.Context, from, to sealer.Position) ([]Event, error)
	// Sum counts a tenant's rows at first ≤ position ≤ last, and sums their deliveries as
	// Warehouse.Metering does without buckets, in any order.
	Sum(ctx context.Context, tenantID string, first, last sealer.Position) (rows int64, lines []pipeline.MeterRow, err error)
}

// Pack is the part of a sealed proof pack that the check needs.
type Pack struct {
	ID, TenantID string
	// First and Last are the positions of its first and last entry.
	First, Last sealer.Position
	// Count is the number of its entries, Metering the metering in its header.
	Count    int64
	Metering []pack.MeterRow
	// Hours and Days are what is stored of its deliveries by hour and by day, in UTC, as
	// Warehouse.Metering lists it by buckets and completion; nil if nothing is, or it isn't compared.
	Hours, Days []pipeline.MeterRow
	// RenderedByHour and RenderedByDay are the earliest and the latest renderedAt that is stored of them with Hours
	// and with Days.
	RenderedByHour, RenderedByDay Rendered
}

// Rendered is the earliest and the latest renderedAt of some deliveries; zero without one.
type Rendered struct{ First, Last time.Time }

// Statement is the part of an issued statement that the check needs.
type Statement struct {
	ID, TenantID, Currency string
	// AsOf is the position up to which it states rows, exclusive.
	AsOf sealer.Position
}

// Difference is the recomputed sums of a statement minus the stated ones; amounts are decimals. If all
// are 0, only the lines differ.
type Difference struct {
	Receipts          int64
	Total, HeldAmount string
}

// Config of a Checker. Log, Loaded and Auditor are required.
type Config struct {
	Log pipeline.Reader
	// Loaded is the warehouse's Resume.
	Loaded  func(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
	Auditor Auditor
	// NextPack returns the pack with the lowest id above after, of any tenant, or nil if there is
	// none; ids increase with time. If the function is nil, packs are not checked.
	NextPack func(ctx context.Context, after string) (*Pack, error)
	// Metering is the warehouse's, to compare Hours and Days of packs with, and MeterTotals, to compare
	// RenderedByHour and RenderedByDay with. If one is nil, these are not compared.
	Metering    func(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error)
	MeterTotals func(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error)
	// Recount replaces what is stored of a pack if it is not what the pack's entries add up to. It is called for
	// a pack that was reported, at each check while it drifts. nil: it stays.
	Recount func(ctx context.Context, tenantID, packID string) error
	// NextStatement returns the issued statement with the lowest id above after, of any tenant, or nil
	// if there is none; ids increase with time. Restate recomputes a statement from the warehouse,
	// and returns nil if it agrees. Set both functions or neither.
	NextStatement func(ctx context.Context, after string) (*Statement, error)
	Restate       func(ctx context.Context, s *Statement) (*Difference, error)
	// Logger logs the findings. Default: they are discarded.
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
	// every is the least time between two checks.
	every = 2 * time.Second
	// idle is how many times as long as a check took the checker is idle after it.
	idle = 99
	// maxDrifting is how many pieces are remembered as drifting.
	maxDrifting = 1000
)

// Checker looks for drift. One goroutine may use it at a time.
type Checker struct {
	cfg     Config
	metrics *metrics

	walks   walks
	suspect *suspectPiece              // the piece that differed at the last check; nil: none
	known   map[place]differenceCounts // the drifting pieces
	order   []piece                    // the pieces of known, the one that was checked longest ago first
	relook  bool                       // the current check is of a piece of order
}

// suspectPiece is a piece that has differed once.
type suspectPiece struct {
	piece piece
	found []finding
}

// differenceCounts counts the differences of a piece, by kind.
type differenceCounts map[string]int

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

// forget resets the checker.
func (c *Checker) forget() {
	c.walks, c.suspect, c.known, c.order = walks{}, nil, map[place]differenceCounts{}, nil
	c.show()
}

// Run checks until ctx is done. Then it resets the checker, since another process may continue.
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
			c.cfg.Logger.WarnContext(ctx, "cannot check for drift, retrying", "err", err)
		case err == nil && failing:
			c.cfg.Logger.InfoContext(ctx, "the drift check works again")
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

// Whole checks everything once, without a pause: for tests.
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
		c.suspect = &suspectPiece{p, found}
		return nil
	}
	c.note(ctx, p, found)
	if p.check == checkPacks && len(found) > 0 && c.cfg.Recount != nil {
		return c.cfg.Recount(ctx, found[0].tenantID, found[0].id)
	}
	return nil
}

// choose returns the piece to check: the suspect, one that drifts, or the next of the round.
func (c *Checker) choose(ctx context.Context, before *suspectPiece) (p piece, ok bool, err error) {
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

// note records the findings for a piece.
func (c *Checker) note(ctx context.Context, p piece, found []finding) {
	now := differenceCounts{}
	for _, f := range found {
		now[f.kind]++
	}
	at := p.place()
	before, drifting := c.known[at]
	switch {
	case len(found) == 0 && drifting:
		delete(c.known, at)
		c.order = slices.DeleteFunc(c.order, func(q piece) bool { return q.place() == at })
		c.cfg.Logger.InfoContext(ctx, "the drift has ended", "check", p.check, "from", p.from.String(), "to", p.to.String(), "behind", p.after)
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

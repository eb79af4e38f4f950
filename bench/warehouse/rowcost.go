// Package warehouse measures warehouses without a service in front of them: what loading a row
// costs (RowCost), what the queries of a tenant and of analysts take in a ClickHouse that holds
// much (Scale), and what a tenant's month takes to be settled (Settlement).
package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"muniment.example/bench/measure"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// RowCost measures what it costs to bring rows that are in memory into a warehouse, so that
// they are committed: the product's Load against the fastest plain insert of the same columns
// into a copy of the table of events, in alternation. CPU of this process and of the
// server is counted, with the merges that the rows cause.
type RowCost struct {
	Dir string // existing; the SQLite files are made here
	Out io.Writer
	// ClickHouse is a server of this machine; databases of its own are made there, and
	// dropped. nil: it is left out.
	ClickHouse *clickhouse.Config
	// SQLite says whether that is measured.
	SQLite bool
	Rounds int // after a first one that doesn't count
	// Large and Small are how many groups of these sizes each round has.
	Large, Small int
}

// The sizes of groups: what a backlog gives, and what 1,000 rows a second in 12 partitions
// do.
const (
	largeGroup = 20_000
	smallGroup = 1_000
)

// groups is how many a round has of a size. Without large ones only small ones are measured.
func (c *RowCost) groups(size int) int {
	if size == largeGroup {
		return c.Large
	}
	return c.Small
}

// Names of ways.
const (
	bareInsert = "bare insert"
	product    = "product"
	unsearched = "product, no search indexes"
)

// way is one way of bringing batches in.
type way struct {
	name string
	// prepare makes of batches what is measured then, one step a group.
	prepare func(context.Context, []pipeline.Batch) ([]func(context.Context) error, error)
}

// ways are those of one warehouse and one size of a group, which alternate.
type ways struct {
	warehouse string
	group     int
	all       []way
	server    []int // processes
	// settle returns once the server has nothing to do any more.
	settle func(context.Context) error
	close  func(context.Context) error
}

// Cost is the CPU of one way in one round, in microseconds a row.
type Cost struct {
	Warehouse    string
	Group        int
	Way          string
	Round        int
	Here, Server float64
}

func (c Cost) sum() float64 { return c.Here + c.Server }

// Run measures.
func (c *RowCost) Run(ctx context.Context) (_ *RowCosts, err error) {
	// Rows are as young as those that are loaded, all of one month, and the same whenever
	// it is run within a day.
	report := &RowCosts{At: time.Now().UTC().Truncate(time.Second), Machine: measure.DescribeMachine(c.Dir), Rounds: c.Rounds}
	begin := report.At.Truncate(24 * time.Hour)
	if err := c.reading(ctx, report, newAuthor(begin, authorTenants)); err != nil {
		return nil, fmt.Errorf("cannot measure reading: %w", err)
	}
	for _, group := range []int{largeGroup, smallGroup} {
		if c.groups(group) == 0 {
			continue
		}
		if c.ClickHouse != nil {
			if err := c.compare(ctx, report, group, begin, c.clickhouseWays); err != nil {
				return nil, fmt.Errorf("ClickHouse, groups of %s: %w", measure.Count(group), err)
			}
		}
		if c.SQLite {
			if err := c.compare(ctx, report, group, begin, c.sqliteWays); err != nil {
				return nil, fmt.Errorf("SQLite, groups of %s: %w", measure.Count(group), err)
			}
		}
	}
	report.judge()
	return report, nil
}

// compare alternates the ways of one warehouse.
func (c *RowCost) compare(ctx context.Context, report *RowCosts, group int, begin time.Time,
	open func(context.Context, *RowCosts, int) (*ways, error)) (err error) {
	w, err := open(ctx, report, group)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := w.close(context.WithoutCancel(ctx)); err == nil {
			err = closeErr
		}
	}()
	a := newAuthor(begin, authorTenants)
	for round := range c.Rounds + 1 {
		batches, err := a.batches(c.groups(group), group)
		if err != nil {
			return err
		}
		for _, one := range w.all {
			cost, err := w.measure(ctx, one, batches)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if round == 0 { // the first table pages, merges and caches
				continue
			}
			cost.Round = round
			report.Costs = append(report.Costs, cost)
			fmt.Fprintf(c.Out, "round %d  %-10s  groups of %6s  %-36s %6.1f µs here + %6.1f server\n",
				round, w.warehouse, measure.Count(group), one.name, cost.Here, cost.Server)
		}
	}
	return nil
}

// measure brings batches in one way.
func (w *ways) measure(ctx context.Context, one way, batches []pipeline.Batch) (cost Cost, err error) {
	steps, err := one.prepare(ctx, batches)
	if err != nil {
		return cost, err
	}
	if err := w.settle(ctx); err != nil {
		return cost, err
	}
	begin, err := w.used()
	if err != nil {
		return cost, err
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return cost, err
		}
	}
	if err := w.settle(ctx); err != nil {
		return cost, err
	}
	end, err := w.used()
	if err != nil {
		return cost, err
	}
	rows := 0.0
	for _, b := range batches {
		rows += float64(len(b.Rows))
	}
	return Cost{
		Warehouse: w.warehouse, Group: w.group, Way: one.name,
		Here: measure.Micros(end.here-begin.here) / rows, Server: measure.Micros(end.server-begin.server) / rows,
	}, nil
}

// used is CPU that was used so far.
type used struct{ here, server time.Duration }

func (w *ways) used() (u used, err error) {
	if u.here, err = ownCPU(); err != nil {
		return u, err
	}
	for _, pid := range w.server {
		cpu, err := measure.ProcessCPU(pid)
		if err != nil {
			return u, err
		}
		u.server += cpu
	}
	return u, nil
}

// ownCPU is what this process has used so far, finer than /proc says it.
func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// batches are the next n of the author's log, of size rows each.
func (a *author) batches(n, size int) ([]pipeline.Batch, error) {
	all := make([]pipeline.Batch, n)
	for i := range all {
		entries, err := a.write(size)
		if err != nil {
			return nil, err
		}
		all[i] = pipeline.Batch{From: entries[0].Position, Rows: make([]pipeline.Row, size), Next: a.next}
		for k, e := range entries {
			if all[i].Rows[k], err = pipeline.NewRow(e); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// sink takes what a loader brings and keeps nothing.
type sink struct {
	rows int
	all  chan struct{} // closed when so many have come
	want int
}

func (s *sink) Load(_ context.Context, b pipeline.Batch) error {
	before := s.rows
	if s.rows += len(b.Rows) + len(b.Quarantined); before < s.want && s.rows >= s.want {
		close(s.all)
	}
	return nil
}

func (s *sink) Resume(context.Context, int32) (sealer.Position, bool, error) {
	return sealer.Position{}, false, nil
}

// reading measures what a loader does before a batch is in memory: reading the log of a
// node, and checking its records. Checking is measured alone, too.
func (c *RowCost) reading(ctx context.Context, report *RowCosts, a *author) (err error) {
	log, err := segment.Open(segment.Config{Dir: filepath.Join(c.Dir, "log")})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := log.Close(); err == nil {
			err = closeErr
		}
	}()
	rows := c.Large*largeGroup + c.Small*smallGroup
	entries, err := a.write(rows)
	if err != nil {
		return err
	}
	records := make([]*sealer.Record, len(entries))
	for i := range entries {
		records[i] = &entries[i].Record
		report.RowBytes += float64(len(records[i].Event)+len(records[i].Private)) / float64(rows)
	}
	for some := range slices.Chunk(records, 1000) {
		_, errs := log.AppendAll(ctx, some)
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	for range c.Rounds {
		cpu, err := timed(func() error { return runLoader(ctx, log, rows) })
		if err != nil {
			return err
		}
		report.Reading = append(report.Reading, measure.Micros(cpu)/float64(rows))
		cpu, err = timed(func() error {
			for _, e := range entries {
				if _, err := pipeline.NewRow(e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		report.Checking = append(report.Checking, measure.Micros(cpu)/float64(rows))
	}
	return nil
}

// timed returns the CPU that this process used for f.
func timed(f func() error) (time.Duration, error) {
	begin, err := ownCPU()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	end, err := ownCPU()
	return end - begin, err
}

// runLoader runs a loader until it has read so many rows of a log.
func runLoader(ctx context.Context, log pipeline.Reader, rows int) error {
	s := &sink{all: make(chan struct{}), want: rows}
	loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: log, Warehouse: s})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- loader.Run(ctx) }()
	select {
	case <-s.all:
		stop()
		return <-ended
	case err := <-ended:
		return err
	}
}

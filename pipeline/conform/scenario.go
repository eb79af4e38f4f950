package conform

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// scenario is a log of some tenants, and the warehouse that it is loaded into. Its random
// choices are the same in each run.
type scenario struct {
	testing.TB
	*rand.Rand
	ctx context.Context
	new func() WarehouseEngine

	engine    WarehouseEngine
	warehouse pipeline.Warehouse
	log       *MemoryLog
	now       time.Time // of the nodes' clocks
	made      int64     // records, each of its own id
	keys      []string  // that callers have used, and rows that they have sent
	// rows are all that was ever in the log, of every generation, and retracted the events
	// among them that no warehouse may show.
	rows      []pipeline.Row
	retracted map[string]bool
}

func newScenario(tb testing.TB, ctx context.Context, open func() WarehouseEngine) *scenario {
	s := &scenario{
		TB: tb, Rand: rand.New(rand.NewPCG(13, 24)), ctx: ctx, new: open, log: &MemoryLog{},
		now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), retracted: map[string]bool{},
	}
	s.engine = open()
	s.warehouse = s.engine.Warehouse
	return s
}

// open opens another warehouse, which is empty.
func (s *scenario) open() pipeline.Warehouse { return s.new().Warehouse }

// reopen ends the warehouse as a crash would.
func (s *scenario) reopen() { s.warehouse = s.engine.Reopen() }

// scenarioTenants are the tenants of every scenario.
var scenarioTenants = []string{"tnt_a", "tnt_b"}

// batch makes the records of rows, in any order, that one of three nodes is sent.
func (s *scenario) batch(rows []string) (list []sealer.Record) {
	node := fmt.Sprint("nod_", s.IntN(3))
	for _, i := range s.Perm(len(rows)) {
		s.made++
		s.now = s.now.Add(time.Millisecond)
		r := delivery(scenarioTenants[i%len(scenarioTenants)], at(s.made), s.now, rows[i])
		r.Node = node
		list = append(list, r.Record)
	}
	return list
}

// records makes n records as three nodes do, whose clocks differ by some milliseconds. Every
// third delivery has a key that was used before, a minute or days ago.
func (s *scenario) records(n int) (list []sealer.Record) {
	for range n {
		s.made++
		s.now = s.now.Add(time.Duration(s.IntN(40*60_000)) * time.Millisecond)
		tenant, when := scenarioTenants[s.IntN(len(scenarioTenants))], s.now.Add(time.Duration(s.IntN(3)-1)*time.Millisecond)
		id := at(s.made) // which it never has in the log
		var r pipeline.Row
		switch s.IntN(6) {
		case 0:
			r = audit(tenant, id, func(e *sealer.Event) { e.At = when })
		case 1:
			r = delivery(tenant, id, when, "")
		default:
			if len(s.keys) == 0 || s.IntN(3) > 0 {
				s.keys = append(s.keys, fmt.Sprint([]string{"key ", "key ", "row ", "play "}[s.IntN(4)], s.made))
			}
			// The window of the last keys reaches back two days or so.
			recent := s.keys[max(0, len(s.keys)-60):]
			r = delivery(tenant, id, when, recent[len(recent)-1-s.IntN(min(len(recent), 1+s.IntN(60)))])
		}
		r.Node = fmt.Sprint("nod_", s.IntN(3))
		list = append(list, r.Record)
	}
	return list
}

// deliver appends n new records, and now and then one once more.
func (s *scenario) deliver(n int) {
	for _, r := range s.records(n) {
		s.append(r)
		if s.IntN(5) == 0 {
			_, end, err := s.log.Bounds(s.ctx, 0)
			require.NoError(s, err)
			e, err := s.log.Read(s.ctx, sealer.Position{Generation: end.Generation, Offset: s.Int64N(end.Offset)})
			require.NoError(s, err)
			s.append(e.Record)
		}
	}
}

// append appends records to the log.
func (s *scenario) append(list ...sealer.Record) {
	for _, r := range list {
		at, err := s.log.Append(s.ctx, &r)
		require.NoError(s, err)
		row, err := pipeline.NewRow(sealer.Entry{Position: at, Record: r})
		require.NoError(s, err)
		s.rows = append(s.rows, row)
	}
}

// renew makes the log anew, in the next generation, of nine in ten of its records.
func (s *scenario) renew() {
	s.load(s.warehouse)
	_, end, err := s.log.Bounds(s.ctx, 0)
	require.NoError(s, err)
	old := s.log
	s.log = &MemoryLog{Generation: end.Generation + 1}
	require.NoError(s, old.Scan(s.ctx, sealer.Position{Generation: end.Generation}, end, func(e sealer.Entry) error {
		if s.IntN(10) > 0 {
			s.append(e.Record)
		}
		return nil
	}))
}

// load loads the log up to its end, by calls that may get lost.
func (s *scenario) load(w pipeline.Sink) {
	s.run(&lossyWarehouse{Sink: w, chance: rand.New(rand.NewPCG(uint64(s.made), 1))}, 1+int(s.made)%23)
}

// replay loads the whole log from its start.
func (s *scenario) replay() { s.run(fromStart{s.warehouse}, 17) }

func (s *scenario) run(w pipeline.Sink, batch int) {
	_, end, err := s.log.Bounds(s.ctx, 0)
	require.NoError(s, err)
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	l, err := pipeline.NewLoader(pipeline.LoaderConfig{
		Log: boundedLog{s.log, end, stop}, Warehouse: w, BatchSize: batch, MinBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond,
	})
	require.NoError(s, err)
	require.NoError(s, l.Run(ctx))
	require.NoError(s, s.ctx.Err())
}

// release quarantines a delivery of the log as sealing does, one with a key or an identity
// where there is one, and releases it.
func (s *scenario) release() {
	rows := slices.DeleteFunc(s.shown(), func(r pipeline.Row) bool {
		return r.Delivery == nil || r.Delivery.Idempotency == "" && r.Delivery.Identity == sealer.RowIdentity{}
	})
	if len(rows) == 0 {
		return
	}
	forged := rows[s.IntN(len(rows))]
	quarantine(s, s.ctx, s.warehouse, quarantinedRow(forged))
	s.made++
	free := release(forged.TenantID, at(s.made), forged.Position)
	s.retracted[forged.TenantID+forged.EventID] = true
	s.append(free.Record)
}

// shown are the rows that the warehouse is to have.
func (s *scenario) shown() []pipeline.Row {
	return slices.DeleteFunc(collapse(s.rows), func(r pipeline.Row) bool { return s.retracted[r.TenantID+r.EventID] })
}

// require compares the warehouse with the model.
func (s *scenario) require() {
	s.Helper()
	rows := s.shown()
	repeated := 0
	for _, tenant := range scenarioTenants {
		mine := slices.DeleteFunc(slices.Clone(rows), func(r pipeline.Row) bool { return r.TenantID != tenant })
		requireRows(s, mine, everything(s, s.ctx, s.warehouse, tenant))
		n, err := s.warehouse.CountEvents(s.ctx, tenant)
		require.NoError(s, err)
		require.EqualValues(s, len(mine), n)
		requireDuplicates(s, s.ctx, s.warehouse, rows, tenant)
		requireSums(s, s.ctx, s.warehouse, rows, tenant)
		repeated += int(meterTotals(rows, pipeline.MeterQuery{TenantID: tenant}).Duplicates)
	}
	require.Positive(s, repeated, "a scenario without duplicates proves nothing")
	_, end, err := s.log.Bounds(s.ctx, 0)
	require.NoError(s, err)
	next, _, err := s.warehouse.Resume(s.ctx, 0)
	require.NoError(s, err)
	require.Equal(s, end, next)
}

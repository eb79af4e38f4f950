package conform

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// ExactlyOnce runs the suite of what happens to a loader and its warehouse: whatever it is,
// in the end the warehouse holds the rows of the log once each, the duplicates that a model
// names, and its sums. Loaders are stopped and started in each scenario, and their calls fail
// before and after they reach the warehouse. open is as for Warehouse.
func ExactlyOnce(t *testing.T, open func(tb testing.TB) WarehouseEngine) {
	run(t, scenarios, func(tb testing.TB) func() WarehouseEngine {
		return func() WarehouseEngine { return open(tb) }
	})
}

// scenarios run with warehouses of their own each.
var scenarios = []testCase[func() WarehouseEngine]{
	{"retries across three nodes", inScenario(scenarioRetries)},
	{"zombie loaders", inScenario(scenarioZombies)},
	{"a partition that goes away and comes back", inScenario(scenarioRebalance)},
	{"the whole topic again, days later", inScenario(scenarioReplay)},
	{"a loader away for days", inScenario(scenarioAbsence)},
	{"a spool of last week", inScenario(scenarioSpool)},
	{"rows that are sent again for a month", inScenario(scenarioRows)},
	{"a new generation", inScenario(scenarioGeneration)},
	{"an older warehouse under a loader that runs", inScenario(scenarioOlderWarehouse)},
	{"a forged record among duplicates", inScenario(scenarioRelease)},
	{"all of it", inScenario(scenarioAll)},
}

func inScenario(do func(s *scenario)) func(testing.TB, context.Context, func() WarehouseEngine) {
	return func(tb testing.TB, ctx context.Context, open func() WarehouseEngine) {
		do(newScenario(tb, ctx, open))
	}
}

// scenarioRetries: callers retry at another node after a timeout, and nodes append once more after a
// timeout of the log.
func scenarioRetries(s *scenario) {
	for range 4 {
		s.deliver(60)
		s.load(s.warehouse)
	}
	s.require()
}

// scenarioZombies: a loader that was thought dead brings its batch when others are far ahead,
// and two load side by side.
func scenarioZombies(s *scenario) {
	s.deliver(40)
	dead := &recorder{Sink: s.warehouse}
	s.load(dead)
	late := dead.batches
	s.deliver(120)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { s.load(s.warehouse) })
	}
	both.Wait()
	s.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	for _, b := range late {
		require.NoError(s, s.warehouse.Load(s.ctx, b))
	}
	s.require()
}

// scenarioRebalance: the partition is another process's for a while, and what was decided there
// counts when it comes back.
func scenarioRebalance(s *scenario) {
	other := s.warehouse
	if s.engine.Other != nil {
		other = s.engine.Other()
	}
	for range 4 {
		s.deliver(40)
		s.load(s.warehouse)
		s.deliver(40)
		s.load(other)
	}
	s.require()
}

// scenarioReplay: the log is loaded from its start, as if nothing were known of it, when its
// keys are long out of any filter.
func scenarioReplay(s *scenario) {
	s.deliver(80)
	s.load(s.warehouse)
	s.now = s.now.Add(3 * day)
	s.deliver(40)
	s.load(s.warehouse)
	s.require()
	s.replay()
	s.require()
	s.deliver(40)
	s.load(s.warehouse)
	s.require()
}

// scenarioAbsence: nothing is loaded for five days, and then by a process that is new.
func scenarioAbsence(s *scenario) {
	s.deliver(40)
	s.load(s.warehouse)
	for range 5 {
		s.now = s.now.Add(20 * time.Hour)
		s.deliver(40)
	}
	s.reopen()
	s.load(s.warehouse)
	s.require()
}

// scenarioSpool: a node comes back with what it could not append a week ago. Retries at
// other nodes meanwhile have lower positions and later times.
func scenarioSpool(s *scenario) {
	s.deliver(40)
	spool := s.records(40)
	s.now = s.now.Add(7 * day)
	s.deliver(60)
	s.load(s.warehouse)
	s.append(spool...)
	s.deliver(20)
	s.load(s.warehouse)
	s.append(spool...) // the spool missed the acknowledgement
	s.load(s.warehouse)
	s.require()
}

// scenarioRows: a vendor's rows are sent again one, three and 29 days later, to other nodes, some
// of them for the first time. Of one the record turns out to be forged. A loader that was
// thought dead brings what is old, and then all comes again, in a new generation too.
func scenarioRows(s *scenario) {
	var rows []string
	for i := range 40 {
		rows = append(rows, fmt.Sprint([]string{"row ", "play "}[s.IntN(2)], i))
	}
	dead := &recorder{Sink: s.warehouse}
	s.append(s.batch(rows[:30])...)
	s.load(dead)
	for _, days := range []int{1, 2, 26} {
		s.now = s.now.AddDate(0, 0, days)
		s.deliver(20)
		s.load(s.warehouse)
		s.append(s.batch(rows)...)
		s.load(s.warehouse)
		s.require()
		s.reopen()
	}
	s.release()
	s.append(s.batch(rows[:20])...)
	s.load(s.warehouse)
	s.require()
	for _, b := range dead.batches {
		require.NoError(s, s.warehouse.Load(s.ctx, b))
	}
	s.replay()
	s.require()
	s.renew()
	s.append(s.batch(rows)...)
	s.load(s.warehouse)
	s.require()
}

// scenarioGeneration: the topic was recreated from a copy. All its records stand at other
// offsets, and some are missing.
func scenarioGeneration(s *scenario) {
	s.deliver(80)
	s.load(s.warehouse)
	s.renew()
	s.deliver(40)
	s.load(s.warehouse)
	s.require()
	s.reopen()
	s.load(s.warehouse)
	s.replay()
	s.require()
}

// scenarioOlderWarehouse: the warehouse is replaced by what it was, or by an empty one.
func scenarioOlderWarehouse(s *scenario) {
	s.deliver(60)
	older, empty := s.open(), s.open()
	s.load(older)
	s.deliver(60)
	s.load(s.warehouse)
	for _, w := range []pipeline.Warehouse{older, empty} {
		s.deliver(90)
		s.load(&replaced{Sink: s.warehouse, by: w, after: 2})
		s.warehouse = w
		s.require()
	}
}

// scenarioRelease: a record that others repeat turns out to be forged, and is released, while
// more of its key come.
func scenarioRelease(s *scenario) {
	for range 3 {
		s.deliver(60)
		s.load(s.warehouse)
		s.release()
		s.deliver(10)
		s.load(s.warehouse)
		s.require()
	}
	s.replay()
	s.require()
}

// scenarioAll draws what happens.
func scenarioAll(s *scenario) {
	for range 25 {
		switch s.IntN(8) {
		case 0:
			s.now = s.now.Add(time.Duration(s.IntN(40)) * time.Hour)
		case 1:
			s.renew()
		case 2:
			s.reopen()
		case 3:
			s.load(s.warehouse)
			s.release()
		case 4:
			s.load(s.warehouse)
			s.replay()
		default:
			s.deliver(s.IntN(30))
			s.load(s.warehouse)
		}
	}
	s.load(s.warehouse)
	s.require()
}

var errLost = errors.New("call was lost")

// lossyWarehouse fails one call in ten before it is made, and one in ten after it.
type lossyWarehouse struct {
	pipeline.Sink
	chance *rand.Rand
}

func (l *lossyWarehouse) Load(ctx context.Context, b pipeline.Batch) error {
	n := l.chance.IntN(10)
	if n == 0 {
		return errLost
	}
	if err := l.Sink.Load(ctx, b); err != nil {
		return err
	}
	if n == 1 {
		return errLost
	}
	return nil
}

// recorder keeps the batches of a loader.
type recorder struct {
	pipeline.Sink
	batches []pipeline.Batch
}

func (r *recorder) Load(ctx context.Context, b pipeline.Batch) error {
	r.batches = append(r.batches, b)
	return r.Sink.Load(ctx, b)
}

// replaced is a warehouse that is replaced by another one after some loads. If that is empty
// the call fails, as with a lost connection: it would accept any batch.
type replaced struct {
	pipeline.Sink
	by    pipeline.Sink
	after int
}

func (r *replaced) Load(ctx context.Context, b pipeline.Batch) error {
	if r.after--; r.after == 0 {
		r.Sink = r.by
		if _, ok, err := r.by.Resume(ctx, b.Partition); err != nil || !ok {
			return errors.Join(errLost, err)
		}
	}
	return r.Sink.Load(ctx, b)
}

// fromStart is a warehouse without a position, so that everything is loaded again.
type fromStart struct{ pipeline.Sink }

func (fromStart) Resume(context.Context, int32) (sealer.Position, bool, error) {
	return sealer.Position{}, false, nil
}

// boundedLog is a log whose end ends the loader.
type boundedLog struct {
	pipeline.Reader
	end  sealer.Position
	stop func()
}

func (u boundedLog) Wait(ctx context.Context, at sealer.Position) error {
	if at.Offset >= u.end.Offset {
		u.stop()
	}
	return u.Reader.Wait(ctx, at)
}

package conform

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

func TestMemoryLogConforms(t *testing.T) {
	Log(t, func(testing.TB) LogEngine { return memoryLog() })
}

func TestMemoryWarehouseConforms(t *testing.T) {
	Warehouse(t, func(testing.TB) WarehouseEngine { return memoryWarehouse() })
}

func TestMemoryWarehouseLoadsExactlyOnce(t *testing.T) {
	ExactlyOnce(t, func(testing.TB) WarehouseEngine { return memoryWarehouse() })
}

func memoryLog() LogEngine {
	l := &MemoryLog{}
	return LogEngine{Log: l, Reopen: func() pipeline.Log { return l }, Retire: l.Retire}
}

func memoryWarehouse() WarehouseEngine {
	w := &MemoryWarehouse{}
	return WarehouseEngine{Warehouse: w, Reopen: func() pipeline.Warehouse { return w }}
}

// trial stands in for a test that is meant to fail.
type trial struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (t *trial) Errorf(string, ...any) { t.Fail() }
func (t *trial) Error(...any)          { t.Fail() }
func (t *trial) Fatalf(string, ...any) { t.FailNow() }
func (t *trial) Fatal(...any)          { t.FailNow() }
func (t *trial) Logf(string, ...any)   {}
func (t *trial) Log(...any)            {}
func (t *trial) Fail()                 { t.mu.Lock(); t.failed = true; t.mu.Unlock() }
func (t *trial) Failed() bool          { t.mu.Lock(); defer t.mu.Unlock(); return t.failed }

// breaks reports whether the engine breaks the promise.
func breaks[E any](tb testing.TB, c testCase[E], e E) bool {
	t := &trial{TB: tb}
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() { // FailNow ends its goroutine
		defer close(done)
		c.check(t, ctx, e)
	}()
	<-done
	return t.Failed()
}

func (t *trial) FailNow() {
	t.Fail()
	runtime.Goexit()
}

// requireCaught asks that the case of this name, at least, fails the engine. A case
// that draws its rows at random may need several draws for a narrow fault.
func requireCaught[E any](t *testing.T, cases []testCase[E], name string, open func() E) {
	i := slices.IndexFunc(cases, func(c testCase[E]) bool { return c.name == name })
	require.GreaterOrEqual(t, i, 0, "no case %q", name)
	for range 30 {
		if breaks(t, cases[i], open()) {
			return
		}
	}
	require.Fail(t, "a broken engine passes", "case %q", name)
}

// wrongLog is a MemoryLog with some calls replaced.
type wrongLog struct {
	*MemoryLog
	append func(context.Context, *sealer.Record) (sealer.Position, error)
	many   func(context.Context, []*sealer.Record) ([]sealer.Position, []error)
	read   func(context.Context, sealer.Position) (sealer.Entry, error)
	scan   func(context.Context, sealer.Position, sealer.Position, func(sealer.Entry) error) error
	wait   func(context.Context, sealer.Position) error
	bounds func(context.Context, int32) (sealer.Position, sealer.Position, error)

	partitions  func(context.Context) (int, error)
	partitionOf func(context.Context, string) (int32, error)
}

func (l *wrongLog) Partitions(ctx context.Context) (int, error) {
	if l.partitions != nil {
		return l.partitions(ctx)
	}
	return l.MemoryLog.Partitions(ctx)
}

func (l *wrongLog) PartitionOf(ctx context.Context, tenantID string) (int32, error) {
	if l.partitionOf != nil {
		return l.partitionOf(ctx, tenantID)
	}
	return l.MemoryLog.PartitionOf(ctx, tenantID)
}

func (l *wrongLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if l.append != nil {
		return l.append(ctx, r)
	}
	return l.MemoryLog.Append(ctx, r)
}

func (l *wrongLog) AppendAll(ctx context.Context, rs []*sealer.Record) ([]sealer.Position, []error) {
	if l.many != nil {
		return l.many(ctx, rs)
	}
	return l.MemoryLog.AppendAll(ctx, rs)
}

func (l *wrongLog) Read(ctx context.Context, at sealer.Position) (sealer.Entry, error) {
	if l.read != nil {
		return l.read(ctx, at)
	}
	return l.MemoryLog.Read(ctx, at)
}

func (l *wrongLog) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	if l.scan != nil {
		return l.scan(ctx, from, to, fn)
	}
	return l.MemoryLog.Scan(ctx, from, to, fn)
}

func (l *wrongLog) Wait(ctx context.Context, at sealer.Position) error {
	if l.wait != nil {
		return l.wait(ctx, at)
	}
	return l.MemoryLog.Wait(ctx, at)
}

func (l *wrongLog) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	if l.bounds != nil {
		return l.bounds(ctx, partition)
	}
	return l.MemoryLog.Bounds(ctx, partition)
}

func TestLogSuiteCatches(t *testing.T) {
	for _, fault := range []struct {
		name   string
		caught string
		spoil  func(l *wrongLog, e *LogEngine)
	}{
		{"an end behind the end", "an empty log ends where it begins", func(l *wrongLog, _ *LogEngine) {
			l.bounds = func(ctx context.Context, p int32) (sealer.Position, sealer.Position, error) {
				first, end, err := l.MemoryLog.Bounds(ctx, p)
				return first, end.Next(), err
			}
		}},
		{"a partition too many told", "a tenant's records stand in its partition", func(l *wrongLog, _ *LogEngine) {
			l.partitions = func(context.Context) (int, error) { return 2, nil }
		}},
		{"a partition too few told", "a tenant's records stand in its partition", func(l *wrongLog, _ *LogEngine) {
			l.partitions = func(context.Context) (int, error) { return 0, nil }
		}},
		{"a tenant looked for elsewhere", "a tenant's records stand in its partition", func(l *wrongLog, _ *LogEngine) {
			l.partitionOf = func(_ context.Context, tenantID string) (int32, error) {
				return int32(len(tenantID) - len("tnt_1")), nil
			}
		}},
		{"a tenant that moves at a crash", "a tenant's records stand in its partition", func(l *wrongLog, e *LogEngine) {
			e.Reopen = func() pipeline.Log {
				l.partitionOf = func(context.Context, string) (int32, error) { return 1, nil }
				return l
			}
		}},
		{"the private part lost", "records come back as they were appended", func(l *wrongLog, _ *LogEngine) {
			l.append = func(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
				own := *r
				own.Private = nil
				return l.MemoryLog.Append(ctx, &own)
			}
		}},
		{"large records refused", "records come back as they were appended", func(l *wrongLog, _ *LogEngine) {
			l.append = func(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
				if len(r.Event) > 1<<19 {
					return sealer.Position{}, pipeline.ErrFull
				}
				return l.MemoryLog.Append(ctx, r)
			}
		}},
		{"every tenth position left out", "positions are contiguous", func(l *wrongLog, _ *LogEngine) {
			l.append = func(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
				if r.Seq%10 == 0 {
					l.MemoryLog.Append(ctx, r)
				}
				return l.MemoryLog.Append(ctx, r)
			}
		}},
		{"a position given twice", "concurrent appends get positions of their own", func(l *wrongLog, _ *LogEngine) {
			l.append = func(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
				at, err := l.MemoryLog.Append(ctx, r)
				at.Offset &^= 1
				return at, err
			}
		}},
		{"acknowledged before it can be read", "concurrent appends get positions of their own", func(l *wrongLog, _ *LogEngine) {
			l.read = func(ctx context.Context, at sealer.Position) (sealer.Entry, error) {
				_, end, _ := l.Bounds(ctx, 0)
				if at.Next() == end {
					return sealer.Entry{}, pipeline.ErrBeyondEnd
				}
				return l.MemoryLog.Read(ctx, at)
			}
		}},
		{"many in another order", "many at once stand in their order", func(l *wrongLog, _ *LogEngine) {
			l.many = func(ctx context.Context, rs []*sealer.Record) ([]sealer.Position, []error) {
				back := slices.Clone(rs)
				slices.Reverse(back)
				at, errs := l.MemoryLog.AppendAll(ctx, back)
				slices.Reverse(at)
				return at, errs
			}
		}},
		{"the last of many acknowledged and not written", "many at once stand in their order", func(l *wrongLog, _ *LogEngine) {
			l.many = func(ctx context.Context, rs []*sealer.Record) ([]sealer.Position, []error) {
				at, errs := l.MemoryLog.AppendAll(ctx, rs[:max(0, len(rs)-1)])
				return append(at, l.end())[:len(rs)], append(errs, nil)[:len(rs)]
			}
		}},
		{"one position for many", "many at once stand in their order", func(l *wrongLog, _ *LogEngine) {
			l.many = func(ctx context.Context, rs []*sealer.Record) ([]sealer.Position, []error) {
				at, errs := l.MemoryLog.AppendAll(ctx, rs)
				for i := range at {
					at[i] = at[0]
				}
				return at, errs
			}
		}},
		{"a position of somebody else's", "many at once share the log with others", func(l *wrongLog, _ *LogEngine) {
			l.many = func(ctx context.Context, rs []*sealer.Record) ([]sealer.Position, []error) {
				at, errs := l.MemoryLog.AppendAll(ctx, rs)
				at[0].Offset = max(0, at[0].Offset-1)
				return at, errs
			}
		}},
		{"all refused for one", "many at once are each for itself", func(l *wrongLog, _ *LogEngine) {
			l.many = func(ctx context.Context, rs []*sealer.Record) ([]sealer.Position, []error) {
				if slices.ContainsFunc(rs, func(r *sealer.Record) bool { return len(r.Private) > 1<<20 }) {
					return pipeline.RefuseAll(rs, pipeline.ErrFull)
				}
				return l.MemoryLog.AppendAll(ctx, rs)
			}
		}},
		{"the last of many lost in a crash", "many at once survive a crash", func(l *wrongLog, e *LogEngine) {
			e.Reopen = func() pipeline.Log { l.entries = l.entries[:len(l.entries)-1]; return l }
		}},
		{"the caller's buffers kept, of many", "many at once stand in their order", func(l *wrongLog, _ *LogEngine) {
			l.many = func(ctx context.Context, rs []*sealer.Record) ([]sealer.Position, []error) {
				at, errs := pipeline.RefuseAll(rs, nil)
				for i, r := range rs {
					at[i], errs[i] = l.MemoryLog.append(ctx, *r)
				}
				return at, errs
			}
		}},
		{"the caller's buffers kept", "the caller keeps the record", func(l *wrongLog, _ *LogEngine) {
			l.append = func(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
				return l.MemoryLog.append(ctx, *r)
			}
		}},
		{"its own buffers given away", "the reader owns what it read", func(l *wrongLog, _ *LogEngine) {
			l.read = func(_ context.Context, at sealer.Position) (sealer.Entry, error) { return l.entry(at) }
		}},
		{"the last record of a range left out", "a scan is exactly its range", func(l *wrongLog, _ *LogEngine) {
			l.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				to.Offset--
				return l.MemoryLog.Scan(ctx, from, to, fn)
			}
		}},
		{"a range without an end", "a scan is exactly its range", func(l *wrongLog, _ *LogEngine) {
			l.scan = func(ctx context.Context, from, _ sealer.Position, fn func(sealer.Entry) error) error {
				_, end, _ := l.Bounds(ctx, 0)
				return l.MemoryLog.Scan(ctx, from, end, fn)
			}
		}},
		{"a from behind the end passed over", "a scan is exactly its range", func(l *wrongLog, _ *LogEngine) {
			l.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				if err := l.MemoryLog.Scan(ctx, from, to, fn); !errors.Is(err, pipeline.ErrBeyondEnd) {
					return err
				}
				return nil
			}
		}},
		{"the caller's error passed over", "a scan stops with the caller", func(l *wrongLog, _ *LogEngine) {
			l.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				return l.MemoryLog.Scan(ctx, from, to, func(e sealer.Entry) error { fn(e); return nil })
			}
		}},
		{"the caller's context ignored", "a scan stops with the caller", func(l *wrongLog, _ *LogEngine) {
			l.scan = func(_ context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				return l.MemoryLog.Scan(context.Background(), from, to, fn)
			}
		}},
		{"a record in a hundred skipped", "a scan misses nothing beside appends", func(l *wrongLog, _ *LogEngine) {
			l.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				return l.MemoryLog.Scan(ctx, from, to, func(e sealer.Entry) error {
					if e.Offset%100 == 57 {
						return nil
					}
					return fn(e)
				})
			}
		}},
		{"generations ignored", "other generations are gone or to come", func(l *wrongLog, _ *LogEngine) {
			l.read = func(ctx context.Context, at sealer.Position) (sealer.Entry, error) {
				at.Generation = 1
				return l.MemoryLog.Read(ctx, at)
			}
		}},
		{"waiters let go at once", "waiting ends with the record or the caller", func(l *wrongLog, _ *LogEngine) {
			l.wait = func(context.Context, sealer.Position) error { return nil }
		}},
		{"failed for good after a cancelled append", "a cancelled append leaves the log sound", func(l *wrongLog, _ *LogEngine) {
			failed := false
			l.append = func(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
				if failed = failed || ctx.Err() != nil; failed {
					return sealer.Position{}, pipeline.ErrFailed
				}
				return l.MemoryLog.Append(ctx, r)
			}
		}},
		{"half a record of a cancelled append", "a cancelled append leaves the log sound", func(l *wrongLog, _ *LogEngine) {
			l.append = func(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
				if err := ctx.Err(); err != nil {
					l.MemoryLog.Append(context.Background(), &sealer.Record{TenantID: r.TenantID, EventID: r.EventID})
					return sealer.Position{}, err
				}
				return l.MemoryLog.Append(ctx, r)
			}
		}},
		{"the last record lost in a crash", "what was appended survives a crash", func(l *wrongLog, e *LogEngine) {
			e.Reopen = func() pipeline.Log { l.entries = l.entries[:len(l.entries)-1]; return l }
		}},
		{"a position left out after a crash", "what was appended survives a crash", func(l *wrongLog, e *LogEngine) {
			e.Reopen = func() pipeline.Log { l.MemoryLog.Append(context.Background(), &sealer.Record{}); return l }
		}},
		{"the retired called never written", "what was retired is gone", func(l *wrongLog, _ *LogEngine) {
			l.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				err := l.MemoryLog.Scan(ctx, from, to, fn)
				if errors.Is(err, pipeline.ErrGone) {
					return pipeline.ErrBeyondEnd
				}
				return err
			}
		}},
		{"more retired than was asked", "what was retired is gone", func(l *wrongLog, e *LogEngine) {
			e.Retire = func(before int64) { l.Retire(before + 1) }
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			requireCaught(t, logCases, fault.caught, func() LogEngine {
				e := memoryLog()
				l := &wrongLog{MemoryLog: e.Log.(*MemoryLog)}
				e.Log, e.Reopen = l, func() pipeline.Log { return l }
				fault.spoil(l, &e)
				return e
			})
		})
	}
}

// wrongWarehouse is a MemoryWarehouse with some calls replaced.
type wrongWarehouse struct {
	*MemoryWarehouse
	load       func(context.Context, pipeline.Batch) error
	resume     func(context.Context, int32) (sealer.Position, bool, error)
	events     func(context.Context, pipeline.EventQuery) ([]pipeline.Row, error)
	metering   func(context.Context, pipeline.MeterQuery) ([]pipeline.MeterRow, error)
	totals     func(context.Context, pipeline.MeterQuery) (pipeline.MeterTotals, error)
	refusals   func(context.Context, pipeline.RefusalQuery) ([]pipeline.RefusalRow, error)
	count      func(context.Context, string) (int64, error)
	duplicates func(context.Context, string, sealer.Position, sealer.Position) ([]pipeline.Duplicate, error)
	setAsides  func(context.Context, string) ([]pipeline.SetAside, error)
	held       func(context.Context, pipeline.HeldQuery) ([]pipeline.SetAside, int64, error)
}

func (w *wrongWarehouse) Load(ctx context.Context, b pipeline.Batch) error {
	if w.load != nil {
		return w.load(ctx, b)
	}
	return w.MemoryWarehouse.Load(ctx, b)
}

func (w *wrongWarehouse) Resume(ctx context.Context, p int32) (sealer.Position, bool, error) {
	if w.resume != nil {
		return w.resume(ctx, p)
	}
	return w.MemoryWarehouse.Resume(ctx, p)
}

func (w *wrongWarehouse) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	if w.events != nil {
		return w.events(ctx, q)
	}
	return w.MemoryWarehouse.Events(ctx, q)
}

func (w *wrongWarehouse) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	if w.metering != nil {
		return w.metering(ctx, q)
	}
	return w.MemoryWarehouse.Metering(ctx, q)
}

func (w *wrongWarehouse) MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error) {
	if w.totals != nil {
		return w.totals(ctx, q)
	}
	return w.MemoryWarehouse.MeterTotals(ctx, q)
}

func (w *wrongWarehouse) Refusals(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error) {
	if w.refusals != nil {
		return w.refusals(ctx, q)
	}
	return w.MemoryWarehouse.Refusals(ctx, q)
}

func (w *wrongWarehouse) CountEvents(ctx context.Context, tenant string) (int64, error) {
	if w.count != nil {
		return w.count(ctx, tenant)
	}
	return w.MemoryWarehouse.CountEvents(ctx, tenant)
}

func (w *wrongWarehouse) Duplicates(ctx context.Context, tenant string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
	if w.duplicates != nil {
		return w.duplicates(ctx, tenant, after, upTo)
	}
	return w.MemoryWarehouse.Duplicates(ctx, tenant, after, upTo)
}

func (w *wrongWarehouse) SetAsides(ctx context.Context, tenant string) ([]pipeline.SetAside, error) {
	if w.setAsides != nil {
		return w.setAsides(ctx, tenant)
	}
	return w.MemoryWarehouse.SetAsides(ctx, tenant)
}

func (w *wrongWarehouse) Held(ctx context.Context, q pipeline.HeldQuery) ([]pipeline.SetAside, int64, error) {
	if w.held != nil {
		return w.held(ctx, q)
	}
	return w.MemoryWarehouse.Held(ctx, q)
}

// alterRows changes each row before it is loaded.
func (w *wrongWarehouse) alterRows(alter func(*pipeline.Row)) {
	w.load = func(ctx context.Context, b pipeline.Batch) error {
		b.Rows = slices.Clone(b.Rows)
		for i := range b.Rows {
			if d := b.Rows[i].Delivery; d != nil {
				own := *d
				b.Rows[i].Delivery = &own
			}
			alter(&b.Rows[i])
		}
		return w.MemoryWarehouse.Load(ctx, b)
	}
}

// alterDeliveries has duplicates decided as if the deliveries were others.
func (w *wrongWarehouse) alterDeliveries(alter func(*pipeline.Delivery)) {
	w.duplicates = func(_ context.Context, tenant string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
		rows := slices.Clone(w.all())
		for i := range rows {
			if d := rows[i].Delivery; d != nil {
				own := *d
				alter(&own)
				rows[i].Delivery = &own
			}
		}
		return duplicates(rows, tenant, after, upTo), nil
	}
}

// decisions are what a warehouse has decided of its rows, by tenant and event id.
type decisions map[[2]string]pipeline.Duplicate

// decide decides rows among others.
func (d decisions) decide(rows, among []pipeline.Row) {
	among = collapse(among)
	for _, r := range rows {
		k := [2]string{r.TenantID, r.EventID}
		if p, ok := first(among, r, day); ok {
			d[k] = repeats(r, p)
		} else {
			delete(d, k)
		}
	}
}

// decides keeps decisions, as engines do, made after each Load from the rows before it.
func (w *wrongWarehouse) decides(how func(d decisions, b pipeline.Batch, before []pipeline.Row, err error)) {
	var mu sync.Mutex
	d := decisions{}
	w.load = func(ctx context.Context, b pipeline.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		before := w.all()
		err := w.MemoryWarehouse.Load(ctx, b)
		how(d, b, before, err)
		return err
	}
	w.duplicates = func(_ context.Context, tenant string, after, upTo sealer.Position) (list []pipeline.Duplicate, err error) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range w.all() {
			if one, ok := d[[2]string{r.TenantID, r.EventID}]; ok && r.TenantID == tenant && r.Compare(after) > 0 && r.Compare(upTo) <= 0 {
				list = append(list, one)
			}
		}
		return list, nil
	}
}

// meterWithin measures with another window than a day.
func (w *wrongWarehouse) meterWithin(window time.Duration) {
	w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
		return meter(w.all(), q, window), nil
	}
}

func TestWarehouseSuiteCatches(t *testing.T) {
	// A failing property must not leave files behind, and need not be simplified.
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		before := flag.Lookup(name).Value.String()
		require.NoError(t, flag.Set(name, value))
		t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
	}
	const model = "metering and duplicates equal the model"
	const ahead = "a batch that leaves a gap is refused"
	const retraction = "where a row is retracted its key is decided anew"
	const release = "a released record holds nobody and is no row, whatever is loaded again"
	const buckets = "sums by bucket, pages and totals equal the model"
	for _, fault := range []struct {
		name   string
		caught string
		spoil  func(w *wrongWarehouse, e *WarehouseEngine)
	}{
		{"something there from the start", "an empty warehouse knows nothing", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.resume = func(context.Context, int32) (sealer.Position, bool, error) { return sealer.Position{}, true, nil }
		}},
		{"event text trimmed", "rows come back as they were loaded", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) { r.Event = bytes.TrimRight(r.Event, "}") })
		}},
		{"numbers signed", "rows come back as they were loaded", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) { r.Epoch &= 1<<63 - 1 })
		}},
		{"times in seconds", "rows come back as they were loaded", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) { r.At = r.At.Truncate(time.Second) })
		}},
		{"copies counted", "loading again changes nothing", func(w *wrongWarehouse, _ *WarehouseEngine) {
			var mu sync.Mutex
			var n int64
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				mu.Lock()
				n += int64(len(b.Rows))
				mu.Unlock()
				return w.MemoryWarehouse.Load(ctx, b)
			}
			w.count = func(context.Context, string) (int64, error) { return n, nil }
		}},
		{"the last copy wins", "the lowest position wins", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				w.rows = slices.DeleteFunc(slices.Clone(w.rows), func(have pipeline.Row) bool {
					return slices.ContainsFunc(b.Rows, func(r pipeline.Row) bool { return r.EventID == have.EventID })
				})
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"the lowest offset wins over the lower generation", "the lowest position wins", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) { r.Generation = 2 })
		}},
		{"the newest load names the position", "the position never goes back", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				delete(w.MemoryWarehouse.resume, b.Partition)
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"the newest chain beside the highest position", "what the log says of a position is kept with it", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				err := w.MemoryWarehouse.Load(ctx, b)
				w.chains[b.Partition] = b.Chain
				return err
			}
		}},
		{"one position for all partitions", "the position never goes back", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.resume = func(ctx context.Context, _ int32) (sealer.Position, bool, error) {
				return w.MemoryWarehouse.Resume(ctx, 3)
			}
		}},
		{"the position ahead of the rows in a crash", "rows and position survive a crash together", func(w *wrongWarehouse, e *WarehouseEngine) {
			e.Reopen = func() pipeline.Warehouse { w.rows = w.rows[:len(w.rows)-1]; return w }
		}},
		{"the position lost in a crash", "rows and position survive a crash together", func(w *wrongWarehouse, e *WarehouseEngine) {
			e.Reopen = func() pipeline.Warehouse { clear(w.MemoryWarehouse.resume); return w }
		}},
		{"the set-aside lost in a crash", "rows and position survive a crash together", func(w *wrongWarehouse, e *WarehouseEngine) {
			e.Reopen = func() pipeline.Warehouse { w.setAside = nil; return w }
		}},
		{"a cancelled load keeps its position and half of its rows", "a cancelled load is whole or absent", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				if err := ctx.Err(); err != nil {
					b.Rows = b.Rows[:len(b.Rows)/2]
					return errors.Join(err, w.MemoryWarehouse.Load(context.Background(), b))
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a gap let pass", ahead, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				b.From = sealer.Position{Partition: b.Partition}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a gap refused, its set-aside record kept", ahead, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				err := w.MemoryWarehouse.Load(ctx, b)
				if errors.Is(err, pipeline.ErrAhead) {
					w.setAside = append(w.setAside, b.SetAside...)
				}
				return err
			}
		}},
		{"a gap refused, its keys kept", ahead, func(w *wrongWarehouse, _ *WarehouseEngine) {
			var known []pipeline.Row
			w.decides(func(d decisions, b pipeline.Batch, _ []pipeline.Row, err error) {
				if known = append(known, b.Rows...); err == nil {
					d.decide(b.Rows, known)
				}
			})
		}},
		{"a new generation refused", ahead, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				if have, ok := w.MemoryWarehouse.resume[b.Partition]; ok && b.From.Compare(have) > 0 {
					return pipeline.ErrAhead
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a batch over the position refused", ahead, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				if have, ok := w.MemoryWarehouse.resume[b.Partition]; ok && b.From.Compare(have) < 0 && b.Next.Compare(have) > 0 {
					return pipeline.ErrAhead
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a replay decides by its own batch alone", "loading again changes nothing", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.decides(func(d decisions, b pipeline.Batch, _ []pipeline.Row, _ error) { d.decide(b.Rows, b.Rows) })
		}},
		{"the rows of the batch are not looked at", model, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) { d.decide(b.Rows, before) })
		}},
		{"a copy counts as another event", model, func(w *wrongWarehouse, _ *WarehouseEngine) {
			var log []pipeline.Row
			w.duplicates = func(_ context.Context, tenant string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
				return duplicates(log, tenant, after, upTo), nil
			}
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				log = append(log, b.Rows...)
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a duplicate without its positions", model, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.duplicates = func(_ context.Context, tenant string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
				list := duplicates(w.all(), tenant, after, upTo)
				for i := range list {
					list[i].First = sealer.Position{}
				}
				return list, nil
			}
		}},
		{"a batch decided month by month", retraction, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.duplicates = func(_ context.Context, tenant string, after, upTo sealer.Position) (list []pipeline.Duplicate, err error) {
				for _, r := range duplicates(w.all(), tenant, after, upTo) {
					first, _ := w.Event(context.Background(), tenant, r.FirstEventID)
					if again, _ := w.Event(context.Background(), tenant, r.EventID); again.At.Month() == first.At.Month() {
						list = append(list, r)
					}
				}
				return list, nil
			}
		}},
		{"nothing decided anew at a retraction", retraction, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) {
				d.decide(b.Rows, slices.Concat(before, b.Rows))
			})
		}},
		{"a retraction decides its month anew", retraction, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) {
				d.decide(b.Rows, slices.Concat(before, b.Rows))
				month := slices.DeleteFunc(slices.Clone(w.all()), func(r pipeline.Row) bool { return r.At.Month() != time.November })
				d.decide(month, w.all())
			})
		}},
		{"no duplicates known", model, func(w *wrongWarehouse, _ *WarehouseEngine) { w.meterWithin(-1000 * day) }},
		{"a day without its last millisecond", "a duplicate is at most a day younger", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.meterWithin(day - time.Millisecond)
		}},
		{"a day and a millisecond", "a duplicate is at most a day younger", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.meterWithin(day + time.Millisecond)
		}},
		{"a window of a millisecond too much", "a duplicate is at most a day younger", func(w *wrongWarehouse, _ *WarehouseEngine) { w.meterWithin(day + time.Millisecond) }},
		{"a row that is sent again after a day counted", "a row that is sent again is a duplicate, whenever that is", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterDeliveries(func(d *pipeline.Delivery) {
				d.Idempotency, d.Identity = d.Idempotency+d.Identity.Hash+d.Identity.Day, sealer.RowIdentity{}
			})
		}},
		{"the day of rows not compared", model, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterDeliveries(func(d *pipeline.Delivery) { d.Identity.Day = "" })
		}},
		{"an old key compared with rows", model, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterDeliveries(func(d *pipeline.Delivery) {
				d.Idempotency, d.Identity.Hash = "", d.Identity.Hash+d.Idempotency
			})
		}},
		{"the last key stands for the first", model, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.duplicates = func(_ context.Context, tenant string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
				list := duplicates(w.all(), tenant, after, upTo)
				for i := range list {
					if i > 0 {
						list[i].FirstEventID = list[i-1].EventID
					}
				}
				return list, nil
			}
		}},
		{"duplicates of the slice alone", "a duplicate's first may be out of view", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.duplicates = func(_ context.Context, tenant string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
				inside := slices.DeleteFunc(slices.Clone(w.all()), func(r pipeline.Row) bool { return r.Compare(after) <= 0 })
				return duplicates(inside, tenant, after, upTo), nil
			}
		}},
		{"duplicates of the hour alone", "a duplicate's first may be out of view", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
				inside := slices.DeleteFunc(slices.Clone(w.all()), func(r pipeline.Row) bool {
					return r.Delivery != nil && r.Delivery.RenderedAt.Before(q.From)
				})
				return meter(inside, q, day), nil
			}
		}},
		{"a delivery before the first bucket in the first", buckets, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
				if len(q.Buckets) > 0 {
					q.Buckets = slices.Clone(q.Buckets)
					q.Buckets[0] = q.Buckets[0].Add(-day)
				}
				return meter(w.all(), q, day), nil
			}
		}},
		{"a page of another order", buckets, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
				lines := meter(w.all(), q, day)
				slices.Reverse(lines)
				return lines, nil
			}
		}},
		{"totals of the page", buckets, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.totals = func(ctx context.Context, q pipeline.MeterQuery) (t pipeline.MeterTotals, err error) {
				t = meterTotals(w.all(), q, day)
				t.Receipts = 0
				for _, line := range meter(w.all(), q, day) {
					t.Receipts += line.Receipts
				}
				return t, nil
			}
		}},
		{"a bucket that ends behind its end", "the edges of buckets are exact", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
				cut := slices.Clone(q.Buckets)
				for i := range cut {
					cut[i] = cut[i].Add(time.Nanosecond)
				}
				q.Buckets = cut
				lines := meter(w.all(), q, day)
				for i := range lines {
					lines[i].Bucket = lines[i].Bucket.Add(-time.Nanosecond)
				}
				return lines, nil
			}
		}},
		{"refusals of copies counted", "refusals equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			var log []pipeline.Row
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				log = append(log, b.Rows...)
				return w.MemoryWarehouse.Load(ctx, b)
			}
			w.refusals = func(_ context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error) {
				return refusals(log, q), nil
			}
		}},
		{"refusals without a right left out", "refusals equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.refusals = func(_ context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error) {
				return slices.DeleteFunc(refusals(w.all(), q), func(r pipeline.RefusalRow) bool { return r.RightID == "" }), nil
			}
		}},
		{"actors ignored", "filters equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				q.ActorID = ""
				return w.MemoryWarehouse.Events(ctx, q)
			}
		}},
		{"rights ignored", "filters equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				q.RightID = ""
				return w.MemoryWarehouse.Events(ctx, q)
			}
		}},
		{"anchors compared without case", "filters equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) {
				if r.Delivery != nil && r.Delivery.SpatialAnchorID == "Screen 1" {
					r.Delivery.SpatialAnchorID = "screen 1"
				}
			})
		}},
		{"correlation ids forgotten", "filters equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) {
				if r.Delivery != nil {
					r.Delivery.CorrelationID = ""
				}
			})
		}},
		{"what is no delivery listed beside those of a time", "filters equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) {
				if r.Delivery == nil {
					r.Delivery = &pipeline.Delivery{RenderedAt: r.At}
				}
			})
		}},
		{"the time of the event for that of rendering", "filters equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				if q.From.IsZero() && q.To.IsZero() {
					q.From, q.To = q.RenderedFrom, q.RenderedTo
				}
				q.RenderedFrom, q.RenderedTo = time.Time{}, time.Time{}
				return w.MemoryWarehouse.Events(ctx, q)
			}
		}},
		{"times bounded after the page is cut", "filters equal the model", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				all := q
				all.From, all.To = time.Time{}, time.Time{}
				rows, err := w.MemoryWarehouse.Events(ctx, all)
				return slices.DeleteFunc(rows, func(r pipeline.Row) bool { return !within(r.At, q.From, q.To) }), err
			}
		}},
		{"from taken in whole milliseconds", "bounds of time are exact", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
				q.From = q.From.Truncate(time.Millisecond)
				return meter(w.all(), q, day), nil
			}
		}},
		{"hours of issuing", "bounds of time are exact", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.alterRows(func(r *pipeline.Row) { r.Delivery.RenderedAt = r.Delivery.IssuedAt })
		}},
		{"as of counts the row there", "as of a position nothing behind it counts", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
				after := q.AsOf.Next()
				q.AsOf = &after
				return meter(w.all(), q, day), nil
			}
		}},
		{"all tenants listed", "tenants see nothing of each other", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(_ context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				return w.all(), nil
			}
		}},
		{"all tenants' keys compared", "tenants see nothing of each other", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.metering = func(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
				rows := slices.Clone(w.all())
				for i := range rows {
					rows[i].TenantID = q.TenantID
				}
				return meter(rows, q, day), nil
			}
		}},
		{"a cursor that repeats its row", "cursors neither skip nor repeat", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				if q.Before != nil && q.Newest {
					at := q.Before.Next()
					q.Before = &at
				}
				return w.MemoryWarehouse.Events(ctx, q)
			}
		}},
		{"a cursor that skips a row", "cursors neither skip nor repeat", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				if q.After != nil {
					at := q.After.Next()
					q.After = &at
				}
				return w.MemoryWarehouse.Events(ctx, q)
			}
		}},
		{"positions ordered by offset alone", "cursors neither skip nor repeat", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				if q.After != nil {
					at := *q.After
					at.Generation = 1
					q.After = &at
				}
				return w.MemoryWarehouse.Events(ctx, q)
			}
		}},
		{"types ignored", "cursors neither skip nor repeat", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.events = func(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
				q.Types = nil
				return w.MemoryWarehouse.Events(ctx, q)
			}
		}},
		{"a row too late to be seen", "paging goes on beside loading", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				if len(b.Rows) == 50 {
					b.Rows = slices.Delete(slices.Clone(b.Rows), 20, 21)
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"unreadable records hold nobody", "set-aside records hold their tenant or partition", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.setAsides = func(ctx context.Context, tenant string) ([]pipeline.SetAside, error) {
				list, err := w.MemoryWarehouse.SetAsides(ctx, tenant)
				return slices.DeleteFunc(list, func(s pipeline.SetAside) bool { return s.TenantID == "" }), err
			}
		}},
		{"unreadable records hold every partition", "set-aside records hold their tenant or partition", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.setAsides = func(ctx context.Context, tenant string) ([]pipeline.SetAside, error) {
				return slices.DeleteFunc(slices.Clone(w.setAside), func(s pipeline.SetAside) bool {
					return s.TenantID != "" && s.TenantID != tenant
				}), nil
			}
		}},
		{"only what is listed is counted", "what is held is listed and counted", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.held = func(ctx context.Context, q pipeline.HeldQuery) ([]pipeline.SetAside, int64, error) {
				list, _, err := w.MemoryWarehouse.Held(ctx, q)
				return list, int64(len(list)), err
			}
		}},
		{"a replay brings the row back", release, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				if len(b.SetAside) == 0 && len(b.Rows) == 1 {
					w.withdrawn = nil
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a replay brings the hold back", release, func(w *wrongWarehouse, _ *WarehouseEngine) {
			var again []pipeline.SetAside
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				for _, s := range b.SetAside {
					if slices.ContainsFunc(w.setAside, func(have pipeline.SetAside) bool { return have.Position == s.Position }) {
						again = append(again, s)
					}
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
			w.setAsides = func(ctx context.Context, tenant string) ([]pipeline.SetAside, error) {
				list, err := w.MemoryWarehouse.SetAsides(ctx, tenant)
				return append(list, again...), err
			}
		}},
		{"any event about a record releases it", release, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				b.Rows = slices.Clone(b.Rows)
				for i := range b.Rows {
					if b.Rows[i].SubjectKind == pipeline.KindRecord {
						b.Rows[i].Type = pipeline.TypeReleased
					}
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a release of the loader's record takes the event of that name away", release, func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				err := w.MemoryWarehouse.Load(ctx, b)
				for _, s := range w.setAside {
					if released(w.rows, s) {
						w.rows = slices.DeleteFunc(w.rows, func(r pipeline.Row) bool { return r.EventID == s.EventID })
					}
				}
				return err
			}
		}},
		{"a release counts in its own partition alone", "a release may stand in another partition than its record", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.held = func(ctx context.Context, q pipeline.HeldQuery) ([]pipeline.SetAside, int64, error) {
				var n int64
				for _, s := range w.setAside {
					near := slices.DeleteFunc(slices.Clone(w.rows), func(r pipeline.Row) bool { return r.Partition != s.Position.Partition })
					if !released(near, s) {
						n++
					}
				}
				return nil, n, nil
			}
		}},
		{"a release counts for a position in every partition", "a release may stand in another partition than its record", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				for _, r := range b.Rows {
					if at, err := sealer.ParsePosition(r.SubjectID); err == nil && r.Type == pipeline.TypeReleased {
						at.Partition ^= 7
						r.SubjectID, r.EventID = at.String(), r.EventID+"-"
						b.Rows = append(b.Rows, r)
					}
				}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"a release counts for what was set aside before it", "a release may be loaded before its record", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.setAsides = func(context.Context, string) ([]pipeline.SetAside, error) { return w.setAside, nil }
		}},
		{"set aside once more at each load", "set-aside records hold their tenant or partition", func(w *wrongWarehouse, _ *WarehouseEngine) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				err := w.MemoryWarehouse.Load(ctx, b)
				w.setAside = slices.Concat(w.setAside, b.SetAside)
				return err
			}
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			requireCaught(t, warehouseCases, fault.caught, func() WarehouseEngine {
				e := memoryWarehouse()
				w := &wrongWarehouse{MemoryWarehouse: e.Warehouse.(*MemoryWarehouse)}
				e.Warehouse, e.Reopen = w, func() pipeline.Warehouse { return w }
				fault.spoil(w, &e)
				return e
			})
		})
	}
}

func TestExactlyOnceCatches(t *testing.T) {
	alone := func(w *wrongWarehouse) {
		w.decides(func(d decisions, b pipeline.Batch, _ []pipeline.Row, _ error) { d.decide(b.Rows, b.Rows) })
	}
	for _, fault := range []struct {
		name   string
		caught string
		spoil  func(w *wrongWarehouse)
	}{
		{"batches decided alone", "retries across three nodes", alone},
		{"a late batch decided alone", "zombie loaders", func(w *wrongWarehouse) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) {
				if next, _, _ := w.MemoryWarehouse.Resume(context.Background(), 0); b.Next.Compare(next) < 0 {
					before = nil
				}
				d.decide(b.Rows, slices.Concat(before, b.Rows))
			})
		}},
		{"a replay decided alone", "the whole topic again, days later", func(w *wrongWarehouse) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) {
				if len(b.Rows) == 17 {
					before = nil
				}
				d.decide(b.Rows, slices.Concat(before, b.Rows))
			})
		}},
		{"a filter of the last day that says new of what is older", "a spool of last week", func(w *wrongWarehouse) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) {
				known := slices.Concat(before, b.Rows)
				floor := slices.MaxFunc(known, func(a, b pipeline.Row) int { return a.At.Compare(b.At) }).At.Add(-day)
				d.decide(b.Rows, slices.DeleteFunc(known, func(r pipeline.Row) bool { return r.At.Before(floor) }))
			})
		}},
		{"a row forgotten after a week", "rows that are sent again for a month", func(w *wrongWarehouse) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) {
				known := slices.Concat(before, b.Rows)
				floor := slices.MaxFunc(known, func(a, b pipeline.Row) int { return a.At.Compare(b.At) }).At.Add(-7 * day)
				d.decide(b.Rows, slices.DeleteFunc(known, func(r pipeline.Row) bool { return r.At.Before(floor) }))
			})
		}},
		{"the last copy wins", "a new generation", func(w *wrongWarehouse) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				w.rows = slices.DeleteFunc(slices.Clone(w.rows), func(have pipeline.Row) bool {
					return slices.ContainsFunc(b.Rows, func(r pipeline.Row) bool { return r.EventID == have.EventID })
				})
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"gaps let pass", "an older warehouse under a loader that runs", func(w *wrongWarehouse) {
			w.load = func(ctx context.Context, b pipeline.Batch) error {
				b.From = sealer.Position{}
				return w.MemoryWarehouse.Load(ctx, b)
			}
		}},
		{"nothing decided anew at a release", "a forged record among duplicates", func(w *wrongWarehouse) {
			w.decides(func(d decisions, b pipeline.Batch, before []pipeline.Row, _ error) {
				d.decide(b.Rows, slices.Concat(before, b.Rows))
			})
		}},
		{"batches decided alone, whatever happens", "all of it", alone},
	} {
		t.Run(fault.name, func(t *testing.T) {
			requireCaught(t, stories, fault.caught, func() func() WarehouseEngine {
				return func() WarehouseEngine {
					e := memoryWarehouse()
					w := &wrongWarehouse{MemoryWarehouse: e.Warehouse.(*MemoryWarehouse)}
					e.Warehouse, e.Reopen = w, func() pipeline.Warehouse { return w }
					fault.spoil(w)
					return e
				}
			})
		})
	}
}

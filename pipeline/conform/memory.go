package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// MemoryLog is a log in memory with one partition, 0, and one generation. It
// shows the contract in its plainest form, and serves tests that need a log but
// no disk; inside testing/synctest too, as it waits on channels only. Its zero
// value is ready to use.
type MemoryLog struct {
	// Generation is that of all records. Default 1.
	Generation uint32

	mu      sync.Mutex
	entries []sealer.Entry // from first on
	first   int64
	grown   chan struct{} // closed at the next append, nil while no call waits
}

var _ pipeline.OrderedLog = (*MemoryLog)(nil)

// Append implements pipeline.Appender.
func (l *MemoryLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	own := *r
	own.Event, own.Private = slices.Clone(r.Event), slices.Clone(r.Private)
	return l.append(ctx, own)
}

// AppendAll implements pipeline.Appender.
func (l *MemoryLog) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	at, errs = make([]sealer.Position, len(rs)), make([]error, len(rs))
	for i, r := range rs {
		at[i], errs[i] = l.Append(ctx, r)
	}
	return at, errs
}

// AppendInOrder implements pipeline.OrderedLog.
func (l *MemoryLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (n int, err error) {
	return InOrder(ctx, rs, l.Append)
}

// InOrder is the AppendInOrder of a log in memory that has the method append.
func InOrder(ctx context.Context, rs []*sealer.Record, append func(context.Context, *sealer.Record) (sealer.Position, error)) (n int, err error) {
	for n = range rs {
		if _, err = append(ctx, rs[n]); err != nil {
			return n, err
		}
	}
	return len(rs), nil
}

func (l *MemoryLog) append(ctx context.Context, r sealer.Record) (sealer.Position, error) {
	if err := ctx.Err(); err != nil {
		return sealer.Position{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.end()
	l.entries = append(l.entries, sealer.Entry{Position: at, Record: r})
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return at, nil
}

// position is one of generation 1 and partition 0.
func position(offset int64) sealer.Position {
	return sealer.Position{Generation: 1, Offset: offset}
}

// position makes a position of an offset.
func (l *MemoryLog) position(offset int64) sealer.Position {
	return sealer.Position{Generation: cmp.Or(l.Generation, 1), Offset: offset}
}

// end is the position behind the last entry. The caller holds l.mu.
func (l *MemoryLog) end() sealer.Position {
	return l.position(l.first + int64(len(l.entries)))
}

// Retire drops the entries before an offset.
func (l *MemoryLog) Retire(before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if drop := min(before-l.first, int64(len(l.entries))); drop > 0 {
		l.entries = l.entries[drop:]
		l.first += drop
	}
}

// Partitions implements pipeline.Reader.
func (l *MemoryLog) Partitions(context.Context) (int, error) { return 1, nil }

// PartitionOf implements pipeline.Reader.
func (l *MemoryLog) PartitionOf(context.Context, string) (int32, error) { return 0, nil }

// Bounds implements pipeline.Reader.
func (l *MemoryLog) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	if partition != 0 {
		return first, end, fmt.Errorf("partition %d: this log has only partition 0", partition)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position(l.first), l.end(), ctx.Err()
}

// Read implements pipeline.Reader.
func (l *MemoryLog) Read(ctx context.Context, at sealer.Position) (sealer.Entry, error) {
	e, err := l.entry(at)
	e.Event, e.Private = slices.Clone(e.Event), slices.Clone(e.Private)
	return e, cmp.Or(err, ctx.Err())
}

func (l *MemoryLog) entry(at sealer.Position) (sealer.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case at.Compare(l.position(l.first)) < 0:
		return sealer.Entry{}, fmt.Errorf("%w: %s", pipeline.ErrGone, at)
	case at.Compare(l.end()) >= 0:
		return sealer.Entry{}, fmt.Errorf("%w: %s", pipeline.ErrBeyondEnd, at)
	}
	return l.entries[at.Offset-l.first], nil
}

// Scan implements pipeline.Reader.
func (l *MemoryLog) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	_, end, err := l.Bounds(ctx, from.Partition)
	if err != nil {
		return err
	}
	if to.Compare(end) > 0 {
		to = end
	}
	for at := from; at.Compare(to) < 0; at = at.Next() {
		e, err := l.Read(ctx, at)
		if err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	if from.Compare(end) > 0 {
		return fmt.Errorf("%w: %s", pipeline.ErrBeyondEnd, from)
	}
	return nil
}

// Wait implements pipeline.Reader.
func (l *MemoryLog) Wait(ctx context.Context, at sealer.Position) error {
	for {
		_, err := l.entry(at)
		if !errors.Is(err, pipeline.ErrBeyondEnd) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.next(at):
		}
	}
}

// next is closed when an entry at the position may stand there.
func (l *MemoryLog) next(at sealer.Position) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.Compare(l.end()) < 0 {
		there := make(chan struct{})
		close(there)
		return there
	}
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return l.grown
}

// MemoryWarehouse is a warehouse in memory that answers by the suite's model, for tests
// that need a warehouse but no engine. It keeps no decisions: batches come in order, so the
// rows themselves always say the same of what is a duplicate. Its zero value is ready to use.
type MemoryWarehouse struct {
	mu          sync.Mutex
	rows        []pipeline.Row // collapsed, in the order of their positions
	quarantined []pipeline.Quarantined
	// retracted are the events that releases retracted, by tenant and event id.
	retracted map[[2]string]bool
	spoiled   map[[2]string]bool // decisions that Spoiled has changed, by tenant and event id
	resume    map[int32]sealer.Position
	chains    map[int32][]byte
	key       *pipeline.SubjectKey // nil: it is not known who was erased
	erased    []pipeline.Tombstone
}

var (
	_ pipeline.Warehouse   = (*MemoryWarehouse)(nil)
	_ pipeline.ChainKeeper = (*MemoryWarehouse)(nil)
)

// Load implements pipeline.Sink.
func (w *MemoryWarehouse) Load(ctx context.Context, b pipeline.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if have, ok := w.resume[b.Partition]; ok && b.From.Generation == have.Generation && b.From.Offset > have.Offset {
		return fmt.Errorf("%w: from %s, loaded up to %s", pipeline.ErrAhead, b.From, have)
	}
	rows, quarantined, err := w.leaveOut(b.Rows, b.Quarantined)
	if err != nil {
		return err
	}
	rows = collapse(slices.Concat(w.rows, rows))
	for _, s := range quarantined {
		if !slices.ContainsFunc(w.quarantined, func(have pipeline.Quarantined) bool { return have.Position == s.Position }) {
			w.quarantined = append(w.quarantined, s)
		}
	}
	slices.SortFunc(w.quarantined, func(a, b pipeline.Quarantined) int {
		return cmp.Or(cmp.Compare(a.Position.Partition, b.Position.Partition), a.Position.Compare(b.Position))
	})
	for _, s := range w.quarantined {
		if released(rows, s) && slices.ContainsFunc(rows, func(r pipeline.Row) bool {
			return r.TenantID == s.TenantID && r.EventID == s.EventID && r.Position == s.Position
		}) {
			if w.retracted == nil {
				w.retracted = map[[2]string]bool{}
			}
			w.retracted[[2]string{s.TenantID, s.EventID}] = true
		}
	}
	w.rows = slices.DeleteFunc(rows, func(r pipeline.Row) bool { return w.retracted[[2]string{r.TenantID, r.EventID}] })
	if have, ok := w.resume[b.Partition]; !ok || have.Compare(b.Next) < 0 {
		if w.resume == nil {
			w.resume = map[int32]sealer.Position{}
		}
		w.resume[b.Partition] = b.Next
		if w.chains == nil {
			w.chains = map[int32][]byte{}
		}
		w.chains[b.Partition] = b.Chain
	}
	return nil
}

// leaveOut returns what is to be kept of rows and of quarantined records. The caller holds w.mu.
func (w *MemoryWarehouse) leaveOut(rows []pipeline.Row, quarantined []pipeline.Quarantined) (_ []pipeline.Row, _ []pipeline.Quarantined, err error) {
	var erased *pipeline.Erased
	if w.key != nil {
		erased = pipeline.NewErased(*w.key, w.erased)
	}
	rows, quarantined = slices.Clone(rows), slices.Clone(quarantined)
	for i := range rows {
		if rows[i].Private, _, err = erased.Private(&rows[i]); err != nil {
			return nil, nil, err
		}
	}
	for i := range quarantined {
		if quarantined[i].Record, err = erased.Record(quarantined[i]); err != nil {
			return nil, nil, err
		}
	}
	return rows, quarantined, nil
}

// Erase implements pipeline.Eraser.
func (w *MemoryWarehouse) Erase(ctx context.Context, key pipeline.SubjectKey, list []pipeline.Tombstone) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.key != nil && *w.key != key {
		return pipeline.ErrOtherKey
	}
	w.key, w.erased = &key, slices.Concat(w.erased, list)
	w.rows, w.quarantined, err = w.leaveOut(w.rows, w.quarantined)
	return cmp.Or(err, ctx.Err())
}

// CountSubject implements pipeline.Eraser.
func (w *MemoryWarehouse) CountSubject(ctx context.Context, tenantID, subjectHash string) (n pipeline.SubjectCount, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.key == nil {
		return n, ctx.Err()
	}
	for _, r := range w.rows {
		if r.TenantID == tenantID && slices.ContainsFunc(r.DataSubjects(), func(subject string) bool { return w.key.Hash(tenantID, subject) == subjectHash }) {
			n.PrivateParts++
		}
	}
	for _, s := range w.quarantined {
		if w.key.Names(s, tenantID, subjectHash) {
			n.Quarantined++
		}
	}
	return n, ctx.Err()
}

// CountLabelled implements pipeline.Eraser.
func (w *MemoryWarehouse) CountLabelled(ctx context.Context, tenantID string, person sealer.Person) (n int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rows {
		if d := r.Delivery; r.TenantID == tenantID && d != nil && slices.ContainsFunc([]string{d.SpatialAnchorID, d.SpatialPlacementID, d.CorrelationID}, person.In) {
			n++
		}
	}
	return n, ctx.Err()
}

// CountTelemetry implements pipeline.Eraser.
func (w *MemoryWarehouse) CountTelemetry(ctx context.Context, tenantID string, person sealer.Person) (n int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rows {
		if r.TenantID == tenantID && r.Delivery != nil && sealer.NamedInTelemetry(r.Private, person) {
			n++
		}
	}
	return n, ctx.Err()
}

// QuarantinedOf implements pipeline.Eraser.
func (w *MemoryWarehouse) QuarantinedOf(ctx context.Context, tenantID string, person sealer.Person) (list []pipeline.Quarantined, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.quarantined {
		if s.TenantID == tenantID && (person == (sealer.Person{}) || s.IsAbout(person)) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b pipeline.Quarantined) int { return a.Position.Compare(b.Position) })
	return list, ctx.Err()
}

// Resume implements pipeline.Sink.
func (w *MemoryWarehouse) Resume(ctx context.Context, partition int32) (sealer.Position, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, ok := w.resume[partition]
	return next, ok, ctx.Err()
}

// Chain implements pipeline.ChainKeeper.
func (w *MemoryWarehouse) Chain(ctx context.Context, partition int32) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chains[partition], ctx.Err()
}

// all returns the rows, which no later Load changes.
func (w *MemoryWarehouse) all() []pipeline.Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows
}

// Events implements pipeline.Warehouse.
func (w *MemoryWarehouse) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	return events(w.all(), q), ctx.Err()
}

// Event implements pipeline.Warehouse.
func (w *MemoryWarehouse) Event(ctx context.Context, tenantID, eventID string) (pipeline.Row, error) {
	for _, r := range w.all() {
		if r.TenantID == tenantID && r.EventID == eventID {
			return r, ctx.Err()
		}
	}
	return pipeline.Row{}, fmt.Errorf("%w: %s", pipeline.ErrNoEvent, eventID)
}

// Metering implements pipeline.Warehouse.
func (w *MemoryWarehouse) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	return meter(w.all(), q), cmp.Or(q.Check(), ctx.Err())
}

// MeterTotals implements pipeline.Warehouse.
func (w *MemoryWarehouse) MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error) {
	return meterTotals(w.all(), q), cmp.Or(q.Check(), ctx.Err())
}

// Refusals implements pipeline.Warehouse.
func (w *MemoryWarehouse) Refusals(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error) {
	return refusals(w.all(), q), ctx.Err()
}

// Unrecognised implements pipeline.Warehouse.
func (w *MemoryWarehouse) Unrecognised(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.UnrecognisedRow, error) {
	return unrecognised(w.all(), q), ctx.Err()
}

// RefusalsByRule implements pipeline.RuleCounter.
func (w *MemoryWarehouse) RefusalsByRule(ctx context.Context, from, to time.Time) ([]pipeline.RefusalRow, error) {
	return byRule(w.all(), from, to), ctx.Err()
}

// RefusalTotals implements pipeline.Warehouse.
func (w *MemoryWarehouse) RefusalTotals(ctx context.Context, q pipeline.RefusalQuery) (pipeline.RefusalTotals, error) {
	return refusalTotals(w.all(), q), ctx.Err()
}

// CountEvents implements pipeline.Warehouse.
func (w *MemoryWarehouse) CountEvents(ctx context.Context, tenantID string) (n int64, err error) {
	for _, r := range w.all() {
		if r.TenantID == tenantID {
			n++
		}
	}
	return n, ctx.Err()
}

// Duplicates implements pipeline.Warehouse.
func (w *MemoryWarehouse) Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
	return duplicates(w.all(), tenantID, after, upTo), ctx.Err()
}

// Quarantined implements pipeline.Warehouse.
func (w *MemoryWarehouse) Quarantined(ctx context.Context, tenantID string) ([]pipeline.Quarantined, error) {
	rows := w.all()
	i := slices.IndexFunc(rows, func(r pipeline.Row) bool { return r.TenantID == tenantID })
	w.mu.Lock()
	defer w.mu.Unlock()
	var held []pipeline.Quarantined
	for _, s := range w.quarantined {
		if (s.TenantID == tenantID || s.TenantID == "" && (i < 0 || rows[i].Partition == s.Position.Partition)) && !released(rows, s) {
			held = append(held, s)
		}
	}
	return held, ctx.Err()
}

// Held implements pipeline.Warehouse.
func (w *MemoryWarehouse) Held(ctx context.Context, q pipeline.HeldQuery) (list []pipeline.Quarantined, total int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.quarantined {
		if q.At != nil && s.Position != *q.At || released(w.rows, s) {
			continue
		}
		if total++; len(list) < q.Limit {
			list = append(list, s)
		}
	}
	return list, total, ctx.Err()
}

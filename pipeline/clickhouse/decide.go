package clickhouse

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment/pipeline"
	"muniment/sealer"
)

// keyed is a delivery with an idempotency key, as idempotency_keys has it.
type keyed struct {
	keyID
	eventID  string
	position sealer.Position
	at       int64 // milliseconds
	hash     uint64
}

// keyID is what duplicates have in common.
type keyID struct{ tenantID, idempotency string }

// decision says that a delivery is a duplicate, and of which.
type decision struct {
	keyed
	first keyed
}

var keyColumns = []column[keyed]{
	of("tenant_id", func(k *keyed) string { return k.tenantID }),
	of("idempotency", func(k *keyed) string { return k.idempotency }),
	of("event_id", func(k *keyed) string { return k.eventID }),
	of("generation", func(k *keyed) uint32 { return k.position.Generation }),
	of("log_partition", func(k *keyed) int32 { return k.position.Partition }),
	of("position", func(k *keyed) int64 { return k.position.Offset }),
	of("at", func(k *keyed) time.Time { return instant(k.at) }),
}

var decisionColumns = []column[decision]{
	of("tenant_id", func(d *decision) string { return d.tenantID }),
	of("event_id", func(d *decision) string { return d.eventID }),
	of("generation", func(d *decision) uint32 { return d.position.Generation }),
	of("log_partition", func(d *decision) int32 { return d.position.Partition }),
	of("position", func(d *decision) int64 { return d.position.Offset }),
	of("first_event_id", func(d *decision) string { return d.first.eventID }),
	of("first_generation", func(d *decision) uint32 { return d.first.position.Generation }),
	of("first_position", func(d *decision) int64 { return d.first.position.Offset }),
}

// withKeys are the deliveries with a key among some rows.
func withKeys(rows []pipeline.Row) (list []keyed) {
	for i := range rows {
		r := &rows[i]
		if r.Delivery == nil || r.Delivery.Idempotency == "" {
			continue
		}
		key := keyID{r.TenantID, r.Delivery.Idempotency}
		list = append(list, keyed{key, r.EventID, r.Position, r.At.UnixMilli(), hashOf(key.idempotency)})
	}
	return list
}

// decide tells which of the rows are duplicates, of others of them or of what is loaded.
// start is where each partition goes on: what was loaded before stands before that.
func (w *Warehouse) decide(ctx context.Context, rows []keyed, start map[int32]sealer.Position, retracted map[eventKey]keyID) ([]decision, error) {
	parts := map[int32][]keyed{}
	for _, r := range rows {
		parts[r.position.Partition] = append(parts[r.position.Partition], r)
	}
	var asked []keyed
	for partition, rows := range parts {
		list, err := w.filter(partition).maybe(start[partition], rows, func(first int64, add func(day int64, hash uint64)) error {
			return w.keysSince(ctx, partition, first, add)
		})
		if err != nil {
			return nil, err
		}
		if w.maybeAlways {
			list = rows
		}
		asked = append(asked, list...)
	}
	keys, oldest := map[keyID]bool{}, int64(math.MaxInt64)
	for _, k := range asked {
		keys[k.keyID], oldest = true, min(oldest, k.at-dayMs)
	}
	past, err := w.withAnyOf(ctx, keys, retracted, "at >= "+moment(oldest))
	if err != nil {
		return nil, err
	}
	known := map[keyID]bool{}
	for _, k := range past {
		known[k.keyID] = true
	}
	w.memory.maybes.Add(float64(len(asked)))
	for _, k := range asked {
		if !known[k.keyID] {
			w.memory.misses.Inc()
		}
	}
	return repeats(rows, slices.Concat(past, rows)), nil
}

// repeats decides each of the rows by all rows with its key that stand before it.
func repeats(rows, all []keyed) (list []decision) {
	lowest := make(map[keyID][]keyed, len(all)) // of each event, by position
	slices.SortFunc(all, func(a, b keyed) int { return a.position.Compare(b.position) })
	for _, k := range all {
		if !slices.ContainsFunc(lowest[k.keyID], func(other keyed) bool { return other.eventID == k.eventID }) {
			lowest[k.keyID] = append(lowest[k.keyID], k)
		}
	}
	for _, r := range rows {
		events := lowest[r.keyID]
		own := slices.IndexFunc(events, func(k keyed) bool { return k.eventID == r.eventID })
		if events[own].position.Compare(r.position) < 0 {
			continue // a copy is no row
		}
		if i := slices.IndexFunc(events[:own], func(k keyed) bool { return k.at >= r.at-dayMs }); i >= 0 {
			list = append(list, decision{r, events[i]})
		}
	}
	return list
}

// filter is that of a partition.
func (w *Warehouse) filter(partition int32) *keyFilter {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.filters[partition] == nil {
		w.filters[partition] = &keyFilter{shared: w.memory}
	}
	return w.filters[partition]
}

// keysSince reads the hashes of a partition's keys, from a day on.
func (w *Warehouse) keysSince(ctx context.Context, partition int32, first int64, add func(day int64, hash uint64)) error {
	_, err := collect(ctx, w, func(scan func(...any) error) (_ struct{}, err error) {
		var day int32
		var hash uint64
		if err = scan(&day, &hash); err == nil {
			add(int64(day), hash)
		}
		return
	}, `SELECT toInt32(toDate32(at)), key FROM idempotency_keys WHERE log_partition = ? AND at >= `+moment(first*dayMs), partition)
	return err
}

// withAnyOf reads the deliveries with some keys, without those that were retracted.
func (w *Warehouse) withAnyOf(ctx context.Context, keys map[keyID]bool, retracted map[eventKey]keyID, conditions ...string) ([]keyed, error) {
	wanted, err := ext.NewTable("wanted", ext.Column("key", "UInt64"))
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	for key := range keys {
		if err := wanted.Append(hashOf(key.idempotency)); err != nil {
			return nil, err
		}
	}
	found, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(wanted)), w, func(scan func(...any) error) (k keyed, err error) {
		p := &k.position
		var at time.Time
		err = scan(&k.tenantID, &k.idempotency, &k.eventID, &p.Generation, &p.Partition, &p.Offset, &at)
		k.at = at.UnixMilli()
		return k, err
	}, `SELECT tenant_id, idempotency, event_id, generation, log_partition, position, at FROM idempotency_keys
		WHERE `+strings.Join(append(conditions, "key IN (SELECT key FROM wanted)"), " AND "))
	return slices.DeleteFunc(found, func(k keyed) bool {
		_, gone := retracted[eventKey{k.tenantID, k.eventID}]
		return gone || !keys[k.keyID]
	}), err
}

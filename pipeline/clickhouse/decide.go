package clickhouse

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// keyed is a delivery with an idempotency key or a row's identity, as idempotency_keys or
// row_identities have it.
type keyed struct {
	keyID
	eventID  string
	position sealer.Position
	at       int64 // milliseconds
	hash     uint64
}

// keyID is what duplicates have in common: an idempotency key or a row's identity.
type keyID struct {
	tenantID    string
	idempotency string
	row         sealer.RowIdentity
}

func (k *keyID) isRow() bool { return k.row.Hash != "" }

// none reports whether there is neither.
func (k *keyID) none() bool { return k.idempotency == "" && !k.isRow() }

// hashed is its hash in the column key.
func (k *keyID) hashed() uint64 {
	if k.isRow() {
		return hashOf(k.row.Hash)
	}
	return hashOf(k.idempotency)
}

// keyOf is the key of a delivery.
func keyOf(tenantID string, d *pipeline.Delivery) keyID {
	return keyID{tenantID, d.Idempotency, d.Identity}
}

// decision says that a delivery is a duplicate, and of which.
type decision struct {
	keyed
	first keyed
}

var keyColumns = append(placeColumns,
	of("idempotency", func(k *keyed) string { return k.idempotency }))

var identityColumns = append(placeColumns,
	of("row_hash", func(k *keyed) string { return k.row.Hash }),
	of("row_day", func(k *keyed) string { return k.row.Day }))

var placeColumns = []column[keyed]{
	of("tenant_id", func(k *keyed) string { return k.tenantID }),
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

// withKeys are those of the rows that are deliveries with a key or an identity.
func withKeys(rows []pipeline.Row) (list []keyed) {
	for i := range rows {
		r := &rows[i]
		if r.Delivery == nil {
			continue
		}
		if key := keyOf(r.TenantID, r.Delivery); !key.none() {
			list = append(list, keyed{key, r.EventID, r.Position, r.At.UnixMilli(), key.hashed()})
		}
	}
	return list
}

// split separates deliveries with a key from those with an identity.
func split(all []keyed) (keys, identities []keyed) {
	for _, k := range all {
		if k.isRow() {
			identities = append(identities, k)
		} else {
			keys = append(keys, k)
		}
	}
	return keys, identities
}

// withoutDay separates identities without a day from dated ones. The former count however
// old they are, so the filter takes them as if all were of one day.
func withoutDay(identities []keyed) (dayless, dated []keyed) {
	for _, k := range identities {
		if k.row.Day != "" {
			dated = append(dated, k)
			continue
		}
		k.at = 0
		dayless = append(dayless, k)
	}
	return dayless, dated
}

// decide decides which of the rows are duplicates, of each other or of loaded rows. start is
// where each partition goes on: all loaded rows stand before it.
func (w *Warehouse) decide(ctx context.Context, rows []keyed, start map[int32]sealer.Position, retracted map[eventKey]keyID) ([]decision, error) {
	idempotent, identities := split(rows)
	back := int64(math.MaxInt64)
	for _, k := range idempotent {
		back = min(back, k.at-dayMs)
	}
	since, err := w.keysSince(ctx, back)
	if err != nil {
		return nil, err
	}
	// The filters lack keys that were dropped.
	var older, others []keyed
	for _, k := range idempotent {
		if k.at-dayMs < since {
			older = append(older, k)
		} else {
			others = append(others, k)
		}
	}
	possible, err := w.maybe(ctx, false, others, start)
	if err != nil {
		return nil, err
	}
	keys := lookUps{}
	for _, k := range slices.Concat(older, possible) {
		keys.add(k)
	}
	// Identities of a day are stored together, so they need no filter.
	dayless, dated := withoutDay(identities)
	possibleRows, err := w.maybe(ctx, true, dayless, start)
	if err != nil {
		return nil, err
	}
	for _, k := range slices.Concat(possibleRows, dated) {
		keys.add(k)
	}
	past, err := w.withAnyOf(ctx, keys, retracted, since)
	if err == nil {
		err = w.keysStill(ctx, back, since)
	}
	if err != nil {
		return nil, err
	}
	known := map[keyID]bool{}
	for _, k := range past {
		known[k.keyID] = true
	}
	w.ofKeys.count(possible, known)
	w.ofRows.count(possibleRows, known)
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
		if i := slices.IndexFunc(events[:own], func(k keyed) bool { return r.isRow() || k.at >= r.at-dayMs }); i >= 0 {
			list = append(list, decision{r, events[i]})
		}
	}
	return list
}

// maybe lists those of the rows whose keys, or identities without a day, may be in the
// warehouse by the filters of their partitions.
func (w *Warehouse) maybe(ctx context.Context, ofRows bool, rows []keyed, start map[int32]sealer.Position) (list []keyed, err error) {
	if w.maybeAlways {
		return rows, nil
	}
	parts := map[int32][]keyed{}
	for _, r := range rows {
		parts[r.position.Partition] = append(parts[r.position.Partition], r)
	}
	for partition, rows := range parts {
		some, err := w.filter(partition, ofRows).maybe(start[partition], rows, func(first int64, add func(day int64, hash uint64)) error {
			if ofRows {
				return w.identitiesOf(ctx, partition, add)
			}
			return w.keysOf(ctx, `SELECT toInt32(toDate32(at)), key FROM idempotency_keys WHERE log_partition = ? AND at >= `+moment(first*dayMs), partition, add)
		})
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// filterID names a filter.
type filterID struct {
	partition int32
	ofRows    bool // of identities without a day
}

func (w *Warehouse) filter(partition int32, ofRows bool) *keyFilter {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := filterID{partition, ofRows}
	if w.filters[id] == nil {
		w.filters[id] = &keyFilter{memory: w.ofKeys}
		if ofRows {
			w.filters[id].memory = w.ofRows
		}
	}
	return w.filters[id]
}

// identitiesOf reads the hashes of a partition's identities without a day, or returns
// errTooMany.
func (w *Warehouse) identitiesOf(ctx context.Context, partition int32, add func(day int64, hash uint64)) error {
	within, cancel := context.WithTimeout(ctx, w.fillTimeout)
	defer cancel()
	err := w.keysOf(within, `SELECT toInt32(0), key FROM row_identities WHERE log_partition = ? AND row_day = ''`, partition, add)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return errTooMany
	}
	return err
}

// keysOf reads days and hashes of a partition.
func (w *Warehouse) keysOf(ctx context.Context, query string, partition int32, add func(day int64, hash uint64)) error {
	_, err := collect(ctx, w.servers, func(scan func(...any) error) (_ struct{}, err error) {
		var day int32
		var hash uint64
		if err = scan(&day, &hash); err == nil {
			add(int64(day), hash)
		}
		return
	}, query, partition)
	return err
}

// scanKeyed reads a delivery with the columns of its key.
func scanKeyed(key func(*keyed) []any) func(scan func(...any) error) (keyed, error) {
	return func(scan func(...any) error) (k keyed, err error) {
		p := &k.position
		var at time.Time
		err = scan(append([]any{&k.tenantID, &k.eventID, &p.Generation, &p.Partition, &p.Offset, &at}, key(&k)...)...)
		k.at = at.UnixMilli()
		return k, err
	}
}

// lookUps are keys and identities that are looked up, and from when on: identities are looked up however old.
type lookUps map[keyID]int64

// add adds what decides whether a delivery is a duplicate.
func (l lookUps) add(k keyed) {
	if from, ok := l[k.keyID]; !ok || k.at-dayMs < from {
		l[k.keyID] = k.at - dayMs
	}
}

// idempotent are those of keys.
func (l lookUps) idempotent() lookUps {
	keys := maps.Clone(l)
	maps.DeleteFunc(keys, func(key keyID, _ int64) bool { return key.isRow() })
	return keys
}

// oldest is when the first of them begins.
func (l lookUps) oldest() int64 {
	oldest := int64(math.MaxInt64)
	for _, from := range l {
		oldest = min(oldest, from)
	}
	return oldest
}

// before are those that begin before a time.
func (l lookUps) before(since int64) lookUps {
	late := maps.Clone(l)
	maps.DeleteFunc(late, func(_ keyID, from int64) bool { return from >= since })
	return late
}

// hashes is a table of hashes of keys.
func (l lookUps) hashes() (*ext.Table, error) {
	wanted, err := ext.NewTable("wanted", ext.Column("key", "UInt64"))
	for key := range l {
		if err == nil {
			err = wanted.Append(key.hashed())
		}
	}
	return wanted, err
}

// withAnyOf reads the loaded deliveries with any of some keys and identities, without
// retracted ones. since is what keysSince has returned for the oldest key's; what is found is all if
// keysStill says so afterwards.
func (w *servers) withAnyOf(ctx context.Context, wanted lookUps, retracted map[eventKey]keyID, since int64) (found []keyed, err error) {
	keys := wanted.idempotent()
	byKey, err := keys.hashes()
	if err != nil {
		return nil, err
	}
	byRow, err := ext.NewTable("wanted", ext.Column("tenant_id", "String"), ext.Column("row_day", "String"), ext.Column("key", "UInt64"))
	if err != nil {
		return nil, err
	}
	for key := range wanted {
		if key.isRow() {
			err = byRow.Append(key.tenantID, key.row.Day, key.hashed())
		}
		if err != nil {
			return nil, err
		}
	}
	read := func(hashes *ext.Table, key string, scanned func(*keyed) []any, table, where string) error {
		list, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(hashes)), w, scanKeyed(scanned), `SELECT tenant_id, event_id, generation, log_partition, position, at, `+key+` FROM `+table+` WHERE `+where)
		found = append(found, list...)
		return err
	}
	if len(keys) > 0 {
		err = read(byKey, "idempotency", func(k *keyed) []any { return []any{&k.idempotency} },
			"idempotency_keys", "at >= "+moment(keys.oldest())+" AND key IN (SELECT key FROM wanted)")
	}
	if late := keys.before(since); err == nil && len(late) > 0 {
		var older []keyed
		older, err = w.olderKeys(ctx, late, since)
		found = append(found, older...)
	}
	if err == nil && len(wanted) > len(keys) {
		err = read(byRow, "row_hash, row_day", func(k *keyed) []any { return []any{&k.row.Hash, &k.row.Day} },
			"row_identities", "(tenant_id, row_day, key) IN (SELECT tenant_id, row_day, key FROM wanted)")
	}
	return slices.DeleteFunc(found, func(k keyed) bool {
		_, gone := retracted[eventKey{k.tenantID, k.eventID}]
		_, asked := wanted[k.keyID]
		return gone || !asked
	}), err
}

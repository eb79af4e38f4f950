package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"muniment.example/pipeline"
)

// A key is needed for a day after its event: by later events, and when what the log holds is loaded
// again. Keys of older days are dropped, by whole partitions: they are a sixth of what a receipt
// takes on disk. An event may be older than that, if a node's spool was away for long, the
// log holds more than its retention, or an older log was restored: then the rows of events, which have
// the keys too, are searched. That takes longer, and finds the same.
const (
	// keysKept is for how long keys are kept beyond the log's retention: a day, as a look-up goes
	// back so far from the oldest event in the log; and a day for clocks, those of nodes, by which
	// days are cut, and that of the process that drops them.
	keysKept = 48 * time.Hour
	// keysOnTime: a look-up that goes back no further reads no dropped partition, as it is
	// within keysKept by more than clocks differ.
	keysOnTime = 36 * time.Hour
	// expireEvery is how often ExpireKeys looks for old partitions.
	expireEvery = time.Hour
)

// errKeysDropped: the caller tries again.
var errKeysDropped = errors.New("idempotency keys were dropped while they were searched")

// ExpireKeys drops old keys again and again, until ctx is done. kept is the log's retention; after an error
// of it, as for a log that keeps all, nothing is dropped.
func (w *Warehouse) ExpireKeys(ctx context.Context, kept func(context.Context) (time.Duration, error), log *slog.Logger) error {
	last := ""
	for {
		age, err := kept(ctx)
		var days []string
		if err == nil {
			days, err = w.DropKeys(ctx, age)
		}
		now := fmt.Sprint(err)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && now != last:
			log.WarnContext(ctx, "old idempotency keys are kept", "err", err)
		case len(days) > 0:
			log.InfoContext(ctx, "old idempotency keys dropped", "from", days[0], "to", days[len(days)-1])
		}
		last = now
		if pipeline.Pause(ctx, expireEvery) != nil {
			return nil
		}
	}
}

// DropKeys drops the idempotency keys of the days that no look-up for a log of that retention needs, and
// returns these days. Before, it stores that they are gone.
func (w *Warehouse) DropKeys(ctx context.Context, kept time.Duration) (days []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot drop old idempotency keys: %w", err)
		}
	}()
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	var now time.Time
	if err := w.conn.QueryRow(ctx, `SELECT now64(3, 'UTC')`).Scan(&now); err != nil {
		return nil, err
	}
	if here := time.Now(); here.Before(now) { // the slower clock keeps more
		now = here
	}
	before := now.UTC().Add(-kept - keysKept).Format(time.DateOnly)
	days, err = collect(ctx, w.servers, func(scan func(...any) error) (day string, err error) { return day, scan(&day) },
		`SELECT DISTINCT partition FROM system.parts WHERE database = currentDatabase() AND table = 'idempotency_keys' AND active AND partition < ? ORDER BY 1`, before)
	if err != nil || len(days) == 0 {
		return nil, err
	}
	if err := w.exec(ctx, `INSERT INTO keys_dropped (before) VALUES (`+literal(before)+`)`); err != nil {
		return nil, err
	}
	for _, day := range days {
		if err := w.exec(ctx, `ALTER TABLE idempotency_keys DROP PARTITION `+literal(day)); err != nil {
			return nil, err
		}
	}
	return days, nil
}

// keysSince is from when on all keys are there, in milliseconds, for a look-up that goes back to a time.
func (w *servers) keysSince(ctx context.Context, oldest int64) (since int64, err error) {
	if oldest >= time.Now().Add(-keysOnTime).UnixMilli() {
		return oldest, nil
	}
	err = w.conn.QueryRow(ctx, `SELECT toInt64(toUnixTimestamp(toDateTime(max(before), 'UTC'))) * 1000 FROM keys_dropped`).Scan(&since)
	return since, err
}

// keysStill returns errKeysDropped if keys were dropped since keysSince has returned since.
func (w *servers) keysStill(ctx context.Context, oldest, since int64) error {
	now, err := w.keysSince(ctx, oldest)
	if err == nil && now > max(oldest, since) {
		err = errKeysDropped
	}
	return err
}

// olderKeys reads deliveries before since with any of some keys from the rows of events of the tenants that have them.
func (w *servers) olderKeys(ctx context.Context, late lookUps, since int64) ([]keyed, error) {
	wanted, err := late.hashes()
	if err != nil {
		return nil, err
	}
	var tenants []string
	for key := range late {
		tenants = append(tenants, literal(key.tenantID))
	}
	slices.Sort(tenants)
	return collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(wanted)), w, scanKeyed(func(k *keyed) []any { return []any{&k.idempotency} }),
		`SELECT tenant_id, event_id, generation, log_partition, position, at, idempotency FROM events
			WHERE tenant_id IN (`+strings.Join(slices.Compact(tenants), ", ")+`) AND at >= `+moment(late.oldest())+` AND at < `+moment(since)+`
				AND idempotency != '' AND xxHash64(idempotency) IN (SELECT key FROM wanted)`)
}

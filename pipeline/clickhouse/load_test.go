package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// midnight is when November ends.
var midnight = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func at(offset int64) sealer.Position {
	return sealer.Position{Generation: 1, Partition: 3, Offset: offset}
}

// delivery makes a row of a metered delivery. key may be empty; "row …" and "play …" are of
// identities, without a day and with one.
func delivery(tenant string, offset int64, issued time.Time, key string) pipeline.Row {
	id := fmt.Sprintf("%013d%013d", issued.UnixMilli(), offset)
	var row sealer.RowIdentity
	switch {
	case strings.HasPrefix(key, "row "):
		row.Hash, key = key, ""
	case strings.HasPrefix(key, "play "):
		row, key = sealer.RowIdentity{Hash: key, Day: "2026-11-24"}, ""
	}
	return pipeline.Row{
		Entry: sealer.Entry{Position: at(offset), Record: sealer.Record{
			TenantID: tenant, EventID: "evt_" + id, Node: "nod_a", Epoch: 1, Seq: uint64(offset),
			Event: []byte(`{"eventId":"evt_` + id + `"}`), Private: []byte(`{"salt":"s"}`),
		}},
		Type: sealer.TypeDelivery, At: issued, ActorKind: "key", ActorID: "key_1", SubjectKind: "right", SubjectID: "rgh_1",
		Delivery: &pipeline.Delivery{
			ReceiptID: "rcp_" + id, RightID: fmt.Sprint("rgh_", offset%3), RightRevision: 4, BasisID: "bas_1", Substrate: "CTV",
			RenderedAt: issued.Add(-time.Second), IssuedAt: issued, SigningKeyID: "sig_1",
			Metered: true, Reason: "METERED", MeteringBasis: "viewable", QuantityMs: 1000 + offset, Impressions: sealer.Impression, Completion: "none", Idempotency: key, Identity: row,
		},
	}
}

// spread makes n deliveries of two tenants around midnight, some of them with keys
// that were used before, and their sum without these.
func spread(from int64, n int) (rows []pipeline.Row, metered, quantityMs int64) {
	random := rand.New(rand.NewPCG(1, uint64(from)))
	seen := map[string]bool{}
	for i := range int64(n) {
		offset := from + i
		tenant, key := fmt.Sprint("tnt_", "ab"[offset%2:offset%2+1]), ""
		if random.IntN(3) > 0 {
			key = fmt.Sprint("key ", random.IntN(n/2))
		}
		r := delivery(tenant, offset, midnight.Add(time.Duration(offset-from-int64(n/2))*time.Second), key)
		rows = append(rows, r)
		if key == "" || !seen[tenant+key] {
			metered++
			quantityMs += r.Delivery.QuantityMs
		}
		seen[tenant+key] = true
	}
	return rows, metered, quantityMs
}

func batch(rows []pipeline.Row) pipeline.Batch {
	return pipeline.Batch{Partition: 3, From: rows[0].Position, Rows: rows, Next: rows[len(rows)-1].Next()}
}

// requireSums holds rows, sums and views of all tenants against what was made.
func requireSums(tb testing.TB, w *Warehouse, rows, metered, quantityMs int64) {
	tb.Helper()
	var got pipeline.MeterTotals
	var count, lines int64
	for _, tenant := range []string{"tnt_a", "tnt_b", "tnt_c", "tnt_d"} {
		n, err := w.CountEvents(tb.Context(), tenant)
		require.NoError(tb, err)
		count += n
		totals, err := w.MeterTotals(tb.Context(), pipeline.MeterQuery{TenantID: tenant})
		require.NoError(tb, err)
		got.Receipts += totals.Receipts
		got.Metered += totals.Metered
		got.QuantityMs += totals.QuantityMs
	}
	require.Equal(tb, rows, count, "rows")
	require.Equal(tb, rows, got.Receipts, "receipts")
	require.Equal(tb, metered, got.Metered, "metered")
	require.Equal(tb, quantityMs, got.QuantityMs, "quantity")
	require.NoError(tb, w.conn.QueryRow(tb.Context(), `SELECT toInt64(sum(receipts)), sum(quantity_ms) FROM metering_hourly`).Scan(&lines, &got.QuantityMs))
	require.Equal(tb, rows, lines, "receipts of the view")
	require.Equal(tb, quantityMs, got.QuantityMs, "quantity of the view")
}

// One batch that spans two months, three times, by two loaders at once.
func TestLoadAgainAndTwiceAtOnce(t *testing.T) {
	for _, protocol := range []string{native, http} {
		t.Run(protocol, func(t *testing.T) {
			cfg := fresh(t, stacktest.Variable(t, protocol))
			loaders := []*Warehouse{mustOpen(t, cfg), mustOpen(t, cfg)}
			rows, metered, quantity := spread(0, 1000)
			errs := make([]error, len(loaders))
			var wg sync.WaitGroup
			for i, w := range loaders {
				wg.Go(func() {
					for range 3 {
						errs[i] = errors.Join(errs[i], w.Load(t.Context(), batch(rows)))
					}
				})
			}
			wg.Wait()
			require.NoError(t, errors.Join(errs...))
			requireSums(t, loaders[0], 1000, metered, quantity)

			var parts uint64
			require.NoError(t, loaders[0].conn.QueryRow(t.Context(), `SELECT uniqExact(partition) FROM system.parts
				WHERE database = currentDatabase() AND table = 'events' AND active`).Scan(&parts))
			require.EqualValues(t, 2, parts, "November and December")
		})
	}
}

// A loader that was thought dead goes on with old batches while its successor loads: what
// is a duplicate is decided once.
func TestDuplicatesBesideAZombie(t *testing.T) {
	cfg := fresh(t, stacktest.ClickHouse(t))
	rows, metered, quantity := spread(0, 900)
	loaders := []*Warehouse{mustOpen(t, cfg), mustOpen(t, cfg), mustOpen(t, cfg)}
	errs := make([]error, len(loaders))
	var wg sync.WaitGroup
	for i, w := range loaders {
		wg.Go(func() {
			size := 60 + 30*i
			for from := 0; from < len(rows) && errs[i] == nil; from += size {
				errs[i] = w.Load(t.Context(), batch(rows[from:min(from+size, len(rows))]))
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	requireSums(t, loaders[0], 900, metered, quantity)
}

// What an event repeats may be a day older to the millisecond, and out of view.
func TestDuplicateOfTheDayBefore(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	for i, older := range []time.Duration{24 * time.Hour, 24*time.Hour + time.Millisecond} {
		tenant := fmt.Sprint("tnt_", i)
		offset := int64(2 * i)
		require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{
			delivery(tenant, offset, midnight.Add(-older), "key"), delivery(tenant, offset+1, midnight, "key")})))
		totals, err := w.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: tenant, From: midnight.Add(-time.Hour)})
		require.NoError(t, err)
		require.EqualValues(t, 1, totals.Receipts)
		require.EqualValues(t, 1-i, totals.Duplicates, "%s older", older)
	}
}

// noticing keeps the context of the last batch.
type noticing struct {
	driver.Conn
	ctx context.Context
}

func (c *noticing) PrepareBatch(ctx context.Context, query string, opts ...driver.PrepareBatchOption) (driver.Batch, error) {
	c.ctx = ctx
	return c.Conn.PrepareBatch(ctx, query, opts...)
}

// Once a batch was sent, its connection may be another call's, and must not be closed by what
// the driver is told of the batch's context.
func TestContextOfABatchEndsOnlyWhileItIsSent(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	conn := &noticing{Conn: w.conn}
	w.conn = conn
	positions := []sealer.Position{{Partition: 3, Generation: 1, Offset: 7}}
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, insert(ctx, w.servers, "positions", positionColumns, positions))
	cancel()
	select {
	case <-conn.ctx.Done():
		require.Fail(t, "ended after its batch was sent")
	default:
	}
	require.Error(t, insert(ctx, w.servers, "positions", positionColumns, positions))
	<-conn.ctx.Done()
}

func TestLoadEndsWithItsContextOrItsTimeout(t *testing.T) {
	cfg := fresh(t, stacktest.ClickHouse(t))
	rows, _, _ := spread(0, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, mustOpen(t, cfg).Load(ctx, batch(rows)), context.Canceled)
	w := mustOpen(t, cfg)
	w.timeout = time.Nanosecond
	require.ErrorIs(t, w.Load(t.Context(), batch(rows)), context.DeadlineExceeded)
}

// A private part can be erased: the event that was hashed and signed stays as it is.
func TestPrivatePartsAreErasable(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	row := delivery("tnt_a", 1, midnight, "")
	require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{row})))
	require.NoError(t, w.conn.Exec(t.Context(), `ALTER TABLE private_parts DELETE WHERE tenant_id = 'tnt_a' AND event_id = ?
		SETTINGS mutations_sync = 2`, row.EventID))
	got, err := w.Event(t.Context(), "tnt_a", row.EventID)
	require.NoError(t, err)
	require.Equal(t, row.Event, got.Event)
	require.Empty(t, got.Private)
}

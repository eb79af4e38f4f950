package clickhouse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"muniment.example/pipeline"
)

var _ pipeline.PackSumKeeper = (*Warehouse)(nil)

var packSumColumns = []column[pipeline.PackSum]{
	of("tenant_id", func(l *pipeline.PackSum) string { return l.TenantID }),
	of("copy", func(l *pipeline.PackSum) uint64 { return l.Copy }),
	of("hour", func(l *pipeline.PackSum) time.Time { return l.Hour }),
	of("generation", func(l *pipeline.PackSum) uint32 { return l.Position.Generation }),
	of("position", func(l *pipeline.PackSum) int64 { return l.Position.Offset }),
	of("line", func(l *pipeline.PackSum) uint32 { return l.Line }),
	of("right_id", func(l *pipeline.PackSum) string { return l.RightID }),
	of("substrate", func(l *pipeline.PackSum) string { return l.Substrate }),
	of("basis_id", func(l *pipeline.PackSum) string { return l.BasisID }),
	of("metering_basis", func(l *pipeline.PackSum) string { return l.MeteringBasis }),
	of("reason", func(l *pipeline.PackSum) string { return l.Reason }),
	of("receipts", func(l *pipeline.PackSum) int64 { return l.Receipts }),
	of("quantity_ms", func(l *pipeline.PackSum) int64 { return l.QuantityMs }),
	of("impressions", func(l *pipeline.PackSum) int64 { return l.Impressions }),
}

var copiedColumns = []column[pipeline.PackSumsCopied]{
	of("tenant_id", func(c *pipeline.PackSumsCopied) string { return c.TenantID }),
	of("copy", func(c *pipeline.PackSumsCopied) uint64 { return c.Copy }),
	of("generation", func(c *pipeline.PackSumsCopied) uint32 { return c.Position.Generation }),
	of("position", func(c *pipeline.PackSumsCopied) int64 { return c.Position.Offset }),
	of("pack_id", func(c *pipeline.PackSumsCopied) string { return c.PackID }),
	of("state", func(c *pipeline.PackSumsCopied) string { return c.State }),
}

// PackSumsCopied implements pipeline.PackSumKeeper.
func (w *reader) PackSumsCopied(ctx context.Context) ([]pipeline.PackSumsCopied, error) {
	list, err := collect(ctx, w.servers, func(scan func(...any) error) (c pipeline.PackSumsCopied, err error) {
		return c, scan(&c.TenantID, &c.Copy, &c.Position.Generation, &c.Position.Offset, &c.PackID, &c.State)
	}, `SELECT tenant_id, copy, generation, position, pack_id, state FROM pack_sums_copied FINAL`)
	if err != nil {
		return nil, fmt.Errorf("cannot read how far sums of packs are copied: %w", err)
	}
	return list, nil
}

// AddPackSums implements pipeline.PackSumKeeper.
func (w *Warehouse) AddPackSums(ctx context.Context, lines []pipeline.PackSum) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	ctx, err := w.onAll(ctx, "pack_sums")
	if err != nil {
		return err
	}
	return insert(ctx, w.servers, "pack_sums", packSumColumns, lines)
}

// SetPackSumsCopied implements pipeline.PackSumKeeper.
func (w *Warehouse) SetPackSumsCopied(ctx context.Context, copied []pipeline.PackSumsCopied) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	ctx, err := w.onAll(ctx, "pack_sums_copied")
	if err != nil {
		return err
	}
	return insert(ctx, w.servers, "pack_sums_copied", copiedColumns, copied)
}

// DeletePackSums implements pipeline.PackSumKeeper.
func (w *Warehouse) DeletePackSums(ctx context.Context, newest []pipeline.PackSumsCopied) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	than := map[string]uint64{}
	for _, c := range newest {
		than[c.TenantID] = c.Copy
	}
	there, err := collect(ctx, w.servers, func(scan func(...any) error) (c pipeline.PackSumsCopied, err error) {
		return c, scan(&c.TenantID, &c.Copy)
	}, `SELECT DISTINCT tenant_id, copy FROM pack_sums`)
	for _, c := range there {
		if err == nil && c.Copy < than[c.TenantID] {
			err = w.conn.Exec(ctx, fmt.Sprintf(`DELETE FROM pack_sums WHERE tenant_id = %s AND copy = %d`, literal(c.TenantID), c.Copy))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot delete older copies of the sums of packs: %w", err)
	}
	return nil
}

// giveUpCopies gives up the copies that count rows which are about to be retracted: those that retracting
// selects from events.
func (w *Warehouse) giveUpCopies(ctx context.Context, retracting string) error {
	copied, err := w.PackSumsCopied(ctx)
	if err != nil {
		return err
	}
	lowest, err := collect(ctx, w.servers, func(scan func(...any) error) (c pipeline.PackSumsCopied, err error) {
		return c, scan(&c.TenantID, &c.Position.Generation, &c.Position.Offset)
	}, `SELECT tenant_id, (min((generation, position)) AS lowest).1, lowest.2 FROM `+retracting+` GROUP BY tenant_id`)
	if err != nil {
		return fmt.Errorf("cannot read what is retracted: %w", err)
	}
	var given []pipeline.PackSumsCopied
	for _, c := range copied {
		if c.PackID != "" && slices.ContainsFunc(lowest, func(row pipeline.PackSumsCopied) bool {
			return row.TenantID == c.TenantID && row.Position.Compare(c.Position) <= 0
		}) {
			given = append(given, pipeline.PackSumsCopied{TenantID: c.TenantID, Copy: pipeline.NewerCopy(c.Copy, rand.Uint32())})
		}
	}
	return w.SetPackSumsCopied(ctx, given)
}

// onAll returns the context of an insert into a table that returns when all replicas have it: else a replica
// might know how far a copy goes before it has the copy's lines. While a replica is away the insert fails.
func (w *Warehouse) onAll(ctx context.Context, table string) (context.Context, error) {
	if w.cluster == "" {
		return ctx, nil
	}
	var replicas uint32
	err := w.conn.QueryRow(ctx, `SELECT max(total_replicas) FROM system.replicas WHERE database = currentDatabase() AND table = ?`, table).Scan(&replicas)
	if err != nil {
		return nil, fmt.Errorf("cannot count the replicas of %s: %w", table, err)
	}
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"insert_quorum": int(replicas)})), nil
}

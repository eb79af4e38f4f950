package warehouse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muniment.example/bench/measure"
	"muniment.example/pipeline"
)

// clickhouseWays makes a database with the product's schema, and in it a copy of the table
// of events.
func (c *RowCost) clickhouseWays(ctx context.Context, report *RowCosts, group int) (_ *ways, err error) {
	db, err := openDatabase(ctx, *c.ClickHouse, "")
	if err != nil {
		return nil, err
	}
	b := &bareTable{conn: db.conn}
	w := &ways{
		warehouse: "ClickHouse", group: group, all: []way{loading(product, db.warehouse), {bareInsert, b.prepare}},
		server: measure.Listeners(hostIn(c.ClickHouse.URL)), settle: db.merged,
		close: func(ctx context.Context) error {
			sizes, sizesErr := b.sizes(ctx)
			report.Sizes = append(report.Sizes, sizes.of("ClickHouse", group)...)
			return errors.Join(sizesErr, db.close(ctx))
		},
	}
	if len(w.server) == 0 {
		err = errors.New("no process of this machine listens at its address: its CPU can't be measured")
	}
	if err == nil {
		err = b.make(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.close(ctx))
	}
	return w, nil
}

func hostIn(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// loading is the product's way.
func loading(name string, into pipeline.Sink) way {
	return way{name, func(_ context.Context, batches []pipeline.Batch) (steps []func(context.Context) error, err error) {
		for _, b := range batches {
			steps = append(steps, func(ctx context.Context) error { return into.Load(ctx, b) })
		}
		return steps, nil
	}}
}

// bareTable is a copy of the table of events, without rows.
type bareTable struct {
	conn    driver.Conn
	columns []string
}

func (b *bareTable) make(ctx context.Context) error {
	if err := b.conn.Exec(ctx, "CREATE TABLE bare AS events"); err != nil {
		return err
	}
	rows, err := b.conn.Query(ctx, `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'bare'
		AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY position`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		b.columns = append(b.columns, name)
	}
	return rows.Err()
}

// prepare reads the columns of batches, which the product has loaded before, so that
// nothing is left to do but to send them.
func (b *bareTable) prepare(ctx context.Context, batches []pipeline.Batch) (steps []func(context.Context) error, err error) {
	for _, batch := range batches {
		block, err := b.read(ctx, batch)
		if err != nil {
			return nil, err
		}
		if block[0].Len() != len(batch.Rows) {
			return nil, fmt.Errorf("the product has stored %d of %d rows", block[0].Len(), len(batch.Rows))
		}
		steps = append(steps, func(ctx context.Context) error { return b.insert(ctx, block) })
	}
	return steps, nil
}

// read returns the columns of a batch, as slices.
func (b *bareTable) read(ctx context.Context, batch pipeline.Batch) ([]reflect.Value, error) {
	rows, err := b.conn.Query(ctx, "SELECT "+strings.Join(b.columns, ", ")+" FROM events WHERE log_partition = ? AND position >= ? AND position < ? ORDER BY position",
		batch.Partition, batch.From.Offset, batch.Next.Offset)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types := rows.ColumnTypes()
	block := make([]reflect.Value, len(types))
	for i, t := range types {
		block[i] = reflect.MakeSlice(reflect.SliceOf(t.ScanType()), 0, len(batch.Rows))
	}
	values := make([]any, len(types))
	for rows.Next() {
		for i, t := range types {
			values[i] = reflect.New(t.ScanType()).Interface()
		}
		if err := rows.Scan(values...); err != nil {
			return nil, err
		}
		for i, v := range values {
			block[i] = reflect.Append(block[i], reflect.ValueOf(v).Elem())
		}
	}
	return block, rows.Err()
}

func (b *bareTable) insert(ctx context.Context, block []reflect.Value) error {
	batch, err := b.conn.PrepareBatch(ctx, "INSERT INTO bare ("+strings.Join(b.columns, ", ")+")")
	if err != nil {
		return err
	}
	defer batch.Close()
	for i, column := range block {
		if err := batch.Column(i).Append(column.Interface()); err != nil {
			return fmt.Errorf("column %s: %w", b.columns[i], err)
		}
	}
	return batch.Send()
}

// sizes are what the tables take on disk.
func (b *bareTable) sizes(ctx context.Context) (all sizes, err error) {
	var receipts uint64
	if err := b.conn.QueryRow(ctx, "SELECT count() FROM events FINAL").Scan(&receipts); err != nil {
		return nil, err
	}
	rows, err := b.conn.Query(ctx, `SELECT table, sum(bytes_on_disk) FROM system.parts
		WHERE database = currentDatabase() AND active GROUP BY table ORDER BY 2 DESC, 1`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		var bytes uint64
		if err := rows.Scan(&table, &bytes); err != nil {
			return nil, err
		}
		if table == "bare" {
			table = bareCopy
		}
		all = append(all, OnDisk{What: table, Bytes: float64(bytes) / float64(max(1, receipts))})
	}
	return all, rows.Err()
}

package warehouse

import (
	"context"
	"errors"
	"time"

	native "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muniment.example/bench/system"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
)

// database is one of ClickHouse with the product's schema.
type database struct {
	conn      driver.Conn // of nothing but the driver
	warehouse *clickhouse.Warehouse
	drop      string // its name; empty: it stays
}

// openDatabase makes the database keep, or opens it if it is there; or, if keep is empty, one
// that close drops.
func openDatabase(ctx context.Context, cfg clickhouse.Config, keep string) (*database, error) {
	d, name := &database{}, keep
	if name == "" {
		name = system.RandomName("muniment_bench_")
		d.drop = name
	}
	var err error
	if cfg.URL, err = system.AtDatabase(cfg.URL, name); err != nil {
		return nil, err
	}
	if _, err := clickhouse.Migrate(ctx, cfg, false); err != nil {
		return nil, err
	}
	if d.conn, err = openBare(cfg); err != nil {
		return nil, err
	}
	if d.warehouse, err = clickhouse.Open(ctx, cfg); err != nil {
		return nil, errors.Join(err, d.leave(ctx))
	}
	return d, nil
}

func (d *database) close(ctx context.Context) error {
	return errors.Join(d.warehouse.Close(), d.leave(ctx))
}

// leave drops the database unless it stays, and disconnects.
func (d *database) leave(ctx context.Context) (err error) {
	if d.drop != "" {
		err = d.conn.Exec(ctx, "DROP DATABASE "+d.drop)
	}
	return errors.Join(err, d.conn.Close())
}

// openBare connects as the product does, with nothing of it in between.
func openBare(cfg clickhouse.Config) (driver.Conn, error) {
	opt, err := native.ParseDSN(cfg.URL)
	if err != nil {
		return nil, errors.New("the address of ClickHouse can't be read") // it may hold a password
	}
	if cfg.TLS != nil {
		opt.TLS = cfg.TLS("")
	}
	if cfg.Password != nil {
		if opt.Auth.Password, err = cfg.Password(); err != nil {
			return nil, err
		}
	}
	opt.Compression = &native.Compression{Method: native.CompressionLZ4}
	return native.Open(opt)
}

// merged returns when the server merges nothing of ours any more.
func (d *database) merged(ctx context.Context) error {
	const calm = 3 // looks in a row
	for none := 0; none < calm; none++ {
		var merges uint64
		if err := d.conn.QueryRow(ctx, "SELECT count() FROM system.merges WHERE database = currentDatabase()").Scan(&merges); err != nil {
			return err
		}
		if merges > 0 {
			none = -1
		}
		if err := pipeline.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

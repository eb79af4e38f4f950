// Package clickhouse is the warehouse of a service on more than one machine.
//
// It promises what pipeline.Warehouse promises, without transactions. A row's key
// is (tenantId, eventId); copies collapse onto the lowest log position, since the
// tables are ReplacingMergeTree and their version is falling position. Every
// answer is read with FINAL, which collapses copies that no merge has met yet.
//
// A Load writes what an event needs before the event, and the loader's position last.
// Whatever stops a Load half-way, the position says that the batch was not loaded: it comes
// again and changes nothing that is there. An insert whose outcome is unknown is thus never
// repeated as such; the whole batch is built anew.
//
// What is a duplicate is decided before anything of a group is written: first by a filter
// in memory of the newest idempotency keys, and of all rows with ids of their own (see
// keyFilter), and where that can't tell, by the keys and identities in the warehouse. A decision is a row of duplicates, by the delivery's position;
// the event stays as it is, and a question leaves out what is there. A decision is never
// deleted: where its first event is retracted it holds no more, and the Load that retracts
// has written the one that holds in its place, at a higher first event, by then. Before its
// position is written, each Load asks whether anything was retracted since it began, and
// then does the same for its own rows.
//
// The batches of several partitions that come while others are being loaded go
// together: a statement costs the server more than the rows of a small batch. All of a
// group's data are there before any of its positions. When a group fails, each of its
// batches is tried once more alone, so that what is wrong with one fails only that one. A
// call whose ctx is done returns at once; its group goes on as long as anybody waits.
//
// Inserts carry no deduplication token. A single server notes a token before the
// part that it stands for, so after a crash between the two it would take the
// repeated batch for one that it has. Replicated tables drop a repeated block by
// its content in the same step in which they would add it, which spares the work
// without a token.
//
// The views are for analysts (see the .sql files): plain sums over deduplicated rows.
//
// A server that is away or full makes Load and every question return an error; the
// loader keeps the batch and tries again. Every call has a deadline.
//
// On a cluster (Config.Cluster) tables are replicated, a write waits for a majority
// of the replicas, and a question to any of them sees every write that was answered
// before it, or is refused. For the sake of that, quorum inserts are not parallel: while
// one into a table is under way, the servers refuse another, which then takes its turn
// (see quorum.go). Loaders of several processes are right beside each other, and together
// slower than one of them. Of two replicas both are the majority: while one is away nothing
// is loaded, and all is read. Retracting an event whose record was set aside and released
// takes all replicas: while one is away, a batch that brings such a record, or a release, is
// not loaded.
//
// Not here: shards (one tenant's rows are on every replica) and retention (drop old
// partitions with ALTER TABLE … DROP PARTITION).
package clickhouse

import (
	"cmp"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"muniment/pipeline"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config says where the warehouse is.
type Config struct {
	// URL names servers, user, password, database and protocol:
	// clickhouse://user:password@host:9000,host2:9000/database for the native
	// protocol, http:// or https:// for HTTP. Further parameters are those of
	// clickhouse-go. The database is needed. Required.
	URL string
	// TLS is asked, for each connection, how to encrypt it and whom to trust as the host
	// that is dialled; an empty host stands for whichever is. nil leaves that to the URL
	// (https, or the parameter secure=true).
	TLS func(host string) *tls.Config
	// Password is asked for each connection, in place of the URL's; nil: that counts.
	Password func() (string, error)
	// Cluster is the name of a cluster, as the servers' configuration has it, whose
	// replicas hold the tables (see the package). Default: one server.
	Cluster string
	// Timeout bounds each call to the warehouse. Default 1 min.
	Timeout time.Duration
	// FilterBytes bounds the memory of the filters: some 4 bytes for each idempotency key of
	// the last one to three days, and for each row of a batch with an id of its own. With
	// less, more of them are looked up, which costs the server up to two milliseconds each.
	// Default 256 MiB.
	FilterBytes int64
	// Registerer takes the metrics; nil keeps them to ourselves.
	Registerer prometheus.Registerer
	// Away has Open not ask the servers, which may be away: Ready tells how they are.
	Away bool

	maybeAlways bool // the filters call no key new; for tests
}

func (c Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return time.Minute
	}
	return c.Timeout
}

// options are the driver's. No error holds the password.
func (c Config) options() (*clickhouse.Options, error) {
	address := c.URL
	if strings.HasPrefix(address, "https://") && !strings.Contains(address, "secure=") {
		// The driver wants to be told twice.
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + "secure=true"
	}
	opt, err := clickhouse.ParseDSN(address)
	switch {
	case c.URL == "":
		return nil, errors.New("clickhouse warehouse: URL is empty")
	case err != nil:
		return nil, fmt.Errorf("clickhouse warehouse: URL can't be read: %w", err)
	case c.TLS != nil && strings.HasPrefix(c.URL, "http://"):
		return nil, errors.New("clickhouse warehouse: TLS is set, but URL begins with http://")
	case opt.Auth.Database == "":
		return nil, errors.New("clickhouse warehouse: URL names no database")
	case c.Timeout < 0:
		return nil, errors.New("clickhouse warehouse: Timeout is negative")
	case c.FilterBytes < 0:
		return nil, errors.New("clickhouse warehouse: FilterBytes is negative")
	}
	if c.TLS != nil {
		opt.TLS = c.TLS("")
	}
	if c.Password != nil {
		if opt.Auth.Password, err = c.Password(); err != nil {
			return nil, fmt.Errorf("clickhouse warehouse: %w", err)
		}
	}
	opt.DialStrategy = c.dial
	if opt.Compression == nil {
		opt.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	}
	opt.MaxOpenConns = 16 // further calls wait
	opt.MaxIdleConns = opt.MaxOpenConns
	opt.DialTimeout = min(c.timeout(), 10*time.Second)
	opt.ReadTimeout = c.timeout()
	// The server's defaults are not ours to know: an insert is answered when it is
	// written, and copies collapse wherever they are.
	settings := clickhouse.Settings{"async_insert": 0, "do_not_merge_across_partitions_select_final": 0,
		"max_partitions_per_insert_block": 0} // nodes decide which days a batch is of
	if c.Cluster != "" {
		settings["insert_quorum"] = "auto"
		settings["insert_quorum_parallel"] = 0
		settings["insert_quorum_timeout"] = c.timeout().Milliseconds()
		settings["lightweight_deletes_sync"] = 2 // a delete is answered when all have done it
		settings["select_sequential_consistency"] = 1
	}
	maps.Copy(settings, opt.Settings)
	opt.Settings = settings
	return opt, nil
}

// withDatabase is opt for another database; empty is the server's default one.
func withDatabase(opt *clickhouse.Options, name string) *clickhouse.Options {
	other := *opt
	other.Auth.Database = name
	return &other
}

// Warehouse is a database on a ClickHouse server or cluster. Safe for concurrent
// use.
type Warehouse struct {
	conn    driver.Conn
	probes  driver.Conn // for Ready, which must neither wait for the calls at work nor delay them
	cluster string
	opt     *clickhouse.Options
	timeout time.Duration
	groups  *groups
	stored  stored
	memory  *filterMemory

	maybeAlways bool

	mu      sync.Mutex
	filters map[filterID]*keyFilter // guarded by mu
}

var _ pipeline.Warehouse = (*Warehouse)(nil)

// Open connects to a warehouse whose schema is up to date (see Migrate). The
// caller closes it.
func Open(ctx context.Context, cfg Config) (_ *Warehouse, err error) {
	opt, err := cfg.options()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot open ClickHouse database %s: %w", opt.Auth.Database, err)
		}
	}()
	w := &Warehouse{cluster: cfg.Cluster, opt: opt, timeout: cfg.timeout(),
		maybeAlways: cfg.maybeAlways, filters: map[filterID]*keyFilter{}}
	if w.memory, err = newFilterMemory(cmp.Or(cfg.FilterBytes, 256<<20), cfg.Registerer); err != nil {
		return nil, err
	}
	w.groups = newGroups(w.load)
	if w.probes, err = openProbes(opt); err != nil {
		return nil, err
	}
	if !cfg.Away {
		err = w.upToDate(ctx)
	}
	if err == nil {
		w.conn, err = clickhouse.Open(opt)
	}
	if err != nil {
		w.probes.Close()
		return nil, err
	}
	return w, nil
}

// Ready says why nothing can be asked: the servers are away, or their schema is not
// that of this program.
func (w *Warehouse) Ready(ctx context.Context) error {
	if err := w.upToDate(ctx); err != nil {
		return fmt.Errorf("ClickHouse database %s is not ready: %w", w.opt.Auth.Database, err)
	}
	return nil
}

func (w *Warehouse) upToDate(ctx context.Context) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	have, err := schemaVersion(ctx, w.probes, w.cluster, w.opt.Auth.Database)
	if err != nil {
		return err
	}
	pending, err := after(have)
	if err == nil && len(pending) > 0 {
		err = fmt.Errorf("its schema lacks %v: run muniment migrate", pending)
	}
	return err
}

// Close ends what is being loaded and closes the connections. Calls after it fail.
func (w *Warehouse) Close() error {
	w.groups.close()
	return errors.Join(w.conn.Close(), w.probes.Close())
}

// Ping returns an error when the server can't be asked.
func (w *Warehouse) Ping(ctx context.Context) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	if err := w.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ClickHouse doesn't answer: %w", err)
	}
	return nil
}

func (w *Warehouse) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.timeout)
}

// Package clickhouse is the warehouse of a service on more than one machine.
//
// It implements pipeline.Warehouse without transactions. A row's key is (tenantId, eventId);
// copies collapse onto the lowest log position, since the tables are ReplacingMergeTree and
// their version is falling position. Every query reads with FINAL, which collapses copies
// that are not merged yet.
//
// A Load writes what an event needs before the event, and the loader's position last. If a
// Load stops half-way, the position says that the batch was not loaded: it is loaded again,
// and changes nothing that is there. An insert whose outcome is unknown is thus never
// repeated as such; the whole batch is built anew.
//
// Duplicates are decided before anything of a group is written: first by a filter in memory
// of the newest idempotency keys, and of all rows with ids of their own (see keyFilter); for
// what the filter may hold, by the keys and identities in the warehouse, with one statement
// each for all of a group. A decision is a row of the table duplicates, by the delivery's
// position; the event doesn't change, and queries leave out the positions in that table. A
// decision is never deleted: if its first event is retracted it is void, and the Load that
// retracts it has written the decision that replaces it, with a higher first event, before.
// Before it writes its position, each Load reads what was retracted since it began, and then
// does the same for its own rows.
//
// Rows with ids of their own count for ever, so the memory of their filters, which is
// separate from that of the keys, is full at some point: by default at some 60 million. With
// twice as many, one new row in 150 is looked up in vain, with four times as many one in
// five. All rows are looked up if a partition's filter can't be filled within half of
// Config.Timeout, when its loader starts or takes it over. One look-up is for all rows of a
// group; among 10 million of a tenant, that of 5,000 took the server a quarter of a second on
// two cores, and that of 20,000 half a second.
//
// The batches of several partitions that arrive while others are being loaded are loaded
// together: a statement costs the server more than the rows of a small batch. All of a
// group's data are there before any of its positions. When a group fails, each of its
// batches is tried once more alone, so that a bad batch fails alone. A call whose ctx is done
// returns at once; its group goes on as long as any other call waits for it.
//
// Inserts carry no deduplication token. A single server stores a token before the part that
// it belongs to, so after a crash between the two it would ignore the repeated batch.
// Replicated tables drop a repeated block by its content in the same step in which they would
// add it, which needs no token.
//
// The views are for analysts (see the .sql files and deploy/analysts.md): plain sums over
// deduplicated rows, or what is the same, the hourly and daily one over a copy of the sums of sealed
// packs and the rows behind it (see pipeline.PackSumKeeper).
//
// While a server is away or full, Load and every query return an error; the loader keeps the
// batch and tries again. Every call has a deadline.
//
// On a cluster (Config.Cluster) tables are replicated, a write waits for a majority of the
// replicas, and a query to any of them sees every write that returned before it, or is
// refused. This takes quorum inserts that are not parallel: while one into a table runs, the
// servers refuse another, which is then retried (see quorum.go). Loaders of several processes
// are correct beside each other, and together slower than one of them. The majority of two
// replicas is both: while one is away nothing is loaded, and all can be read. Retracting an
// event whose record was quarantined and released takes all replicas: while one is away, a
// batch with such a record, or with a release, is not loaded. Copying the sums of packs takes all
// of them, too, and waits.
//
// Idempotency keys are dropped two days after the log has (see keyexpiry.go). All else stays.
//
// Non-goals: shards (one tenant's rows are on every replica) and retention
// (deploy/analysts.md says which rows may be deleted, how, and what is lost with them).
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

	"muniment.example/pipeline"
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
	// TLS returns, for each connection, its configuration for the host that is dialled; for
	// an empty host that of any. nil leaves it to the URL (https, or the parameter
	// secure=true).
	TLS func(host string) *tls.Config
	// Password returns the password for each connection; nil: it is the URL's.
	Password func() (string, error)
	// Cluster is the name of a cluster, as the servers' configuration has it, whose
	// replicas hold the tables (see the package). Default: one server.
	Cluster string
	// Timeout bounds each call to the warehouse. Default 1 min.
	Timeout time.Duration
	// FilterBytes bounds the memory of the filters twice: of some 4 bytes for each
	// idempotency key of the last one to three days, and of as many for each row of a batch
	// with an id of its own. With less, more of them are looked up. Default 256 MiB.
	FilterBytes int64
	// Registerer takes the metrics; nil registers none.
	Registerer prometheus.Registerer
	// Away makes Open not connect: the servers may be away. Ready reports how they are.
	Away bool

	maybeAlways bool          // every key is looked up; for tests
	fillTimeout time.Duration // default half of Timeout; for tests
}

func (c Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return time.Minute
	}
	return c.Timeout
}

// CheckURL says what is wrong with the URL of a warehouse, before anything is opened. No error holds a password.
func CheckURL(url string) error {
	_, err := Config{URL: url}.options()
	return err
}

// options are the driver's. No error holds the password.
func (c Config) options() (*clickhouse.Options, error) {
	address := c.URL
	if strings.HasPrefix(address, "https://") && !strings.Contains(address, "secure=") {
		// The driver needs both the scheme and the parameter.
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
	// written, and copies collapse within their month, which all of them share.
	settings := clickhouse.Settings{"async_insert": 0, "do_not_merge_across_partitions_select_final": 1,
		"max_partitions_per_insert_block": 0} // nodes decide which days a batch is of
	if c.Cluster != "" {
		settings["insert_quorum"] = "auto"
		settings["insert_quorum_parallel"] = 0
		settings["insert_quorum_timeout"] = c.timeout().Milliseconds()
		settings["lightweight_deletes_sync"] = 2 // a delete returns when all replicas have done it
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
	*servers
	*reader
	groups *groups
	stored stored
	// ofKeys and ofRows are the memory of the filters of keys, and of identities.
	ofKeys, ofRows *filterMemory

	maybeAlways bool
	fillTimeout time.Duration

	mu      sync.Mutex
	filters map[filterID]*keyFilter // guarded by mu
}

// servers are the connections, and what is done on them.
type servers struct {
	conn    driver.Conn
	probes  driver.Conn // for Ready, which must neither wait for the calls at work nor delay them
	cluster string
	opt     *clickhouse.Options
	timeout time.Duration
}

// reader answers queries.
type reader struct{ *servers }

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
	on := &servers{cluster: cfg.Cluster, opt: opt, timeout: cfg.timeout()}
	w := &Warehouse{servers: on, reader: &reader{on},
		maybeAlways: cfg.maybeAlways, fillTimeout: cmp.Or(cfg.fillTimeout, cfg.timeout()/2), filters: map[filterID]*keyFilter{}}
	if w.ofKeys, err = newFilterMemory(cfg, "idempotency_keys"); err != nil {
		return nil, err
	}
	if w.ofRows, err = newFilterMemory(cfg, "row_ids"); err != nil {
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

// Ready returns why queries fail: the servers are away, or their schema is not that of this
// program.
func (w *servers) Ready(ctx context.Context) error {
	if err := w.upToDate(ctx); err != nil {
		return fmt.Errorf("ClickHouse database %s is not ready: %w", w.opt.Auth.Database, err)
	}
	return nil
}

func (w *servers) upToDate(ctx context.Context) error {
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

// Ping returns an error if the server doesn't answer.
func (w *servers) Ping(ctx context.Context) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	if err := w.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ClickHouse doesn't answer: %w", err)
	}
	return nil
}

func (w *servers) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.timeout)
}

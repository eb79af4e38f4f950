package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// Table describes the data of tenants and persons in a table. Columns and indexes are in the
// migration.
type Table struct {
	Name string
	// Drop is the statement that deletes the data of the tenant $1. Default: the rows with that
	// tenant_id.
	Drop string
	// Outlives says why dropping a tenant deletes none of its rows. It excludes Drop.
	Outlives string
	// Feed is the column with the ids of the rows' entries in the feed, which are dropped with the
	// tenant; empty: none. Nodes may still hold them.
	Feed string
	// Personal is what the rows may say about persons; nil: nothing.
	Personal *Personal
	// Public are the columns with free text that is also in the data of events; of a column with JSON,
	// its members with free text, as column.member. Events are permanent, so an erasure leaves these
	// texts, and counts the events.
	Public []string
	// Names are the members of events' data, of those in Public, in which callers also choose the names of
	// members; with the names that they don't choose.
	Names map[string][]string
}

// Tables are those of one service, or of all (control.Tables). A table comes before those that it
// refers to.
type Tables []Table

// DropTenant deletes a tenant's rows and its entries in the feed. The caller removes the files of
// its packs, once this is committed. A node may still hold the entries, so this is only for tenants
// whose keys were never given to a caller. An unknown tenant is no error.
func (all Tables) DropTenant(ctx context.Context, tx *Tx, tenantID string) error {
	for _, t := range all {
		var statements []string
		if t.Feed != "" {
			statements = append(statements, `DELETE FROM feed WHERE id IN (SELECT `+t.Feed+` FROM `+t.Name+` WHERE tenant_id = $1)`)
		}
		if t.Outlives == "" {
			statements = append(statements, cmp.Or(t.Drop, `DELETE FROM `+t.Name+` WHERE tenant_id = $1`))
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, tenantID); err != nil {
				return fmt.Errorf("cannot drop %s of the tenant %s: %w", t.Name, tenantID, err)
			}
		}
	}
	return nil
}

// OwnTables are those of this package. Answers that may name a person are deleted by ForgetAnswers.
var OwnTables = Tables{
	{Name: "idempotency"},
	{Name: "idempotency_usage"},
	{Name: "jobs"},
	{Name: "outbox", Outlives: "its events are on their way to the log", Personal: &Personal{Passing: []string{"private"}}},
	{Name: "feed", Outlives: "an entry is deleted with its row"},
	{Name: "high_water", Outlives: noTenants},
	{Name: "counters", Outlives: noTenants},
	{Name: "incarnations", Outlives: noTenants},
	{Name: "probe", Outlives: noTenants},
}

// noTenants is the reason of tables without data of tenants.
const noTenants = "it is no tenant's"

// Scrub removes replaced and deleted personal data from the database's files. SQLite overwrites
// deleted data, and Scrub empties its write-ahead log. erased are the kinds of rows in which
// Tables.Erase has found a person: if there are any the whole file is rewritten, as a split page may
// hold a remnant; this needs as much disk space again, and changes wait, but stops don't: for one it is broken off, and
// begins anew. PostgreSQL rewrites the tables
// with personal data, a Large one only if it is of a kind in erased; queries of a table wait while it is rewritten, but hardly
// for that to begin. It first waits
// for transactions that began before, as they still see what was erased.
// PostgreSQL's write-ahead log and backups are its operator's responsibility.
func (db *DB) Scrub(ctx context.Context, tables Tables, erased []string) (err error) {
	if db.pg != nil {
		err = db.scrubTables(ctx, tables, erased)
	} else {
		err = db.scrubFile(ctx, len(erased) > 0)
	}
	if err != nil {
		return fmt.Errorf("cannot scrub control's database: %w", err)
	}
	return nil
}

func (db *DB) scrubTables(ctx context.Context, tables Tables, erased []string) error {
	if err := db.awaitSnapshots(ctx); err != nil {
		return err
	}
	for _, t := range tables {
		if t.Personal == nil || t.Personal.Large && !slices.Contains(erased, t.Personal.Kind) {
			continue
		}
		if err := db.rewriteTable(ctx, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// lockNotAvailable is PostgreSQL's error after lock_timeout.
const lockNotAvailable = "55P03"

// rewriteTable does not wait long for its lock, as everybody who uses the table would wait behind it, but tries again.
func (db *DB) rewriteTable(ctx context.Context, table string) error {
	conn, err := db.pg.transactions.Conn(ctx) // not the connection for changes
	if err != nil {
		return err
	}
	defer conn.Close()
	var before string
	if err := conn.QueryRowContext(ctx, `SELECT current_setting('lock_timeout')`).Scan(&before); err != nil {
		return err
	}
	set := func(ctx context.Context, limit string) error {
		_, err := conn.ExecContext(ctx, `SELECT set_config('lock_timeout', $1, false)`, limit)
		return err
	}
	if err := set(ctx, "200ms"); err != nil {
		return err
	}
	for {
		_, err := conn.ExecContext(ctx, `VACUUM (FULL) `+table)
		if sqlState(err) != lockNotAvailable {
			return errors.Join(err, set(context.WithoutCancel(ctx), before))
		}
		pause(ctx, time.After(tryEvery))
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), set(context.WithoutCancel(ctx), before))
		}
	}
}

// awaitSnapshots returns once no transaction of any session sees PostgreSQL's database as it was before the call:
// rewriting a table keeps the rows that one still sees, erased or not.
func (db *DB) awaitSnapshots(ctx context.Context) error {
	var now string
	if err := db.pg.transactions.QueryRowContext(ctx, `SELECT pg_current_xact_id()::xid::text`).Scan(&now); err != nil {
		return err
	}
	for warned := false; ; warned = true {
		// A transaction that has written keeps what it would still see between its statements, when it has no snapshot.
		// Everyone may see these columns of everyone's sessions; a walsender's is what a standby's queries see.
		var older int
		var pid sql.NullInt64
		err := db.pg.transactions.QueryRowContext(ctx, `SELECT count(*), min(pid) FROM (
			SELECT pid, greatest(age(backend_xmin), age(backend_xid)) AS age FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datid IS NULL OR datname = current_database())
			UNION ALL SELECT NULL, age(transaction) FROM pg_prepared_xacts WHERE database = current_database()
			UNION ALL SELECT NULL, age(xmin) FROM pg_replication_slots) AS older WHERE age >= age($1::xid)`, now).Scan(&older, &pid)
		if err != nil || older == 0 {
			return err
		}
		if !warned {
			db.cfg.Logger.Info("personal data stays in the database's files until transactions that began before its erasure end", "transactions", older, "pid", pid.Int64)
		}
		pause(ctx, time.After(tryEvery))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Unsample keeps personal data out of PostgreSQL's statistics, where an erasure could not find it.
func (all Tables) Unsample(ctx context.Context, db *DB) error {
	if db.pg == nil {
		return nil
	}
	for _, t := range all {
		for _, column := range t.Personal.columns() {
			sampled, err := One(ctx, db.read, "how a column is sampled", Text, `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2 AND attstattarget IS DISTINCT FROM 0`, t.Name, column)
			if err == nil && sampled != nil {
				_, err = db.write.ExecContext(ctx, `ALTER TABLE `+t.Name+` ALTER COLUMN `+column+` SET STATISTICS 0`)
			}
			if err != nil {
				return fmt.Errorf("cannot keep %s of %s out of statistics, for which control's role must own the table: %w", column, t.Name, err)
			}
		}
	}
	return nil
}

func (db *DB) scrubFile(ctx context.Context, named bool) error {
	if named {
		if err := db.roomToRewrite(ctx); err != nil {
			return err
		}
		if err := db.rewriteFile(ctx); err != nil {
			return err
		}
	}
	return db.emptyLog(ctx)
}

// rewriteFile rewrites the file in the turn of a change. Stops break it off, and it begins anew after restFor.
func (db *DB) rewriteFile(ctx context.Context) error {
	for {
		done, err := db.tryRewrite(ctx)
		if err != nil || done {
			return err
		}
		pause(ctx, time.After(restFor))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// restFor is how long rewriteFile lets changes go on, and the relay bring events of stops into the log.
const restFor = 2 * time.Second

func (db *DB) tryRewrite(ctx context.Context) (done bool, err error) {
	leave, err := db.queue.enter(ctx, false)
	if err != nil {
		return false, err
	}
	defer leave()
	var waiting bool // an event that the relay must delete, for which a stop may wait
	if err := db.vital.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM outbox)`).Scan(&waiting); err != nil || waiting {
		return false, err
	}
	limited, breakOff := context.WithCancel(ctx)
	defer breakOff()
	db.queue.yields(breakOff)
	_, err = db.write.ExecContext(limited, `VACUUM`)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// roomToRewrite fails unless the file can be rewritten without the space that is for stops: once as
// a temporary file, and once in the write-ahead log.
func (db *DB) roomToRewrite(ctx context.Context) error {
	if err := db.Reserved(); err != nil {
		return err
	}
	var size int64
	if err := db.read.QueryRowContext(ctx, `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`).Scan(&size); err != nil {
		return err
	}
	free, err := db.cfg.free(filepath.Dir(db.cfg.Path))
	if need := 2*size + db.reserve.Size(); err == nil && free < need {
		err = fmt.Errorf("%d bytes are free of the %d that rewriting it needs: %w", free, need, errFull)
	}
	return err
}

// tryEvery is how often emptyLog tries, and awaitSnapshots looks.
const tryEvery = 500 * time.Millisecond

// emptyLog moves SQLite's write-ahead log into the file and empties it, once no query reads from it.
// Changes go on between its attempts.
func (db *DB) emptyLog(ctx context.Context) error {
	for {
		emptied, err := db.tryEmptyLog(ctx)
		if err != nil || emptied {
			return err
		}
		pause(ctx, time.After(tryEvery))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// tryEmptyLog uses the connection for changes, but does not wait on it for queries: every change
// would wait too.
func (db *DB) tryEmptyLog(ctx context.Context) (emptied bool, err error) {
	conn, err := db.write.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `PRAGMA busy_timeout(0)`); err != nil {
		return false, err
	}
	var busy, frames, moved int
	err = conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved)
	_, restored := conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA busy_timeout(`+busyTimeout+`)`)
	return busy == 0, errors.Join(err, restored)
}

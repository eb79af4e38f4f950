package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// scrubber removes personal data from the database's files.
type scrubber struct{ *engine }

// Scrub removes replaced and deleted personal data from the database's files. SQLite overwrites
// deleted data, and Scrub empties its write-ahead log. named says that Tables.ErasePerson has found
// a person: then the whole file is rewritten, as a split page may hold a remnant; this needs as
// much disk space again, and changes wait. PostgreSQL rewrites the tables that name persons, those
// with an EraseText only if texts is set; queries of a table wait meanwhile. PostgreSQL's
// write-ahead log and backups are its operator's responsibility.
func (db *scrubber) Scrub(ctx context.Context, tables Tables, named, texts bool) (err error) {
	if db.pg != nil {
		err = db.scrubTables(ctx, tables, texts)
	} else {
		err = db.scrubFile(ctx, named)
	}
	if err != nil {
		return fmt.Errorf("cannot scrub control's database: %w", err)
	}
	return nil
}

func (db *scrubber) scrubTables(ctx context.Context, tables Tables, texts bool) error {
	for _, t := range tables {
		if len(t.Person)+len(t.Text)+len(t.Related) == 0 || t.EraseText != nil && !texts {
			continue
		}
		if _, err := db.pg.transactions.ExecContext(ctx, `VACUUM (FULL) `+t.Name); err != nil { // not on the connection for changes
			return err
		}
	}
	return nil
}

// Unsample keeps personal data out of PostgreSQL's statistics, where an erasure could not find it.
func (all Tables) Unsample(ctx context.Context, db *DB) error {
	if db.pg == nil {
		return nil
	}
	for _, t := range all {
		for _, column := range slices.Concat(t.Person, t.Text, t.Related) {
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

func (db *scrubber) scrubFile(ctx context.Context, named bool) error {
	if named {
		if _, err := db.write.ExecContext(ctx, `VACUUM`); err != nil {
			return err
		}
	}
	return db.emptyLog(ctx)
}

// emptyLog moves SQLite's write-ahead log into the file and empties it. It waits for running
// queries.
func (db *scrubber) emptyLog(ctx context.Context) error {
	for {
		var busy, frames, moved int
		if err := db.write.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved); err != nil || busy == 0 {
			return err
		}
		pause(ctx, time.After(10*time.Millisecond))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

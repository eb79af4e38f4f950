package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

const prefixIncarnation api.Prefix = "inc_"

// Epoch is a part of the database's life in which its events are numbered from 1 on. A restore begins an
// epoch of another incarnation, and every node discards what it knew; a promotion of a standby that has
// lost nothing begins one of the same (control/rollback).
type Epoch struct {
	Incarnation string
	Number      uint64 // 1 is the first
	// Server is the one that the epoch began on; empty on SQLite.
	Server string
	// Promotions counts the epochs before this one of the same incarnation, and PromotedAt is the
	// newest revision that the database had when the epoch began.
	Promotions, PromotedAt int64
}

// loadEpoch reads the database's newest epoch, and begins the first one.
func (db *DB) loadEpoch(ctx context.Context) error {
	return db.Change(ctx, func(tx *Tx) error {
		e := &db.epoch
		err := tx.QueryRowContext(ctx, `SELECT epoch, id, server, promoted_at, (SELECT COUNT(*) FROM incarnations e WHERE e.id = i.id) - 1
			FROM incarnations i ORDER BY epoch DESC LIMIT 1`).Scan(&e.Number, &e.Incarnation, &e.Server, &e.PromotedAt, &e.Promotions)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		*e = Epoch{Incarnation: db.NewIncarnation(), Number: 1, Server: db.Server()}
		return tx.insertEpoch(ctx, e)
	})
}

func (tx *Tx) insertEpoch(ctx context.Context, e *Epoch) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO incarnations (epoch, id, started_at, server, promoted_at) VALUES ($1, $2, $3, $4, $5)`,
		e.Number, e.Incarnation, Millis(tx.db.Now()), e.Server, e.PromotedAt)
	return err
}

// Epoch is the database's newest one, as this process knows it.
func (db *DB) Epoch() Epoch { return db.epoch }

// Incarnation is the id of the database's incarnation. A restore begins a new one.
func (db *DB) Incarnation() string { return db.epoch.Incarnation }

// NewIncarnation returns the id of another incarnation.
func (db *DB) NewIncarnation() string { return api.NewID(prefixIncarnation, db.Now()) }

// Server names the server of PostgreSQL that this process uses, by its system identifier and its
// timeline; it is empty on SQLite.
func (db *DB) Server() string { return db.cfg.server.current() }

// BeginEpoch begins an epoch on this server, by one change with what fn does: fn's events are the first
// of it. next says the incarnation, the number and the promotions. Only a start calls it, before
// anything else uses the database; other processes find that the database went on without them (ErrWentBack).
func (db *DB) BeginEpoch(ctx context.Context, next Epoch, fn func(tx *Tx) error) error {
	next.Server = db.Server()
	err := db.Change(ctx, func(tx *Tx) error {
		if err := tx.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'revision'`).Scan(&next.PromotedAt); err != nil {
			return fmt.Errorf("cannot read the database's revision: %w", err)
		}
		if err := tx.insertEpoch(ctx, &next); err != nil {
			return fmt.Errorf("cannot begin an epoch: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = 0 WHERE name = 'outbox'`); err != nil {
			return fmt.Errorf("cannot reset the outbox's counter: %w", err)
		}
		tx.epoch = next.Number
		return fn(tx)
	})
	if err == nil {
		db.epoch = next
	}
	return err
}

// RaiseRevision makes the next revision a later one than revision.
func (tx *Tx) RaiseRevision(ctx context.Context, revision int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = $1 WHERE name = 'revision' AND value < $1`, revision); err != nil {
		return fmt.Errorf("cannot raise the revision counter: %w", err)
	}
	return nil
}

// Head is the newest state of a database.
type Head struct {
	Incarnation string
	Epoch       uint64
	Events      uint64 // the number of the newest event of the epoch
	Revision    int64
}

// ReadHead reads the head of a database, which may be a copy.
func ReadHead(ctx context.Context, q Querier) (h Head, err error) {
	err = q.QueryRowContext(ctx, `SELECT epoch, id, (SELECT value FROM counters WHERE name = 'outbox'),
		(SELECT value FROM counters WHERE name = 'revision') FROM incarnations ORDER BY epoch DESC LIMIT 1`).
		Scan(&h.Epoch, &h.Incarnation, &h.Events, &h.Revision)
	if err != nil {
		err = fmt.Errorf("cannot read the head of the database: %w", err)
	}
	return h, err
}

// Numbered says whether a record of control's in the log is of an event that the database, as of the
// head, has numbered.
func (h *Head) Numbered(r *sealer.Record) bool {
	return r.Epoch < h.Epoch || r.Epoch == h.Epoch && r.Seq <= h.Events
}

// ErrWentBack says that the database holds an older state than this process has seen, has another
// incarnation or epoch, or is on another server: it was restored, replaced, or a standby was promoted,
// under a running process. The process no longer answers from it, and ends (Config.OnFailure); a start
// checks the database against the log.
var ErrWentBack = errors.New("the database has gone back to an older state, or is on another server, such as a standby that was promoted: " +
	"this process ends, and the next start checks it against the log")

// A database only moves forward. A process remembers the newest revision that it has seen
// committed, and rejects any later read that is older: otherwise a restored database would give out
// numbers a second time, and publish a revoked right as active.

// seen is the newest revision that was committed before the call.
func (db *DB) seen() int64 { return db.newest.Load() }

// forward checks what a read found that began after seen(). Once it has failed, it always fails.
func (db *DB) forward(seen, revision int64, incarnation string, epoch uint64) error {
	if known := &db.epoch; revision < seen || incarnation != known.Incarnation || epoch != known.Number {
		return db.wentBack("seen", seen, "revision", revision, "incarnation", incarnation, "epoch", epoch, "expected", known.Incarnation, "expectedEpoch", known.Number)
	}
	if db.back.Load() {
		return ErrWentBack
	}
	db.saw(revision)
	return nil
}

// wentBack returns ErrWentBack. The first time it logs why, and ends the process.
func (db *DB) wentBack(why ...any) error {
	if db.back.CompareAndSwap(false, true) {
		db.cfg.Logger.Error("the database has gone back", append(why, "err", ErrWentBack)...)
		db.cfg.OnFailure(ErrWentBack)
	}
	return ErrWentBack
}

// otherServer is called for a connection that leads to another server.
func (db *DB) otherServer(known, met string) error {
	return db.wentBack("server", met, "expectedServer", known)
}

// saw records that a revision is committed.
func (db *DB) saw(revision int64) {
	for seen := db.newest.Load(); revision > seen && !db.newest.CompareAndSwap(seen, revision); {
		seen = db.newest.Load()
	}
}

// state reads the newest revision and the incarnation, and refuses a database that went back.
func (db *DB) state(ctx context.Context, q Querier, seen int64) (revision int64, err error) {
	var id string
	var epoch uint64
	err = q.QueryRowContext(ctx, `SELECT value, id, epoch FROM counters, (SELECT id, epoch FROM incarnations ORDER BY epoch DESC LIMIT 1) AS newest
		WHERE name = 'revision'`).Scan(&revision, &id, &epoch)
	if err != nil {
		return 0, err
	}
	return revision, db.forward(seen, revision, id, epoch)
}

package store

import (
	"context"
	"errors"
)

// ErrWentBack says that the database holds an older state than this process has seen, or has
// another incarnation: it was restored, or replaced, under a running process. The process no longer
// answers from it; a start checks it against the log.
var ErrWentBack = errors.New("the database has gone back to an older state: restart control, which checks it against the log")

// A database only moves forward. A process remembers the newest revision that it has seen
// committed, and rejects any later read that is older: otherwise a restored database would give out
// numbers a second time, and publish a revoked right as active.

// seen is the newest revision that was committed before the call.
func (db *engine) seen() int64 { return db.newest.Load() }

// forward checks what a read found that began after seen(). Once it has failed, it always fails.
func (db *engine) forward(seen, revision int64, incarnation string) error {
	if revision < seen || incarnation != db.incarnation {
		if db.back.CompareAndSwap(false, true) {
			db.cfg.Logger.Error("the database has gone back", "err", ErrWentBack, "seen", seen, "revision", revision,
				"incarnation", incarnation, "expected", db.incarnation)
		}
	}
	if db.back.Load() {
		return ErrWentBack
	}
	db.saw(revision)
	return nil
}

// saw records that a revision is committed.
func (db *engine) saw(revision int64) {
	for seen := db.newest.Load(); revision > seen && !db.newest.CompareAndSwap(seen, revision); {
		seen = db.newest.Load()
	}
}

// state reads the newest revision and the incarnation, and refuses a database that went back.
func (db *engine) state(ctx context.Context, q Querier, seen int64) (revision int64, err error) {
	var incarnation string
	err = q.QueryRowContext(ctx, `SELECT value, (SELECT id FROM incarnations ORDER BY epoch DESC LIMIT 1)
		FROM counters WHERE name = 'revision'`).Scan(&revision, &incarnation)
	if err != nil {
		return 0, err
	}
	return revision, db.forward(seen, revision, incarnation)
}

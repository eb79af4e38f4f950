package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"muniment/gateway/api"
)

// Sizes of an answer of the feed.
const (
	defaultFeed = 1000
	maxFeed     = 10000
)

// Feed answers at once with what came after req.After, in the order of the
// revisions, as one committed state of the database holds it. A change that was
// superseded is left out: its successor is in this answer or a later one.
//
// An answer never ends inside a revision, so it may hold more than req.Limit when
// one commit changed more than that. The first copy (After 0) is never cut: a
// node that went on from the middle of it would be sent everything that lies
// behind, and not only what may never be forgotten.
//
// While a stop could not be recorded (Stop) it is a 503: there are no leases.
func (db *DB) Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	if db.unrecorded.Load() {
		return api.Feed{}, errUnrecorded
	}
	f := api.Feed{Incarnation: db.incarnation, Changes: []api.Change{}}
	err := db.view(ctx, func(tx *sql.Tx, newest int64) (err error) {
		f.Newest, f.UpTo = newest, newest
		if req.After >= f.Newest {
			return nil
		}
		if req.After == 0 {
			f.Changes, err = changes(ctx, tx, `SELECT change FROM feed WHERE stopped = 1 ORDER BY revision, kind, id`)
			return err
		}
		// One more than the answer holds, to see whether there are more.
		f.Changes, err = changes(ctx, tx, `SELECT change FROM feed WHERE revision > $1 ORDER BY revision, kind, id LIMIT $2`,
			req.After, limit(req)+1)
		if err != nil {
			return err
		}
		return cut(ctx, tx, &f, limit(req))
	})
	if err != nil {
		return api.Feed{}, fmt.Errorf("cannot read the feed after revision %d: %w", req.After, err)
	}
	return f, nil
}

// cut ends an answer of more than n changes at the last whole revision.
func cut(ctx context.Context, tx *sql.Tx, f *api.Feed, n int) (err error) {
	if len(f.Changes) <= n {
		return nil
	}
	open := f.Changes[n].Revision // may go on behind what was read
	for n > 0 && f.Changes[n-1].Revision == open {
		n--
	}
	if n > 0 {
		f.Changes = f.Changes[:n]
		f.UpTo = f.Changes[n-1].Revision
		return nil
	}
	f.UpTo = open
	f.Changes, err = changes(ctx, tx, `SELECT change FROM feed WHERE revision = $1 ORDER BY kind, id`, open)
	return err
}

func limit(req api.FeedRequest) int {
	if req.Limit <= 0 {
		return defaultFeed
	}
	return min(req.Limit, maxFeed)
}

// Right reads the newest snapshot of a right, and the revision that the database
// had reached when it was read. It is nil when there is none.
func (db *DB) Right(ctx context.Context, rightID string) (*api.Right, int64, error) {
	c, asOf, err := db.snapshot(ctx, kindRight, rightID)
	return c.Right, asOf, err
}

// Key is Right for an API key.
func (db *DB) Key(ctx context.Context, keyID string) (*api.Key, int64, error) {
	c, asOf, err := db.snapshot(ctx, kindKey, keyID)
	return c.Key, asOf, err
}

func (db *DB) snapshot(ctx context.Context, kind, id string) (c api.Change, asOf int64, err error) {
	err = db.view(ctx, func(tx *sql.Tx, newest int64) error {
		asOf = newest
		found, err := changes(ctx, tx, `SELECT change FROM feed WHERE kind = $1 AND id = $2`, kind, id)
		if len(found) > 0 {
			c = found[0]
		}
		return err
	})
	if err != nil {
		return api.Change{}, 0, fmt.Errorf("cannot read the %s %q: %w", kind, id, err)
	}
	return c, asOf, nil
}

// PublishedRight is what nodes get of a right, nil if they get nothing, and whether it is
// among those that they may never forget.
func (tx *Tx) PublishedRight(ctx context.Context, rightID string) (r *api.Right, stopped bool, err error) {
	c, stopped, err := tx.published(ctx, kindRight, rightID)
	return c.Right, stopped, err
}

// PublishedKey is what nodes get of an API key, nil if they get nothing.
func (tx *Tx) PublishedKey(ctx context.Context, keyID string) (k *api.Key, err error) {
	c, _, err := tx.published(ctx, kindKey, keyID)
	return c.Key, err
}

func (tx *Tx) published(ctx context.Context, kind, id string) (c api.Change, stopped bool, err error) {
	found, err := changes(ctx, tx.Tx, `SELECT change FROM feed WHERE kind = $1 AND id = $2`, kind, id)
	if err != nil || len(found) == 0 {
		return c, false, err
	}
	err = tx.QueryRowContext(ctx, `SELECT stopped = 1 FROM feed WHERE kind = $1 AND id = $2`, kind, id).Scan(&stopped)
	return found[0], stopped, err
}

// View reads one committed state of the database, and nothing of one that went back:
// then the error is ErrWentBack.
func (db *DB) View(ctx context.Context, fn func(q Querier) error) error {
	return db.view(ctx, func(tx *sql.Tx, _ int64) error { return fn(tx) })
}

// view runs fn on one committed state of the database, and its newest revision.
func (db *DB) view(ctx context.Context, fn func(tx *sql.Tx, newest int64) error) error {
	seen := db.seen()
	options := sql.TxOptions{ReadOnly: true}
	if db.pg != nil {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.read.BeginTx(ctx, &options)
	if err != nil {
		return err
	}
	newest, err := db.state(ctx, tx, seen)
	if err == nil {
		err = fn(tx, newest)
	}
	if err := errors.Join(err, tx.Rollback()); err != nil {
		return errors.Join(ctx.Err(), err) // the driver may only say that the transaction is gone
	}
	return nil
}

func changes(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]api.Change, error) {
	scan := func(row Row) (c api.Change, err error) {
		var text []byte
		if err = row.Scan(&text); err == nil {
			err = json.Unmarshal(text, &c)
		}
		return c, err
	}
	return List(ctx, tx, "the changes", scan, query, args...)
}

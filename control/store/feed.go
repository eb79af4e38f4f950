package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"muniment.example/gateway/api"
)

// feedLimit is the largest number of changes in one answer of the feed.
const feedLimit = 1000

// Feed is what nodes poll.
type Feed struct{ db *DB }

// Changes returns the changes after req.After at once, in the order of the revisions, as of one
// committed state of the database. A superseded change is left out: its successor is in this answer
// or a later one.
//
// An answer never ends inside a revision, so it holds more than feedLimit if one commit changed
// more than that. The first copy (After 0) is never cut: a node that continued from the middle of
// it would get all later changes, and not only those that it may never forget.
//
// While a stop could not be recorded (Stop) the error is a 503: there are no leases.
func (feed *Feed) Changes(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	if feed.db.unrecorded.Load() {
		return api.Feed{}, errUnrecorded
	}
	f := api.Feed{Incarnation: feed.db.epoch.Incarnation, Promotions: feed.db.epoch.Promotions, PromotedAt: feed.db.epoch.PromotedAt, Changes: []api.Change{}}
	err := feed.db.view(ctx, feed.db.vital, func(tx *sql.Tx, newest int64) (err error) {
		f.Newest, f.UpTo = newest, newest
		if req.After >= f.Newest {
			return nil
		}
		if req.After == 0 {
			f.Changes, err = changes(ctx, tx, `WHERE stopped = 1 ORDER BY revision, kind, id`)
			return err
		}
		// One more than the answer holds, to see whether there are more.
		f.Changes, err = changes(ctx, tx, `WHERE revision > $1 ORDER BY revision, kind, id LIMIT $2`,
			req.After, feed.db.cfg.feedLimit+1)
		if err != nil {
			return err
		}
		return cut(ctx, tx, &f, feed.db.cfg.feedLimit)
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
	open := f.Changes[n].Revision // may go on beyond what was read
	for n > 0 && f.Changes[n-1].Revision == open {
		n--
	}
	if n > 0 {
		f.Changes = f.Changes[:n]
		f.UpTo = f.Changes[n-1].Revision
		return nil
	}
	f.UpTo = open
	f.Changes, err = changes(ctx, tx, `WHERE revision = $1 ORDER BY kind, id`, open)
	return err
}

// Snapshot reads the newest snapshot of a record.
func (feed *Feed) Snapshot(ctx context.Context, kind, id string) (s api.Snapshot, err error) {
	err = feed.db.view(ctx, feed.db.vital, func(tx *sql.Tx, newest int64) (err error) {
		found, err := published(ctx, tx, kind, id)
		if found != nil {
			s.Change = &found.Change
		}
		s.AsOf, s.Promotions = newest, feed.db.epoch.Promotions
		return err
	})
	return s, err
}

// snapshotsAtOnce is how many records one query reads; it has a parameter for each.
const snapshotsAtOnce = 200

// Snapshots reads the newest snapshots of several records. Records without one are left out.
func (feed *Feed) Snapshots(ctx context.Context, kind string, ids []string) (s api.Snapshots, err error) {
	s.Changes = []api.Change{}
	err = feed.db.view(ctx, feed.db.vital, func(tx *sql.Tx, newest int64) error {
		s.AsOf, s.Promotions = newest, feed.db.epoch.Promotions
		for some := range slices.Chunk(ids, snapshotsAtOnce) {
			args := []any{kind}
			for _, id := range some {
				args = append(args, id)
			}
			for len(args) <= snapshotsAtOnce { // one query for all numbers of ids is prepared once
				args = append(args, some[0])
			}
			found, err := changes(ctx, tx, snapshotsOf, args...)
			if err != nil {
				return err
			}
			s.Changes = append(s.Changes, found...)
		}
		return nil
	})
	return s, err
}

var snapshotsOf = func() string {
	which := "WHERE kind = $1 AND id IN ($2"
	for n := 3; n <= snapshotsAtOnce+1; n++ {
		which += fmt.Sprintf(", $%d", n)
	}
	return which + ")"
}()

// Newest is the newest snapshot of a record, nil if there is none.
func Newest[T any](ctx context.Context, db *DB, kind api.Kind[T], id string) (*T, error) {
	s, err := db.Feed.Snapshot(ctx, kind.Name, id)
	if s.Change == nil || err != nil {
		return nil, err
	}
	return kind.Read(s.Change)
}

// Publish makes snapshot the newest of its record in the feed. Its revision must be the
// one that this change took.
func Publish[T any](ctx context.Context, tx *Tx, kind api.Kind[T], snapshot *T) error {
	id, revision, stopped := kind.Of(snapshot)
	stopped = stopped || kind.Was != nil && kind.Was(snapshot)
	if revision == 0 || revision != tx.revision {
		return fmt.Errorf("cannot publish revision %d in the change of revision %d", revision, tx.revision)
	}
	c, err := kind.Change(snapshot)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO feed (kind, id, revision, stopped, snapshot) VALUES ($1, $2, $3, CASE WHEN $4 THEN 1 ELSE 0 END, $5)
			ON CONFLICT (kind, id) DO UPDATE SET revision = excluded.revision, snapshot = excluded.snapshot,
				stopped = CASE WHEN feed.stopped = 1 THEN 1 ELSE excluded.stopped END`,
			kind.Name, id, revision, stopped, string(c.Snapshot))
	}
	if err != nil {
		return fmt.Errorf("cannot publish the %s %q: %w", kind.Name, id, err)
	}
	return nil
}

// Published returns the newest snapshot of a record, nil if there is none, and whether nodes may
// never forget it.
func Published[T any](ctx context.Context, tx *Tx, kind api.Kind[T], id string) (snapshot *T, stopped bool, err error) {
	found, err := published(ctx, tx, kind.Name, id)
	if found == nil || err != nil {
		return nil, false, err
	}
	snapshot, err = kind.Read(&found.Change)
	return snapshot, found.stopped, err
}

// entry is a row of the feed.
type entry struct {
	api.Change
	stopped bool // ever
}

func published(ctx context.Context, q Querier, kind, id string) (*entry, error) {
	scan := func(row Row) (e entry, err error) {
		return e, row.Scan(&e.Kind, &e.ID, &e.Revision, (*[]byte)(&e.Snapshot), &e.stopped)
	}
	return One(ctx, q, fmt.Sprintf("the %s %q of the feed", kind, id), scan,
		`SELECT kind, id, revision, snapshot, stopped = 1 FROM feed WHERE kind = $1 AND id = $2`, kind, id)
}

// View reads one committed state of the database. If the database went back to an older state, the
// error is ErrWentBack.
func (db *DB) View(ctx context.Context, fn func(q Querier) error) error {
	return db.view(ctx, db.read, func(tx *sql.Tx, _ int64) error { return fn(tx) })
}

// Search is View for what looks through much of the database and may take long, as a search for a person: it has
// connections of its own, so that nothing short waits for it. An operation that searches is Heavy.
func (db *DB) Search(ctx context.Context, fn func(q Querier) error) error {
	return db.view(ctx, db.seek, func(tx *sql.Tx, _ int64) error { return fn(tx) })
}

// view runs fn on one committed state of the database, with its newest revision.
func (db *DB) view(ctx context.Context, pool *sql.DB, fn func(tx *sql.Tx, newest int64) error) error {
	seen := db.seen()
	options := sql.TxOptions{ReadOnly: true}
	if db.pg != nil {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := pool.BeginTx(ctx, &options)
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

func changes(ctx context.Context, tx *sql.Tx, which string, args ...any) ([]api.Change, error) {
	scan := func(row Row) (c api.Change, err error) {
		return c, row.Scan(&c.Kind, &c.ID, &c.Revision, (*[]byte)(&c.Snapshot))
	}
	return List(ctx, tx, "the changes", scan, `SELECT kind, id, revision, snapshot FROM feed `+which, args...)
}
